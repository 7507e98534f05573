//! When requests come: a process that is fixed before the run, whatever the server does.

use fastrand::Rng;
use serde::Serialize;

/// A process of arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Arrivals {
    /// One every `1 / rate`.
    Constant,
    /// Independent of each other: gaps are exponential.
    #[default]
    Poisson,
    /// `size` at once, every `size / rate`.
    Burst {
        /// How many at once.
        size: u32,
    },
    /// Independent of each other, at a rate that changes evenly from `from` times the rate to `to` times.
    Ramp {
        /// At the start, as a multiple of the rate.
        from: f64,
        /// At the end.
        to: f64,
    },
}

/// How much is offered, the warm-up not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// So many requests.
    Requests(usize),
    /// So many seconds.
    Seconds(f64),
}

/// Most requests of one run.
pub const MOST: usize = 10_000_000;

/// Times of arrivals in seconds from the start, in order, and the time at which the next would have come (or the run's end).
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// The arrivals.
    pub at: Vec<f64>,
    /// How long they took.
    pub span: f64,
}

impl Arrivals {
    /// The arrivals at a mean `rate` per second (above 0, finite): those of the first `warmup` seconds, and `extent` more. The
    /// same seed gives the same times.
    pub fn times(&self, rate: f64, extent: Extent, warmup: f64, seed: u64) -> Times {
        let mut rng = Rng::with_seed(seed);
        let (most, end) = match extent {
            Extent::Requests(n) => (n.min(MOST), f64::INFINITY),
            Extent::Seconds(seconds) => (MOST, warmup + seconds),
        };
        // Of a ramp the length must be known before it begins.
        let length = if end.is_finite() { end } else { warmup + self.mean_length(most, rate) };
        let mut at = Vec::new();
        let (mut load, mut counted) = (0.0, 0);
        for i in 0.. {
            let time = match *self {
                Self::Constant => i as f64 / rate,
                Self::Burst { size } => {
                    let size = size.max(1) as usize;
                    (i / size * size) as f64 / rate
                }
                Self::Poisson => {
                    load += exponential(&mut rng);
                    load / rate
                }
                Self::Ramp { from, to } => {
                    load += exponential(&mut rng);
                    ramp_time(load, from * rate, to * rate, length)
                }
            };
            if counted == most || at.len() == MOST || time >= end {
                return Times { span: if end.is_finite() { end } else { time }, at };
            }
            counted += usize::from(time >= warmup);
            at.push(time);
        }
        Times { at, span: length }
    }

    /// Seconds that `requests` take on average.
    fn mean_length(&self, requests: usize, rate: f64) -> f64 {
        let factor = if let Self::Ramp { from, to } = self { f64::midpoint(*from, *to) } else { 1.0 };
        requests as f64 / (rate * factor)
    }
}

/// A gap of a Poisson process of rate 1.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// When a rate that grows evenly from `from` to `to` within `length` seconds, and stays there, has brought `load` arrivals:
/// the inverse of its integral (a Poisson process with a changing rate, by its time transformation).
fn ramp_time(load: f64, from: f64, to: f64, length: f64) -> f64 {
    let whole = f64::midpoint(from, to) * length;
    if load >= whole {
        return length + (load - whole) / to.max(from).max(1e-9);
    }
    let slope = (to - from) / length;
    if slope.abs() < 1e-12 {
        return load / from;
    }
    // The root of from * t + slope * t^2 / 2 = load, in the form that loses nothing when `slope` is small.
    2.0 * load / (from + (from * from + 2.0 * slope * load).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fixed_times() {
        let times = |arrivals: Arrivals, extent| arrivals.times(2.0, extent, 0.0, 1);
        let constant = times(Arrivals::Constant, Extent::Requests(3));
        assert_eq!(constant, Times { at: vec![0.0, 0.5, 1.0], span: 1.5 });
        let seconds = times(Arrivals::Constant, Extent::Seconds(1.2));
        assert_eq!(seconds, Times { at: vec![0.0, 0.5, 1.0], span: 1.2 });
        let burst = times(Arrivals::Burst { size: 4 }, Extent::Requests(6));
        assert_eq!(burst, Times { at: vec![0.0, 0.0, 0.0, 0.0, 2.0, 2.0], span: 2.0 });
    }

    #[test]
    fn a_ramp_brings_more_at_its_end() {
        let ramp = Arrivals::Ramp { from: 0.0, to: 2.0 };
        let Times { at, span } = ramp.times(100.0, Extent::Seconds(100.0), 0.0, 3);
        assert!((at.len() as f64 - 10_000.0).abs() < 400.0, "{}", at.len());
        let before = |time: f64| at.iter().filter(|&&at| at < time).count() as f64;
        // The integral of an even growth: a quarter has come at half the time.
        assert!((before(span / 2.0) / at.len() as f64 - 0.25).abs() < 0.02);
        let falling = Arrivals::Ramp { from: 2.0, to: 0.0 }.times(100.0, Extent::Seconds(100.0), 0.0, 3);
        assert!((falling.at.len() as f64 - 10_000.0).abs() < 400.0, "{}", falling.at.len());
    }

    fn process() -> impl Strategy<Value = Arrivals> {
        let ramp = (0.0..3.0, 0.1..3.0).prop_map(|(from, to)| Arrivals::Ramp { from, to });
        let burst = (1..20_u32).prop_map(|size| Arrivals::Burst { size });
        prop_oneof![Just(Arrivals::Constant), Just(Arrivals::Poisson), burst, ramp]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_mean_is_right_and_the_seed_decides(process in process(), rate in 0.1..1000.0_f64, seed: u64) {
            let n = 4000;
            let seconds = process.mean_length(n, rate);
            let Times { at, span } = process.times(rate, Extent::Seconds(seconds), 0.0, seed);
            prop_assert!(at.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!(at.last().is_some_and(|&last| last < seconds) && span == seconds);
            // Six standard deviations of a Poisson process.
            prop_assert!((at.len() as f64 / n as f64 - 1.0).abs() < 0.1, "{} instead of {n}", at.len());
            prop_assert_eq!(&process.times(rate, Extent::Seconds(seconds), 0.0, seed).at, &at);
            if process == Arrivals::Poisson {
                prop_assert_ne!(&process.times(rate, Extent::Seconds(seconds), 0.0, seed.wrapping_add(1)).at, &at);
            }
            let warmup = 10.0 / rate;
            let counted = process.times(rate, Extent::Requests(100), warmup, seed);
            prop_assert_eq!(counted.at.iter().filter(|&&at| at >= warmup).count(), 100);
            prop_assert!(counted.at.last().is_some_and(|&last| last <= counted.span) && counted.span.is_finite());
        }
    }
}
