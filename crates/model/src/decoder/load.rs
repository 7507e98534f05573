//! From a checkpoint to a decoder.

use super::error::LoadError;
use super::rope::Frequencies;
use super::step::Buffers;
use super::weights::Weights;
use super::{Decoder, SharedCompute};
use crate::checkpoint::Checkpoint;
use crate::engine::{BLOCK_TOKENS, Shape};
use crate::spec::DecoderSpec;
use plimsoll_kernels::rope::MAX_HEAD;
use plimsoll_kernels::{KvType, Slab, SlabShape};
use plimsoll_pool::AlignedBuf;
use std::sync::PoisonError;

/// How large a decoder is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Longest sequence, in tokens.
    pub context: usize,
    /// KV blocks, see [`kv_block_bytes`].
    pub blocks: usize,
    /// Most sequences in a step.
    pub max_seqs: usize,
    /// Most token rows in a step.
    pub max_rows: usize,
    /// How keys and values are stored.
    pub kv: KvType,
}

/// Bytes of a KV block (16 tokens, all layers) of a decoder.
pub fn kv_block_bytes(spec: &DecoderSpec, kv: KvType) -> usize {
    slab_shape(spec, 1, kv).block_bytes()
}

fn slab_shape(spec: &DecoderSpec, blocks: usize, stored: KvType) -> SlabShape {
    SlabShape { layers: spec.layers, blocks, heads: spec.kv_heads, head_dim: spec.head_dim, stored }
}

impl Decoder {
    /// Reads and packs the weights of `checkpoint`, and makes room for its cache and steps. `progress` is told the bytes
    /// of weights read so far and in all.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, wants what is not supported, or there is no memory.
    pub fn load(
        checkpoint: &dyn Checkpoint,
        compute: SharedCompute,
        options: &Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LoadError> {
        let spec = checkpoint.spec().clone();
        supported(checkpoint, options.kv)?;
        let weights = Weights::load(checkpoint, progress)?;
        let shape = Shape {
            vocab: spec.vocab,
            context: options.context,
            blocks: options.blocks,
            max_rows: options.max_rows,
            max_logits: options.max_seqs.max(MIN_LOGITS),
        };
        let slab = slab_shape(&spec, shape.blocks, options.kv);
        let slab = Slab::new(slab).map_err(|refused| LoadError::Memory { bytes: refused.bytes })?;
        let buffers = {
            let mut compute = compute.lock().unwrap_or_else(PoisonError::into_inner);
            Buffers::new(&mut compute, &spec, &shape, options.max_seqs, (&weights, &slab))
        };
        let logits = AlignedBuf::zeroed(shape.max_logits * shape.vocab);
        let frequencies = Frequencies::new(&spec.rope);
        Ok(Self { compute, spec, shape, weights, frequencies, slab, buffers, logits })
    }
}

/// Rows of logits there is room for even if few sequences run: a prompt's own log-probabilities come in such pieces.
const MIN_LOGITS: usize = 16;

/// Whether the kernels compute such a decoder.
fn supported(checkpoint: &dyn Checkpoint, kv: KvType) -> Result<(), LoadError> {
    let DecoderSpec { width, ffn, heads, head_dim, rope, .. } = checkpoint.spec();
    let refuse = |what| Err(LoadError::Unsupported { title: checkpoint.title().to_owned(), what });
    for (name, value) in
        [("width", *width), ("feed-forward width", *ffn), ("heads times head width", heads * head_dim)]
    {
        if !value.is_multiple_of(32) {
            return refuse(format!("{name} {value} is no multiple of 32, which the kernels need"));
        }
    }
    if !head_dim.is_multiple_of(BLOCK_TOKENS) || *head_dim > MAX_HEAD {
        return refuse(format!("head width {head_dim}: multiples of 16 up to {MAX_HEAD} are supported"));
    }
    if !head_dim.is_multiple_of(kv.head_step()) {
        return refuse(format!(
            "head width {head_dim}: a {kv:?} cache takes multiples of 32; use an F16 one"
        ));
    }
    if !rope.dim.is_multiple_of(2) || rope.dim > *head_dim {
        return refuse(format!(
            "{} rotary dimensions in heads of {head_dim}: even, and no more, is supported",
            rope.dim
        ));
    }
    Ok(())
}
