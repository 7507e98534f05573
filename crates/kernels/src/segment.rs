//! Attention of a few rows over one segment of the context: scores, exponentials, weighted values.

use crate::simd::{LANES, Simd, exp};
use crate::slab::BLOCK_TOKENS;
use std::array::from_fn;

/// Blocks of a segment.
const SEGMENT_BLOCKS: usize = 16;
/// Positions of a segment.
pub(crate) const SEGMENT: usize = SEGMENT_BLOCKS * BLOCK_TOKENS;
/// Rows computed together, at most.
pub(crate) const MAX_ROWS: usize = 12;
/// f32 of scratch for scores.
pub(crate) const SCORES: usize = MAX_ROWS * SEGMENT;

/// Rows that share a key-value head: consecutive positions, and for each the heads of its group.
pub(crate) struct Rows<'a> {
    /// From the first position's row on.
    pub(crate) queries: &'a [f32],
    pub(crate) width: usize,
    /// Where the group's heads begin in a row.
    pub(crate) column: usize,
    pub(crate) group: usize,
    pub(crate) head_dim: usize,
    /// Of the first row in its sequence.
    pub(crate) position: usize,
    pub(crate) count: usize,
}

impl Rows<'_> {
    #[inline(always)]
    fn query(&self, i: usize) -> *const f32 {
        let at = i / self.group * self.width + self.column + i % self.group * self.head_dim;
        self.queries[at..][..self.head_dim].as_ptr()
    }

    /// Tokens of the segment that begins at `first` which row `i` sees.
    #[inline(always)]
    fn visible(&self, i: usize, first: usize) -> usize {
        (self.position + i / self.group + 1).saturating_sub(first).min(SEGMENT)
    }
}

/// One key-value head's pages of one sequence.
pub(crate) struct Context<'a> {
    pub(crate) halves: &'a [u16],
    pub(crate) first: usize,
    pub(crate) stride: usize,
    pub(crate) table: &'a [u32],
}

impl Context<'_> {
    /// K, then V, of the `b`-th block.
    #[inline(always)]
    fn page(&self, b: usize, halves: usize) -> *const u16 {
        self.halves[self.first + self.table[b] as usize * self.stride..][..halves].as_ptr()
    }
}

/// Results of rows over a segment, `[rows][2 + head_dim]`: the largest score, the sum of exponentials, and the sum of
/// values weighted by them. Rows that see nothing of the segment get a sum of zero.
#[inline(always)]
pub(crate) fn segment<S: Simd>(
    s: S,
    rows: &Rows<'_>,
    context: &Context<'_>,
    index: usize,
    scores: &mut [f32],
    results: &mut [f32],
) {
    let (total, stride) = (rows.count * rows.group, rows.head_dim + 2);
    let most = if S::WIDE { MAX_ROWS } else { 4 };
    let mut i = 0;
    while i < total {
        let results = &mut results[i * stride..];
        let piece = Piece { rows, context, index, first: i, scores: &mut *scores, results };
        i += match (total - i).min(most) {
            12.. => piece.run::<S, 12, 1, 2>(s),
            8.. => piece.run::<S, 8, 1, 2>(s),
            6.. => piece.run::<S, 6, 2, 4>(s),
            4.. if !S::WIDE => piece.run::<S, 4, 1, 1>(s),
            4.. => piece.run::<S, 4, 4, 4>(s),
            3 if !S::WIDE => piece.run::<S, 3, 1, 2>(s),
            3 => piece.run::<S, 3, 4, 4>(s),
            2 => piece.run::<S, 2, 2, 2>(s),
            _ => piece.run::<S, 1, 4, 4>(s),
        };
    }
}

/// `R` rows from `first` on.
struct Piece<'a> {
    rows: &'a Rows<'a>,
    context: &'a Context<'a>,
    index: usize,
    first: usize,
    scores: &'a mut [f32],
    results: &'a mut [f32],
}

impl Piece<'_> {
    /// Computes `R` rows, `B` blocks of keys and `C` vectors of values at a time, none of which changes a result.
    #[inline(always)]
    fn run<S: Simd, const R: usize, const B: usize, const C: usize>(mut self, s: S) -> usize {
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
        let keys: [*const u16; B] = from_fn(|b| self.context.page(base + b, dim * BLOCK_TOKENS));
        let queries: [*const f32; R] = from_fn(|r| self.rows.query(self.first + r));
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
                let to = &mut self.scores[r * SEGMENT + place..][..BLOCK_TOKENS];
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
            let scores = &mut self.scores[r * SEGMENT..][..blocks * BLOCK_TOKENS];
            let mut largest = s.splat(-1e30);
            for block in scores.chunks_exact(BLOCK_TOKENS) {
                // SAFETY: 16 f32.
                largest = s.max(largest, unsafe { s.load(block.as_ptr()) });
            }
            let largest = s.largest(largest);
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
            let page = self.context.page(self.index * SEGMENT_BLOCKS + b, 2 * dim * BLOCK_TOKENS);
            let places = (longest - b * BLOCK_TOKENS).min(BLOCK_TOKENS);
            let scores = self.scores[b * BLOCK_TOKENS..][..(R - 1) * SEGMENT + places].as_ptr();
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

/// Merges the results of a later segment into those of the ones before it.
#[inline(always)]
pub(crate) fn merge(into: &mut [f32], from: &[f32], head_dim: usize) {
    let stride = head_dim + 2;
    for (into, from) in into.chunks_exact_mut(stride).zip(from.chunks_exact(stride)) {
        if from[1] == 0.0 {
            continue;
        }
        let largest = into[0].max(from[0]);
        let (old, new) = ((into[0] - largest).exp(), (from[0] - largest).exp());
        into[0] = largest;
        into[1..].iter_mut().zip(&from[1..]).for_each(|(a, b)| *a = *a * old + b * new);
    }
}
