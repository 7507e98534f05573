//! Model files to engines: reads GGUF files and Hugging Face folders, packs weights for the kernels, runs steps; turns
//! text to tokens and back; applies chat templates; samples.
//!
//! Never here: HTTP, wire types, threads of its own (the kernels' team computes), scheduling.
//!
//! - [`engine`]: the trait a lane drives: one step of token rows from many sequences.
//! - [`spec`]: a decoder described by data.
//! - [`checkpoint`]: a model on disk, whatever its format.
//! - [`decoder`]: the engine of the llama family.
//! - [`tokenizer`], [`detokenizer`]: text to tokens, and tokens to text as they come.
//! - [`stop`]: strings that end an output.
//! - [`template`]: a chat as one text.
//! - [`rates`]: how fast an engine computes.
//! - [`sampling`]: the next token from a row of logits, and how likely tokens were.

pub mod checkpoint;
pub mod decoder;
pub mod detokenizer;
pub mod engine;
pub mod rates;
pub mod sampling;
pub mod spec;
pub mod stop;
pub mod template;
pub mod tokenizer;
