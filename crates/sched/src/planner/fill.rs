//! What goes into the step: decodes, then prefill in what is left of it.

use super::Planner;
use super::sequence::{Place, Sequence};
use crate::load::Load;
use crate::plan::{Plan, PlannedSpan};
use plimsoll_kv::{BLOCK_TOKENS, blocks_for};
use std::time::Duration;

impl Planner {
    /// What a step is cut to when nobody runs who was promised a gap, or an end that is near. A model whose every step takes longer than the budget
    /// would never batch under it: twice its shortest step is what it gets.
    pub(super) fn idle_budget(&self) -> Duration {
        let shortest = self.cost.predict(Load::default().with_decode(0));
        self.limits.step_budget.max(2 * shortest)
    }

    /// What this step is cut to. Those who run keep the gap they were promised on the average, and the end, so a step may be longer
    /// when they are ahead, and is shorter when they are behind.
    pub(super) fn set_budget(&mut self, now: Duration) {
        let budget = self.idle_budget();
        for i in 0..self.sequences.len() {
            let sequence = &self.sequences[i];
            let turn = (LONGEST_TURN as f64) * budget.as_secs_f64();
            let is_hurried = self.pace_to_end(sequence, now).is_some_and(|pace| pace < turn);
            self.sequences[i].is_paced = sequence.deadlines.itl.is_some() || is_hurried;
        }
        self.tightest = f64::INFINITY;
        self.has_promise = false;
        let decodes = self.sequences.iter().filter(|s| s.decodes() && s.is_paced);
        let load = decodes.fold(Load::default(), |load, s| load.with_decode(s.computed));
        let decoding = self.cost.predict(load).as_secs_f64();
        for sequence in self.sequences.iter().filter(|s| s.is(Place::Active) && s.is_paced) {
            let Some(first_at) = sequence.gaps_since() else { continue };
            self.has_promise = true;
            let by_gaps = sequence.deadlines.itl.map(|itl| {
                let left = self.track.left(sequence);
                let had = now.saturating_sub(first_at).as_secs_f64();
                let all = (sequence.generated() as f64 - 1.0 + left) * itl.as_secs_f64();
                ((all - had) / left, (all * self.track.aim() - had) / left)
            });
            let aim = self.track.aim_last(sequence.deadlines.class);
            let by_end = self.pace_to_end(sequence, now).map(|pace| (pace, pace * aim));
            for (most, aimed) in by_gaps.into_iter().chain(by_end) {
                // Who is late whatever is done holds up nobody else.
                if most >= decoding {
                    self.tightest = self.tightest.min(aimed.max(decoding));
                }
            }
        }
        let least = decoding + self.cost.rates().prefill * LEAST_ROWS as f64;
        self.budget = budget.min(Duration::from_secs_f64(self.tightest.max(least).min(3600.0)));
    }

    /// Seconds that a step may take in the mean for the last token to be in time, of who had its first and has a time for the last.
    fn pace_to_end(&self, sequence: &Sequence, now: Duration) -> Option<f64> {
        let last = sequence.deadlines.last.filter(|_| sequence.first_at.is_some())?;
        Some(last.saturating_sub(now).as_secs_f64() / self.track.most_left(sequence))
    }

    pub(super) fn fill(&mut self, plan: &mut Plan) {
        self.load = Load::default();
        let mut room = Room { rows: self.limits.max_rows, logits: self.limits.max_logits };
        self.fill_decodes(&mut room, plan);
        self.fill_prefill(&mut room, plan);
    }

    /// Decodes, those that have waited longest first. Those with a promised gap, or an end that is near, all run. The others take what is left;
    /// while somebody prefills they leave him a quarter of the step, and all of it but their turn now and then when he is
    /// promised a first token.
    fn fill_decodes(&mut self, room: &mut Room, plan: &mut Plan) {
        let prefilling = self.sequences.iter().any(Sequence::prefills);
        let is_urgent = |s: &Sequence| s.prefills() && s.deadlines.first.is_some();
        let has_urgent = self.sequences.iter().any(is_urgent);
        let budget = if prefilling { self.budget * 3 / 4 } else { self.budget };
        self.order.clear();
        self.order.extend((0..self.sequences.len()).filter(|&i| self.sequences[i].decodes()));
        let (sequences, step) = (&self.sequences, self.step);
        self.order.sort_unstable_by_key(|&i| {
            let sequence = &sequences[i];
            let may_wait = !sequence.is_paced && step - sequence.last_step < LONGEST_TURN;
            (may_wait, sequence.last_step, i)
        });
        for k in 0..self.order.len() {
            let sequence = &self.sequences[self.order[k]];
            let load = self.load.with_decode(sequence.computed);
            let may_wait = !sequence.is_paced;
            let had_turn = has_urgent && self.step - sequence.last_step < LONGEST_TURN;
            if may_wait && !plan.spans.is_empty() && (had_turn || self.cost.predict(load) > budget) {
                continue;
            }
            let Some(span) = sequence.chunk(1.min(room.rows), room.logits) else { break };
            self.load = load;
            self.put(self.order[k], span, room, plan);
        }
    }

    /// Prefill chunks in what is left of the step, in line; a class that is owed prefill goes first with one.
    fn fill_prefill(&mut self, room: &mut Room, plan: &mut Plan) {
        let owed = self.track.creditor().and_then(|class| {
            let is_owed = |s: &Sequence| s.deadlines.class == class && s.prefills();
            self.line.iter().copied().find(|&i| is_owed(&self.sequences[i]))
        });
        if let Some(i) = owed {
            // A part of the step: the urgent ones are not to wait for a whole one.
            let until = (self.cost.predict(self.load) + self.budget / 4).min(self.budget);
            self.fill_one(i, until, room, plan);
        }
        for k in 0..self.line.len() {
            let i = self.line[k];
            if Some(i) != owed && self.sequences[i].prefills() && !self.fill_one(i, self.budget, room, plan) {
                break;
            }
        }
    }

    /// Fills the step up to `until` with a chunk of sequence `i`. Whether there was room for some of it.
    fn fill_one(&mut self, i: usize, until: Duration, room: &mut Room, plan: &mut Plan) -> bool {
        let Some(span) = self.prefill_chunk(&self.sequences[i], until, room) else { return false };
        self.load = self.load.with_prefill(span.start, span.len);
        self.put(i, span, room, plan);
        true
    }

    fn prefill_chunk(&self, sequence: &Sequence, until: Duration, room: &Room) -> Option<PlannedSpan> {
        let whole = sequence.chunk(room.rows, room.logits)?;
        let least = match self.load.prefill {
            0 if self.has_promise => LEAST_ROWS,
            0 => 1,
            _ => 0,
        };
        let rows = self.cost.longest_prefill(self.load, whole.start, whole.len, until).max(least);
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
        sequence.planned = span.len;
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

/// Rows of prefill in a step that decodes would fill by themselves: a newcomer must get ahead.
const LEAST_ROWS: usize = 8;
/// Steps that a decode without a promise lets others go before.
pub(super) const LONGEST_TURN: u64 = 8;

/// What is left of a step.
struct Room {
    rows: usize,
    logits: usize,
}
