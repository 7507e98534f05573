//! What a lane has.

use crate::queue_limit::QueueRule;
use std::time::Duration;

/// What a step and a batch may hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Most sequences in the batch.
    pub max_seqs: usize,
    /// Most token rows in a step; at least `max_seqs`.
    pub max_rows: usize,
    /// Most rows of logits in a step; at least `max_seqs`.
    pub max_logits: usize,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// KV blocks in the slab.
    pub blocks: usize,
    /// What a step is cut to by prediction. One decode and one row of prefill always run, however long they take.
    pub step_budget: Duration,
    /// Blocks that the parking store holds; 0: there is none.
    pub park_blocks: usize,
    /// How long it takes to move a block there or back.
    pub park_move: Duration,
    /// Sequences whose parked blocks are asked for before it is their turn.
    pub park_ahead: usize,
    /// Share of the requests that must have what they were promised.
    pub quantile: f64,
    /// How many may wait for the batch.
    pub queue: QueueRule,
}
