//! Which sequences run in the next step.
//!
//! First come, first served: `sequences` is kept in the order of arrival, and every decision walks it from the oldest
//! on. A sequence that lost its blocks or comes back from a pause keeps its number, so it stands before all that came
//! later. Preemption is by recomputation: a sequence is as long as the tokens it knows, and what is not in the cache is
//! prefilled, whether it was ever there or not. Since numbers do not depend on how a prompt is cut, its text goes on as
//! if nothing had happened.
//!
//! Why everybody finishes: what could never fit is refused at the door, the oldest sequence of the batch may take
//! blocks from all others, and decodes take turns when not all of them fit a step.

mod sequence;

use crate::cost::{CostModel, Load};
use crate::plan::{Arrival, Event, Plan, PlannedSpan, SeqId};
use crate::snapshot::{Rate, Snapshot};
use plimsoll_kv::{BLOCK_TOKENS, Blocks, Counts, blocks_for};
use sequence::{Place, Sequence};
use std::sync::Arc;
use std::time::Duration;

/// What a step and a batch may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// Plans the steps of one lane. It owns the ledger of KV blocks; the engine owns their bytes.
#[derive(Debug)]
pub struct Planner {
    limits: Limits,
    cost: CostModel,
    blocks: Blocks,
    /// Oldest first.
    sequences: Vec<Sequence>,
    /// The spans of the plan being computed.
    in_step: Vec<PlannedSpan>,
    load: Load,
    step: u64,
    /// Emptied block tables, to be filled again.
    spare: Vec<Vec<u32>>,
    /// Indices into `sequences`, while decodes are being put in order.
    order: Vec<usize>,
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
        let planner = Self {
            limits,
            cost,
            blocks: Blocks::new(limits.blocks),
            sequences: Vec::new(),
            in_step: Vec::with_capacity(limits.max_seqs),
            load: Load::default(),
            step: 0,
            spare: Vec::new(),
            order: Vec::with_capacity(limits.max_seqs),
            left: Default::default(),
            snapshot,
        };
        planner.publish_occupancy();
        planner
    }

    /// The longest sequence that can ever run, in tokens. Longer ones must not arrive.
    pub fn longest(&self) -> usize {
        self.limits.context.min(self.limits.blocks * BLOCK_TOKENS)
    }

    /// Takes in what happened up to `now` (since the lane started) and decides what runs next, into `plan`.
    pub fn step(&mut self, now: Duration, events: impl IntoIterator<Item = Event>, plan: &mut Plan) {
        plan.spans.clear();
        plan.preempted.clear();
        for event in events {
            self.take_in(now, event);
        }
        self.in_step.clear();
        self.step += 1;
        self.reserve_decodes(plan);
        self.admit(plan);
        self.fill(plan);
        self.in_step.extend_from_slice(&plan.spans);
        plan.predicted = if plan.spans.is_empty() { Duration::ZERO } else { self.cost.predict(self.load) };
        let (sequences, tokens) = &mut self.left;
        self.snapshot.set_rates(sequences.per_second(now), tokens.per_second(now));
        self.publish_occupancy();
    }

    /// The blocks of a sequence from position 0 on, enough for its span in the last plan; empty when it is unknown.
    pub fn blocks(&self, seq: SeqId) -> &[u32] {
        self.find(seq).map_or(&[], |i| &self.sequences[i].blocks)
    }

    /// Blocks by state.
    pub const fn block_counts(&self) -> Counts {
        self.blocks.counts()
    }

    /// Sequences waiting, running and paused, together.
    pub const fn live(&self) -> usize {
        self.sequences.len()
    }

    /// The cost model as it has been corrected so far.
    pub const fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Checks that every block is free or held by one sequence, and that no bound is passed. For tests.
    ///
    /// # Panics
    /// When that is not so.
    pub fn assert_sound(&self) {
        self.blocks.assert_balance(self.sequences.iter().flat_map(|s| s.blocks.iter().copied()));
        assert!(self.count(Place::Active) <= self.limits.max_seqs, "the batch is too large");
        assert!(self.sequences.is_sorted_by(|a, b| a.id < b.id), "out of order");
        for s in &self.sequences {
            assert!(s.computed <= s.blocks.len() * BLOCK_TOKENS, "{:?} has too few blocks", s.id);
            assert!(s.computed <= s.len, "{:?} computed what it does not know", s.id);
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
        self.snapshot.set_occupancy(waiting, self.sequences.len() - waiting, self.blocks.free());
    }
}

/// What happened.
impl Planner {
    fn take_in(&mut self, now: Duration, event: Event) {
        match event {
            Event::Arrived(arrival) => self.arrive(&arrival),
            Event::Cancelled(seq) | Event::Finished(seq) => self.remove(now, seq),
            Event::Paused(seq) => self.pause(seq),
            Event::Resumed(seq) => self.resume(seq),
            Event::StepDone { elapsed } => self.advance(elapsed),
            Event::StepFailed => self.in_step.clear(),
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        debug_assert!(arrival.prompt > 0 && arrival.prompt <= arrival.max_len, "{arrival:?}");
        debug_assert!(arrival.max_len <= self.longest(), "{arrival:?} was to be refused at the door");
        debug_assert!(
            self.sequences.last().is_none_or(|last| last.id < arrival.seq),
            "{arrival:?} is out of order"
        );
        let blocks = self.spare.pop().unwrap_or_default();
        self.sequences.push(Sequence::new(arrival, blocks));
    }

    fn remove(&mut self, now: Duration, seq: SeqId) {
        let Some(i) = self.find(seq) else { return };
        self.strip(i);
        let gone = self.sequences.remove(i);
        self.left.0.add(now, 1.0);
        self.left.1.add(now, gone.len as f64);
        self.spare.push(gone.blocks);
    }

    fn pause(&mut self, seq: SeqId) {
        if let Some(i) = self.find(seq) {
            self.sequences[i].place = Place::Paused;
        }
    }

    fn resume(&mut self, seq: SeqId) {
        if let Some(i) = self.find(seq).filter(|&i| self.sequences[i].is(Place::Paused)) {
            self.sequences[i].place = Place::Waiting;
        }
    }

    fn advance(&mut self, elapsed: Duration) {
        if !self.in_step.is_empty() {
            self.cost.correct(self.load, elapsed);
        }
        for span in &self.in_step {
            if let Ok(i) = self.sequences.binary_search_by_key(&span.seq, |s| s.id) {
                self.sequences[i].advance(span);
            }
        }
        self.in_step.clear();
    }
}

/// Blocks and places.
impl Planner {
    /// Frees all blocks of sequence `i`.
    fn strip(&mut self, i: usize) {
        let sequence = &mut self.sequences[i];
        sequence.computed = 0;
        for block in sequence.blocks.drain(..) {
            self.blocks.release(block);
        }
    }

    fn preempt(&mut self, i: usize, plan: &mut Plan) {
        self.strip(i);
        let sequence = &mut self.sequences[i];
        if sequence.is(Place::Active) {
            sequence.place = Place::Waiting;
        }
        plan.preempted.push(sequence.id);
    }

    /// Whose blocks go next: the youngest paused sequence's, else the youngest waiting one's. Nobody in the batch.
    fn idle_holder(&self, except: usize) -> Option<usize> {
        let youngest = |place| {
            self.sequences
                .iter()
                .enumerate()
                .rposition(|(i, s)| i != except && s.is(place) && !s.blocks.is_empty())
        };
        youngest(Place::Paused).or_else(|| youngest(Place::Waiting))
    }

    /// Gives every decode of the batch the block its next token needs, the oldest first, at the cost of idle holders
    /// and then of the youngest in the batch.
    fn reserve_decodes(&mut self, plan: &mut Plan) {
        for i in 0..self.sequences.len() {
            while self.sequences[i].is(Place::Active) && self.sequences[i].missing_blocks() > 0 {
                match self.blocks.allocate() {
                    Some(block) => self.sequences[i].blocks.push(block),
                    None => self.preempt(self.victim(i), plan),
                }
            }
        }
    }

    /// Whose blocks sequence `i` of the batch may have: at the worst its own, when it is the youngest.
    fn victim(&self, i: usize) -> usize {
        let youngest = || self.sequences.iter().rposition(|s| s.is(Place::Active));
        self.idle_holder(i).or_else(youngest).unwrap_or(i)
    }

    /// Takes waiting sequences into the batch, in order, while there are places, and blocks for all they know. A block
    /// for each of the batch must stay free, or the newcomer would soon be thrown out again.
    fn admit(&mut self, plan: &mut Plan) {
        let mut active = self.count(Place::Active);
        for i in 0..self.sequences.len() {
            if !self.sequences[i].is(Place::Waiting) {
                continue;
            }
            let headroom = if active == 0 { 0 } else { active + 1 };
            let missing = self.sequences[i].missing_blocks();
            if active == self.limits.max_seqs || missing + headroom > self.blocks.free() + self.reclaimable(i)
            {
                break;
            }
            while self.blocks.free() < missing {
                let Some(holder) = self.idle_holder(i) else { break };
                self.preempt(holder, plan);
            }
            let granted = self.blocks.allocate_into(missing, &mut self.sequences[i].blocks);
            debug_assert!(granted, "blocks were counted and are not there");
            self.sequences[i].place = Place::Active;
            active += 1;
        }
    }

    /// Blocks that waiting sequence `i` may have from those outside the batch.
    fn reclaimable(&self, i: usize) -> usize {
        let idle = |(j, s): &(usize, &Sequence)| *j != i && !s.is(Place::Active);
        self.sequences.iter().enumerate().filter(idle).map(|(_, s)| s.blocks.len()).sum()
    }
}

/// The step.
impl Planner {
    /// What this step is cut to. A model whose every step takes longer than the budget would never batch under it:
    /// twice its shortest step is what it gets.
    fn budget(&self) -> Duration {
        let shortest = self.cost.predict(Load::default().with_decode(0));
        self.limits.step_budget.max(2 * shortest)
    }

    fn fill(&mut self, plan: &mut Plan) {
        self.load = Load::default();
        let mut room = Room { rows: self.limits.max_rows, logits: self.limits.max_logits };
        self.fill_decodes(&mut room, plan);
        self.fill_prefill(&mut room, plan);
    }

    /// Decodes, those that have waited longest first. While somebody prefills they leave him a quarter of the step.
    fn fill_decodes(&mut self, room: &mut Room, plan: &mut Plan) {
        let prefilling = self.sequences.iter().any(Sequence::prefills);
        let budget = self.budget();
        let budget = if prefilling { budget * 3 / 4 } else { budget };
        self.order.clear();
        self.order.extend((0..self.sequences.len()).filter(|&i| self.sequences[i].decodes()));
        self.order.sort_unstable_by_key(|&i| (self.sequences[i].last_step, i));
        for k in 0..self.order.len() {
            let sequence = &self.sequences[self.order[k]];
            let load = self.load.with_decode(sequence.computed);
            if !plan.spans.is_empty() && self.cost.predict(load) > budget {
                break;
            }
            let Some(span) = sequence.chunk(1.min(room.rows), room.logits) else { break };
            self.load = load;
            self.put(self.order[k], span, room, plan);
        }
    }

    /// Prefill chunks in what is left of the step, the oldest sequence first.
    fn fill_prefill(&mut self, room: &mut Room, plan: &mut Plan) {
        for i in 0..self.sequences.len() {
            let sequence = &self.sequences[i];
            if !sequence.prefills() {
                continue;
            }
            let Some(span) = self.prefill_chunk(sequence, room) else { break };
            self.load = self.load.with_prefill(span.start, span.len);
            self.put(i, span, room, plan);
        }
    }

    fn prefill_chunk(&self, sequence: &Sequence, room: &Room) -> Option<PlannedSpan> {
        let whole = sequence.chunk(room.rows, room.logits)?;
        let least = usize::from(self.load.prefill == 0);
        let rows = self.cost.longest_prefill(self.load, whole.start, whole.len, self.budget()).max(least);
        if rows >= whole.len {
            return Some(whole);
        }
        // Whole blocks, where that is more than half of it: matrix tiles like them.
        let end = (whole.start + rows) / BLOCK_TOKENS * BLOCK_TOKENS;
        let rows = if end > whole.start + rows / 2 { end - whole.start } else { rows };
        sequence.chunk(rows, room.logits)
    }

    fn put(&mut self, i: usize, span: PlannedSpan, room: &mut Room, plan: &mut Plan) {
        let sequence = &mut self.sequences[i];
        sequence.last_step = self.step;
        debug_assert!(
            span.start + span.len <= sequence.max_len.max(sequence.prompt),
            "{span:?} is past its end"
        );
        debug_assert!(
            blocks_for(span.start + span.len) <= sequence.blocks.len(),
            "{span:?} has too few blocks"
        );
        room.rows -= span.len;
        room.logits -= span.logit_rows();
        plan.spans.push(span);
    }
}

/// What is left of a step.
struct Room {
    rows: usize,
    logits: usize,
}
