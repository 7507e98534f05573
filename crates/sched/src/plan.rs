//! What goes into the planner and comes out of it.

use std::time::Duration;

/// A sequence, numbered in the order of arrival: a smaller one is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

/// A sequence that asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Larger than every earlier one.
    pub seq: SeqId,
    /// Tokens of its prompt, at least 1.
    pub prompt: usize,
    /// Most tokens it may grow to, prompt included.
    pub max_len: usize,
    /// Whether logits of all prompt rows are wanted, not only of the last.
    pub all_logits: bool,
}

/// What happened since the last plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A sequence asks to run.
    Arrived(Arrival),
    /// Its client left, or its step failed: all it has is freed. Unknown sequences are ignored.
    Cancelled(SeqId),
    /// It is complete.
    Finished(SeqId),
    /// Its token ring is full: others go on without it.
    Paused(SeqId),
    /// Its token ring has room again.
    Resumed(SeqId),
    /// The last plan was computed, and one token sampled for each of its spans that asked for the last row's logits.
    StepDone {
        /// How long it took.
        elapsed: Duration,
    },
    /// The last plan was not computed. Its sequences stay as they were; whoever must not go on is cancelled as well.
    StepFailed,
}

/// Which rows of a span want logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitRows {
    /// None: a prefill chunk that is not the last.
    None,
    /// The last: the next token is wanted.
    Last,
    /// All: the prompt's own log-probabilities are wanted.
    All,
}

/// Consecutive tokens of one sequence, to be computed in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedSpan {
    /// Whose.
    pub seq: SeqId,
    /// Position of the first token.
    pub start: usize,
    /// How many, at least 1.
    pub len: usize,
    /// Which of them want logits.
    pub logits: LogitRows,
}

impl PlannedSpan {
    /// Rows of logits it asks for.
    pub const fn logit_rows(&self) -> usize {
        match self.logits {
            LogitRows::None => 0,
            LogitRows::Last => 1,
            LogitRows::All => self.len,
        }
    }
}

/// What runs in the next step. Reused from step to step, so that planning does not allocate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Decodes first, then prefill chunks. Empty: nothing can run now.
    pub spans: Vec<PlannedSpan>,
    /// Sequences whose blocks were taken away; they wait, and will be computed again from position 0. Their tokens,
    /// generated ones included, stay as they are.
    pub preempted: Vec<SeqId>,
    /// How long the step should take.
    pub predicted: Duration,
}
