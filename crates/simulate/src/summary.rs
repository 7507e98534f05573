//! What became of the requests of a run.

use crate::fleet::Ran;
use crate::lane::{End, Request};
use plimsoll_charts::percentile::Spread;
use plimsoll_sched::{Promise, Refusal, Terms};
use serde::Serialize;
use std::time::Duration;

/// Counts, shares, and latencies in milliseconds of what was complete.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Replicas.
    pub replicas: usize,
    /// Requests.
    pub offered: usize,
    /// Those let in.
    pub accepted: usize,
    /// Those complete within every bound of the promise.
    pub in_promise: usize,
    /// Complete, and late.
    pub late: usize,
    /// Let in, and ended when their time was up.
    pub expired: usize,
    /// Refused because they would have come late.
    pub refused_late: usize,
    /// Refused because they would have come late on an idle server.
    pub refused_never: usize,
    /// Refused because the queue or the KV cache was full, and those too long for it.
    pub refused_full: usize,
    /// Complete, and the first token within the time predicted for it at the door.
    pub within_predicted: usize,
    /// Seconds over which requests were offered.
    pub span: f64,
    /// Requests in promise per second of that.
    pub goodput: f64,
    /// Time to first token.
    pub ttft_ms: Option<Spread>,
    /// Mean gap of a request.
    pub gap_ms: Option<Spread>,
    /// Whole requests.
    pub e2e_ms: Option<Spread>,
    /// Share of the span in which the replicas computed, on the average.
    pub busy: f64,
    /// Sequences of a step, on the average.
    pub batch: f64,
    /// Steps.
    pub steps: u64,
    /// Sequences that had to make way.
    pub preempted: usize,
}

impl Summary {
    /// Of the requests that `select` names, which were offered over `span` seconds.
    pub fn of(
        ran: &Ran,
        requests: &[Request],
        promise: &Promise,
        span: f64,
        select: impl Fn(&Request) -> bool,
    ) -> Self {
        let mut summary = Self { replicas: ran.work.len(), span, ..Self::default() };
        let (mut ttfts, mut gaps, mut e2es) = (Vec::new(), Vec::new(), Vec::new());
        for (request, end) in requests.iter().zip(&ran.ends).filter(|(request, _)| select(request)) {
            summary.offered += 1;
            match *end {
                End::Done { ttft, gap, e2e, predicted } => {
                    let terms = Terms::new(promise, &request.asked, request.prompt);
                    summary.accepted += 1;
                    let within = |limit: Option<Duration>, took: f64| {
                        limit.is_none_or(|limit| took <= limit.as_secs_f64())
                    };
                    let is_kept =
                        within(terms.ttft, ttft) && within(terms.itl, gap) && within(terms.e2e, e2e);
                    *(if is_kept { &mut summary.in_promise } else { &mut summary.late }) += 1;
                    summary.within_predicted += usize::from(ttft <= predicted);
                    ttfts.push(ttft * 1e3);
                    e2es.push(e2e * 1e3);
                    gaps.extend((request.output > 1).then_some(gap * 1e3));
                }
                End::Expired => {
                    summary.accepted += 1;
                    summary.expired += 1;
                }
                End::Refused(Refusal::Late { .. }) => summary.refused_late += 1,
                End::Refused(Refusal::Never) => summary.refused_never += 1,
                End::Refused(_) | End::TooLong => summary.refused_full += 1,
            }
        }
        summary.goodput = summary.in_promise as f64 / span.max(1e-9);
        (summary.ttft_ms, summary.gap_ms, summary.e2e_ms) =
            (Spread::of(ttfts), Spread::of(gaps), Spread::of(e2es));
        summary.count_work(ran);
        summary
    }

    fn count_work(&mut self, ran: &Ran) {
        let sum = |of: fn(&crate::lane::Work) -> u64| ran.work.iter().map(of).sum::<u64>();
        let busy: f64 = ran.work.iter().map(|work| work.busy).sum();
        self.steps = sum(|work| work.steps);
        self.batch = sum(|work| work.rows) as f64 / self.steps.max(1) as f64;
        self.busy = busy / (self.span.max(1e-9) * ran.work.len().max(1) as f64);
        self.preempted = ran.work.iter().map(|work| work.preempted).sum();
    }

    /// Requests that were not let in.
    pub const fn refused(&self) -> usize {
        self.refused_late + self.refused_never + self.refused_full
    }

    /// Share of what was offered that was in promise.
    pub fn share_of_offered(&self) -> f64 {
        self.in_promise as f64 / self.offered.max(1) as f64
    }

    /// Share of what was let in that was in promise; `None` without any.
    pub fn share_of_accepted(&self) -> Option<f64> {
        (self.accepted > 0).then(|| self.in_promise as f64 / self.accepted as f64)
    }

    /// Share of what had a first token that had it within the predicted time; `None` without any.
    pub fn share_within_predicted(&self) -> Option<f64> {
        let done = self.in_promise + self.late;
        (done > 0).then(|| self.within_predicted as f64 / done as f64)
    }

    /// Whether at least a share `quantile` of what was offered was in promise.
    pub fn holds(&self, quantile: f64) -> bool {
        // 1 - 0.99 is a little less than 0.01: of 100 requests one may miss.
        let misses = self.offered - self.in_promise;
        misses as f64 <= (1.0 - quantile) * self.offered as f64 + 1e-9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_miss() {
        for (offered, in_promise, quantile, holds) in [
            (100, 99, 0.99, true),
            (100, 98, 0.99, false),
            (1000, 990, 0.99, true),
            (10, 10, 1.0, true),
            (10, 9, 0.9, true),
        ] {
            let summary = Summary { offered, in_promise, ..Summary::default() };
            assert_eq!(summary.holds(quantile), holds, "{in_promise} of {offered} at {quantile}");
        }
    }
}
