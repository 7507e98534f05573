//! KV-cache blocks as indices: reference counts, and the index by which sequences share a beginning.
//!
//! Never here: the bytes of a block (the engine owns them), unsafe, threads, a clock.
//!
//! - [`blocks`]: which blocks are free, and how many hold each of the others.
//! - [`hash`]: names of full blocks, made from their tokens.
//! - [`prefix`]: blocks found by name, kept while there is room.
//! - [`parking`]: which block of which sequence is where in a parking store.

pub mod blocks;
pub mod hash;
mod lru;
pub mod parking;
pub mod prefix;

pub use blocks::{Blocks, Counts};
pub use hash::{BlockHash, Chain, HashKey};
pub use parking::{Ledger, Move, Parked};
pub use prefix::PrefixCache;

/// Tokens in one block.
pub const BLOCK_TOKENS: usize = 16;

/// Blocks that hold `tokens` tokens.
pub const fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS)
}
