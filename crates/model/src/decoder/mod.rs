//! The decoder of the llama family: an [`Engine`] over packed weights, described by a
//! [`DecoderSpec`](crate::spec::DecoderSpec).
//!
//! - [`Options`], [`Decoder::load`]: how large, and from which checkpoint. `weights` packs them.
//! - `rope`: frequencies by the spec's scaling. `step`: one step, layer by layer.

mod error;
mod load;
mod rope;
mod step;
mod weights;

pub use error::LoadError;
pub use load::{Options, kv_block_bytes};

use crate::engine::{Engine, Shape, Span, StepError};
use crate::spec::DecoderSpec;
use plimsoll_kernels::{Compute, Slab};
use plimsoll_pool::AlignedBuf;
use rope::Frequencies;
use std::sync::{Arc, Mutex, PoisonError};
use step::Buffers;
use weights::Weights;

/// What computes, shared by the engines of one process: a step holds it from beginning to end.
pub type SharedCompute = Arc<Mutex<Compute>>;

/// A decoder with its weights, its KV cache, and room for one step.
pub struct Decoder {
    compute: SharedCompute,
    spec: DecoderSpec,
    shape: Shape,
    weights: Weights,
    frequencies: Frequencies,
    slab: Slab,
    buffers: Buffers,
    logits: AlignedBuf<f32>,
}

impl Decoder {
    /// What it computes.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// Bytes of its packed weights.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Bytes of its KV cache.
    pub fn kv_bytes(&self) -> usize {
        self.shape.blocks * self.slab.shape().block_bytes()
    }
}

impl Engine for Decoder {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn step(&mut self, spans: &[Span<'_>]) -> Result<(), StepError> {
        self.buffers.lay_out(spans, &self.shape, &self.frequencies)?;
        // A panic in an earlier step left nothing half done that a step does not write anew.
        let mut compute = self.compute.lock().unwrap_or_else(PoisonError::into_inner);
        self.buffers.compute(&mut compute, &self.spec, &self.weights, &mut self.slab, &mut self.logits);
        Ok(())
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        let vocab = self.shape.vocab;
        &mut self.logits[row * vocab..][..vocab]
    }

    fn touch(&mut self, tokens: &[u32]) {
        // Another model's step may have the threads: what is not needed is not waited for.
        if let Ok(compute) = self.compute.try_lock() {
            compute.touch(&self.weights.embedding, tokens);
        }
    }

    fn recover(&mut self) {}

    fn block_bytes(&self) -> usize {
        self.slab.shape().block_bytes()
    }

    fn release_blocks(&mut self, blocks: &[u32]) -> usize {
        self.slab.release_blocks(blocks)
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        self.slab.copy_block(from as usize, to as usize);
    }

    fn save_block(&self, block: u32, to: &mut [u8]) {
        self.slab.save_block(block as usize, to);
    }

    fn load_block(&mut self, block: u32, from: &[u8]) {
        self.slab.load_block(block as usize, from);
    }
}
