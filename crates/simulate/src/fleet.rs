//! Several replicas, and who gets which request.

use crate::lane::{End, Lane, Request, Spec, Work};
use crate::machine::Machine;
use serde::Serialize;

/// Which replica a request goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// The one with the fewest tokens, prompts and expected outputs, in flight; the first of several.
    #[default]
    LeastTokens,
    /// Each in turn.
    RoundRobin,
}

/// Replicas, all alike.
pub struct Fleet<M> {
    lanes: Vec<Lane<M>>,
    spread: Spread,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// How each request ended, in their order.
    pub ends: Vec<End>,
    /// What each replica did.
    pub work: Vec<Work>,
}

impl<M: Machine> Fleet<M> {
    /// So many replicas (at least one), each on a machine of its own; `machine` is told which.
    pub fn new(spec: &Spec, replicas: usize, spread: Spread, machine: impl Fn(usize) -> M) -> Self {
        let lanes = (0..replicas.max(1)).map(|i| Lane::new(spec, machine(i))).collect();
        Self { lanes, spread }
    }

    /// Sends `requests`, which are in the order of their times, and runs until all have ended. `progress` hears how many
    /// have been sent, now and then.
    pub fn run(mut self, requests: &[Request], progress: &mut dyn FnMut(usize)) -> Ran {
        // Every one gets its end, or the lane lost it.
        let mut ends = vec![End::Expired; requests.len()];
        let mut seen = 0;
        for (index, request) in requests.iter().enumerate() {
            for lane in &mut self.lanes {
                lane.advance(request.at);
            }
            let chosen = self.choose(index);
            self.lanes[chosen].offer(index, request);
            if index % EVERY == 0 {
                seen += self.collect(&mut ends);
                progress(index);
            }
        }
        self.lanes.iter_mut().for_each(|lane| lane.advance(f64::INFINITY));
        seen += self.collect(&mut ends);
        progress(requests.len());
        assert!(self.lanes.iter().all(Lane::is_idle), "a lane ended with somebody in it");
        assert_eq!(seen, requests.len(), "a request ended twice, or not at all");
        Ran { ends, work: self.lanes.iter().map(|lane| lane.done).collect() }
    }

    fn choose(&self, index: usize) -> usize {
        match self.spread {
            Spread::RoundRobin => index % self.lanes.len(),
            Spread::LeastTokens => {
                let tokens = self.lanes.iter().map(Lane::outstanding).enumerate();
                tokens.min_by_key(|(i, tokens)| (*tokens, *i)).map_or(0, |(i, _)| i)
            }
        }
    }

    fn collect(&mut self, ends: &mut [End]) -> usize {
        let mut seen = 0;
        for (index, end) in self.lanes.iter_mut().flat_map(Lane::ended) {
            ends[index] = end;
            seen += 1;
        }
        seen
    }
}

/// Requests between two words on the progress.
const EVERY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sched::{Asked, Bounds, CostModel, Limits, Load, Promise, QueueRule};
    use std::time::Duration;

    /// Every step takes as long.
    struct Steady;

    impl Machine for Steady {
        fn seconds(&mut self, _: Load, _: f64) -> f64 {
            0.01
        }
    }

    fn spec() -> Spec {
        let limits = Limits {
            max_seqs: 4,
            max_rows: 512,
            max_logits: 64,
            context: 1024,
            blocks: 256,
            step_budget: Duration::from_millis(50),
            park_blocks: 0,
            park_move: Duration::ZERO,
            park_ahead: 0,
            quantile: 0.99,
            queue: QueueRule { configured: 256, ..QueueRule::default() },
        };
        let bounds = Bounds { sequences: 260, tokens: 1 << 30, per_tenant: u32::MAX };
        let (promise, cost) = (Promise::default(), CostModel::default());
        Spec {
            limits,
            bounds,
            tenants: 1,
            promise,
            cost,
            expected_output: 256,
            shared_prefix: 0,
            check: true,
        }
    }

    /// One long and one short answer in turn.
    fn requests() -> Vec<Request> {
        let request = |i: usize| Request {
            at: 0.1 * i as f64,
            prompt: 20,
            output: if i.is_multiple_of(2) { 100 } else { 5 },
            asked: Asked::default(),
            tenant: 0,
        };
        (0..100).map(request).collect()
    }

    #[test]
    fn requests_go_where_the_fewest_tokens_are_or_in_turn() {
        let run = |replicas, spread| {
            Fleet::new(&spec(), replicas, spread, |_| Steady).run(&requests(), &mut |_| {})
        };
        let rows = |ran: &Ran| ran.work.iter().map(|work| work.rows).collect::<Vec<_>>();
        let turns = run(2, Spread::RoundRobin);
        assert_eq!(rows(&turns), [50 * 100, 50 * 5], "all the long ones, and all the short ones");
        let even = rows(&run(2, Spread::LeastTokens));
        assert!(even.iter().all(|&rows| rows > 2000) && even.iter().sum::<u64>() == 50 * 105, "{even:?}");
        for spread in [Spread::RoundRobin, Spread::LeastTokens] {
            assert_eq!(rows(&run(1, spread)), [50 * 105]);
            assert_eq!(run(3, spread), run(3, spread));
        }
    }

    #[test]
    fn what_all_prompts_begin_with_is_computed_once() {
        let of = |tenant| move |request: Request| Request { prompt: 100, tenant, ..request };
        let requests: Vec<_> =
            requests().into_iter().map(of(0)).chain([Request { at: 20.0, ..of(1)(requests()[0]) }]).collect();
        for (shared, blocks) in [(0, 0), (15, 0), (47, 2), (200, 6)] {
            let spec = Spec { tenants: 2, shared_prefix: shared, ..spec() };
            let ran = Fleet::new(&spec, 1, Spread::LeastTokens, |_| Steady).run(&requests, &mut |_| {});
            // The first of a tenant computes it, and the last token of a prompt is always computed.
            assert_eq!(ran.work[0].found, 99 * blocks * 16, "{shared}");
            assert!(ran.ends.iter().all(|end| matches!(end, End::Done { .. })), "{shared}");
        }
    }
}
