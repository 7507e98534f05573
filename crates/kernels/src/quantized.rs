//! Tiles over quantized weights: integer products of 32 inputs at a time, scaled to f32.

use crate::activations::View;
use crate::matrix::{BLOCK, Q4_BLOCK_BYTES, Q8_BLOCK_BYTES};
use crate::simd::{LANES, Simd};
use crate::tile::{MAX_PANELS, Panel, TILE, put};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Quantized weights: what differs between their forms within a block of 32 inputs.
pub(crate) trait Quantized: Copy {
    /// Whether each column has a minimum besides its scale.
    const MINIMUM: bool;

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
    unsafe fn tile<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        x: &View,
        row: usize,
        out: &mut [f32; TILE],
    ) {
        let mut sums = [[s.splat(0.0); P]; R];
        for block in 0..x.blocks {
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

/// Q4 as it is packed.
#[derive(Clone, Copy)]
pub(crate) struct Nibbles {
    pub(crate) weights: *const u8,
    /// Bytes from one panel to the next.
    pub(crate) stride: usize,
}

impl Nibbles {
    /// Asks for the same block of the panels after these: panels are too short for the hardware to see them coming.
    #[inline(always)]
    fn prefetch<S: Simd, const P: usize>(self, s: S, block: usize) {
        for p in P..2 * P {
            let at = self.weights.wrapping_add(p * self.stride + block * Q4_BLOCK_BYTES);
            for line in 0..Q4_BLOCK_BYTES / LINE {
                s.prefetch(at.wrapping_add(line * LINE));
            }
        }
    }
}

impl Quantized for Nibbles {
    const MINIMUM: bool = true;

    #[inline(always)]
    fn start<S: Simd>(self, s: S, _sum: i32) -> S::I {
        s.isplat(0)
    }

    #[inline(always)]
    unsafe fn scale<S: Simd>(self, s: S, p: usize, block: usize) -> (S::F, S::F) {
        // SAFETY: a block begins with 16 scales and 16 minimums.
        unsafe {
            let at = self.weights.add(p * self.stride + block * Q4_BLOCK_BYTES).cast::<u16>();
            (s.load_f16(at), s.load_f16(at.add(LANES)))
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
        // With few rows the loads themselves run ahead far enough, and asking early only gets in their way.
        if R > 2 {
            self.prefetch::<S, P>(s, block);
        }
        for group in 0..4 {
            // SAFETY: four groups of 64 aligned bytes follow the scales; a block of activations has 32 bytes.
            unsafe {
                let at = block * Q4_BLOCK_BYTES + 64 + group * 64;
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

/// Q4 with its nibbles spread to bytes and its scales to f32, for many rows.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) weights: *const u8,
    /// Per block 16 scales and 16 minimums.
    pub(crate) scales: *const f32,
    /// Blocks from one panel to the next.
    pub(crate) blocks: usize,
}

impl Spread {
    /// f32 of scratch that two panels of `blocks` blocks take.
    pub(crate) const fn scratch(blocks: usize) -> usize {
        MAX_PANELS * blocks * (Q8_BLOCK_BYTES / 4 + 2 * LANES)
    }

    /// Spreads `panels` panels into `scratch`.
    ///
    /// # Safety
    /// The panels are readable; `scratch` is aligned to 64 bytes.
    #[inline(always)]
    pub(crate) unsafe fn new<S: Simd>(
        s: S,
        from: Nibbles,
        panels: usize,
        blocks: usize,
        scratch: &mut [f32],
    ) -> Self {
        let (weights, scales) =
            scratch[..Self::scratch(blocks)].split_at_mut(MAX_PANELS * blocks * Q8_BLOCK_BYTES / 4);
        let to = weights.as_mut_ptr().cast::<u8>();
        for p in 0..panels {
            for block in 0..blocks {
                let at = p * blocks + block;
                if p == 0 {
                    from.prefetch::<S, MAX_PANELS>(s, block);
                }
                // SAFETY: the source by the caller's word; the target has room for the panels, and each group starts
                // at a multiple of 64 bytes.
                unsafe {
                    let (scale, minimum) = from.scale(s, p, block);
                    let lanes = scales.as_mut_ptr().add(at * 2 * LANES);
                    s.store(lanes, scale);
                    s.store(lanes.add(LANES), minimum);
                    for group in 0..4 {
                        let w = from.weights.add(p * from.stride + block * Q4_BLOCK_BYTES + 64 + group * 64);
                        let w = s.load_w(w);
                        s.store_w(to.add(at * Q8_BLOCK_BYTES + group * 128), s.low4(w));
                        s.store_w(to.add(at * Q8_BLOCK_BYTES + group * 128 + 64), s.high4(w));
                    }
                }
            }
        }
        Self { weights: to, scales: scales.as_ptr(), blocks }
    }
}

impl Quantized for Spread {
    const MINIMUM: bool = true;

    #[inline(always)]
    fn start<S: Simd>(self, s: S, _sum: i32) -> S::I {
        s.isplat(0)
    }

    #[inline(always)]
    unsafe fn scale<S: Simd>(self, s: S, p: usize, block: usize) -> (S::F, S::F) {
        // SAFETY: each block has 32 f32.
        unsafe {
            let at = self.scales.add((p * self.blocks + block) * 2 * LANES);
            (s.load(at), s.load(at.add(LANES)))
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
        for group in 0..8 {
            // SAFETY: a block has eight groups of 64 aligned bytes, and 32 bytes of activations.
            unsafe {
                let at = block * Q8_BLOCK_BYTES + group * 64;
                let mut w = [s.load_w(self.weights.add(at)); P];
                for p in 1..P {
                    w[p] = s.load_w(self.weights.add(p * self.blocks * Q8_BLOCK_BYTES + at));
                }
                for r in 0..R {
                    let a = four(a[r], group * 4);
                    for p in 0..P {
                        sums[r][p] = s.dot4(sums[r][p], w[p], a);
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
