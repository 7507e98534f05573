//! The highest rate that keeps the promise.
//!
//! A bracket is found by doubling and halving, narrowed by bisection, both with a fraction of the requests; then the rate is
//! tried afresh with all of them, and lowered or raised, by steps and then by halves and doubles, until one rate keeps the
//! promise and the next does not.
//! What the search saw does not count for the last word: a rate that was chosen because it looked well would look too well.

use crate::error::LoadError;
use crate::slo::Slo;
use serde::Serialize;

/// How to look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SweepOptions {
    /// Where to begin, in requests per second: from `least` to `most`.
    pub start: f64,
    /// No lower than this.
    pub least: f64,
    /// No higher than this.
    pub most: f64,
    /// Requests that the answer must rest on.
    pub requests: usize,
    /// Two rates are told apart when they differ by this share.
    pub precision: f64,
}

/// A rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tried {
    /// Requests per second.
    pub rate: f64,
    /// Requests that were offered.
    pub offered: usize,
    /// Those that missed the promise.
    pub missed: usize,
    /// Whether the rate keeps the promise.
    pub kept: bool,
    /// It was tried with all requests, not to narrow the search.
    pub whole: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The highest rate that keeps the promise; `None` if not even the least does.
    pub highest: Option<f64>,
    /// `highest` is the most that was allowed, so that there may be more.
    pub open_ended: bool,
    /// Every rate that was tried, in order.
    pub tried: Vec<Tried>,
}

/// The requests of a trial that did not meet the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Requests offered.
    pub offered: usize,
    /// Those that missed.
    pub missed: usize,
}

/// Search trials have this part of the requests.
const SEARCH_PART: usize = 5;
/// No fewer than these, of which one may miss at a quantile of 0.99.
const SEARCH_LEAST: usize = 100;
/// Steps of the last part by what rates are told apart by. Who is further off than that is not found by them in good time.
const STEPS: usize = 10;

/// Looks for the highest rate, trying rates with `try_rate(rate, requests)`.
///
/// # Errors
/// What `try_rate` fails with.
pub async fn sweep(
    options: SweepOptions,
    slo: &Slo,
    try_rate: impl AsyncFnMut(f64, usize) -> Result<Trial, LoadError>,
) -> Result<Sweep, LoadError> {
    let mut search = Search { options, slo, try_rate, tried: Vec::new() };
    let highest = match search.bracket().await? {
        Bracket::Between(low, high) => {
            let low = search.bisect(low, high, false).await?;
            search.settle(low).await?
        }
        Bracket::Open(most) => search.settle(most).await?,
        Bracket::None => None,
    };
    let open_ended = highest.is_some_and(|highest| highest >= options.most);
    Ok(Sweep { highest, open_ended, tried: search.tried })
}

enum Bracket {
    /// A rate that keeps the promise and one that does not.
    Between(f64, f64),
    /// Even the most does.
    Open(f64),
    /// Not even the least does.
    None,
}

struct Search<'a, F> {
    options: SweepOptions,
    slo: &'a Slo,
    try_rate: F,
    tried: Vec<Tried>,
}

impl<F: AsyncFnMut(f64, usize) -> Result<Trial, LoadError>> Search<'_, F> {
    async fn keeps(&mut self, rate: f64, whole: bool) -> Result<bool, LoadError> {
        let all = self.options.requests;
        let requests = if whole { all } else { (all / SEARCH_PART).max(SEARCH_LEAST).min(all) };
        let Trial { offered, missed } = (self.try_rate)(rate, requests).await?;
        // A trial that was cut short had missed more than all of it may.
        let kept = missed <= self.slo.misses_allowed(offered.max(requests));
        self.tried.push(Tried { rate, offered, missed, kept, whole });
        Ok(kept)
    }

    async fn bracket(&mut self) -> Result<Bracket, LoadError> {
        let SweepOptions { start, least, most, .. } = self.options;
        let mut rate = start.clamp(least.min(most), most);
        if self.keeps(rate, false).await? {
            while rate < most {
                let next = (rate * 2.0).min(most);
                if !self.keeps(next, false).await? {
                    return Ok(Bracket::Between(rate, next));
                }
                rate = next;
            }
            return Ok(Bracket::Open(rate));
        }
        while rate > least {
            let next = (rate / 2.0).max(least);
            if self.keeps(next, false).await? {
                return Ok(Bracket::Between(next, rate));
            }
            rate = next;
        }
        Ok(Bracket::None)
    }

    async fn bisect(&mut self, mut low: f64, mut high: f64, whole: bool) -> Result<f64, LoadError> {
        while high / low > (1.0 + self.options.precision) * (1.0 + 1e-9) {
            let middle = f64::midpoint(low, high);
            if self.keeps(middle, whole).await? { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// The last word, by whole trials from `rate` on.
    async fn settle(&mut self, rate: f64) -> Result<Option<f64>, LoadError> {
        let SweepOptions { least, most, precision, .. } = self.options;
        let goes_up = self.keeps(rate, true).await?;
        let (mut last, mut steps) = (rate, 0);
        loop {
            let by = if steps < STEPS { 1.0 + precision } else { 2.0 };
            let next = if goes_up { (last * by).min(most) } else { (last / by).max(least.min(last)) };
            if next == last {
                return Ok(goes_up.then_some(last));
            }
            if self.keeps(next, true).await? != goes_up {
                let (low, high) = if goes_up { (last, next) } else { (next, last) };
                return self.bisect(low, high, true).await.map(Some);
            }
            (last, steps) = (next, steps + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::task::{Context, Poll, Waker};

    /// Runs a future that never waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    const SLO: Slo = Slo { ttft: None, itl: None, e2e: None, quantile: 0.99 };

    /// A server with a knee: up to there none is late, above it the share beyond.
    fn with_knee(knee: f64, options: SweepOptions) -> Sweep {
        let serve = async |rate: f64, offered: usize| {
            let missed = ((1.0 - knee / rate).max(0.0) * offered as f64).ceil() as usize;
            Ok(Trial { offered, missed })
        };
        now(sweep(options, &SLO, serve)).unwrap()
    }

    const OPTIONS: SweepOptions =
        SweepOptions { start: 1.0, least: 1e-3, most: 1e4, requests: 1000, precision: 0.05 };

    proptest! {
        #[test]
        fn the_knee_is_found(knee in 0.01..2000.0_f64, start in 0.1..100.0_f64) {
            let sweep = with_knee(knee, SweepOptions { start, ..OPTIONS });
            let found = sweep.highest.unwrap();
            // One in a hundred may be late, so that the highest rate is a hundredth above the knee.
            prop_assert!(found <= knee / 0.99 && found * 1.06 >= knee, "{found} for {knee}: {:?}", sweep.tried);
            let last_words: Vec<&Tried> = sweep.tried.iter().filter(|tried| tried.whole).collect();
            prop_assert!(last_words.iter().any(|tried| tried.kept && tried.rate == found && tried.offered == 1000));
            prop_assert!(sweep.tried.len() < 40, "{}", sweep.tried.len());
        }
    }

    /// A server whose knee is seen elsewhere by small trials than by whole ones.
    fn with_knees(small: f64, whole: f64, options: SweepOptions) -> Sweep {
        let serve = async |rate: f64, offered: usize| {
            let knee = if offered < 1000 { small } else { whole };
            Ok(Trial { offered, missed: if rate > knee { offered } else { 0 } })
        };
        now(sweep(options, &SLO, serve)).unwrap()
    }

    #[test]
    fn a_search_that_was_wrong_is_corrected_however_wrong_it_was() {
        for (small, whole) in [(20.0, 16.0), (16.0, 20.0), (20.0, 1.3), (1.3, 20.0), (900.0, 0.01)] {
            let sweep = with_knees(small, whole, OPTIONS);
            let found = sweep.highest.unwrap();
            assert!(found <= whole && found * 1.051 >= whole, "{found} for {whole}: {:?}", sweep.tried);
            assert!(sweep.tried.len() < 60, "{}", sweep.tried.len());
        }
    }

    #[test]
    fn what_fails_at_every_rate_is_tried_down_to_the_least() {
        for (least, small) in [(1e-3, 20.0), (0.5, 20.0), (0.5, 1e-9), (1.0, 1e-9)] {
            let sweep = with_knees(small, 1e-9, SweepOptions { least, ..OPTIONS });
            assert_eq!((sweep.highest, sweep.open_ended), (None, false));
            let lowest = sweep.tried.iter().map(|tried| tried.rate).fold(f64::INFINITY, f64::min);
            assert_eq!(lowest, least, "{:?}", sweep.tried);
        }
        let at_the_least = with_knees(20.0, 0.5, SweepOptions { least: 0.5, ..OPTIONS });
        assert_eq!(at_the_least.highest, Some(0.5));
    }

    #[test]
    fn a_start_far_below_is_no_hindrance() {
        for (knee, start) in [(1575.1, 0.1), (9000.0, 0.1), (0.01, 100.0)] {
            let found = with_knee(knee, SweepOptions { start, ..OPTIONS }).highest.unwrap();
            assert!(found <= knee / 0.99 && found * 1.06 >= knee, "{found} for {knee} from {start}");
        }
    }

    #[test]
    fn ends() {
        let most = with_knee(1e9, SweepOptions { most: 50.0, ..OPTIONS });
        assert_eq!((most.highest, most.open_ended), (Some(50.0), true));
        let none = with_knee(1e-9, OPTIONS);
        assert_eq!((none.highest, none.open_ended), (None, false));
        assert!(none.tried.len() < 20);
    }

    #[test]
    fn a_trial_cut_short_has_failed() {
        // It ended after the 30 requests that showed enough.
        let serve = async |rate: f64, requests: usize| {
            let fails = rate > 10.0;
            Ok(if fails { Trial { offered: 30, missed: 11 } } else { Trial { offered: requests, missed: 0 } })
        };
        let found = now(sweep(OPTIONS, &SLO, serve)).unwrap().highest.unwrap();
        assert!((9.5..=10.0).contains(&found), "{found}");
    }
}
