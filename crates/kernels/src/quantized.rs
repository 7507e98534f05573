//! Tiles over quantized weights: integer products of 32 inputs at a time, scaled to f32.

use crate::activations::View;
use crate::ahead::Ahead;
use crate::matrix::{BLOCK, Q8_BLOCK_BYTES, nibbles_at};
use crate::simd::{LANES, Simd};
use crate::tile::{Panel, put};

/// Quantized weights: what differs between their forms within a block of 32 inputs.
pub(crate) trait Quantized: Copy {
    /// Whether each column has a minimum besides its scale.
    const MINIMUM: bool;

    /// The panels after this one.
    fn after(self) -> Self;

    /// Where accumulation starts, given the sum of the block's activations.
    fn start<S: Simd>(self, s: S, sum: i32) -> S::I;

    /// Scale and minimum of the columns of panel `p` in `block`.
    unsafe fn scale<S: Simd>(self, s: S, p: usize, block: usize) -> (S::F, S::F);

    /// Adds the integer products of a block; `a[r]` are the 32 bytes of row `r`.
    unsafe fn dot<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        block: usize,
        a: [*const i8; R],
        sums: &mut [[S::I; P]; R],
    );
}

/// The four bytes at `a + at`.
#[inline(always)]
unsafe fn four(a: *const i8, at: usize) -> i32 {
    // SAFETY: the caller vouches for four readable bytes.
    unsafe { a.add(at).cast::<i32>().read_unaligned() }
}

impl<Q: Quantized> Panel for Q {
    #[inline(always)]
    fn next(self) -> Self {
        self.after()
    }

    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        x: &View,
        row: usize,
        (ahead, out): (&mut Ahead, &mut [f32]),
    ) {
        let mut sums = [[s.splat(0.0); P]; R];
        for block in 0..x.blocks {
            ahead.ask(s);
            // SAFETY: rows and panels are readable by the caller's word, and `block` is inside them.
            unsafe {
                let (mut at, mut a) = ([0; R], [x.bytes; R]);
                let mut dots = [[s.isplat(0); P]; R];
                for r in 0..R {
                    at[r] = (row + r) * x.blocks + block;
                    a[r] = x.bytes.add(at[r] * BLOCK);
                    dots[r] = [self.start(s, *x.sums.add(at[r])); P];
                }
                self.dot(s, block, a, &mut dots);
                for p in 0..P {
                    let (scale, minimum) = self.scale(s, p, block);
                    for r in 0..R {
                        let both = s.mul(scale, s.splat(*x.scales.add(at[r])));
                        sums[r][p] = s.fma(s.to_f32(dots[r][p]), both, sums[r][p]);
                        if Q::MINIMUM {
                            sums[r][p] = s.fma(minimum, s.splat(*x.biases.add(at[r])), sums[r][p]);
                        }
                    }
                }
            }
        }
        put(s, sums, out);
    }
}

/// Q4 as it is packed, with a minimum or centered.
#[derive(Clone, Copy)]
pub(crate) struct Nibbles<const WITH_MINIMUM: bool> {
    pub(crate) weights: *const u8,
    /// Bytes from one panel to the next.
    pub(crate) stride: usize,
}

impl<const WITH_MINIMUM: bool> Quantized for Nibbles<WITH_MINIMUM> {
    const MINIMUM: bool = WITH_MINIMUM;

    #[inline(always)]
    fn after(self) -> Self {
        Self { weights: self.weights.wrapping_add(self.stride), ..self }
    }

    #[inline(always)]
    fn start<S: Simd>(self, s: S, sum: i32) -> S::I {
        // Centered nibbles are 8 too large: that is taken off here, for the whole block.
        s.isplat(if WITH_MINIMUM { 0 } else { sum.wrapping_mul(-8) })
    }

    #[inline(always)]
    unsafe fn scale<S: Simd>(self, s: S, p: usize, block: usize) -> (S::F, S::F) {
        // SAFETY: a block has 16 scales, and 16 minimums after them or none.
        unsafe {
            let at = self.weights.add(p * self.stride + nibbles_at(WITH_MINIMUM, block).0).cast::<u16>();
            let scale = s.load_f16(at);
            (scale, if WITH_MINIMUM { s.load_f16(at.add(LANES)) } else { scale })
        }
    }

    #[inline(always)]
    unsafe fn dot<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        block: usize,
        a: [*const i8; R],
        sums: &mut [[S::I; P]; R],
    ) {
        for group in 0..4 {
            // SAFETY: a block has four groups of 64 aligned bytes; a block of activations has 32 bytes.
            unsafe {
                let at = nibbles_at(WITH_MINIMUM, block).1 + group * 64;
                let first = s.load_w(self.weights.add(at));
                let (mut low, mut high) = ([s.low4(first); P], [s.high4(first); P]);
                for p in 1..P {
                    let w = s.load_w(self.weights.add(p * self.stride + at));
                    (low[p], high[p]) = (s.low4(w), s.high4(w));
                }
                for r in 0..R {
                    let (a, b) = (four(a[r], group * 8), four(a[r], group * 8 + 4));
                    for p in 0..P {
                        sums[r][p] = s.dot4(sums[r][p], low[p], a);
                    }
                    for p in 0..P {
                        sums[r][p] = s.dot4(sums[r][p], high[p], b);
                    }
                }
            }
        }
    }
}

/// Q8 as it is packed.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) weights: *const u8,
    pub(crate) scales: *const u16,
    /// Blocks from one panel to the next.
    pub(crate) blocks: usize,
}

impl Quantized for Bytes {
    const MINIMUM: bool = false;

    #[inline(always)]
    fn after(self) -> Self {
        let weights = self.weights.wrapping_add(self.blocks * Q8_BLOCK_BYTES);
        Self { weights, scales: self.scales.wrapping_add(self.blocks * LANES), ..self }
    }

    #[inline(always)]
    fn start<S: Simd>(self, s: S, sum: i32) -> S::I {
        s.start8(sum)
    }

    #[inline(always)]
    unsafe fn scale<S: Simd>(self, s: S, p: usize, block: usize) -> (S::F, S::F) {
        // SAFETY: each block of a panel has 16 scales.
        let scale = unsafe { s.load_f16(self.scales.add((p * self.blocks + block) * LANES)) };
        (scale, scale)
    }

    #[inline(always)]
    unsafe fn dot<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        block: usize,
        a: [*const i8; R],
        sums: &mut [[S::I; P]; R],
    ) {
        for group in 0..8 {
            // SAFETY: a block has eight groups of 64 aligned bytes, and 32 bytes of activations.
            unsafe {
                let at = block * Q8_BLOCK_BYTES + group * 64;
                let stride = self.blocks * Q8_BLOCK_BYTES;
                let mut w = [s.load_w(self.weights.add(at)); P];
                for p in 0..P {
                    w[p] = s.load_w(self.weights.add(p * stride + at));
                }
                for r in 0..R {
                    let a = four(a[r], group * 4);
                    for p in 0..P {
                        sums[r][p] = s.dot8(sums[r][p], w[p], a);
                    }
                }
            }
        }
    }
}
