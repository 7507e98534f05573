//! What a product asks memory for while it computes: the panels that it comes to next, spread over its tiles. With few rows the
//! loads themselves run ahead far enough.

use crate::matrix::Matrix;
use crate::simd::{LINE, Simd};
use std::ops::Range;

/// Cache lines that follow one another: an address, and how many.
type Run = (usize, usize);

/// Lines to ask for, a few with each block of a tile.
pub(crate) struct Ahead {
    on: bool,
    /// Lines with each block.
    each: usize,
    run: Run,
    scales: Run,
}

impl Ahead {
    /// Asks for nothing, ever, unless `on`.
    pub(crate) fn new(on: bool) -> Self {
        Self { on, each: 0, run: (0, 0), scales: (0, 0) }
    }

    /// Before `blocks` blocks of tiles are multiplied: the panels `next` come after them, as many as there are.
    #[inline(always)]
    pub(crate) fn begin(&mut self, weights: &Matrix, next: Range<usize>, blocks: usize) {
        if self.on {
            let [weights, scales] =
                weights.of_panels(next).map(|bytes| (bytes.as_ptr() as usize, bytes.len() / LINE));
            (self.run, self.scales) = (weights, scales);
            self.each = (self.run.1 + self.scales.1).div_ceil(blocks.max(1));
        }
    }

    /// Asks for the next few lines.
    #[inline(always)]
    pub(crate) fn ask<S: Simd>(&mut self, s: S) {
        for _ in 0..self.each {
            if self.run.1 == 0 && !self.go_on() {
                return;
            }
            s.prefetch(self.run.0 as *const u8);
            self.run = (self.run.0 + LINE, self.run.1 - 1);
        }
    }

    /// From the weights to the scales, if they lie apart; whether anything is left.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self) -> bool {
        self.run = std::mem::take(&mut self.scales);
        if self.run.1 == 0 {
            self.each = 0;
        }
        self.run.1 > 0
    }
}
