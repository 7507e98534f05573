//! What a lane drives: an engine that computes one step over token rows of many sequences.

/// Tokens in a KV block.
pub const BLOCK_TOKENS: usize = 16;

/// The sizes an engine was built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Vocabulary size: the length of a row of logits.
    pub vocab: usize,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// KV blocks in the slab, each [`BLOCK_TOKENS`] tokens.
    pub blocks: usize,
    /// Most token rows in one step.
    pub max_rows: usize,
    /// Most rows of one step that may ask for logits.
    pub max_logits: usize,
}

/// Which rows of a span want logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logits {
    /// None: a prefill chunk that is not the last.
    None,
    /// The last row: the next token is wanted.
    Last,
    /// Every row: the prompt's own log-probabilities are wanted.
    All,
}

/// Consecutive tokens of one sequence in a step: a prefill chunk, or one decoded token.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// The tokens, at least one.
    pub tokens: &'a [u32],
    /// Position of the first token in its sequence; everything before it is in the KV cache.
    pub start: usize,
    /// The sequence's KV blocks from position 0, enough for `start + tokens.len()`.
    pub blocks: &'a [u32],
    /// Which rows want logits.
    pub logits: Logits,
}

/// A step that could not be computed. The sequences in it are lost, the engine is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("engine step: {0}")]
pub struct StepError(pub String);

/// Computes steps. One thread owns it. A sequence's numbers do not depend on what else is in the step, nor on how its
/// prompt was cut into spans.
pub trait Engine: Send {
    /// The sizes it was built with.
    fn shape(&self) -> &Shape;

    /// Computes one step: writes K and V of all rows into their blocks, and the logits that were asked for.
    ///
    /// # Errors
    /// When the spans break the limits of [`Shape`] or name a token outside the vocabulary.
    fn step(&mut self, spans: &[Span<'_>]) -> Result<(), StepError>;

    /// The `row`-th row of logits of the last step, counted over its spans in order. Length: `vocab`. May be changed
    /// in place (penalties, bias).
    fn logits(&mut self, row: usize) -> &mut [f32];

    /// These tokens will be in the next step: whatever it needs to know of them may be brought near while others are still
    /// chosen. An engine that cannot does nothing.
    fn touch(&mut self, tokens: &[u32]) {
        let _tokens = tokens;
    }

    /// Forgets whatever a panic may have left half done. KV blocks of sequences that were not in the failed step stay
    /// valid.
    fn recover(&mut self);

    /// Bytes of a saved block.
    fn block_bytes(&self) -> usize;

    /// Gives the memory of these blocks back to the system, which nobody holds, until they are written to again. Returns
    /// how many bytes that was, as far as whole pages lie in them. An engine that cannot does nothing.
    fn release_blocks(&mut self, blocks: &[u32]) -> usize {
        let _blocks = blocks;
        0
    }

    /// Copies the K and V of block `from` to block `to`: a sequence that shared it is about to write its own.
    fn copy_block(&mut self, from: u32, to: u32);

    /// Writes the K and V of a block to `to`, which is [`Engine::block_bytes`] long.
    fn save_block(&self, block: u32, to: &mut [u8]);

    /// Reads what [`Engine::save_block`] wrote into any block: its sequence goes on exactly as if it had never left.
    fn load_block(&mut self, block: u32, from: &[u8]);
}
