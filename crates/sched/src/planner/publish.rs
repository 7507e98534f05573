//! What the planner says about itself.

use super::Planner;
use super::fill::LONGEST_TURN;
use super::sequence::{Place, Sequence};
use crate::promise::{Class, Deadlines};
use crate::view::{ENDS, View};
use std::time::Duration;

impl Planner {
    /// Publishes what predictions start from, as it will be after the step that was planned at `now`.
    pub(super) fn publish(&mut self, now: Duration) {
        let mut view = View {
            free_at: (now + self.predicted).as_secs_f64(),
            rates: self.cost.rates(),
            best: self.cost.best_rates(),
            budget: self.budget.as_secs_f64(),
            idle_budget: self.idle_budget().as_secs_f64(),
            allowance: self.track.allowance(),
            aim: self.track.aim(),
            aim_last: Class::ALL.map(|class| self.track.aim_last(class)),
            output: [0.5, 0.9].map(|q| self.track.output(q)),
            fresh: self.track.fresh(),
            above: self.track.above(now),
            tightest: self.tightest,
            ..View::default()
        };
        for sequence in &self.sequences {
            self.count_in(sequence, &mut view);
        }
        for class in Class::ALL {
            let less = Class::ALL.into_iter().filter(|other| *other > class);
            let places = less.map(|other| self.loose[other.index()].saturating_sub(self.kept(other)));
            view.yielding[class.index()] = places.sum::<usize>() as f64;
        }
        self.find_slack(&mut view);
        self.snapshot.set_view(&view);
        for class in Class::ALL {
            self.snapshot.set_attainment(class, self.track.attainment(class).get());
        }
    }

    fn count_in(&self, sequence: &Sequence, view: &mut View) {
        let class = sequence.deadlines.class.index();
        let left = sequence.left_to_compute(self.step) as f64;
        match sequence.place {
            Place::Paused => {}
            Place::Waiting => {
                view.pending[class] += left;
                view.waiting[class] += 1.0;
            }
            Place::Active => {
                view.active += 1.0;
                let is_entering = left > 0.0 && !sequence.decodes();
                if is_entering {
                    view.pending[class] += left;
                    view.entering += 1.0;
                } else {
                    // Whoever has no promise stands back while those with one prefill.
                    let stands_back = sequence.deadlines.class == Class::Batch && !sequence.is_paced;
                    let turns = if stands_back { 1.0 / LONGEST_TURN as f64 } else { 1.0 };
                    view.decodes += turns;
                    view.kv += turns * sequence.len as f64;
                }
                let ends_after = self.track.left(sequence);
                let from = (0..ENDS).find(|&k| (1_u32 << k) as f64 >= ends_after).unwrap_or(ENDS);
                view.ends[from..].iter_mut().for_each(|ended| *ended += 1.0);
            }
        }
    }

    /// How long those that wait may still be held up: those who have their first token yet to come. Whoever had it and waits to go
    /// on stands before all newcomers of its class, and what those who run can bear is [`View::tightest`].
    fn find_slack(&self, view: &mut View) {
        let rates = view.rates;
        let decoding = rates.base + rates.decode * view.decodes + rates.kv * view.kv;
        let share = ((view.budget - decoding) / view.budget).max(0.05);
        let mut at = view.free_at;
        for &i in &self.line {
            let sequence = &self.sequences[i];
            let left = sequence.left_to_compute(self.step);
            if sequence.is(Place::Paused) || sequence.first_at.is_some() || left == 0 {
                continue;
            }
            at += left as f64 * rates.prefill / share;
            let Deadlines { class, first, last, .. } = sequence.deadlines;
            let [first, last] = [first, last].map(|by| by.map(|by| by.as_secs_f64()));
            // As it stands in line.
            let Some(due) = first.or(last) else { continue };
            let output = self.track.most_left(sequence) * decoding;
            // Whose end was to be late from the beginning holds up nobody by it.
            let begins_by = last.filter(|_| sequence.ends_in_time).map(|last| last - output);
            let by = first.into_iter().chain(begins_by).fold(f64::INFINITY, f64::min);
            let class = class.index();
            view.slack[class] = view.slack[class].min((by - at).max(0.0));
            view.latest[class] = view.latest[class].max(due);
        }
    }
}
