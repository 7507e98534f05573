//! Which sequences run in the next step.
//!
//! `sequences` is kept in the order of arrival, and `line` has them by urgency: class, then deadline, then arrival. Every
//! decision walks the line from its head. A sequence that lost its blocks or comes back from a pause keeps its place in
//! line. A sequence is as long as the tokens it knows, and what is not in the cache is prefilled, whether it was ever
//! there or not. Since numbers do not depend on how a prompt is cut, its text goes on as if nothing had happened. Where
//! moving blocks is predicted to cost less than computing them again, they are parked and come back.
//!
//! The same beginning is computed once: a full block is found by its name from the step after it was computed on, and
//! who needs a block that is being computed keeps a place in the batch and waits for it.
//!
//! Why everybody finishes: what could never fit is refused at the door, the first in line may take blocks from all
//! others, decodes take turns when not all of them fit a step, and every class keeps some places and prefill time.
//!
//! - `take_in`: what happened. `line`: the order, whose time is up, who makes way. `admit`: places and blocks. `fill`: rows of the step.
//! - `park`: blocks that are saved. `track`: what is learned. `publish`: what the gate is told.

mod admit;
mod fill;
mod line;
mod park;
mod publish;
mod sequence;
mod take_in;
mod track;

use crate::cost::CostModel;
use crate::limits::Limits;
use crate::load::Load;
use crate::plan::{Event, Moves, Plan, PlannedSpan, SeqId, Switch};
use crate::promise::Class;
use crate::queue_limit::QueueLimit;
use crate::snapshot::{Rate, Snapshot};
use plimsoll_kv::{BLOCK_TOKENS, BlockHash, Counts, Ledger, Move, PrefixCache, blocks_for};
use sequence::{Place, Sequence, Tables};
use std::sync::Arc;
use std::time::Duration;
use track::Track;

/// Plans the steps of one lane. It owns the ledger of KV blocks; the engine owns their bytes.
#[derive(Debug)]
pub struct Planner {
    limits: Limits,
    cost: CostModel,
    kv: PrefixCache,
    ledger: Ledger,
    /// What becomes of parked blocks, until the plan takes it in.
    moves: Moves,
    /// Moves of one sequence, while they are being made out.
    moving: Vec<Move>,
    /// Oldest first.
    sequences: Vec<Sequence>,
    /// Indices into `sequences`, the most urgent first. Made anew with every plan.
    line: Vec<usize>,
    /// Places of the batch that each class has, and since when it had none while it waits.
    places: [usize; Class::COUNT],
    ran_at: [Duration; Class::COUNT],
    is_starved: [bool; Class::COUNT],
    /// Sequences of the batch that were promised nothing, by class.
    loose: [usize; Class::COUNT],
    track: Track,
    queue: QueueLimit,
    tracked_at: Duration,
    /// When the plan is made.
    now: Duration,
    /// What the step is cut to, and the mean step that those with a promised gap or end bear, in seconds.
    budget: Duration,
    tightest: f64,
    /// Somebody in the batch was promised a gap, or an end that is near.
    has_promise: bool,
    predicted: Duration,
    /// The spans of the plan being computed.
    in_step: Vec<PlannedSpan>,
    load: Load,
    step: u64,
    /// Emptied tables of sequences that left, to be filled again.
    spare: Vec<Tables>,
    /// Emptied lists of names, likewise.
    spare_names: Vec<Vec<BlockHash>>,
    /// Indices into `sequences`, while decodes are being put in order.
    order: Vec<usize>,
    /// Per block: holders seen while idle ones are being counted. Zero otherwise.
    seen: Vec<u32>,
    /// Sequences that left, and the tokens they held.
    left: (Rate, Rate),
    snapshot: Arc<Snapshot>,
}

impl Planner {
    /// A planner with nothing to do.
    ///
    /// # Panics
    /// When the limits contradict each other.
    pub fn new(limits: Limits, cost: CostModel, snapshot: Arc<Snapshot>) -> Self {
        assert!(limits.max_seqs > 0, "a batch of no sequences never ends");
        assert!(limits.max_seqs <= limits.max_rows, "every sequence of the batch decodes one row");
        assert!(limits.max_seqs <= limits.max_logits, "every sequence of the batch needs one row of logits");
        let mut planner = Self {
            limits,
            cost,
            kv: PrefixCache::new(limits.blocks),
            ledger: Ledger::new(limits.park_blocks),
            moves: Moves::default(),
            moving: Vec::with_capacity(limits.blocks),
            sequences: Vec::new(),
            line: Vec::new(),
            places: [0; Class::COUNT],
            ran_at: [Duration::ZERO; Class::COUNT],
            is_starved: [false; Class::COUNT],
            loose: [0; Class::COUNT],
            track: Track::new(limits.quantile),
            queue: QueueLimit::new(limits.queue, u32::try_from(limits.max_seqs).unwrap_or(u32::MAX)),
            tracked_at: Duration::ZERO,
            now: Duration::ZERO,
            budget: limits.step_budget,
            tightest: f64::INFINITY,
            has_promise: false,
            predicted: Duration::ZERO,
            in_step: Vec::with_capacity(limits.max_seqs),
            load: Load::default(),
            step: 0,
            spare: Vec::new(),
            spare_names: Vec::new(),
            order: Vec::with_capacity(limits.max_seqs),
            seen: vec![0; limits.blocks],
            left: Default::default(),
            snapshot,
        };
        planner.set_budget(Duration::ZERO);
        planner.publish(Duration::ZERO);
        planner.publish_occupancy();
        planner.snapshot.set_queue_limit(limits.queue.configured);
        planner
    }

    /// Makes room for `sequences` at once and for the plans they lead to, so that planning will not allocate.
    pub fn reserve(&mut self, sequences: usize, plan: &mut Plan) {
        let Limits { max_seqs, blocks, park_blocks, .. } = self.limits;
        let longest = blocks_for(self.longest());
        self.sequences.reserve(sequences);
        self.line.reserve(sequences);
        self.order.reserve(sequences);
        self.in_step.reserve(max_seqs);
        self.spare.extend(
            (0..sequences).map(|_| Tables::with_room(longest, if park_blocks > 0 { longest } else { 0 })),
        );
        self.spare_names.extend((0..sequences).map(|_| Vec::with_capacity(longest)));
        self.moves.reserve(sequences, blocks, park_blocks);
        plan.reserve(sequences, &self.limits);
    }

    /// An empty list for the names of a sequence that is to arrive: one that came back from a sequence that left.
    pub fn spare_names(&mut self) -> Vec<BlockHash> {
        self.spare_names.pop().unwrap_or_default()
    }

    /// The longest sequence that can ever run, in tokens. Longer ones must not arrive.
    pub fn longest(&self) -> usize {
        self.limits.context.min(self.limits.blocks * BLOCK_TOKENS)
    }

    /// Takes in what happened up to `now` (since the lane started) and decides what runs next, into `plan`.
    pub fn step(&mut self, now: Duration, events: impl IntoIterator<Item = Event>, plan: &mut Plan) {
        plan.clear();
        for event in events {
            self.take_in(now, event);
        }
        self.expire(now, plan);
        self.now = now;
        self.in_step.clear();
        self.step += 1;
        self.line_up(now);
        self.set_budget(now);
        self.make_way(now, plan);
        self.reserve_decodes(plan);
        self.admit(plan);
        self.fetch_ahead(plan);
        self.fill(plan);
        plan.moves.discards.append(&mut self.moves.discards);
        plan.moves.fetched.append(&mut self.moves.fetched);
        self.in_step.extend_from_slice(&plan.spans);
        self.predicted = if plan.spans.is_empty() { Duration::ZERO } else { self.cost.predict(self.load) };
        plan.predicted = self.predicted;
        let planned = plan.spans.iter().filter_map(|span| self.sequences[self.find(span.seq)?].due(now));
        plan.due = planned.min();
        plan.wake = if plan.spans.is_empty() { self.next_expiry() } else { None };
        self.publish(now);
        let (sequences, tokens) = &mut self.left;
        let (sequences, tokens) = (sequences.per_second(now), tokens.per_second(now));
        self.snapshot.set_rates(sequences, tokens);
        self.snapshot.set_queue_limit(self.queue.at(now, sequences));
        self.publish_occupancy();
    }

    /// The blocks of a sequence from position 0 on, enough for its span in the last plan; empty when it is unknown.
    pub fn blocks(&self, seq: SeqId) -> &[u32] {
        self.find(seq).map_or(&[], |i| &self.sequences[i].blocks)
    }

    /// Blocks by state.
    pub const fn block_counts(&self) -> Counts {
        self.kv.counts()
    }

    /// The slots of a sequence in the parking store, from position 0 on; empty when it has none.
    pub fn slots(&self, seq: SeqId) -> &[u32] {
        self.find(seq).map_or(&[], |i| self.sequences[i].parked.slots())
    }

    /// Slots of the parking store that are taken.
    pub const fn parked_blocks(&self) -> usize {
        self.ledger.used()
    }

    /// Gives up to `blocks` up that are kept for their contents alone. Returns how many.
    pub fn shed(&mut self, blocks: usize) -> usize {
        self.kv.shed(blocks)
    }

    /// Free blocks whose bytes take memory of the system's.
    pub const fn warm(&self) -> usize {
        self.kv.warm()
    }

    /// Up to `blocks` free blocks whose memory the caller gives back to the system, until they are written to again.
    pub fn cool(&mut self, blocks: usize) -> &[u32] {
        self.kv.cool(blocks)
    }

    /// Sequences waiting, running and paused, together.
    pub const fn live(&self) -> usize {
        self.sequences.len()
    }

    /// What is in force of what can be switched.
    pub const fn in_force(&self) -> [Switch; 3] {
        let Limits { park_ahead, step_budget, .. } = self.limits;
        [Switch::Queue(self.queue.policy()), Switch::ParkAhead(park_ahead), Switch::StepBudget(step_budget)]
    }

    /// The cost model as it has been corrected so far.
    pub const fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Checks that every block is free, kept or held by sequences, that nobody writes to what others read, and that no
    /// bound is passed. For tests.
    ///
    /// # Panics
    /// When that is not so.
    pub fn assert_sound(&self) {
        self.kv.assert_balance(self.sequences.iter().flat_map(|s| s.blocks.iter().copied()));
        self.ledger.assert_balance(self.sequences.iter().map(|s| &s.parked));
        assert!(self.count(Place::Active) <= self.limits.max_seqs, "the batch is too large");
        assert!(self.sequences.is_sorted_by(|a, b| a.id < b.id), "out of order");
        for s in &self.sequences {
            assert!(s.computed <= s.blocks.len() * BLOCK_TOKENS, "{:?} has too few blocks", s.id);
            assert!(s.computed <= s.len, "{:?} computed what it does not know", s.id);
            for &block in s.blocks.iter().skip(s.computed / BLOCK_TOKENS) {
                assert_eq!(self.kv.holders(block), 1, "{:?} is to write to block {block}", s.id);
            }
        }
    }

    fn find(&self, seq: SeqId) -> Option<usize> {
        self.sequences.binary_search_by_key(&seq, |s| s.id).ok()
    }

    fn count(&self, place: Place) -> usize {
        self.sequences.iter().filter(|s| s.is(place)).count()
    }

    fn publish_occupancy(&self) {
        let waiting = self.count(Place::Waiting);
        self.snapshot.set_occupancy(waiting, self.sequences.len() - waiting, self.kv.available());
    }
}
