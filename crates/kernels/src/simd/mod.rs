//! What the kernels ask of an instruction set: 16 lanes of f32 or i32, and dot products of bytes.
//!
//! An implementation is a token whose existence proves that the machine has the instructions, so its arithmetic is
//! safe to call; only memory access is `unsafe`.
//!
//! Vectors must not pass through closures that the standard library calls (`array::map`, `from_fn`, iterators): those
//! are compiled on their own, without the instruction set, and each operation in them becomes a function call. Loops
//! over arrays are compiled in place.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

/// Lanes of a vector, columns of a weight panel, tokens of a KV block.
pub(crate) const LANES: usize = 16;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// An instruction set.
///
/// Pointers need no alignment unless a method says so.
pub(crate) trait Simd: Copy {
    /// 16 lanes of f32.
    type F: Copy;
    /// 16 lanes of i32.
    type I: Copy;
    /// 64 bytes of weights: 16 columns of 4 consecutive inputs.
    type W: Copy;

    /// Whether it has 32 registers of 16 lanes: how large a tile pays.
    const WIDE: bool;

    fn splat(self, x: f32) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// The first `n` lanes of `a`, `fill` in the others.
    fn keep(self, a: Self::F, n: usize, fill: f32) -> Self::F;
    /// To the nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// 2 to the power of `a`, which holds integers from -126 to 127.
    fn pow2(self, a: Self::F) -> Self::F;
    /// Rounded to what IEEE halves hold.
    fn half(self, a: f32) -> f32;
    /// The sum of all lanes, always in the same order.
    fn sum(self, a: Self::F) -> f32;
    /// The largest lane.
    fn largest(self, a: Self::F) -> f32;

    /// `a` where it is more than `b`, 0 in the other lanes.
    fn above(self, a: Self::F, b: Self::F) -> Self::F;
    /// Bit `i` is set where lane `i` is not 0.
    fn nonzero(self, a: Self::F) -> u16;

    /// Reads 16 f32.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// Reads 16 IEEE halves.
    unsafe fn load_f16(self, from: *const u16) -> Self::F;
    /// Reads 16 bfloat16.
    unsafe fn load_bf16(self, from: *const u16) -> Self::F;
    /// Writes 16 f32.
    unsafe fn store(self, to: *mut f32, a: Self::F);
    /// Writes 16 IEEE halves, rounded to nearest.
    unsafe fn store_f16(self, to: *mut u16, a: Self::F);

    fn isplat(self, x: i32) -> Self::I;
    fn iadd(self, a: Self::I, b: Self::I) -> Self::I;
    fn isum(self, a: Self::I) -> i32;
    fn to_f32(self, a: Self::I) -> Self::F;
    /// To the nearest integer, ties to even.
    fn to_i32(self, a: Self::F) -> Self::I;
    /// Writes the low bytes of 16 lanes that hold -128..=127.
    unsafe fn store_i8(self, to: *mut i8, a: Self::I);

    /// Asks for the 64 bytes at `at`, which may be any address, to be brought near: into the second cache, since the first has no room
    /// for what is not needed at once.
    fn prefetch(self, at: *const u8);
    /// Reads 64 bytes, aligned to 64.
    unsafe fn load_w(self, from: *const u8) -> Self::W;
    /// The low nibble of each byte.
    fn low4(self, w: Self::W) -> Self::W;
    /// The high nibble of each byte.
    fn high4(self, w: Self::W) -> Self::W;
    /// `acc[c] + sum of w[4c..4c+4] * a[0..4]`, weights 0..=15, `a` four signed bytes.
    fn dot4(self, acc: Self::I, w: Self::W, a: i32) -> Self::I;
    /// What [`Simd::dot8`] accumulates onto, for a block whose activations sum up to `sum`.
    fn start8(self, sum: i32) -> Self::I;
    /// As [`Simd::dot4`] for weights stored as `w + 128`, on an accumulator from [`Simd::start8`]; `a` -127..=127.
    fn dot8(self, acc: Self::I, w: Self::W, a: i32) -> Self::I;
}

/// e to the power of `x`, for `x` up to 88; smaller than e^-87 counts as e^-87. Relative error below 2e-7.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.min(s.max(x, s.splat(-87.0)), s.splat(88.0));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    // x - n ln 2 in two parts, so that the low bits of ln 2 are not lost (Cody and Waite).
    let r = s.fma(n, s.splat(-0.693_359_4), x);
    let r = s.fma(n, s.splat(2.121_944_4e-4), r);
    let mut p = s.splat(1.987_569_1e-4);
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
        p = s.fma(p, r, s.splat(c));
    }
    let e = s.add(s.fma(p, s.mul(r, r), r), s.splat(1.0));
    s.mul(e, s.pow2(n))
}
