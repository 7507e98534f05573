//! What is offered: when, how long, of which class; all fixed by the seed before the run.

use crate::arrivals::{Arrivals, Extent, MOST, Times};
use crate::error::LoadError;
use crate::lengths::Lengths;
use crate::manner::{Manner, Manners};
use crate::prompts::derived;
use crate::trace::{Entry, Scaling, Trace};
use fastrand::Rng;
use std::time::Duration;

/// A share of the requests, sent with `x-priority`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Class {
    /// What `x-priority` says.
    pub name: String,
    /// Its share, above 0; shares need not add up to 1.
    pub share: f64,
}

/// Conversations of several turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sessions {
    /// Turns of each.
    pub turns: u32,
    /// Mean time between an answer and the next turn; exponential.
    pub think: Duration,
}

/// When requests come.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// By a process, of so many requests or so long, with lengths of their own.
    Process {
        /// The process.
        arrivals: Arrivals,
        /// Tokens of prompts.
        prompt: Lengths,
        /// Tokens of answers.
        output: Lengths,
    },
    /// As in a trace.
    Trace {
        /// The trace.
        trace: Trace,
        /// How it is fitted. Its `speedup` gives way to a rate that is asked for.
        scaling: Scaling,
    },
}

/// All that decides what is sent, but for the rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Times and lengths.
    pub source: Source,
    /// Tokens that all prompts begin with alike.
    pub shared_prefix: u32,
    /// Classes; none for requests without `x-priority`.
    pub mix: Vec<Class>,
    /// Clients that misbehave.
    pub manners: Manners,
    /// Conversations, if requests are not each for itself.
    pub sessions: Option<Sessions>,
    /// Arrivals before are sent, and not measured.
    pub warmup: Duration,
    /// Decides every choice.
    pub seed: u64,
}

/// A request to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// When, in seconds from the start.
    pub at: f64,
    /// Its number; with the seed it decides the prompt.
    pub id: u64,
    /// Tokens that its prompt should have.
    pub prompt_tokens: u32,
    /// Most tokens of the answer.
    pub output_tokens: u32,
    /// Index into the mix; 0 without one.
    pub class: usize,
    /// How its client behaves.
    pub manner: Manner,
}

/// The requests of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In order of time. With sessions, their first turns.
    pub offers: Vec<Offer>,
    /// Seconds until the next would have come.
    pub span: f64,
    /// Seconds from the start in which nothing is measured.
    pub warmup: f64,
}

/// Streams of random numbers, so that more of one thing does not change another.
const ARRIVALS: u64 = 1;
const LENGTHS: u64 = 2;
const CLASSES: u64 = 3;
const KEPT: u64 = 4;
const MANNERS: u64 = 8;

impl Workload {
    /// The requests of a run at `rate` per second (`None`: the trace's own, times its speedup), chosen by `round` among those
    /// that the seed could give.
    ///
    /// # Errors
    /// [`LoadError::Nothing`] when there would be no request, [`LoadError::TooMany`] when there would be more than [`MOST`].
    pub fn plan(&self, rate: Option<f64>, extent: Extent, round: u64) -> Result<Plan, LoadError> {
        let seed = derived(self.seed, 0, round);
        let turns = self.sessions.map_or(1, |sessions| sessions.turns.max(1));
        let warmup = self.warmup.as_secs_f64();
        let (offers, span) = match &self.source {
            Source::Process { arrivals, prompt, output } => {
                let rate = rate.filter(|&rate| rate > 0.0 && rate.is_finite());
                let rate = rate.ok_or_else(|| LoadError::Nothing("the rate must be above 0".to_owned()))?;
                let extent = match extent {
                    Extent::Requests(n) => Extent::Requests(n.div_ceil(turns as usize)),
                    Extent::Seconds(_) => extent,
                };
                let seed = derived(seed, ARRIVALS, 0);
                let Times { at, span } = arrivals.times(rate / f64::from(turns), extent, warmup, seed);
                // Cut off there, they would be reported at another rate than the one they come at.
                if at.len() == MOST && extent != Extent::Requests(MOST) {
                    return Err(LoadError::TooMany { most: MOST });
                }
                let mut rng = Rng::with_seed(derived(seed, LENGTHS, 0));
                let lengths = at.iter().map(|_| (prompt.sample(&mut rng), output.sample(&mut rng)));
                (self.offers(at.iter().copied().zip(lengths), seed), span)
            }
            Source::Trace { trace, scaling } => {
                let trace = trace_at(trace, scaling, rate, derived(seed, KEPT, 0));
                let (count, span) = trace_part(&trace, extent, warmup);
                let lengths = |entry: &Entry| (entry.at, (entry.prompt_tokens, entry.output_tokens));
                (self.offers(trace.entries.iter().take(count).map(lengths), seed), span)
            }
        };
        if offers.last().is_none_or(|offer| offer.at < warmup) {
            let why = "no request comes after the warm-up; raise the rate, the number or the duration";
            return Err(LoadError::Nothing(why.to_owned()));
        }
        Ok(Plan { offers, span, warmup })
    }

    fn offers(&self, entries: impl Iterator<Item = (f64, (u32, u32))>, seed: u64) -> Vec<Offer> {
        let mut rng = Rng::with_seed(derived(seed, CLASSES, 0));
        let mut manners = Rng::with_seed(derived(seed, MANNERS, 0));
        let whole: f64 = self.mix.iter().map(|class| class.share).sum();
        let mut class = || {
            let mut left = rng.f64() * whole;
            let of = self.mix.iter().position(|class| {
                left -= class.share;
                left < 0.0
            });
            of.unwrap_or(self.mix.len().saturating_sub(1))
        };
        let mut offer = |(id, (at, (prompt_tokens, output_tokens)))| Offer {
            at,
            id,
            prompt_tokens,
            output_tokens,
            class: class(),
            manner: self.manners.choose(&mut manners),
        };
        (0..).zip(entries).map(&mut offer).collect()
    }
}

/// How many entries of a trace are replayed, and how long that takes: until the next would come, or the last has.
fn trace_part(trace: &Trace, extent: Extent, warmup: f64) -> (usize, f64) {
    let before = |time: f64| trace.entries.partition_point(|entry| entry.at < time);
    let last = trace.entries.last().map_or(0.0, |entry| entry.at);
    match extent {
        Extent::Seconds(seconds) => (before(warmup + seconds), last.min(warmup + seconds)),
        Extent::Requests(n) => {
            let count = before(warmup).saturating_add(n);
            (count, trace.entries.get(count).map_or(last, |entry| entry.at))
        }
    }
}

/// The trace as it is to be replayed: at a rate if one is asked for, else at its own speed times the scaling's.
fn trace_at(trace: &Trace, scaling: &Scaling, rate: Option<f64>, seed: u64) -> Trace {
    let kept = trace.scaled(&Scaling { speedup: 1.0, ..*scaling }, seed);
    let speedup = match rate {
        Some(rate) if kept.rate() > 0.0 => rate / kept.rate(),
        _ => scaling.speedup,
    };
    kept.scaled(&Scaling { speedup, keep: 1.0, tokens: 1.0 }, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        let source = Source::Process {
            arrivals: Arrivals::Constant,
            prompt: Lengths::Uniform { from: 10, to: 20 },
            output: Lengths::Fixed { tokens: 4 },
        };
        let class = |name: &str, share| Class { name: name.to_owned(), share };
        Workload {
            source,
            shared_prefix: 0,
            mix: vec![class("interactive", 0.3), class("batch", 0.7)],
            manners: Manners::default(),
            sessions: None,
            warmup: Duration::ZERO,
            seed: 5,
        }
    }

    #[test]
    fn the_mix_is_kept() {
        let plan = workload().plan(Some(10.0), Extent::Requests(10_000), 0).unwrap();
        let interactive = plan.offers.iter().filter(|offer| offer.class == 0).count();
        assert!((2800..3200).contains(&interactive), "{interactive}");
        assert!(plan.offers.iter().all(|offer| (10..=20).contains(&offer.prompt_tokens)));
        assert_eq!((plan.offers.len(), plan.span), (10_000, 1000.0));
        let ids: Vec<u64> = plan.offers.iter().map(|offer| offer.id).collect();
        assert_eq!(ids, (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn seed_and_round_decide() {
        let plan = |round| workload().plan(Some(10.0), Extent::Requests(50), round).unwrap();
        assert_eq!(plan(0), plan(0));
        assert_ne!(plan(0), plan(1));
    }

    #[test]
    fn a_warm_up_comes_on_top() {
        let workload = Workload { warmup: Duration::from_secs(2), ..workload() };
        let plan = workload.plan(Some(10.0), Extent::Requests(50), 0).unwrap();
        assert_eq!(plan.offers.iter().filter(|offer| offer.at >= 2.0).count(), 50);
        let plan = workload.plan(Some(10.0), Extent::Seconds(5.0), 0).unwrap();
        assert_eq!((plan.offers.len(), plan.span), (70, 7.0));
    }

    #[test]
    fn what_would_be_cut_off_is_refused() {
        for (rate, extent) in [(1e9, Extent::Seconds(60.0)), (10.0, Extent::Requests(MOST + 1))] {
            let error = workload().plan(Some(rate), extent, 0).unwrap_err().to_string();
            assert!(error.starts_with("more than 10000000 requests"), "{rate}: {error}");
        }
    }

    #[test]
    fn sessions_share_the_rate_among_their_turns() {
        let sessions = Some(Sessions { turns: 5, think: Duration::ZERO });
        let plan = Workload { sessions, ..workload() }.plan(Some(10.0), Extent::Requests(50), 0).unwrap();
        assert_eq!((plan.offers.len(), plan.span), (10, 5.0));
    }

    #[test]
    fn traces_are_fitted() {
        let entry = |at| Entry { at, prompt_tokens: 100, output_tokens: 50 };
        let trace = Trace { entries: (0..101).map(|i| entry(f64::from(i))).collect(), failed: 0 };
        let scaling = Scaling { speedup: 2.0, keep: 1.0, tokens: 0.1 };
        let workload = Workload { source: Source::Trace { trace, scaling }, ..workload() };
        let plan = |rate, extent| workload.plan(rate, extent, 0).unwrap();
        let own = plan(None, Extent::Requests(1000));
        assert_eq!((own.offers.len(), own.offers[1].at, own.span), (101, 0.5, 50.0));
        assert_eq!((own.offers[0].prompt_tokens, own.offers[0].output_tokens), (10, 5));
        let fast = plan(Some(10.0), Extent::Seconds(5.0));
        assert_eq!((fast.offers.len(), fast.span), (50, 5.0));
    }

    #[test]
    fn nothing_to_send_is_an_error() {
        for (rate, extent) in
            [(None, Extent::Requests(5)), (Some(0.0), Extent::Requests(5)), (Some(1.0), Extent::Requests(0))]
        {
            assert!(matches!(workload().plan(rate, extent, 0), Err(LoadError::Nothing(_))));
        }
    }
}
