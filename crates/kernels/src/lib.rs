//! SIMD linear algebra on quantized weights, and the team of threads that runs it: everything a decoder step computes.
//!
//! Never here: model files, sequences, sampling, allocation in a hot call.
//!
//! Each operation is a method of [`Compute`] that works on all rows of a step and returns when all threads are done.
//! It is written once over a small set of vector instructions (`simd`) and compiled for each instruction set ([`Isa`]).
//! **Batch-invariant**: a row's numbers do not depend on the rows beside it, on how many threads there are, or on which
//! of them computes it. Numbers do differ in their last bits from one instruction set to another.
//!
//! - [`team`]: the threads. [`isa`]: which instructions. [`matrix`]: packed weights. [`activations`]: their inputs.
//! - [`embed`], [`product`] (over `tile`: `quantized`, `floats`), [`norm`], [`rope`], [`attention`] (over `segment`): the operations.
//! - [`slab`]: the bytes of the KV cache. [`softmax`]: the weights that sampling draws from.

#![expect(
    clippy::needless_range_loop,
    reason = "tiles of registers are indexed by row and column, like the matrices they are"
)]

pub mod activations;
mod ahead;
pub mod attention;
mod compute;
pub mod embed;
mod floats;
pub mod isa;
pub mod matrix;
pub mod norm;
pub mod product;
mod quantized;
pub mod rope;
mod segment;
mod shared;
mod simd;
pub mod slab;
pub mod softmax;
pub mod team;
mod tile;

pub use activations::Activations;
pub use attention::{AttentionPlan, Query};
pub use compute::{Compute, Prefetch};
pub use isa::Isa;
pub use matrix::{Matrix, Packed, Stored};
pub use product::{Activation, Product};
pub use rope::Heads;
pub use slab::{KvType, Slab, SlabShape, Slot};
pub use team::Team;
