//! Over keys and values in IEEE halves.

use super::{Piece, SEGMENT, SEGMENT_BLOCKS, largest};
use crate::simd::{LANES, Simd, exp};
use crate::slab::BLOCK_TOKENS;
use std::array::from_fn;

impl Piece<'_> {
    /// As many of the next `rows` rows as fit the registers; returns how many.
    #[inline(always)]
    pub(super) fn over_halves<S: Simd>(self, s: S, rows: usize) -> usize {
        if !S::WIDE {
            return match rows {
                4.. => self.halves::<S, 4, 1, 1>(s),
                3 => self.halves::<S, 3, 1, 2>(s),
                _ => self.halves::<S, 1, 2, 2>(s),
            };
        }
        match rows {
            12.. => self.halves::<S, 12, 1, 2>(s),
            8.. => self.halves::<S, 8, 1, 2>(s),
            6.. => self.halves::<S, 6, 2, 4>(s),
            4.. => self.halves::<S, 4, 4, 4>(s),
            3 => self.halves::<S, 3, 4, 4>(s),
            2 => self.halves::<S, 2, 2, 2>(s),
            _ => self.halves::<S, 1, 4, 4>(s),
        }
    }

    /// Computes `R` rows, `B` blocks of keys and `C` vectors of values at a time, none of which changes a result.
    #[inline(always)]
    fn halves<S: Simd, const R: usize, const B: usize, const C: usize>(mut self, s: S) -> usize {
        let visible: [usize; R] = from_fn(|r| self.rows.visible(self.first + r, self.index * SEGMENT));
        let longest = visible.into_iter().max().unwrap_or(0);
        let blocks = longest.div_ceil(BLOCK_TOKENS);
        let mut b = 0;
        while b + B <= blocks {
            self.scores::<S, R, B>(s, b, &visible);
            b += B;
        }
        for b in b..blocks {
            self.scores::<S, R, 1>(s, b, &visible);
        }
        self.exponentials::<S, R>(s, blocks, &visible);
        let vectors = self.rows.head_dim / LANES;
        let mut c = 0;
        while c + C <= vectors {
            self.values::<S, R, C>(s, c, longest);
            c += C;
        }
        for c in c..vectors {
            self.values::<S, R, 1>(s, c, longest);
        }
        R
    }

    /// Scores of `B` blocks; positions that a row does not see score -1e30.
    #[inline(always)]
    fn scores<S: Simd, const R: usize, const B: usize>(&mut self, s: S, block: usize, visible: &[usize; R]) {
        let dim = self.rows.head_dim;
        let base = self.index * SEGMENT_BLOCKS + block;
        let keys: [*const u16; B] = from_fn(|b| self.context.page(base + b));
        let queries: [*const f32; R] = from_fn(|r| self.rows.query(self.first + r));
        for b in B..2 * B {
            self.context.touch(s, base + b);
        }
        let mut sums = [[s.splat(0.0); B]; R];
        for d in 0..dim {
            // SAFETY: a page has `dim` vectors of keys, a query `dim` numbers.
            unsafe {
                let mut k = [s.splat(0.0); B];
                for b in 0..B {
                    k[b] = s.load_f16(keys[b].add(d * BLOCK_TOKENS));
                }
                for r in 0..R {
                    let q = s.splat(*queries[r].add(d));
                    for b in 0..B {
                        sums[r][b] = s.fma(q, k[b], sums[r][b]);
                    }
                }
            }
        }
        for r in 0..R {
            for b in 0..B {
                let place = (block + b) * BLOCK_TOKENS;
                let seen = visible[r].saturating_sub(place).min(BLOCK_TOKENS);
                let to = &mut self.scratch[r * SEGMENT + place..][..BLOCK_TOKENS];
                // SAFETY: 16 f32.
                unsafe { s.store(to.as_mut_ptr(), s.keep(sums[r][b], seen, -1e30)) };
            }
        }
    }

    /// Scores to exponentials, their maximum and sum to the results.
    #[inline(always)]
    fn exponentials<S: Simd, const R: usize>(&mut self, s: S, blocks: usize, visible: &[usize; R]) {
        let stride = self.rows.head_dim + 2;
        for r in 0..R {
            let scores = &mut self.scratch[r * SEGMENT..][..blocks * BLOCK_TOKENS];
            let largest = largest(s, scores);
            let mut sum = s.splat(0.0);
            for (b, block) in scores.chunks_exact_mut(BLOCK_TOKENS).enumerate() {
                let seen = visible[r].saturating_sub(b * BLOCK_TOKENS).min(BLOCK_TOKENS);
                // SAFETY: 16 f32.
                unsafe {
                    let e = exp(s, s.sub(s.load(block.as_ptr()), s.splat(largest)));
                    let e = s.keep(e, seen, 0.0);
                    sum = s.add(sum, e);
                    s.store(block.as_mut_ptr(), e);
                }
            }
            self.results[r * stride] = largest;
            self.results[r * stride + 1] = s.sum(sum);
        }
    }

    /// Weighted sums of `C` vectors of values. Only places up to `longest` are read: what lies behind them is another
    /// sequence's leftover, possibly not even a number.
    #[inline(always)]
    fn values<S: Simd, const R: usize, const C: usize>(&mut self, s: S, column: usize, longest: usize) {
        let dim = self.rows.head_dim;
        let mut sums = [[s.splat(0.0); C]; R];
        for b in 0..longest.div_ceil(BLOCK_TOKENS) {
            let page = self.context.page(self.index * SEGMENT_BLOCKS + b);
            let places = (longest - b * BLOCK_TOKENS).min(BLOCK_TOKENS);
            let scores = self.scratch[b * BLOCK_TOKENS..][..(R - 1) * SEGMENT + places].as_ptr();
            for place in 0..places {
                // SAFETY: a page holds 16 rows of `dim` values after its keys; scores as sliced above.
                unsafe {
                    let from = page.add((BLOCK_TOKENS + place) * dim + column * LANES);
                    let mut v = [s.splat(0.0); C];
                    for c in 0..C {
                        v[c] = s.load_f16(from.add(c * LANES));
                    }
                    for r in 0..R {
                        let w = s.splat(*scores.add(r * SEGMENT + place));
                        for c in 0..C {
                            sums[r][c] = s.fma(w, v[c], sums[r][c]);
                        }
                    }
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let to = &mut self.results[r * (dim + 2) + 2 + column * LANES..][..C * LANES];
            for (c, sum) in sums.into_iter().enumerate() {
                // SAFETY: `C` vectors.
                unsafe { s.store(to.as_mut_ptr().add(c * LANES), sum) };
            }
        }
    }
}
