//! Over keys and values quantized to bytes.
//!
//! Integer products are exact, so what is lost is what storing lost: the numbers that come to them, queries and exponentials, are
//! cut into two bytes each (15 bits), whose products are added as `128 high + low`.

use super::{MAX_ROWS, Piece, SCORES, SEGMENT, SEGMENT_BLOCKS, largest};
use crate::matrix::BLOCK;
use crate::rope::MAX_HEAD;
use crate::simd::{LANES, LINE, Simd, exp};
use crate::slab::{BLOCK_TOKENS, BytePage};
use std::array::from_fn;

/// Bytes of a row's numbers, the widest of queries and exponentials.
const WIDTH: usize = if MAX_HEAD > SEGMENT { MAX_HEAD } else { SEGMENT };

/// f32 of scratch: two bytes a number.
pub(super) const ROOM: usize = MAX_ROWS * WIDTH * 2 / 4;

/// A number is `scale * (128 high + low)`; this many numbers share a scale, and their sums are kept for the products.
#[derive(Clone, Copy, Default)]
struct Scale {
    scale: f32,
    sums: [i32; 2],
}

/// The rows' numbers in two bytes each, `[row][WIDTH]`.
#[derive(Clone, Copy)]
struct Bytes {
    high: *mut i8,
    low: *mut i8,
}

impl Bytes {
    fn new(room: &mut [f32]) -> Self {
        let high = room[..ROOM].as_mut_ptr().cast::<i8>();
        Self { high, low: high.wrapping_add(MAX_ROWS * WIDTH) }
    }

    /// Cuts a vector of numbers, each at most `127 / inverse`, into the places from `at` on of `row`; returns their sums.
    ///
    /// # Safety
    /// The room that it was made of is this thread's, and `at` is at most `WIDTH - 16`.
    #[inline(always)]
    unsafe fn put<S: Simd>(self, s: S, (row, at): (usize, usize), x: S::F, inverse: S::F) -> [S::I; 2] {
        let x = s.mul(x, inverse);
        let whole = s.round(x);
        let (high, low) = (s.to_i32(whole), s.to_i32(s.mul(s.sub(x, whole), s.splat(128.0))));
        // SAFETY: the caller's word.
        unsafe {
            s.store_i8(self.high.add(row * WIDTH + at), high);
            s.store_i8(self.low.add(row * WIDTH + at), low);
        }
        [high, low]
    }

    /// Bytes `at..at + 4` of `row`, high and low.
    ///
    /// # Safety
    /// As [`Bytes::put`].
    #[inline(always)]
    unsafe fn four(self, row: usize, at: usize) -> (i32, i32) {
        let at = row * WIDTH + at;
        // SAFETY: the caller's word.
        unsafe {
            (
                self.high.add(at).cast::<i32>().read_unaligned(),
                self.low.add(at).cast::<i32>().read_unaligned(),
            )
        }
    }
}

impl Piece<'_> {
    /// As many of the next `rows` rows as fit the registers; returns how many.
    #[inline(always)]
    pub(super) fn over_bytes<S: Simd>(self, s: S, rows: usize) -> usize {
        // Narrow registers hold the sums of one row; and the code of the others is large.
        if !S::WIDE {
            return self.bytes::<S, 1>(s);
        }
        match rows {
            8.. => self.bytes::<S, 8>(s),
            4.. => self.bytes::<S, 4>(s),
            3 => self.bytes::<S, 3>(s),
            _ => self.bytes::<S, 1>(s),
        }
    }

    /// Computes `R` rows at a time, which changes no result.
    #[inline(always)]
    fn bytes<S: Simd, const R: usize>(mut self, s: S) -> usize {
        let visible: [usize; R] = from_fn(|r| self.rows.visible(self.first + r, self.index * SEGMENT));
        let blocks = visible.into_iter().max().unwrap_or(0).div_ceil(BLOCK_TOKENS);
        // Apart for good: what borrows the scores anew must not touch the room that raw pointers lead to.
        let (scores, room) = std::mem::take(&mut self.scratch).split_at_mut(SCORES);
        self.scratch = scores;
        let bytes = Bytes::new(room);
        let mut scales = [[Scale::default(); MAX_HEAD / BLOCK]; R];
        self.cut_queries::<S, R>(s, bytes, &mut scales);
        for b in 0..blocks {
            self.byte_scores::<S, R>(s, b, &visible, (bytes, &scales));
        }
        let scales = self.cut_exponentials::<S, R>(s, blocks, &visible, bytes);
        for column in (0..self.rows.head_dim).step_by(BLOCK) {
            self.byte_values::<S, R>(s, column, blocks, (bytes, &scales));
        }
        R
    }

    /// Queries to bytes, a scale for 32 of a row.
    #[inline(always)]
    fn cut_queries<S: Simd, const R: usize>(
        &self,
        s: S,
        bytes: Bytes,
        scales: &mut [[Scale; MAX_HEAD / BLOCK]; R],
    ) {
        for r in 0..R {
            let query = self.rows.query(self.first + r);
            for block in 0..self.rows.head_dim / BLOCK {
                let at = block * BLOCK;
                // SAFETY: a query has `head_dim` numbers, a multiple of 32; the room is this thread's.
                unsafe {
                    let x = [s.load(query.add(at)), s.load(query.add(at + LANES))];
                    let peak = s.largest(s.max(s.abs(x[0]), s.abs(x[1])));
                    let inverse = s.splat(if peak > 0.0 { 127.0 / peak } else { 0.0 });
                    let a = bytes.put(s, (r, at), x[0], inverse);
                    let b = bytes.put(s, (r, at + LANES), x[1], inverse);
                    let sums = [s.isum(s.iadd(a[0], b[0])), s.isum(s.iadd(a[1], b[1]))];
                    scales[r][block] = Scale { scale: peak * (1.0 / (127.0 * 128.0)), sums };
                }
            }
        }
    }

    /// Scores of a block; positions that a row does not see score -1e30.
    #[inline(always)]
    fn byte_scores<S: Simd, const R: usize>(
        &mut self,
        s: S,
        block: usize,
        visible: &[usize; R],
        (bytes, scales): (Bytes, &[[Scale; MAX_HEAD / BLOCK]; R]),
    ) {
        let dim = self.rows.head_dim;
        let base = self.index * SEGMENT_BLOCKS + block;
        let next: *const u8 = self.context.page_ahead(base + 1).cast();
        let lines = if self.context.ahead { self.context.lines() } else { 0 };
        let ahead = lines.div_ceil(dim / 4);
        let keys: *const u8 = self.context.page(base).cast();
        let key_scales = keys.wrapping_add(BytePage::new(dim).key_scales).cast::<f32>();
        let mut sums = [s.splat(0.0); R];
        for part in 0..dim / BLOCK {
            let (mut high, mut low) = ([s.isplat(0); R], [s.isplat(0); R]);
            for r in 0..R {
                let [h, l] = scales[r][part].sums;
                (high[r], low[r]) = (s.start8(h), s.start8(l));
            }
            for at in (part * BLOCK..(part + 1) * BLOCK).step_by(4) {
                // SAFETY: a page holds 64 bytes for each 4 numbers of its keys; queries were cut above.
                unsafe {
                    for line in at / 4 * ahead..lines.min((at / 4 + 1) * ahead) {
                        s.prefetch(next.wrapping_add(line * LINE));
                    }
                    let k = s.load_w(keys.add(at * BLOCK_TOKENS));
                    for r in 0..R {
                        let (h, l) = bytes.four(r, at);
                        high[r] = s.dot8(high[r], k, h);
                        low[r] = s.dot8(low[r], k, l);
                    }
                }
            }
            // SAFETY: a page holds 16 scales for each 32 numbers of its keys.
            let scale = unsafe { s.load(key_scales.add(part * BLOCK_TOKENS)) };
            for r in 0..R {
                let dot = s.fma(s.to_f32(high[r]), s.splat(128.0), s.to_f32(low[r]));
                sums[r] = s.fma(dot, s.mul(scale, s.splat(scales[r][part].scale)), sums[r]);
            }
        }
        let place = block * BLOCK_TOKENS;
        for r in 0..R {
            let seen = visible[r].saturating_sub(place).min(BLOCK_TOKENS);
            let to = &mut self.scratch[r * SEGMENT + place..][..BLOCK_TOKENS];
            // SAFETY: 16 f32.
            unsafe { s.store(to.as_mut_ptr(), s.keep(sums[r], seen, -1e30)) };
        }
    }

    /// Scores to exponentials, their maximum and sum to the results; then, each times the scale of its value, to bytes.
    #[inline(always)]
    fn cut_exponentials<S: Simd, const R: usize>(
        &mut self,
        s: S,
        blocks: usize,
        visible: &[usize; R],
        bytes: Bytes,
    ) -> [Scale; R] {
        let (stride, page) = (self.rows.head_dim + 2, BytePage::new(self.rows.head_dim));
        let mut scales = [Scale::default(); R];
        for r in 0..R {
            let scores = &mut self.scratch[r * SEGMENT..][..blocks * BLOCK_TOKENS];
            let largest = largest(s, scores);
            let (mut sum, mut peak) = (s.splat(0.0), s.splat(0.0));
            for (b, block) in scores.chunks_exact_mut(BLOCK_TOKENS).enumerate() {
                let seen = visible[r].saturating_sub(b * BLOCK_TOKENS).min(BLOCK_TOKENS);
                let values: *const u8 = self.context.page(self.index * SEGMENT_BLOCKS + b).cast();
                // SAFETY: 16 f32 both.
                unsafe {
                    let e = exp(s, s.sub(s.load(block.as_ptr()), s.splat(largest)));
                    sum = s.add(sum, s.keep(e, seen, 0.0));
                    // What lies behind the sequence's end is another's leftover, possibly not even a number.
                    let e = s.keep(s.mul(e, s.load(values.add(page.value_scales).cast())), seen, 0.0);
                    peak = s.max(peak, e);
                    s.store(block.as_mut_ptr(), e);
                }
            }
            self.results[r * stride] = largest;
            self.results[r * stride + 1] = s.sum(sum);
            let peak = s.largest(peak);
            let inverse = s.splat(if peak > 0.0 { 127.0 / peak } else { 0.0 });
            let mut sums = [s.isplat(0); 2];
            for (b, block) in scores.chunks_exact(BLOCK_TOKENS).enumerate() {
                // SAFETY: 16 f32; the room is this thread's.
                let cut = unsafe { bytes.put(s, (r, b * BLOCK_TOKENS), s.load(block.as_ptr()), inverse) };
                sums = [s.iadd(sums[0], cut[0]), s.iadd(sums[1], cut[1])];
            }
            let sums = [s.isum(sums[0]), s.isum(sums[1])];
            scales[r] = Scale { scale: peak * (1.0 / (127.0 * 128.0)), sums };
        }
        scales
    }

    /// Weighted sums of 32 columns of values: at most 256 products of bytes, which 32 bits hold.
    #[inline(always)]
    fn byte_values<S: Simd, const R: usize>(
        &mut self,
        s: S,
        column: usize,
        blocks: usize,
        (bytes, scales): (Bytes, &[Scale; R]),
    ) {
        let dim = self.rows.head_dim;
        let first = BytePage::new(dim).values + column * 4;
        let (mut high, mut low) = ([[s.isplat(0); 2]; R], [[s.isplat(0); 2]; R]);
        for r in 0..R {
            let [h, l] = scales[r].sums;
            (high[r], low[r]) = ([s.start8(h); 2], [s.start8(l); 2]);
        }
        for b in 0..blocks {
            let values: *const u8 = self.context.page(self.index * SEGMENT_BLOCKS + b).cast();
            for group in 0..BLOCK_TOKENS / 4 {
                // SAFETY: a page holds `4 dim` bytes for each 4 tokens of its values; exponentials were cut above.
                unsafe {
                    let from = values.add(first + group * dim * 4);
                    let v = [s.load_w(from), s.load_w(from.add(LANES * 4))];
                    for r in 0..R {
                        let (h, l) = bytes.four(r, b * BLOCK_TOKENS + group * 4);
                        for c in 0..2 {
                            high[r][c] = s.dot8(high[r][c], v[c], h);
                            low[r][c] = s.dot8(low[r][c], v[c], l);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            let to = &mut self.results[r * (dim + 2) + 2 + column..][..BLOCK];
            for c in 0..2 {
                let sum = s.fma(s.to_f32(high[r][c]), s.splat(128.0), s.to_f32(low[r][c]));
                // SAFETY: two vectors.
                unsafe { s.store(to.as_mut_ptr().add(c * LANES), s.mul(sum, s.splat(scales[r].scale))) };
            }
        }
    }
}
