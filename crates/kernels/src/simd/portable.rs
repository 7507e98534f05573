//! Plain Rust: the reference the others are tested against, and what runs where there is nothing better.

use super::{LANES, Simd};
use half::{bf16, f16};
use std::array::from_fn;

/// Needs nothing of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    type W = [u8; 4 * LANES];

    const WIDE: bool = false;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Not `mul_add`: without the instruction that is a library call per lane.
        from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        a.map(f32::abs)
    }
    #[inline(always)]
    fn keep(self, a: Self::F, n: usize, fill: f32) -> Self::F {
        from_fn(|i| if i < n { a[i] } else { fill })
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        // Adding and taking off 1.5 * 2^23 rounds to even in the addition; right up to 2^22, far more than is asked.
        const MAGIC: f32 = 12_582_912.0;
        a.map(|x| (x + MAGIC) - MAGIC)
    }
    #[inline(always)]
    fn pow2(self, a: Self::F) -> Self::F {
        a.map(|x| f32::from_bits(((x as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn half(self, a: f32) -> f32 {
        f16::from_f32(a).to_f32()
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let a: [f32; 8] = from_fn(|i| a[i] + a[i + 8]);
        let a: [f32; 4] = from_fn(|i| a[i] + a[i + 4]);
        (a[0] + a[2]) + (a[1] + a[3])
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    fn above(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| if a[i] > b[i] { a[i] } else { 0.0 })
    }
    #[inline(always)]
    fn nonzero(self, a: Self::F) -> u16 {
        (0..LANES).fold(0, |bits, i| bits | u16::from(a[i] != 0.0) << i)
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F {
        // SAFETY: the caller vouches for 16 readable f32.
        unsafe { from.cast::<Self::F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller vouches for 16 readable halves.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        bits.map(|b| f16::from_bits(b).to_f32())
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller vouches for 16 readable halves.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        bits.map(|b| bf16::from_bits(b).to_f32())
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, a: Self::F) {
        // SAFETY: the caller vouches for 16 writable f32.
        unsafe { to.cast::<Self::F>().write_unaligned(a) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, a: Self::F) {
        let bits = a.map(|x| f16::from_f32(x).to_bits());
        // SAFETY: the caller vouches for 16 writable halves.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(bits) }
    }

    #[inline(always)]
    fn isplat(self, x: i32) -> Self::I {
        [x; LANES]
    }
    #[inline(always)]
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn isum(self, a: Self::I) -> i32 {
        a.into_iter().sum()
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        a.map(|x| x as f32)
    }
    #[inline(always)]
    fn to_i32(self, a: Self::F) -> Self::I {
        self.round(a).map(|x| x as i32)
    }
    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8, a: Self::I) {
        let bytes = a.map(|x| x as i8);
        // SAFETY: the caller vouches for 16 writable bytes.
        unsafe { to.cast::<[i8; LANES]>().write_unaligned(bytes) }
    }

    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}
    #[inline(always)]
    unsafe fn load_w(self, from: *const u8) -> Self::W {
        // SAFETY: the caller vouches for 64 readable bytes.
        unsafe { from.cast::<Self::W>().read() }
    }
    #[inline(always)]
    fn low4(self, w: Self::W) -> Self::W {
        w.map(|b| b & 15)
    }
    #[inline(always)]
    fn high4(self, w: Self::W) -> Self::W {
        w.map(|b| b >> 4)
    }
    #[inline(always)]
    fn dot4(self, acc: Self::I, w: Self::W, a: i32) -> Self::I {
        let a = a.to_ne_bytes().map(|b| i32::from(b as i8));
        from_fn(|c| acc[c] + (0..4).map(|k| i32::from(w[4 * c + k]) * a[k]).sum::<i32>())
    }
    #[inline(always)]
    fn start8(self, _sum: i32) -> Self::I {
        [0; LANES]
    }
    #[inline(always)]
    fn dot8(self, acc: Self::I, w: Self::W, a: i32) -> Self::I {
        let a = a.to_ne_bytes().map(|b| i32::from(b as i8));
        from_fn(|c| acc[c] + (0..4).map(|k| (i32::from(w[4 * c + k]) - 128) * a[k]).sum::<i32>())
    }
}
