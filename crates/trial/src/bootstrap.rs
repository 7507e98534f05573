//! Figures with intervals, by resampling rounds.
//!
//! Requests of the same seconds share a queue, a batch and a rush hour; they are not independent, and an interval that
//! takes them to be is far too narrow. Rounds are as good as independent, and each has all arms, so what makes one round
//! slower than another is in all of them and cancels out in their difference.
//!
//! Intervals are percentiles of the resampled figures (Efron and Tibshirani, "An Introduction to the Bootstrap", chapter
//! 13), widened for few rounds as in Hesterberg, "What Teachers Should Know About the Bootstrap", section 5.3.

use crate::random::Random;
use crate::tally::{BUCKETS, Counts, KEPT, TIMES, middle};

/// What is known of an arm, one number each.
pub(crate) const FIGURES: usize = 2 + TIMES * QUANTILES.len();
pub(crate) const GOODPUT: usize = 0;
pub(crate) const IN_PROMISE: usize = 1;
/// Where the quantiles of the first kind of time begin; those of the next kinds follow.
pub(crate) const FIRST_TIME: usize = 2;
pub(crate) const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// A figure of each kind; NaN where there is nothing to know it from.
pub(crate) type Figures = [f64; FIGURES];

/// A number, and where it is with a confidence of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// What is known of the arms.
#[derive(Debug)]
pub(crate) struct Estimates {
    /// Per arm.
    pub arms: Vec<[Estimate; FIGURES]>,
    /// Per arm: by how much it differs from the first.
    pub differences: Vec<[Estimate; FIGURES]>,
}

/// All requests of an arm.
#[derive(Clone)]
struct Pool {
    seconds: f64,
    offered: u64,
    kept: u64,
    times: [Times; TIMES],
}

#[derive(Clone)]
struct Times {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Pool {
    const fn new() -> Self {
        Self { seconds: 0.0, offered: 0, kept: 0, times: [const { Times::NONE }; TIMES] }
    }

    fn clear(&mut self) {
        (self.seconds, self.offered, self.kept) = Default::default();
        self.times.iter_mut().filter(|times| times.total > 0).for_each(|times| *times = Times::NONE);
    }

    fn add(&mut self, counts: &Counts) {
        self.seconds += counts.seconds;
        self.offered += counts.offered();
        self.kept += counts.requests[KEPT];
        for (times, more) in self.times.iter_mut().zip(&counts.times) {
            for &(bucket, count) in more {
                times.counts[bucket] += count;
                times.total += count;
            }
        }
    }

    fn figures(&self) -> Figures {
        let mut figures = [f64::NAN; FIGURES];
        figures[GOODPUT] = self.kept as f64 / self.seconds;
        figures[IN_PROMISE] = self.kept as f64 / self.offered as f64;
        for (times, figures) in self.times.iter().zip(figures[FIRST_TIME..].chunks_exact_mut(QUANTILES.len()))
        {
            times.quantiles(figures);
        }
        figures
    }
}

impl Times {
    const NONE: Self = Self { counts: [0; BUCKETS], total: 0 };

    /// Nearest rank, to a bucket.
    fn quantiles(&self, into: &mut [f64]) {
        if self.total == 0 {
            return;
        }
        let (mut below, mut next) = (0, 0);
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            while next < QUANTILES.len()
                && f64::from(below) >= (QUANTILES[next] * f64::from(self.total)).ceil()
            {
                into[next] = middle(bucket);
                next += 1;
            }
        }
    }
}

/// Estimates the figures of `arms` arms from rounds, with so many resamples.
pub(crate) fn estimate(rows: &[Vec<Counts>], arms: usize, resamples: usize) -> Estimates {
    let all = figures(&mut vec![Pool::new(); arms], rows.iter());
    let mut samples = Samples::new(arms, resamples);
    let mut random = Random::new(0x0070_6c69_6d73_6f6c);
    let mut pools = vec![Pool::new(); arms];
    for _ in 0..resamples {
        let drawn = (0..rows.len()).map(|_| &rows[random.below(rows.len())]);
        samples.add(&figures(&mut pools, drawn));
    }
    let tail = tail(rows.len());
    let estimates = |difference: bool| {
        let arms = (0..arms).map(|arm| {
            std::array::from_fn(|figure| {
                let base = if difference { all[0][figure] } else { 0.0 };
                samples.estimate((arm, figure), difference, all[arm][figure] - base, tail)
            })
        });
        arms.collect()
    };
    Estimates { arms: estimates(false), differences: estimates(true) }
}

fn figures<'a>(pools: &mut [Pool], rows: impl Iterator<Item = &'a Vec<Counts>>) -> Vec<Figures> {
    pools.iter_mut().for_each(Pool::clear);
    for row in rows {
        pools.iter_mut().zip(row).for_each(|(pool, counts)| pool.add(counts));
    }
    pools.iter().map(Pool::figures).collect()
}

/// The figures of every resample, by arm and kind.
struct Samples {
    arms: usize,
    figures: Vec<Vec<f64>>,
}

impl Samples {
    fn new(arms: usize, resamples: usize) -> Self {
        Self { arms, figures: vec![Vec::with_capacity(resamples); arms * FIGURES] }
    }

    fn add(&mut self, figures: &[Figures]) {
        debug_assert_eq!(figures.len(), self.arms, "every arm has its figures");
        for (sample, figure) in self.figures.iter_mut().zip(figures.iter().flatten()) {
            sample.push(*figure);
        }
    }

    fn estimate(
        &self,
        (arm, figure): (usize, usize),
        is_difference: bool,
        value: f64,
        tail: f64,
    ) -> Estimate {
        let own = &self.figures[arm * FIGURES + figure];
        let first = &self.figures[figure];
        let pairs = own.iter().zip(first);
        let mut sample: Vec<f64> =
            pairs.map(|(own, first)| if is_difference { own - first } else { *own }).collect();
        // A resample may have drawn no round in which the arm had requests.
        sample.retain(|figure| figure.is_finite());
        sample.sort_by(f64::total_cmp);
        Estimate { value, low: quantile(&sample, tail), high: quantile(&sample, 1.0 - tail) }
    }
}

/// Of sorted numbers; NaN of none.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = (q * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// The share of the resamples to be cut off at each end for a confidence of 95 %, with so many rounds. Resampled figures
/// scatter less than they should by a factor of `sqrt((n - 1) / n)`, and by their normal quantile where Student's is due.
fn tail(rounds: usize) -> f64 {
    if rounds < 2 {
        return 0.0;
    }
    let n = rounds as f64;
    normal_tail((n / (n - 1.0)).sqrt() * student(n - 1.0))
}

/// The 97.5th percentile of Student's distribution with so many degrees of freedom: the expansion of Abramowitz and
/// Stegun, 26.7.5. Good to three digits from five on.
fn student(degrees: f64) -> f64 {
    let z = 1.959_963_985_f64;
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    let terms = [
        (z3 + z) / 4.0,
        (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0,
        (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / degrees) + z
}

/// How likely a standard normal number is above `x`, which is not negative: Abramowitz and Stegun, 26.2.17.
fn normal_tail(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let series = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal number with these.
    fn normal(random: &mut Random, mean: f64, deviation: f64) -> f64 {
        let (u, v) = (random.unit().max(1e-12), random.unit());
        mean + deviation * (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }

    /// Two arms over so many rounds: requests that come by chance, rounds that are better and worse for both, and the
    /// second arm keeping so much more of its promises.
    fn rounds(random: &mut Random, rounds: usize, base: f64, effect: f64) -> Vec<Vec<Counts>> {
        let round = |_| {
            let weather = normal(random, 0.0, 0.1);
            let mut cell = |share: f64| {
                let offered = normal(random, 100.0, 10.0).max(10.0) as u64;
                let kept = (0..offered).filter(|_| random.unit() < share + weather).count() as u64;
                Counts {
                    seconds: 16.0,
                    blocks: 1,
                    requests: [kept, offered - kept, 0, 0],
                    ..Counts::default()
                }
            };
            vec![cell(base), cell(base + effect)]
        };
        (0..rounds).map(round).collect()
    }

    /// In how many of so many experiments the interval of the difference has `effect` in it.
    fn covered(effect: f64, n: usize, experiments: usize) -> usize {
        let mut random = Random::new(11);
        let has_it = |_: &usize| {
            let rows = rounds(&mut random, n, 0.6, effect);
            let found = estimate(&rows, 2, 400).differences[1][IN_PROMISE];
            found.low <= effect && effect <= found.high
        };
        (0..experiments).filter(has_it).count()
    }

    #[test]
    fn intervals_have_the_truth_in_them_as_often_as_they_say() {
        // Of 400, 95 % are 380; twice the deviation of such a count is 9.
        for (effect, n) in [(0.0, 8), (0.1, 8), (0.1, 24)] {
            let covered = covered(effect, n, 400);
            assert!((367..=393).contains(&covered), "{covered} of 400, for {effect} in {n} rounds");
        }
    }

    #[test]
    fn a_difference_is_sure_of_more_than_its_parts() {
        let rows = rounds(&mut Random::new(3), 30, 0.6, 0.1);
        let estimates = estimate(&rows, 2, 1000);
        let width = |estimate: Estimate| estimate.high - estimate.low;
        let difference = width(estimates.differences[1][IN_PROMISE]);
        // The weather is the same for both.
        assert!(difference < width(estimates.arms[1][IN_PROMISE]), "{estimates:?}");
        assert_eq!(width(estimates.differences[0][IN_PROMISE]), 0.0);
    }

    #[test]
    fn percentiles_are_those_of_the_requests() {
        let cell = |bucket: usize| Counts {
            seconds: 1.0,
            blocks: 1,
            requests: [100, 0, 0, 0],
            times: [vec![(bucket, 94), (200, 5), (250, 1)], Vec::new(), Vec::new()],
        };
        let rows = vec![vec![cell(100), cell(120)]; 10];
        let estimates = estimate(&rows, 2, 50);
        let [p50, p95, p99] = [0, 1, 2].map(|q| estimates.arms[0][FIRST_TIME + q]);
        assert_eq!([p50.value, p95.value, p99.value], [middle(100), middle(200), middle(200)]);
        assert_eq!((p50.low, p50.high), (middle(100), middle(100)));
        assert!(estimates.arms[0][FIRST_TIME + 3].value.is_nan(), "no gap was measured");
        assert_eq!(estimates.differences[1][FIRST_TIME].value, middle(120) - middle(100));
        assert_eq!(estimates.arms[0][GOODPUT].value, 100.0);
    }

    #[test]
    fn tables_agree() {
        for (degrees, expected) in
            [(5.0, 2.5706), (7.0, 2.3646), (10.0, 2.2281), (30.0, 2.0423), (1e6, 1.95996)]
        {
            assert!((student(degrees) - expected).abs() < 0.004, "{degrees}: {}", student(degrees));
        }
        for (x, expected) in [(0.0, 0.5), (1.0, 0.158_655), (1.959_964, 0.025), (3.0, 0.001_350)] {
            assert!((normal_tail(x) - expected).abs() < 1e-6, "{x}: {}", normal_tail(x));
        }
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.0), 1.0);
    }
}
