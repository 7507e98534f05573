//! Over keys and values in IEEE halves.

use super::{MAX_ROWS, Piece, SCORES, SEGMENT, SEGMENT_BLOCKS, largest};
use crate::rope::MAX_HEAD;
use crate::simd::{LANES, LINE, Simd, exp};
use crate::slab::BLOCK_TOKENS;
use std::array::from_fn;
use std::ops::Range;

/// Numbers of a query that lie together when its rows are gathered.
const PART: usize = 64;

/// f32 of scratch: queries.
pub(super) const ROOM: usize = MAX_ROWS * MAX_HEAD;

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
        self.gather::<S, R>(s);
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

    /// Copies `R` queries to the room behind the scores, `[head_dim / 64][R][64]`: at distances that the compiler knows,
    /// they take one register, not one each.
    #[inline(always)]
    fn gather<S: Simd, const R: usize>(&mut self, s: S) {
        let dim = self.rows.head_dim;
        let room = &mut self.scratch[SCORES..][..R * dim.next_multiple_of(PART)];
        for (part, room) in room.chunks_exact_mut(R * PART).enumerate() {
            for (r, room) in room.chunks_exact_mut(PART).enumerate() {
                let from = self.rows.query(self.first + r);
                for d in (part * PART..dim.min((part + 1) * PART)).step_by(LANES) {
                    // SAFETY: a query has `head_dim` numbers, a multiple of 16; the room has 64.
                    unsafe { s.store(room.as_mut_ptr().add(d % PART), s.load(from.add(d))) };
                }
            }
        }
    }

    /// Scores of `B` blocks; positions that a row does not see score -1e30.
    #[inline(always)]
    fn scores<S: Simd, const R: usize, const B: usize>(&mut self, s: S, block: usize, visible: &[usize; R]) {
        let dim = self.rows.head_dim;
        let base = self.index * SEGMENT_BLOCKS + block;
        let (mut keys, mut next) = ([self.context.page(base); B], [self.context.page_ahead(base + B); B]);
        for b in 1..B {
            (keys[b], next[b]) = (self.context.page(base + b), self.context.page_ahead(base + B + b));
        }
        let queries = self.scratch[SCORES..][..R * dim.next_multiple_of(PART)].as_ptr();
        let mut sums = [[s.splat(0.0); B]; R];
        for d in 0..dim {
            let query = d / PART * R * PART + d % PART;
            // SAFETY: a page has `dim` vectors of keys, a query `dim` numbers.
            unsafe {
                let mut k = [s.splat(0.0); B];
                for b in 0..B {
                    k[b] = s.load_f16(keys[b].add(d * BLOCK_TOKENS));
                }
                if self.context.ahead {
                    // A page has as many cache lines as vectors of keys.
                    for b in 0..B {
                        s.prefetch(next[b].wrapping_add(d * LINE / 2).cast());
                    }
                }
                for r in 0..R {
                    let q = s.splat(*queries.add(query + r * PART));
                    for b in 0..B {
                        sums[r][b] = s.fma(q, k[b], sums[r][b]);
                    }
                }
            }
        }
        let place = block * BLOCK_TOKENS;
        let to = self.scratch[place..][..(R - 1) * SEGMENT + B * BLOCK_TOKENS].as_mut_ptr();
        for r in 0..R {
            for b in 0..B {
                // SAFETY: 16 f32 in what was sliced above.
                unsafe { s.store(to.add(r * SEGMENT + b * BLOCK_TOKENS), sums[r][b]) };
            }
        }
        for r in 0..R {
            if visible[r] < place + B * BLOCK_TOKENS {
                self.hide(s, r, place..place + B * BLOCK_TOKENS, visible[r]);
            }
        }
    }

    /// Sets the scores that a row does not see.
    #[inline(always)]
    fn hide<S: Simd>(&mut self, s: S, r: usize, places: Range<usize>, visible: usize) {
        let (first, scores) = (places.start, &mut self.scratch[r * SEGMENT..][places]);
        for (b, block) in scores.chunks_exact_mut(BLOCK_TOKENS).enumerate() {
            let seen = visible.saturating_sub(first + b * BLOCK_TOKENS).min(BLOCK_TOKENS);
            // SAFETY: 16 f32.
            unsafe { s.store(block.as_mut_ptr(), s.keep(s.load(block.as_ptr()), seen, -1e30)) };
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
        let stride = dim + 2;
        let to = self.results[2 + column * LANES..][..(R - 1) * stride + C * LANES].as_mut_ptr();
        for r in 0..R {
            for c in 0..C {
                // SAFETY: `C` vectors of each row, in what was sliced above.
                unsafe { s.store(to.add(r * stride + c * LANES), sums[r][c]) };
            }
        }
    }
}
