//! Rotary position embedding (Su et al., 2021) on queries and keys, and their way into the KV cache.
//!
//! Element `i` of a head turns with element `i + dim / 2`. Weights of models that pair neighbours are reordered when
//! they are packed: the order within a head does not matter to attention as long as queries and keys agree.

use crate::Compute;
use crate::isa::Kernel;
use crate::matrix::BLOCK;
use crate::shared::Shared;
use crate::simd::{LANES, Simd};
use crate::slab::{BLOCK_TOKENS, BytePage, KvType, Slab, Slot};
use std::ops::Range;

/// Queries, keys and values of one layer for the rows of a step.
pub struct Heads<'a> {
    /// `[rows, heads * head_dim]`; turned and scaled in place.
    pub queries: &'a mut [f32],
    /// `[rows, kv_heads * head_dim]`; turned in place.
    pub keys: &'a mut [f32],
    /// `[rows, kv_heads * head_dim]`.
    pub values: &'a [f32],
    /// Cosines then sines of each row's angles, `[rows, dim]`.
    pub angles: &'a [f32],
    /// Leading elements of a head that turn.
    pub dim: usize,
    /// Factor on queries: one over the root of the head's width.
    pub scale: f32,
}

impl Compute {
    /// Turns queries in place and scales them; turns keys, and writes keys and values into `layer` of the cache.
    ///
    /// # Panics
    /// When shapes do not agree, a slot is outside the cache, or two rows have the same one.
    pub fn rope_and_store(&mut self, heads: Heads<'_>, slots: &[Slot], layer: usize, slab: &mut Slab) {
        let shape = *slab.shape();
        let (rows, dim, kv) = (slots.len(), shape.head_dim, shape.heads * shape.head_dim);
        let width = heads.queries.len() / rows.max(1);
        assert!(width.is_multiple_of(dim) && heads.queries.len() == rows * width, "queries of {rows} rows");
        assert!(
            heads.keys.len() == rows * kv && heads.values.len() == rows * kv,
            "keys and values of {rows} rows"
        );
        assert!(
            heads.dim.is_multiple_of(2) && heads.dim <= dim && heads.angles.len() == rows * heads.dim,
            "angles"
        );
        assert!(layer < shape.layers, "layer {layer} of {}", shape.layers);
        let inside = |s: &Slot| (s.block as usize) < shape.blocks && (s.place as usize) < BLOCK_TOKENS;
        assert!(slots.iter().all(inside), "a slot outside {} blocks", shape.blocks);
        assert!(slab.are_distinct(slots), "two rows in one slot");
        let first = |slot: &Slot| slab.page_at(layer, slot.block as usize, 0);
        let pages: (usize, usize) =
            (first(&Slot { block: 0, place: 0 }), first(&Slot { block: 1, place: 0 }));
        let Heads { queries, keys, values, angles, dim: turning, scale } = heads;
        let (queries, keys, cache) = (Shared::new(queries), Shared::new(keys), Shared::new(&mut slab.halves));
        let store = Turn {
            width,
            head_dim: dim,
            kv_heads: shape.heads,
            turning,
            scale,
            queries,
            keys,
            values,
            angles,
            slots,
            first: pages.0,
            stride: pages.1 - pages.0,
            page: shape.page(),
            stored: shape.stored,
            cache,
        };
        self.by_rows(rows, |isa, _, range| isa.run(Rows { turn: &store, range }));
    }
}

struct Turn<'a> {
    width: usize,
    head_dim: usize,
    kv_heads: usize,
    turning: usize,
    scale: f32,
    queries: Shared<'a, f32>,
    keys: Shared<'a, f32>,
    values: &'a [f32],
    angles: &'a [f32],
    slots: &'a [Slot],
    /// Halves before the layer's first page.
    first: usize,
    /// Halves from one block to the next.
    stride: usize,
    /// Halves of a page.
    page: usize,
    stored: KvType,
    cache: Shared<'a, u16>,
}

struct Rows<'a> {
    turn: &'a Turn<'a>,
    range: Range<usize>,
}

impl Kernel for Rows<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let turn = self.turn;
        for row in self.range {
            let (cos, sin) = turn.angles[row * turn.turning..][..turn.turning].split_at(turn.turning / 2);
            // SAFETY: rows are this chunk's alone.
            let queries = unsafe { turn.queries.part(row * turn.width, turn.width) };
            for head in queries.chunks_exact_mut(turn.head_dim) {
                rotate(head, cos, sin);
                head.iter_mut().for_each(|x| *x *= turn.scale);
            }
            for head in 0..turn.kv_heads {
                turn.store(s, row, head, (cos, sin));
            }
        }
    }
}

impl Turn<'_> {
    /// Writes key and value of one row and head.
    #[inline(always)]
    fn store<S: Simd>(&self, s: S, row: usize, head: usize, (cos, sin): (&[f32], &[f32])) {
        let (dim, slot) = (self.head_dim, self.slots[row]);
        let from = (row * self.kv_heads + head) * dim;
        let at = self.first + slot.block as usize * self.stride + head * self.page;
        // SAFETY: rows are this chunk's alone.
        let key = unsafe { self.keys.part(from, dim) };
        rotate(key, cos, sin);
        let (value, place) = (&self.values[from..][..dim], slot.place as usize);
        match self.stored {
            KvType::F16 => self.store_halves(s, (key, value), at, place),
            KvType::Q8 => self.store_bytes(s, (key, value), 2 * at, place),
        }
    }

    /// Halves hold up to 65504: what is larger is written as that, so that one sequence's overflow does not turn into
    /// infinities.
    #[inline(always)]
    fn store_halves<S: Simd>(&self, s: S, (key, value): (&[f32], &[f32]), at: usize, place: usize) {
        let dim = self.head_dim;
        let mut halves = [0u16; LANES];
        // SAFETY: no two rows have one slot (`rope_and_store`). A slot's keys lie between those of the other slots of its
        // page, which other threads write; its values lie together. Pages lie inside the cache, vectors inside heads.
        unsafe {
            for i in (0..dim).step_by(LANES) {
                s.store_f16(halves.as_mut_ptr(), clamp(s, s.load(key.as_ptr().add(i))));
                for (j, half) in halves.into_iter().enumerate() {
                    self.cache.put(at + (i + j) * BLOCK_TOKENS + place, half);
                }
            }
            let values = self.cache.part(at + dim * BLOCK_TOKENS + place * dim, dim);
            for i in (0..dim).step_by(LANES) {
                s.store_f16(values.as_mut_ptr().add(i), clamp(s, s.load(value.as_ptr().add(i))));
            }
        }
    }

    /// Quantizes the key by 32 numbers, the value as a whole. `at` is where the page begins, in bytes.
    #[inline(always)]
    fn store_bytes<S: Simd>(&self, s: S, (key, value): (&[f32], &[f32]), at: usize, place: usize) {
        let (dim, page, cache) = (self.head_dim, BytePage::new(self.head_dim), self.cache.bytes());
        let mut bytes = [0i8; MAX_HEAD];
        // SAFETY: as in `store_halves`; scales are four bytes of this slot's own.
        unsafe {
            for (block, part) in key.chunks_exact(BLOCK).enumerate() {
                let scale = cut(s, part, &mut bytes[block * BLOCK..]);
                let to = at + page.key_scales + (block * BLOCK_TOKENS + place) * 4;
                cache.part(to, 4).copy_from_slice(&scale.to_ne_bytes());
            }
            for (i, four) in bytes[..dim].chunks_exact(4).enumerate() {
                let to = cache.part(at + (i * BLOCK_TOKENS + place) * 4, 4);
                to.iter_mut().zip(four).for_each(|(to, byte)| *to = byte.cast_unsigned() ^ 128);
            }
            let scale = cut(s, value, &mut bytes);
            let to = at + page.value_scales + place * 4;
            cache.part(to, 4).copy_from_slice(&scale.to_ne_bytes());
            let first = at + page.values + place / 4 * 4 * dim + place % 4;
            for (i, byte) in bytes[..dim].iter().enumerate() {
                cache.put(first + i * 4, byte.cast_unsigned() ^ 128);
            }
        }
    }
}

/// Quantizes `x`, a multiple of 16 numbers, to bytes from -127 to 127; returns what one of them is worth.
#[inline(always)]
fn cut<S: Simd>(s: S, x: &[f32], to: &mut [i8]) -> f32 {
    let mut peak = s.splat(0.0);
    let to = &mut to[..x.len()];
    for x in x.chunks_exact(LANES) {
        // SAFETY: 16 f32.
        peak = s.max(peak, s.abs(unsafe { s.load(x.as_ptr()) }));
    }
    let peak = s.largest(peak);
    let inverse = s.splat(if peak > 0.0 { 127.0 / peak } else { 0.0 });
    for (x, to) in x.chunks_exact(LANES).zip(to.chunks_exact_mut(LANES)) {
        // SAFETY: 16 f32, 16 bytes.
        unsafe { s.store_i8(to.as_mut_ptr(), s.to_i32(s.mul(s.load(x.as_ptr()), inverse))) };
    }
    peak * (1.0 / 127.0)
}

/// Into what halves hold.
#[inline(always)]
fn clamp<S: Simd>(s: S, x: S::F) -> S::F {
    s.min(s.max(x, s.splat(-65504.0)), s.splat(65504.0))
}

/// Widest head.
pub const MAX_HEAD: usize = 512;

#[inline(always)]
fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (low, rest) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in low.iter_mut().zip(rest).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
