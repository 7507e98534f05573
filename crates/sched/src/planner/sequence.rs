//! One sequence as the planner sees it.

use crate::plan::{Arrival, LogitRows, PlannedSpan, SeqId};
use crate::promise::Deadlines;
use plimsoll_kv::{BLOCK_TOKENS, BlockHash, Parked, PrefixCache, blocks_for};
use std::time::Duration;

/// Where a sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In line for the batch. May hold blocks still, when it comes back from a pause.
    Waiting,
    /// In the batch.
    Active,
    /// Its reader is slow: out of the batch, its blocks kept until others need them.
    Paused,
}

/// Deadlines within so many milliseconds are about the same.
const GROUP: u64 = 32;
/// Who has no deadline stands behind those of its class that have an earlier one than this after its arrival.
const NO_HURRY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) place: Place,
    /// Tokens known: the prompt and what was generated.
    pub(super) len: usize,
    /// Tokens whose K and V are in the cache, from position 0 on.
    pub(super) computed: usize,
    /// Rows from position 0 on whose logits were reported, when all of the prompt's are wanted; the prompt's length
    /// otherwise. Survives preemption, so that nothing is reported twice.
    pub(super) reported: usize,
    /// Blocks from position 0 on.
    pub(super) blocks: Vec<u32>,
    /// The number of the step it last ran in.
    pub(super) last_step: u64,
    pub(super) prompt: usize,
    pub(super) max_len: usize,
    /// The names of its first full blocks, as far as they are known.
    pub(super) names: Vec<BlockHash>,
    /// Blocks, from position 0 on, that others find by name.
    pub(super) published: usize,
    pub(super) fork_of: Option<SeqId>,
    /// Not the first of its request: its first token is in time when that one's is.
    pub(super) is_continuation: bool,
    pub(super) parked: Parked,
    pub(super) fetch: Fetch,
    /// The number of the step it joined the batch in with blocks loaded from the parking store.
    pub(super) loaded_in: u64,
    pub(super) deadlines: Deadlines,
    /// Rows it has in the plan being made, if `last_step` is that of the plan.
    pub(super) planned: usize,
    /// The number of the step in which it last kept a place while it waits for blocks.
    pub(super) visited: u64,
    /// When it had its first token. Later by the time that its reader kept it waiting.
    pub(super) first_at: Option<Duration>,
    /// Its end was predicted to be in time: if it is not, that says something of predictions.
    pub(super) ends_in_time: bool,
    /// It was promised a gap, or an end that leaves it no turns to give away.
    pub(super) is_paced: bool,
    /// Until when it leaves its place to a class that misses its target, while one of that runs.
    pub(super) stands_back: Duration,
    /// How long its reader has kept it waiting since: none of the gaps that were promised.
    pub(super) away: Duration,
    /// Since when its reader has kept it waiting.
    pub(super) paused_at: Duration,
}

/// Lists of a sequence that go to another one when it leaves. Empty in between.
#[derive(Debug, Default)]
pub(super) struct Tables {
    blocks: Vec<u32>,
    parked: Parked,
}

impl Tables {
    /// Room for so many blocks and slots.
    pub(super) fn with_room(blocks: usize, slots: usize) -> Self {
        Self { blocks: Vec::with_capacity(blocks), parked: Parked::with_room(slots) }
    }
}

/// How far parked blocks are on their way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    No,
    /// Those from this one on were asked for.
    Asked(usize),
    /// Those from this one on are at hand.
    Ready(usize),
}

impl Sequence {
    pub(super) fn new(arrival: Arrival, tables: Tables) -> Self {
        let Tables { blocks, parked } = tables;
        debug_assert!(blocks.is_empty() && parked.slots().is_empty());
        // What was predicted is the first token of the request: those of continuations that wait for a place teach nothing.
        let expected = arrival.deadlines.expected.filter(|_| arrival.fork_of.is_none());
        let deadlines = Deadlines { expected, ..arrival.deadlines };
        Self {
            id: arrival.seq,
            place: Place::Waiting,
            len: arrival.prompt,
            computed: 0,
            reported: if arrival.all_logits { 0 } else { arrival.prompt },
            blocks,
            last_step: 0,
            prompt: arrival.prompt,
            max_len: arrival.max_len,
            names: arrival.names,
            published: 0,
            is_continuation: arrival.fork_of.is_some(),
            fork_of: arrival.fork_of.filter(|_| !arrival.all_logits),
            parked,
            fetch: Fetch::No,
            loaded_in: 0,
            deadlines,
            planned: 0,
            visited: 0,
            first_at: None,
            ends_in_time: arrival.deadlines.expected.is_none_or(|expected| expected.ends_in_time),
            is_paced: false,
            stands_back: Duration::ZERO,
            away: Duration::ZERO,
            paused_at: Duration::ZERO,
        }
    }

    /// What is left of a sequence that has nothing any more.
    pub(super) fn into_tables(self) -> (Tables, Vec<BlockHash>) {
        (Tables { blocks: self.blocks, parked: self.parked }, self.names)
    }

    /// Tokens it generated.
    pub(super) const fn generated(&self) -> usize {
        self.len - self.prompt
    }

    /// Where it stands in line: by class, by deadline, and the shorter prompt first of those whose deadlines are about
    /// the same. Never changes, so that whoever had to make way comes back to its old place.
    pub(super) fn urgency(&self) -> impl Ord + use<> {
        let Deadlines { class, arrived, first, last, .. } = self.deadlines;
        // Who has a time for the last token alone must begin well before that; never later than who has none at all.
        let due = first.or(last.filter(|last| *last < arrived + NO_HURRY));
        let (about, size) = match due {
            Some(due) => (Duration::from_millis(due.as_millis() as u64 / GROUP * GROUP), self.prompt.ilog2()),
            None => (arrived + NO_HURRY, 0),
        };
        (class, about, size, due.unwrap_or_default(), self.id)
    }

    /// From when its gaps count: the first token, later by what its reader was away.
    pub(super) fn gaps_since(&self) -> Option<Duration> {
        self.first_at.map(|at| at + self.away)
    }

    /// `now`, less the time that its reader has kept it waiting since the first token.
    pub(super) fn own_time(&self, now: Duration) -> Duration {
        let paused = if self.is(Place::Paused) { now.saturating_sub(self.paused_at) } else { Duration::ZERO };
        now.saturating_sub(self.away + paused)
    }

    /// When it must have its next token, if it was promised any: the first, the next by the mean gap so far, or the last. What
    /// is lost at `now` is due no more; a gap never is, which later ones make good.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        let Deadlines { first, itl, last, .. } = self.deadlines;
        let next = match self.gaps_since() {
            None => first.filter(|&first| first > now && !self.is_continuation),
            Some(since) => itl.map(|itl| since + itl * u32::try_from(self.generated()).unwrap_or(u32::MAX)),
        };
        next.into_iter().chain(last).min()
    }

    /// When its time is up: for its first token, unless it has begun; for its last.
    pub(super) fn ends_by(&self) -> Option<Duration> {
        let has_not_begun = self.last_step == 0 && self.is(Place::Waiting) && !self.is_continuation;
        let first = self.deadlines.first.filter(|_| has_not_begun);
        first.into_iter().chain(self.deadlines.last).min()
    }

    /// Tokens not in the cache when step `step` has been computed.
    pub(super) const fn left_to_compute(&self, step: u64) -> usize {
        let planned = if self.last_step == step { self.planned } else { 0 };
        self.pending().saturating_sub(planned)
    }

    /// Tokens known but not in the cache.
    pub(super) const fn pending(&self) -> usize {
        self.len - self.computed
    }

    pub(super) fn is(&self, place: Place) -> bool {
        self.place == place
    }

    /// In the batch, and behind by no more than the token sampled last.
    pub(super) fn decodes(&self) -> bool {
        self.is(Place::Active) && self.pending() == 1 && self.len > self.prompt
    }

    /// In the batch with more to catch up on.
    pub(super) fn prefills(&self) -> bool {
        self.is(Place::Active) && self.pending() > 0 && !self.decodes()
    }

    /// Blocks it lacks for all tokens it knows.
    pub(super) fn missing_blocks(&self) -> usize {
        blocks_for(self.len).saturating_sub(self.blocks.len())
    }

    /// The names of the blocks it may take from others: the last token it knows is to be computed, since its logits are
    /// wanted, and so are all whose logits were not reported.
    pub(super) fn shareable(&self) -> &[BlockHash] {
        let tokens = if self.reported < self.prompt { self.reported } else { self.len - 1 };
        &self.names[..self.names.len().min(tokens / BLOCK_TOKENS)]
    }

    /// Puts the blocks that are full now into the index, and goes on with those that were there before.
    pub(super) fn publish(&mut self, kv: &mut PrefixCache) {
        let full = self.names.len().min(self.computed / BLOCK_TOKENS);
        for k in self.published..full {
            self.blocks[k] = kv.publish(self.blocks[k], self.names[k]);
        }
        self.published = self.published.max(full);
    }

    /// The next chunk of at most `rows` tokens, at most `logits` of which may ask for logits; `None` when that is none.
    pub(super) fn chunk(&self, rows: usize, logits: usize) -> Option<PlannedSpan> {
        let wants_all = self.computed >= self.reported && self.computed < self.prompt;
        let stop = match () {
            () if wants_all => self.prompt.min(self.computed + logits),
            // Rows reported before a preemption are computed again in silence, up to the first that was not.
            () if self.reported < self.prompt => self.reported,
            () => self.len,
        };
        let end = stop.min(self.computed + rows);
        let logits_mode = match () {
            () if wants_all => LogitRows::All,
            () if end == self.len && logits == 0 => return self.all_but_last(end),
            () if end == self.len => LogitRows::Last,
            () => LogitRows::None,
        };
        self.span(end, logits_mode)
    }

    /// A chunk that stops short of the row whose logits there is no room for.
    fn all_but_last(&self, end: usize) -> Option<PlannedSpan> {
        self.span(end - 1, LogitRows::None)
    }

    fn span(&self, end: usize, logits: LogitRows) -> Option<PlannedSpan> {
        let len = end.checked_sub(self.computed).filter(|&len| len > 0)?;
        Some(PlannedSpan { seq: self.id, start: self.computed, len, logits })
    }

    /// Takes in that `span` was computed, and its next token sampled when it reached the end.
    pub(super) fn advance(&mut self, span: &PlannedSpan) {
        self.computed = span.start + span.len;
        if span.logits == LogitRows::All {
            self.reported = self.computed;
        }
        self.len += usize::from(self.computed == self.len);
    }
}
