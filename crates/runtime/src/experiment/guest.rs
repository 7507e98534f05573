//! A request that takes part in experiments.

use super::vary::Vary;
use crate::config::LaneConfig;
use crate::sequence::Sequence;
use plimsoll_api::error::Reason;
use plimsoll_api::service::Priority;
use plimsoll_sched::Terms;
use plimsoll_telemetry::{ExperimentMetrics, Requests};
use plimsoll_trial::{Answered, Outcome, Place, Seat};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a request takes part in, and by which policies it is served. Dropped before it is over, it counts as lost.
#[derive(Default)]
pub(crate) struct Entered {
    guests: Vec<Guest>,
    chosen: Chosen,
}

/// The values of the request's arms.
#[derive(Debug, Clone, Copy, Default)]
struct Chosen {
    priority: Option<Priority>,
    prefix_cache: Option<bool>,
    expected_output: Option<u32>,
}

/// The policies that one request is served by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The class of one that does not say.
    pub(crate) priority: Option<Priority>,
    /// Whether it shares the beginning of its prompt.
    pub(crate) prefix_cache: bool,
    /// Tokens that it is expected to generate.
    pub(crate) expected_output: u32,
}

/// A place in one experiment.
struct Guest {
    seat: Option<Seat>,
    arm: usize,
    metrics: Arc<ExperimentMetrics>,
}

impl Entered {
    pub(super) fn join(&mut self, place: Place, vary: &Vary, metrics: &Arc<ExperimentMetrics>) {
        let Place { arm, seat } = place;
        match vary {
            Vary::Priority(arms) => self.chosen.priority = arms.get(arm).copied(),
            Vary::PrefixCache(arms) => self.chosen.prefix_cache = arms.get(arm).copied(),
            Vary::ExpectedOutput(arms) => self.chosen.expected_output = arms.get(arm).copied(),
            Vary::QueuePolicy(_) | Vary::Prefetch(_) | Vary::StepBudget(_) => {}
        }
        if seat.is_some() {
            self.guests.push(Guest { seat, arm, metrics: metrics.clone() });
        }
    }

    /// By which policies it is served: those of its arms, and the lane's.
    pub(crate) fn policy(&self, config: &LaneConfig) -> Policy {
        Policy {
            priority: self.chosen.priority,
            prefix_cache: self.chosen.prefix_cache.unwrap_or(config.prefix_cache),
            expected_output: self.chosen.expected_output.unwrap_or(config.expected_output),
        }
    }

    /// It was turned away. What no arm could have served is not counted.
    pub(crate) fn refused(&mut self, reason: Reason) {
        let by_load = reason.row().0 == 429 || reason == Reason::NeverInTime;
        for guest in &mut self.guests {
            if by_load {
                guest.settle(&Outcome::Refused);
            } else if reason != Reason::Expired {
                guest.seat.take().into_iter().for_each(Seat::withdraw);
            }
        }
        self.guests.clear();
    }

    /// It was answered whole.
    fn answered(&mut self, answered: Answered) {
        self.guests.iter_mut().for_each(|guest| guest.settle(&Outcome::Answered(answered)));
    }
}

impl Guest {
    fn settle(&mut self, outcome: &Outcome) {
        let Some(seat) = self.seat.take() else { return };
        seat.settle(outcome);
        let counted = match outcome {
            Outcome::Answered(Answered { is_kept: true, .. }) => Requests::InPromise,
            Outcome::Answered(_) => Requests::Late,
            Outcome::Refused => Requests::Refused,
            Outcome::Lost => Requests::Lost,
        };
        self.metrics.count(self.arm, counted);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.settle(&Outcome::Lost);
    }
}

/// A request that takes part, and the terms that its answer is judged by: those that it would have without experiments, so
/// that all arms are held to the same.
pub(crate) struct Judged {
    pub(crate) entered: Entered,
    pub(crate) terms: Terms,
}

impl Judged {
    /// All sequences of the request that arrived at `arrived` are done at `now`.
    pub(crate) fn answered<S: Deref<Target = Sequence>>(
        &mut self,
        now: Instant,
        arrived: Instant,
        sequences: &[S],
    ) {
        if self.entered.guests.is_empty() {
            return;
        }
        let since = |at: Instant| at.saturating_duration_since(arrived);
        let ttft = sequences.first().and_then(|first| first.first_token).map(since);
        let gap = sequences.iter().filter_map(|sequence| mean_gap(sequence)).max();
        let e2e = since(now);
        let within = |time: Option<Duration>, limit: Option<Duration>| {
            time.zip(limit).is_none_or(|(time, limit)| time <= limit)
        };
        let Terms { ttft: first, itl, e2e: last, .. } = self.terms;
        let is_kept = within(ttft, first) && within(gap, itl) && within(Some(e2e), last);
        self.entered.answered(Answered { is_kept, ttft, gap, e2e });
    }
}

fn mean_gap(sequence: &Sequence) -> Option<Duration> {
    let gaps = u32::try_from(sequence.tokens.len().checked_sub(sequence.prompt + 1)?).ok()?;
    let all = sequence.last_token?.saturating_duration_since(sequence.first_token?);
    all.checked_div(gaps)
}
