//! In which order sequences are served, whose time is up, and who makes way for whom.

use super::Planner;
use super::sequence::{Place, Sequence};
use crate::plan::Plan;
use crate::promise::Class;
use std::time::Duration;

/// A class of which nothing ran for so long keeps one place, however few there are.
const STARVED: Duration = Duration::from_secs(5);
/// How often it is looked whether a class misses its target.
const TRACKED: Duration = Duration::from_millis(100);
/// How long one stays away that made way for such a class: coming back at once would help nobody.
const RELIEF: Duration = Duration::from_millis(500);
/// A class misses its target when it keeps this share of it, or less.
const OFF_TARGET: f64 = 0.85;
/// What is counted before a class is said to miss its target.
const ENOUGH: f64 = 10.0;

impl Planner {
    /// Puts the sequences in line.
    pub(super) fn line_up(&mut self, now: Duration) {
        self.line.clear();
        self.line.extend(0..self.sequences.len());
        let sequences = &self.sequences;
        self.line.sort_unstable_by_key(|&i| sequences[i].urgency());
        (self.places, self.loose) = Default::default();
        let mut waits = [false; Class::COUNT];
        for sequence in &self.sequences {
            let class = sequence.deadlines.class.index();
            self.places[class] += usize::from(sequence.is(Place::Active));
            let is_loose = sequence.is(Place::Active) && !sequence.deadlines.is_promised();
            self.loose[class] += usize::from(is_loose);
            waits[class] |= sequence.is(Place::Waiting);
        }
        for class in Class::ALL.map(Class::index) {
            if self.places[class] > 0 || !waits[class] {
                self.ran_at[class] = now;
            }
            self.is_starved[class] = now.saturating_sub(self.ran_at[class]) > STARVED;
        }
    }

    /// Places of the batch that `class` has.
    pub(super) fn active(&self, class: Class) -> usize {
        self.places[class.index()]
    }

    /// Places that `class` keeps, however many more urgent ones wait.
    pub(super) fn kept(&self, class: Class) -> usize {
        let share = (class.share() * self.limits.max_seqs as f64) as usize;
        share.max(usize::from(self.is_starved[class.index()]))
    }

    /// Forgets the sequences whose time is up: whoever did not begin in time for its first token, and whoever is past
    /// the time for its last.
    pub(super) fn expire(&mut self, now: Duration, plan: &mut Plan) {
        let mut i = 0;
        while i < self.sequences.len() {
            let sequence = &self.sequences[i];
            if sequence.ends_by().is_none_or(|by| now < by) {
                i += 1;
                continue;
            }
            let seq = sequence.id;
            plan.expired.push(seq);
            self.track.expired(now, &self.sequences[i]);
            self.remove(now, seq);
        }
    }

    /// When the next sequence's time is up.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.sequences.iter().filter_map(super::sequence::Sequence::ends_by).min()
    }

    /// Has sequences of less urgent classes make way for those that wait for a place, and for classes that miss their
    /// target.
    pub(super) fn make_way(&mut self, now: Duration, plan: &mut Plan) {
        let mut free = self.limits.max_seqs - self.count(Place::Active);
        for k in 0..self.line.len() {
            let waiter = self.line[k];
            if !self.sequences[waiter].is(Place::Waiting) {
                continue;
            }
            if free > 0 {
                free -= 1;
                continue;
            }
            // The line is by class: who comes later finds no one either.
            let Some(i) = self.yielder(self.sequences[waiter].deadlines.class, now) else { break };
            self.give_way(i, plan);
        }
        if now.saturating_sub(self.tracked_at) >= TRACKED {
            self.tracked_at = now;
            self.relieve(now, plan);
        }
    }

    /// Makes steps shorter for the most urgent class that misses its target: one of a less urgent class stands back for a while.
    fn relieve(&mut self, now: Duration, plan: &mut Plan) {
        let is_off = |class: Class| {
            let kept = self.track.attainment(class);
            self.active(class) > 0
                && kept.weight() >= ENOUGH
                && kept.get() < self.limits.quantile * OFF_TARGET
        };
        let off = Class::ALL.into_iter().find(|class| is_off(*class));
        if let Some(i) = off.and_then(|class| self.yielder(class, now)) {
            self.sequences[i].stands_back = now + RELIEF;
            self.give_way(i, plan);
        }
    }

    /// Whether sequence `i` leaves its place to a more urgent class. Only while one of that is in the batch, so that a lane with
    /// work never sleeps.
    pub(super) fn stands_back(&self, i: usize) -> bool {
        let sequence = &self.sequences[i];
        let own = sequence.deadlines.class;
        let is_ahead = |other: &Sequence| other.is(Place::Active) && other.deadlines.class < own;
        self.now < sequence.stands_back && self.sequences.iter().any(is_ahead)
    }

    fn give_way(&mut self, i: usize, plan: &mut Plan) {
        self.places[self.sequences[i].deadlines.class.index()] -= 1;
        self.preempt(i, plan);
    }

    /// Has one of the batch make way for waiting sequence `i`. Returns whether there was one.
    pub(super) fn make_room_for(&mut self, i: usize, plan: &mut Plan) -> bool {
        let yielder = self.yielder(self.sequences[i].deadlines.class, self.now);
        yielder.into_iter().for_each(|yielder| self.give_way(yielder, plan));
        yielder.is_some()
    }

    /// The last of the batch that makes way for one of `class`: of a less urgent class that has more places than it
    /// keeps, and without a promise or still in time when it comes back.
    fn yielder(&self, class: Class, now: Duration) -> Option<usize> {
        let may = |i: usize| {
            let sequence = &self.sequences[i];
            let own = sequence.deadlines.class;
            own > class
                && sequence.is(Place::Active)
                && self.active(own) > self.kept(own)
                && sequence.loaded_in != self.step
                && self.can_wait(i, now)
        };
        self.line.iter().rev().copied().find(|&i| may(i))
    }

    /// Whether sequence `i` of the batch keeps its promise though it stops for as long as another one takes.
    pub(super) fn can_wait(&self, i: usize, now: Duration) -> bool {
        let sequence = &self.sequences[i];
        if !sequence.deadlines.is_promised() {
            return true;
        }
        let Some(first_at) = sequence.gaps_since() else { return false };
        let step = self.budget.as_secs_f64();
        let left = self.track.left(sequence);
        // Another one of the usual length, moving there and back, and a step to spare.
        let away = self.track.output(0.9) * step
            + 2.0 * self.limits.park_move.as_secs_f64() * sequence.blocks.len() as f64
            + step;
        let until = now.as_secs_f64() + away + left * step;
        let gaps = sequence.generated() as f64 - 1.0 + left;
        let by_gaps = sequence.deadlines.itl.map(|itl| first_at.as_secs_f64() + gaps * itl.as_secs_f64());
        let by_end = sequence.deadlines.last.map(|last| last.as_secs_f64());
        by_gaps.into_iter().chain(by_end).all(|by| until <= by)
    }
}
