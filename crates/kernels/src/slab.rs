//! The bytes of the KV cache: pages of 16 tokens for one key-value head of one layer. A block is the pages of all layers and
//! heads for 16 tokens; which sequence owns it is not known here.
//!
//! - **F16**: a page holds K transposed, `[head_dim][16]`, so that 16 scores are one vector, then V, `[16][head_dim]`.
//! - **Q8**: K as a panel of 8-bit weights, `[head_dim / 4][16][4]` bytes with 128 added, and its f32 scales,
//!   `[head_dim / 32][16]`; V the same the other way round, `[16 / 4][head_dim][4]`, and its scales, `[16]`.

use plimsoll_pool::{AlignedBuf, OutOfMemory};

/// Tokens in a block.
pub const BLOCK_TOKENS: usize = 16;

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KvType {
    /// IEEE halves.
    #[default]
    F16,
    /// Signed bytes: keys with a scale per 32 of a token's head, values with one per token and head. A little over half the memory.
    Q8,
}

impl KvType {
    /// What the width of a head must be a multiple of.
    pub const fn head_step(self) -> usize {
        match self {
            Self::F16 => 16,
            Self::Q8 => 32,
        }
    }
}

/// Where the parts of a page of bytes begin; its keys begin at 0.
#[derive(Clone, Copy)]
pub(crate) struct BytePage {
    pub(crate) key_scales: usize,
    pub(crate) values: usize,
    pub(crate) value_scales: usize,
    pub(crate) end: usize,
}

impl BytePage {
    /// Of heads of `head_dim`, a multiple of 32: all parts are multiples of 64 long.
    #[inline(always)]
    pub(crate) const fn new(head_dim: usize) -> Self {
        let key_scales = BLOCK_TOKENS * head_dim;
        let values = key_scales + head_dim / 32 * BLOCK_TOKENS * 4;
        let value_scales = values + BLOCK_TOKENS * head_dim;
        Self { key_scales, values, value_scales, end: value_scales + BLOCK_TOKENS * 4 }
    }
}

/// What a slab is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabShape {
    /// Layers.
    pub layers: usize,
    /// Blocks, the same for every layer.
    pub blocks: usize,
    /// Key-value heads.
    pub heads: usize,
    /// Width of a head, a multiple of 16, for Q8 of 32.
    pub head_dim: usize,
    /// How they are stored.
    pub stored: KvType,
}

impl SlabShape {
    /// Halves in a page.
    pub(crate) const fn page(&self) -> usize {
        match self.stored {
            KvType::F16 => 2 * BLOCK_TOKENS * self.head_dim,
            KvType::Q8 => BytePage::new(self.head_dim).end / 2,
        }
    }

    /// Bytes of one block, all layers and heads.
    pub const fn block_bytes(&self) -> usize {
        2 * self.layers * self.heads * self.page()
    }
}

/// Where a row of a step goes in the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Block of its sequence.
    pub block: u32,
    /// Place in the block, below 16.
    pub place: u32,
}

/// The KV cache of one model.
pub struct Slab {
    shape: SlabShape,
    /// Of bytes too: two at a time.
    pub(crate) halves: AlignedBuf<u16>,
    /// Places of each block that were seen while slots are compared, one bit each. Zero otherwise.
    seen: Vec<u16>,
}

impl Slab {
    /// A slab of zeros. The system gives the memory as blocks are first written.
    ///
    /// # Errors
    /// When the system refuses the memory.
    ///
    /// # Panics
    /// When `head_dim` is no multiple of 16, for Q8 of 32.
    pub fn new(shape: SlabShape) -> Result<Self, OutOfMemory> {
        let step = shape.stored.head_step();
        assert!(
            shape.head_dim.is_multiple_of(step),
            "head width {} is no multiple of {step}",
            shape.head_dim
        );
        let halves = shape.blocks.saturating_mul(shape.block_bytes() / 2);
        Ok(Self { shape, halves: AlignedBuf::try_zeroed(halves)?, seen: vec![0; shape.blocks] })
    }

    /// Whether no two of `slots`, all inside the slab, are the same.
    pub(crate) fn are_distinct(&mut self, slots: &[Slot]) -> bool {
        let (seen, mut distinct) = (&mut self.seen, true);
        for slot in slots {
            let (places, place) = (&mut seen[slot.block as usize], 1 << slot.place);
            distinct &= *places & place == 0;
            *places |= place;
        }
        slots.iter().for_each(|slot| seen[slot.block as usize] = 0);
        distinct
    }

    /// What it is cut into.
    pub fn shape(&self) -> &SlabShape {
        &self.shape
    }

    /// Halves of one layer of one block: its pages lie together.
    fn stripe(&self) -> usize {
        self.shape.heads * self.shape.page()
    }

    /// Zeros blocks, and gives the pages of memory that lie in them back to the system until they are written to again.
    /// Blocks that follow one another in `blocks` are done in one go. Returns the bytes of those pages.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn release_blocks(&mut self, blocks: &[u32]) -> usize {
        let mut released = 0;
        for run in blocks.chunk_by(|a, b| a + 1 == *b) {
            let (first, count) = (run[0] as usize, run.len());
            assert!(first + count <= self.shape.blocks, "block {first} + {count} of {}", self.shape.blocks);
            for layer in 0..self.shape.layers {
                let at = self.page_at(layer, first, 0);
                released += self.halves.release_range(at..at + count * self.stripe());
            }
        }
        released
    }

    /// Copies the tokens of block `from` to block `to`.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn copy_block(&mut self, from: usize, to: usize) {
        assert!(from.max(to) < self.shape.blocks, "blocks {from} and {to} of {}", self.shape.blocks);
        let stripe = self.stripe();
        for layer in 0..self.shape.layers {
            let (from, to) = (self.page_at(layer, from, 0), self.page_at(layer, to, 0));
            self.halves.copy_within(from..from + stripe, to);
        }
    }

    /// Writes a block to `out`, [`SlabShape::block_bytes`] long, in this machine's byte order.
    ///
    /// # Panics
    /// When there is no such block, or `out` has another length.
    pub fn save_block(&self, block: usize, out: &mut [u8]) {
        self.check_saved(block, out.len());
        for (layer, out) in out.chunks_exact_mut(2 * self.stripe()).enumerate() {
            let halves = &self.halves[self.page_at(layer, block, 0)..][..self.stripe()];
            out.chunks_exact_mut(2)
                .zip(halves)
                .for_each(|(out, half)| out.copy_from_slice(&half.to_ne_bytes()));
        }
    }

    /// Reads back what [`Slab::save_block`] wrote, into any block.
    ///
    /// # Panics
    /// When there is no such block, or `saved` has another length.
    pub fn load_block(&mut self, block: usize, saved: &[u8]) {
        self.check_saved(block, saved.len());
        let stripe = self.stripe();
        for (layer, saved) in saved.chunks_exact(2 * stripe).enumerate() {
            let at = self.page_at(layer, block, 0);
            let halves = &mut self.halves[at..][..stripe];
            saved.chunks_exact(2).zip(halves).for_each(|(b, half)| *half = u16::from_ne_bytes([b[0], b[1]]));
        }
    }

    fn check_saved(&self, block: usize, bytes: usize) {
        let (blocks, size) = (self.shape.blocks, self.shape.block_bytes());
        assert!(block < blocks && bytes == size, "block {block} of {blocks} in {bytes} bytes, not {size}");
    }

    /// Where the page of `head` begins in `block` of `layer`, in halves.
    pub(crate) fn page_at(&self, layer: usize, block: usize, head: usize) -> usize {
        let SlabShape { blocks, heads, .. } = self.shape;
        ((layer * blocks + block) * heads + head) * self.shape.page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_in_one_slot_are_noticed() {
        let mut slab =
            Slab::new(SlabShape { layers: 1, blocks: 3, heads: 1, head_dim: 16, stored: KvType::F16 })
                .unwrap();
        let slots = |pairs: &[(u32, u32)]| {
            pairs.iter().map(|&(block, place)| Slot { block, place }).collect::<Vec<_>>()
        };
        for (pairs, distinct) in [
            (&[(0, 15), (1, 15), (0, 0), (2, 3)][..], true),
            (&[(0, 15), (1, 15), (0, 15)], false),
            (&[(1, 15), (0, 15)], true),
            (&[], true),
        ] {
            assert_eq!(slab.are_distinct(&slots(pairs)), distinct, "{pairs:?}");
        }
    }

    #[test]
    fn a_block_is_the_same_after_copying_and_after_saving() {
        for stored in [KvType::F16, KvType::Q8] {
            check_copies(stored);
        }
    }

    fn check_copies(stored: KvType) {
        let shape = SlabShape { layers: 3, blocks: 5, heads: 2, head_dim: 32, stored };
        let mut slab = Slab::new(shape).unwrap();
        slab.halves.iter_mut().enumerate().for_each(|(i, half)| *half = i as u16);
        let saved = |slab: &Slab, block| {
            let mut out = vec![0; shape.block_bytes()];
            slab.save_block(block, &mut out);
            out
        };
        let (want, other) = (saved(&slab, 1), saved(&slab, 2));
        slab.copy_block(1, 4);
        slab.release_blocks(&[0, 1, 3]);
        assert!([0, 1, 3].iter().all(|block| saved(&slab, *block).iter().all(|byte| *byte == 0)));
        slab.load_block(1, &want);
        slab.load_block(0, &want);
        assert!(saved(&slab, 4) == want && saved(&slab, 0) == want && saved(&slab, 1) == want);
        assert!(saved(&slab, 2) == other, "a block beside them changed");
    }
}
