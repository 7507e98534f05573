//! What goes into the planner and comes out of it.

use crate::limits::Limits;
use crate::promise::Deadlines;
use crate::queue_limit::QueuePolicy;
use plimsoll_kv::{BlockHash, Move};
use std::time::Duration;

/// A sequence, numbered in the order of arrival: a smaller one is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

/// A sequence that asks to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Larger than every earlier one.
    pub seq: SeqId,
    /// Tokens of its prompt, at least 1.
    pub prompt: usize,
    /// Most tokens it may grow to, prompt included.
    pub max_len: usize,
    /// Whether logits of all prompt rows are wanted, not only of the last.
    pub all_logits: bool,
    /// The names of the prompt's full blocks, by which it shares them with others; empty: it shares none. Room for the
    /// names of what it generates spares the planner an allocation.
    pub names: Vec<BlockHash>,
    /// The first sequence of its request, which has the same prompt. Its blocks are taken over when it has computed them
    /// (unless all logits are wanted), and it alone has the deadline of the first token to keep.
    pub fork_of: Option<SeqId>,
    /// When it must have what.
    pub deadlines: Deadlines,
}

/// A policy of a lane that another one takes over from while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// How many may wait. What the gate lets in at once must cover the most that it comes to.
    Queue(QueuePolicy),
    /// Sequences whose parked blocks are asked for before it is their turn.
    ParkAhead(usize),
    /// What a step is cut to by prediction.
    StepBudget(Duration),
}

/// What happened since the last plan.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What was fetched for it from the parking store is at hand.
    Fetched(SeqId),
    /// The parking store does not have what it was given of it, or cannot say. It is computed again. When that shows at
    /// a load of the last plan, the spans of that plan must not be computed.
    ParkLost(SeqId),
    /// Generated tokens filled another block of a sequence, which is to be shared by this name.
    Filled(SeqId, BlockHash),
    /// A policy takes over.
    Switched(Switch),
    /// The last plan was computed, and one token sampled for each of its spans that asked for the last row's logits.
    StepDone {
        /// How long it took.
        elapsed: Duration,
    },
    /// The spans of the last plan were not computed. Their sequences stay as they were; whoever must not go on is
    /// cancelled as well, and so is whoever was to have a block moved to it that may not be there.
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

/// A sequence joined the batch with the first tokens of what it knows in the cache already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Which.
    pub seq: SeqId,
    /// How many tokens need not be computed, because another sequence did.
    pub shared: usize,
    /// How many of the next ones come back from the parking store.
    pub restored: usize,
}

/// A block to be copied before the step: it is shared, and the sequence is about to write to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCopy {
    /// Whose.
    pub seq: SeqId,
    /// The shared block.
    pub from: u32,
    /// The sequence's own.
    pub to: u32,
}

/// A block that goes to the parking store or comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parking {
    /// Whose.
    pub seq: SeqId,
    /// The block in the slab and the slot in the store.
    pub at: Move,
}

/// What the lane does with blocks before it computes, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moves {
    /// Slots of the parking store whose contents nobody wants any more.
    pub discards: Vec<u32>,
    /// Blocks to be saved. Should the store have no room, [`Event::ParkLost`].
    pub saves: Vec<Parking>,
    /// Blocks to be loaded.
    pub loads: Vec<Parking>,
    /// Blocks to be copied.
    pub copies: Vec<BlockCopy>,
    /// Sequences that need nothing of what was fetched for them any more.
    pub fetched: Vec<SeqId>,
    /// Sequences whose slots, from this block on, are wanted at hand soon: [`Event::Fetched`] or [`Event::ParkLost`]
    /// is to follow.
    pub fetches: Vec<(SeqId, usize)>,
}

/// What runs in the next step. Reused from step to step, so that planning does not allocate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What happens to blocks before anything is computed, also when there is nothing to compute.
    pub moves: Moves,
    /// Decodes first, then prefill chunks. Empty: nothing can run now.
    pub spans: Vec<PlannedSpan>,
    /// Sequences whose blocks were taken away; they wait, and what the cache no longer has is computed again. Their
    /// tokens, generated ones included, stay as they are.
    pub preempted: Vec<SeqId>,
    /// Sequences that joined the batch without blocks of their own.
    pub starts: Vec<Start>,
    /// Sequences whose time was up. The planner has forgotten them.
    pub expired: Vec<SeqId>,
    /// How long the step should take.
    pub predicted: Duration,
    /// When the first of the step's sequences must have its next token to keep what it was promised, if any can still keep it: by
    /// this, models that share cores take turns.
    pub due: Option<Duration>,
    /// When to plan again though nothing happens: somebody's time is up then.
    pub wake: Option<Duration>,
}

impl Moves {
    /// Room for what a step may move, with so many sequences at once.
    pub(crate) fn reserve(&mut self, sequences: usize, blocks: usize, park_blocks: usize) {
        let parked = blocks.min(park_blocks);
        self.discards.reserve(park_blocks);
        self.saves.reserve(parked);
        self.loads.reserve(parked);
        self.copies.reserve(sequences);
        self.fetched.reserve(2 * sequences);
        self.fetches.reserve(sequences);
    }
}

impl Plan {
    /// Room for the plans of a planner with so many sequences at once.
    pub(crate) fn reserve(&mut self, sequences: usize, limits: &Limits) {
        self.moves.reserve(sequences, limits.blocks, limits.park_blocks);
        self.spans.reserve(limits.max_seqs);
        self.preempted.reserve(sequences);
        self.starts.reserve(sequences);
        self.expired.reserve(sequences);
    }

    /// Empties it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        let Moves { discards, saves, loads, copies, fetched, fetches } = &mut self.moves;
        discards.clear();
        saves.clear();
        loads.clear();
        copies.clear();
        fetched.clear();
        fetches.clear();
        self.spans.clear();
        self.preempted.clear();
        self.starts.clear();
        self.expired.clear();
        (self.due, self.wake) = (None, None);
    }
}
