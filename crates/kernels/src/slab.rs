//! The bytes of the KV cache: pages of 16 tokens for one key-value head of one layer, in IEEE halves.
//!
//! A page holds K transposed, `[head_dim][16]`, so that 16 scores are one vector, then V, `[16][head_dim]`. A block is
//! the pages of all layers and heads for 16 tokens; which sequence owns it is not known here.

use plimsoll_pool::{AlignedBuf, OutOfMemory};

/// Tokens in a block.
pub const BLOCK_TOKENS: usize = 16;

/// What a slab is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabShape {
    /// Layers.
    pub layers: usize,
    /// Blocks, the same for every layer.
    pub blocks: usize,
    /// Key-value heads.
    pub heads: usize,
    /// Width of a head, a multiple of 16.
    pub head_dim: usize,
}

impl SlabShape {
    /// Halves in a page.
    pub(crate) const fn page(&self) -> usize {
        2 * BLOCK_TOKENS * self.head_dim
    }

    /// Bytes of one block, all layers and heads.
    pub const fn block_bytes(&self) -> usize {
        2 * self.layers * self.heads * self.page()
    }
}

/// The KV cache of one model.
pub struct Slab {
    shape: SlabShape,
    pub(crate) halves: AlignedBuf<u16>,
}

impl Slab {
    /// A slab of zeros. The system gives the memory as blocks are first written.
    ///
    /// # Errors
    /// When the system refuses the memory.
    ///
    /// # Panics
    /// When `head_dim` is no multiple of 16.
    pub fn new(shape: SlabShape) -> Result<Self, OutOfMemory> {
        assert!(shape.head_dim.is_multiple_of(16), "head width {} is no multiple of 16", shape.head_dim);
        let halves = shape.blocks.saturating_mul(shape.block_bytes() / 2);
        Ok(Self { shape, halves: AlignedBuf::try_zeroed(halves)? })
    }

    /// What it is cut into.
    pub fn shape(&self) -> &SlabShape {
        &self.shape
    }

    /// Where the page of `head` begins in `block` of `layer`, in halves.
    pub(crate) fn page_at(&self, layer: usize, block: usize, head: usize) -> usize {
        let SlabShape { blocks, heads, .. } = self.shape;
        ((layer * blocks + block) * heads + head) * self.shape.page()
    }
}
