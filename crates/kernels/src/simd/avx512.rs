//! AVX-512 with VNNI.

use super::Simd;
use crate::isa::Kernel;
use std::arch::x86_64::*;

/// Proof that the machine has AVX-512 F, BW, DQ, VL, VNNI, AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The token, if the machine has the instructions.
    #[inline]
    pub(crate) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }

    /// Compiles and runs `kernel` with the instructions enabled.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn enabled<K: Kernel>(token: Avx512, kernel: K) {
            kernel.run(token);
        }
        // SAFETY: the token exists, so the machine has these features.
        unsafe { enabled(self, kernel) }
    }
}

/// Calls an intrinsic whose instructions the token has proved to be there.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: register arithmetic; a token only exists where the instructions do.
        unsafe { $call }
    };
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type W = __m512i;

    const WIDE: bool = true;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        proven!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        proven!(_mm512_abs_ps(a))
    }
    #[inline(always)]
    fn keep(self, a: __m512, n: usize, fill: f32) -> __m512 {
        let mask = ((1u32 << n.min(16)) - 1) as u16;
        proven!(_mm512_mask_mov_ps(_mm512_set1_ps(fill), mask, a))
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        proven!(_mm512_roundscale_ps::<8>(a))
    }
    #[inline(always)]
    fn pow2(self, a: __m512) -> __m512 {
        proven!(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(
            _mm512_cvtps_epi32(a),
            _mm512_set1_epi32(127)
        ))))
    }
    #[inline(always)]
    fn half(self, a: f32) -> f32 {
        proven!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtps_ph::<0>(_mm_set_ss(a)))))
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        proven!(_mm512_reduce_add_ps(a))
    }
    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        proven!(_mm512_reduce_max_ps(a))
    }
    #[inline(always)]
    fn above(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), a))
    }
    #[inline(always)]
    fn nonzero(self, a: __m512) -> u16 {
        proven!(_mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(a, _mm512_setzero_ps()))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: the caller vouches for 64 readable bytes.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> __m512 {
        // SAFETY: the caller vouches for 32 readable bytes.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> __m512 {
        // SAFETY: the caller vouches for 32 readable bytes.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, a: __m512) {
        // SAFETY: the caller vouches for 64 writable bytes.
        unsafe { _mm512_storeu_ps(to, a) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, a: __m512) {
        // SAFETY: the caller vouches for 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<0>(a)) }
    }

    #[inline(always)]
    fn isplat(self, x: i32) -> __m512i {
        proven!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    fn iadd(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn isum(self, a: __m512i) -> i32 {
        proven!(_mm512_reduce_add_epi32(a))
    }
    #[inline(always)]
    fn to_f32(self, a: __m512i) -> __m512 {
        proven!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn to_i32(self, a: __m512) -> __m512i {
        proven!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8, a: __m512i) {
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(a)) }
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // Never faults, whatever the address.
        proven!(_mm_prefetch::<_MM_HINT_T1>(at.cast()));
    }
    #[inline(always)]
    unsafe fn load_w(self, from: *const u8) -> __m512i {
        // SAFETY: the caller vouches for 64 readable bytes, aligned.
        unsafe { _mm512_load_si512(from.cast()) }
    }
    #[inline(always)]
    fn low4(self, w: __m512i) -> __m512i {
        proven!(_mm512_and_si512(w, _mm512_set1_epi8(15)))
    }
    #[inline(always)]
    fn high4(self, w: __m512i) -> __m512i {
        proven!(_mm512_and_si512(_mm512_srli_epi16::<4>(w), _mm512_set1_epi8(15)))
    }
    #[inline(always)]
    fn dot4(self, acc: __m512i, w: __m512i, a: i32) -> __m512i {
        proven!(_mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(a)))
    }
    #[inline(always)]
    fn start8(self, sum: i32) -> __m512i {
        // The instruction takes unsigned weights: the 128 too many in each is taken off here. (A row that is not a number
        // has any sum: it must not panic in a debug build.)
        proven!(_mm512_set1_epi32(sum.wrapping_mul(-128)))
    }
    #[inline(always)]
    fn dot8(self, acc: __m512i, w: __m512i, a: i32) -> __m512i {
        proven!(_mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(a)))
    }
}
