//! AVX2 with FMA and F16C: a vector of 16 lanes is a pair of registers.

use super::Simd;
use crate::isa::Kernel;
use std::arch::x86_64::*;

/// Proof that the machine has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, if the machine has the instructions.
    #[inline]
    pub(crate) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }

    /// Compiles and runs `kernel` with the instructions enabled.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn enabled<K: Kernel>(token: Avx2, kernel: K) {
            kernel.run(token);
        }
        // SAFETY: the token exists, so the machine has these features.
        unsafe { enabled(self, kernel) }
    }
}

/// Applies an intrinsic to both halves.
macro_rules! both {
    ($op:path; $($arg:expr),+) => {
        // SAFETY: register arithmetic; a token only exists where the instructions do.
        unsafe { [$op($($arg[0]),+), $op($($arg[1]),+)] }
    };
}

/// Calls intrinsics whose instructions the token has proved to be there.
macro_rules! proven {
    ($call:expr) => {
        // SAFETY: register arithmetic; a token only exists where the instructions do.
        unsafe { $call }
    };
}

impl Simd for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type W = [__m256i; 2];

    const WIDE: bool = false;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        proven!([_mm256_set1_ps(x); 2])
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_add_ps; a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_sub_ps; a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_mul_ps; a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_div_ps; a, b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        both!(_mm256_fmadd_ps; a, b, c)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_max_ps; a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_min_ps; a, b)
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        let sign = proven!([_mm256_set1_ps(-0.0); 2]);
        both!(_mm256_andnot_ps; sign, a)
    }
    #[inline(always)]
    fn keep(self, a: Self::F, n: usize, fill: f32) -> Self::F {
        let n = n.min(16) as i32;
        proven!({
            let (n, fill) = (_mm256_set1_epi32(n), _mm256_set1_ps(fill));
            let lanes =
                [_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)];
            let pick = |v, lane| _mm256_blendv_ps(fill, v, _mm256_castsi256_ps(_mm256_cmpgt_epi32(n, lane)));
            [pick(a[0], lanes[0]), pick(a[1], lanes[1])]
        })
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        proven!([_mm256_round_ps::<8>(a[0]), _mm256_round_ps::<8>(a[1])])
    }
    #[inline(always)]
    fn pow2(self, a: Self::F) -> Self::F {
        let biased = self.iadd(self.to_i32(a), self.isplat(127));
        proven!([
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased[0])),
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased[1])),
        ])
    }
    #[inline(always)]
    fn half(self, a: f32) -> f32 {
        proven!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtps_ph::<0>(_mm_set_ss(a)))))
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        proven!({
            let v = _mm256_add_ps(a[0], a[1]);
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps::<1>(v, v)))
        })
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        proven!({
            let v = _mm256_max_ps(a[0], a[1]);
            let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps::<1>(v, v)))
        })
    }
    #[inline(always)]
    fn above(self, a: Self::F, b: Self::F) -> Self::F {
        proven!([
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a[0], b[0]), a[0]),
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a[1], b[1]), a[1]),
        ])
    }
    #[inline(always)]
    fn nonzero(self, a: Self::F) -> u16 {
        proven!({
            let zero = _mm256_setzero_ps();
            let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_OQ>(a[0], zero));
            let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_OQ>(a[1], zero));
            (low | high << 8) as u16
        })
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F {
        // SAFETY: the caller vouches for 64 readable bytes.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller vouches for 32 readable bytes.
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller vouches for 32 readable bytes.
        unsafe {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(8).cast()));
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, a: Self::F) {
        // SAFETY: the caller vouches for 64 writable bytes.
        unsafe {
            _mm256_storeu_ps(to, a[0]);
            _mm256_storeu_ps(to.add(8), a[1]);
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, a: Self::F) {
        // SAFETY: the caller vouches for 32 writable bytes.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<0>(a[0]));
            _mm_storeu_si128(to.add(8).cast(), _mm256_cvtps_ph::<0>(a[1]));
        }
    }

    #[inline(always)]
    fn isplat(self, x: i32) -> Self::I {
        proven!([_mm256_set1_epi32(x); 2])
    }
    #[inline(always)]
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_add_epi32; a, b)
    }
    #[inline(always)]
    fn isum(self, a: Self::I) -> i32 {
        proven!({
            let v = _mm256_add_epi32(a[0], a[1]);
            let v = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let v = _mm_add_epi32(v, _mm_shuffle_epi32::<0b01_00_11_10>(v));
            _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32::<0b10_11_00_01>(v)))
        })
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        both!(_mm256_cvtepi32_ps; a)
    }
    #[inline(always)]
    fn to_i32(self, a: Self::F) -> Self::I {
        both!(_mm256_cvtps_epi32; a)
    }
    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8, a: Self::I) {
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe {
            // Packing works within 128-bit halves; the permutation puts the quarters back in order.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a[0], a[1]));
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.cast(), bytes);
        }
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // Never faults, whatever the address.
        proven!(_mm_prefetch::<_MM_HINT_T1>(at.cast()));
    }
    #[inline(always)]
    unsafe fn load_w(self, from: *const u8) -> Self::W {
        // SAFETY: the caller vouches for 64 readable bytes, aligned.
        unsafe { [_mm256_load_si256(from.cast()), _mm256_load_si256(from.add(32).cast())] }
    }
    #[inline(always)]
    fn low4(self, w: Self::W) -> Self::W {
        let mask = proven!([_mm256_set1_epi8(15); 2]);
        both!(_mm256_and_si256; w, mask)
    }
    #[inline(always)]
    fn high4(self, w: Self::W) -> Self::W {
        self.low4(proven!([_mm256_srli_epi16::<4>(w[0]), _mm256_srli_epi16::<4>(w[1])]))
    }
    #[inline(always)]
    fn dot4(self, acc: Self::I, w: Self::W, a: i32) -> Self::I {
        // Pairs stay below 2 * 15 * 127, so the 16-bit sums cannot saturate.
        let (a, one) = proven!(([_mm256_set1_epi32(a); 2], [_mm256_set1_epi16(1); 2]));
        let pairs = both!(_mm256_maddubs_epi16; w, a);
        self.iadd(acc, both!(_mm256_madd_epi16; pairs, one))
    }
    #[inline(always)]
    fn start8(self, _sum: i32) -> Self::I {
        self.isplat(0)
    }
    #[inline(always)]
    fn dot8(self, acc: Self::I, w: Self::W, a: i32) -> Self::I {
        // The sign of the weight moves over to the activation; pairs stay below 2 * 128 * 127, which 16 bits hold.
        let (a, one) = proven!(([_mm256_set1_epi32(a); 2], [_mm256_set1_epi16(1); 2]));
        let bias = proven!([_mm256_set1_epi8(-128); 2]);
        let w = both!(_mm256_xor_si256; w, bias);
        let (size, a) = (both!(_mm256_abs_epi8; w), both!(_mm256_sign_epi8; a, w));
        let pairs = both!(_mm256_maddubs_epi16; size, a);
        self.iadd(acc, both!(_mm256_madd_epi16; pairs, one))
    }
}
