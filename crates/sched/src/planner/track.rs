//! What the planner learns about the requests: how long outputs are, how far off predictions were, who had what it was
//! promised.

use super::sequence::Sequence;
use crate::promise::{Class, Deadlines};
use crate::quantile::{Allowance, Lengths, Margin, Share};
use crate::snapshot::Rate;
use std::time::Duration;

/// Tokens that an output is thought to have before any was complete.
const UNKNOWN_OUTPUT: f64 = 256.0;
/// Shares of the misses that a promise allows.
const FIRST: f64 = 0.7;
const GAP: f64 = 0.5;
/// What the share of computed prompt tokens keeps from one sequence to the next.
const FRESH_KEEP: f64 = 0.95;

/// What was learned.
#[derive(Debug)]
pub(super) struct Track {
    /// By how much predictions of the first token are raised.
    first: [Allowance; Class::COUNT],
    /// By how much less than promised the gap between tokens is aimed at.
    gap: Margin,
    /// The same of the time from the first token to the last.
    end: [Margin; Class::COUNT],
    outputs: Lengths,
    kept: [Share; Class::COUNT],
    /// Share of the prompt tokens that had to be computed.
    fresh: f64,
    /// Seconds of prefill per second.
    prefill: [Rate; Class::COUNT],
    /// Seconds of prefill that a class is owed while more urgent ones take it all.
    debt: [f64; Class::COUNT],
}

/// Most that a class is owed, and what it takes to be served first, in seconds.
const MOST_DEBT: f64 = 0.2;
const DEBT: f64 = 0.02;

impl Track {
    /// For a promise that a share `quantile` of the requests must be kept. Both parts of it must hold. Half of the misses
    /// go to the gap; the first token gets more, since who is later than predicted is late only if let in at the very edge.
    pub(super) fn new(quantile: f64) -> Self {
        let misses = |share: f64| ((1.0 - quantile) * share).clamp(1e-4, 0.25);
        Self {
            first: [Allowance::new(misses(FIRST)); Class::COUNT],
            gap: Margin::new(misses(GAP), 0.12, (0.06, 3.0)),
            end: [Margin::new(misses(GAP), 0.3, (0.06, 3.0)); Class::COUNT],
            outputs: Lengths::default(),
            kept: Default::default(),
            fresh: 1.0,
            prefill: Default::default(),
            debt: [0.0; Class::COUNT],
        }
    }

    /// What predictions are raised by, by class: in seconds, and per second of what is predicted.
    pub(super) fn allowance(&self) -> [[f64; Class::COUNT]; 2] {
        [0, 1].map(|part| self.first.map(|allowance| allowance.get()[part]))
    }

    /// What the gap between tokens is aimed at, as a share of what is promised.
    pub(super) fn aim(&self) -> f64 {
        1.0 / (1.0 + self.gap.get())
    }

    /// What the time to the last token is aimed at, as a share of what is left of it after the first.
    pub(super) fn aim_last(&self, class: Class) -> f64 {
        1.0 / (1.0 + self.end[class.index()].get())
    }

    pub(super) const fn attainment(&self, class: Class) -> Share {
        self.kept[class.index()]
    }

    pub(super) const fn fresh(&self) -> f64 {
        self.fresh
    }

    /// Tokens that a share `q` of the outputs has at most.
    pub(super) fn output(&self, q: f64) -> f64 {
        self.outputs.quantile(q).unwrap_or(UNKNOWN_OUTPUT)
    }

    /// Tokens that a sequence is expected to generate yet: at least one.
    pub(super) fn left(&self, sequence: &Sequence) -> f64 {
        let most = sequence.max_len.saturating_sub(sequence.len) as f64;
        let usual = (self.output(0.5) - sequence.generated() as f64).max(self.output(0.9) / 4.0);
        usual.min(most).max(1.0)
    }

    /// The same if its output is as long as nine of ten are not: for what must be in time to the last token.
    pub(super) fn most_left(&self, sequence: &Sequence) -> f64 {
        let most = sequence.max_len.saturating_sub(sequence.len) as f64;
        let usual = self.output(0.9);
        (usual - sequence.generated() as f64).max(usual / 4.0).min(most).max(1.0)
    }

    /// A sequence joined, and a share `found` of its prompt was in the cache.
    pub(super) fn started(&mut self, found: f64) {
        self.fresh = self.fresh * FRESH_KEEP + (1.0 - found) * (1.0 - FRESH_KEEP);
    }

    /// A sequence had its first token at `now`.
    pub(super) fn first_token(&mut self, now: Duration, deadlines: &Deadlines) {
        if let Some(expected) = deadlines.expected {
            self.first[deadlines.class.index()].learn(now, expected.at, (expected.first, expected.at_most));
        }
    }

    /// A sequence is complete at `now`.
    pub(super) fn finished(&mut self, now: Duration, sequence: &Sequence) {
        self.outputs.add(sequence.generated());
        let (Some(first_at), Some(since)) = (sequence.first_at, sequence.gaps_since()) else { return };
        let Deadlines { class, first, itl, last, .. } = sequence.deadlines;
        let gaps = sequence.generated().saturating_sub(1);
        let is_smooth = itl
            .filter(|_| gaps > 0)
            .map(|itl| now.saturating_sub(since).as_secs_f64() <= itl.as_secs_f64() * gaps as f64);
        is_smooth.into_iter().for_each(|is_smooth| self.gap.learn(now, since, is_smooth));
        self.ended(now, sequence, true);
        if sequence.deadlines.is_promised() {
            let is_kept = first.is_none_or(|by| first_at <= by || sequence.is_continuation)
                && is_smooth.unwrap_or(true)
                && last.is_none_or(|by| sequence.own_time(now) <= by);
            self.kept[class.index()].add(is_kept);
        }
    }

    /// A sequence's time was up.
    pub(super) fn expired(&mut self, now: Duration, sequence: &Sequence) {
        self.kept[sequence.deadlines.class.index()].add(false);
        self.ended(now, sequence, false);
    }

    /// Learns whether a sequence that is over at `now` had its last token in time. A slow reader makes nobody else wait, and
    /// nor does whoever was let in, being alone, though its end was predicted to be late.
    fn ended(&mut self, now: Duration, sequence: &Sequence, is_complete: bool) {
        let Deadlines { class, arrived, last: Some(by), .. } = sequence.deadlines else { return };
        let (had, took) = (by.saturating_sub(arrived), sequence.own_time(now).saturating_sub(arrived));
        let is_hit = is_complete && took <= had;
        // Who had far more time than it took says nothing of how well that is told.
        let is_telling = if is_hit { 2 * took > had } else { took >= had && sequence.ends_in_time };
        if is_telling {
            self.end[class.index()].learn(now, arrived, is_hit);
        }
    }

    /// A step ended at `now` in which each class had so many seconds of prefill; those in `waits` had some left.
    pub(super) fn prefilled(
        &mut self,
        now: Duration,
        seconds: [f64; Class::COUNT],
        waits: [bool; Class::COUNT],
    ) {
        let all: f64 = seconds.iter().sum();
        for class in Class::ALL {
            let i = class.index();
            self.prefill[i].add(now, seconds[i]);
            let debt = self.debt[i] + class.share() * all - seconds[i];
            self.debt[i] = if waits[i] { debt.clamp(0.0, MOST_DEBT) } else { 0.0 };
        }
    }

    /// The class that is owed prefill.
    pub(super) fn creditor(&self) -> Option<Class> {
        Class::ALL.into_iter().find(|class| self.debt[class.index()] > DEBT)
    }

    /// Share of the time in which more urgent classes than each prefilled lately.
    pub(super) fn above(&mut self, now: Duration) -> [f64; Class::COUNT] {
        let mut sum = 0.0;
        std::array::from_fn(|i| {
            let above = f64::min(sum, 1.0);
            sum += self.prefill[i].per_second(now);
            above
        })
    }
}
