//! KV-cache blocks as indices: allocation and reference counts.
//!
//! Never here: the bytes of a block (the engine owns them), unsafe, threads, a clock.
//!
//! - [`Blocks`]: which blocks are free, and how many hold each of the others.

mod blocks;

pub use blocks::{Blocks, Counts};

/// Tokens in one block.
pub const BLOCK_TOKENS: usize = 16;

/// Blocks that hold `tokens` tokens.
pub const fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS)
}
