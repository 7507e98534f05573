//! What happened since the last plan: who came, left, paused or went on, and what the step has done.

use super::Planner;
use super::sequence::{Place, Sequence};
use crate::plan::{Arrival, Event, SeqId, Switch};
use crate::promise::Class;
use std::time::Duration;

impl Planner {
    pub(super) fn take_in(&mut self, now: Duration, event: Event) {
        match event {
            Event::Arrived(arrival) => self.arrive(arrival),
            Event::Cancelled(seq) => self.remove(now, seq),
            Event::Finished(seq) => self.finish(now, seq),
            Event::Paused(seq) => self.pause(now, seq),
            Event::Resumed(seq) => self.resume(now, seq),
            Event::Filled(seq, name) => {
                if let Some(i) = self.find(seq) {
                    self.sequences[i].names.push(name);
                }
            }
            Event::Fetched(seq) => self.take_fetched(seq),
            Event::ParkLost(seq) => self.lose(seq),
            Event::Switched(Switch::Queue(policy)) => self.queue.switch(now, policy),
            Event::Switched(Switch::ParkAhead(sequences)) => self.limits.park_ahead = sequences,
            Event::Switched(Switch::StepBudget(budget)) => self.limits.step_budget = budget,
            Event::StepDone { elapsed } => self.advance(now, elapsed),
            Event::StepFailed => self.in_step.clear(),
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        debug_assert!(arrival.prompt > 0 && arrival.prompt <= arrival.max_len, "{arrival:?}");
        debug_assert!(arrival.max_len <= self.longest(), "{arrival:?} was to be refused at the door");
        debug_assert!(
            self.sequences.last().is_none_or(|last| last.id < arrival.seq),
            "{arrival:?} is out of order"
        );
        let tables = self.spare.pop().unwrap_or_default();
        self.sequences.push(Sequence::new(arrival, tables));
    }

    pub(super) fn remove(&mut self, now: Duration, seq: SeqId) {
        let Some(i) = self.find(seq) else { return };
        self.strip(i);
        self.unpark(i);
        let gone = self.sequences.remove(i);
        self.left.0.add(now, 1.0);
        self.left.1.add(now, gone.len as f64);
        let (tables, mut names) = gone.into_tables();
        names.clear();
        self.spare.push(tables);
        self.spare_names.push(names);
    }

    fn finish(&mut self, now: Duration, seq: SeqId) {
        if let Some(i) = self.find(seq) {
            self.track.finished(now, &self.sequences[i]);
            self.queue.completed(now.saturating_sub(self.sequences[i].deadlines.arrived));
        }
        self.remove(now, seq);
    }

    fn pause(&mut self, now: Duration, seq: SeqId) {
        if let Some(i) = self.find(seq) {
            let sequence = &mut self.sequences[i];
            (sequence.place, sequence.paused_at) = (Place::Paused, now);
        }
    }

    /// Its reader's time does not count as ours.
    fn resume(&mut self, now: Duration, seq: SeqId) {
        if let Some(i) = self.find(seq).filter(|&i| self.sequences[i].is(Place::Paused)) {
            let sequence = &mut self.sequences[i];
            sequence.place = Place::Waiting;
            let away = now.saturating_sub(sequence.paused_at);
            if sequence.first_at.is_some() {
                sequence.away += away;
            }
        }
    }

    fn advance(&mut self, now: Duration, elapsed: Duration) {
        if self.in_step.is_empty() {
            return;
        }
        self.cost.correct(self.load, elapsed);
        let row = self.cost.rates().prefill;
        let (mut seconds, mut waits) = ([0.0; Class::COUNT], [false; Class::COUNT]);
        for span in &self.in_step {
            if let Ok(i) = self.sequences.binary_search_by_key(&span.seq, |s| s.id) {
                let sequence = &mut self.sequences[i];
                if !sequence.decodes() {
                    seconds[sequence.deadlines.class.index()] += row * span.len as f64;
                }
                sequence.advance(span);
                sequence.publish(&mut self.kv);
                if sequence.generated() > 0 && sequence.first_at.is_none() {
                    sequence.first_at = Some(now);
                    self.track.first_token(now, &sequence.deadlines);
                }
            }
        }
        for sequence in &self.sequences {
            waits[sequence.deadlines.class.index()] |= sequence.prefills();
        }
        self.track.prefilled(now, seconds, waits);
        self.in_step.clear();
    }
}
