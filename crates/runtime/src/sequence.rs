//! One continuation of a request, and all of them.

use crate::lent::Lent;
use plimsoll_kv::{BLOCK_TOKENS, BlockHash, Chain};
use plimsoll_model::sampling::{Params, Sampler};
use plimsoll_pool::Reset;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

/// One continuation.
#[derive(Default)]
pub(crate) struct Sequence {
    /// The prompt, and what was generated.
    pub(crate) tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// Most tokens, prompt included.
    pub(crate) max_len: usize,
    /// The names of the prompt's full blocks, for the planner.
    pub(crate) names: Vec<BlockHash>,
    /// Names the blocks after those; `None`: they are not shared.
    pub(crate) chain: Option<Chain>,
    pub(crate) sampler: Sampler,
    pub(crate) first_token: Option<Instant>,
    pub(crate) last_token: Option<Instant>,
    pub(crate) is_done: bool,
}

/// Tokens that a sequence keeps room for when it goes back to its pool.
const KEPT: usize = 32 << 10;

impl Reset for Sequence {
    fn reset(&mut self) {
        self.tokens.clear();
        self.tokens.shrink_to(KEPT);
        self.names.clear();
        self.names.shrink_to(KEPT / BLOCK_TOKENS);
        self.sampler.restart(Params::default());
        (self.prompt, self.max_len, self.is_done) = Default::default();
        (self.chain, self.first_token, self.last_token) = (None, None, None);
    }

    fn poison(&mut self) {
        // Where there is room: a lane allocates nothing, in debug builds either.
        if self.tokens.len() < self.tokens.capacity() {
            self.tokens.push(u32::MAX);
        }
        if self.names.len() < self.names.capacity() {
            self.names.push(BlockHash(u128::MAX));
        }
        (self.prompt, self.max_len, self.is_done) = (usize::MAX, usize::MAX, true);
        (self.first_token, self.last_token) = (Some(Instant::now()), Some(Instant::now()));
    }

    fn is_clean(&self) -> bool {
        let is_empty = self.tokens.is_empty() && self.names.is_empty() && self.chain.is_none();
        let is_new = self.first_token.is_none() && self.last_token.is_none();
        is_empty && is_new && (self.prompt, self.max_len, self.is_done) == (0, 0, false)
    }

    fn shrink(&mut self) {
        *self = Self::default();
    }
}

impl Sequence {
    /// Adds a generated token. Returns the name of the block that it fills.
    pub(crate) fn push(&mut self, token: u32) -> Option<BlockHash> {
        self.tokens.push(token);
        match self.tokens.as_rchunks() {
            ([], [.., block]) => self.chain.as_mut().map(|chain| chain.block(block)),
            _ => None,
        }
    }
}

/// The continuations of a request.
#[derive(Default)]
pub(crate) struct Sequences(Vec<Lent<Sequence>>);

impl Deref for Sequences {
    type Target = Vec<Lent<Sequence>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Sequences {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Reset for Sequences {
    fn reset(&mut self) {
        self.0.clear();
    }

    fn is_clean(&self) -> bool {
        self.0.is_empty()
    }

    fn shrink(&mut self) {
        self.0 = Vec::new();
    }
}
