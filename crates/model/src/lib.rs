//! Model files to engines: reads GGUF files and Hugging Face folders, packs weights for the kernels, runs steps; turns
//! text to tokens and back; applies chat templates; samples.
//!
//! Never here: HTTP, wire types, threads of its own (the kernels' team computes), scheduling.
//!
//! - [`engine`]: the trait a lane drives: one step of token rows from many sequences.
//! - [`spec`]: a decoder described by data.
//! - [`checkpoint`]: a model on disk, whatever its format.

pub mod checkpoint;
pub mod engine;
pub mod spec;
