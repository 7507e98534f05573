//! What goes into the step: decodes, then prefill in what is left of it.

use super::Planner;
use super::sequence::Sequence;
use crate::cost::Load;
use crate::plan::{Plan, PlannedSpan};
use plimsoll_kv::{BLOCK_TOKENS, blocks_for};
use std::time::Duration;

impl Planner {
    /// What this step is cut to. A model whose every step takes longer than the budget would never batch under it:
    /// twice its shortest step is what it gets.
    fn budget(&self) -> Duration {
        let shortest = self.cost.predict(Load::default().with_decode(0));
        self.limits.step_budget.max(2 * shortest)
    }

    pub(super) fn fill(&mut self, plan: &mut Plan) {
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
