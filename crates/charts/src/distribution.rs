//! From samples to what shows how they are spread. What is not finite is left out.

use crate::chart::{Bar, Mark, Point};

/// Points of a percentile curve at most: enough for every pixel, and the tail is kept whole.
const CURVE_POINTS: usize = 400;

/// The finite samples, from the least to the greatest.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// A percentile curve: x is a quantile below 1 (for an axis of [`crate::Scale::Tail`]), y the sample that so large a share of
/// the samples does not pass.
pub fn percentiles(samples: &[f64]) -> Mark {
    let sorted = sorted(samples);
    let n = sorted.len();
    let every = n.div_ceil(CURVE_POINTS).max(1);
    // The last samples are the tail, which the axis spreads widest.
    let kept = |i: &usize| i.is_multiple_of(every) || n - i <= CURVE_POINTS / 2;
    Mark::Line((0..n).filter(kept).map(|i| (i as f64 / n as f64, sorted[i])).collect())
}

/// How many samples lie at or below: x is a sample, y the share of samples from 0 to 1.
pub fn cumulative(samples: &[f64]) -> Mark {
    let sorted = sorted(samples);
    let n = sorted.len();
    let share = |(i, sample): (usize, f64)| -> Point { (sample, (i + 1) as f64 / n as f64) };
    Mark::Step(sorted.into_iter().enumerate().map(share).collect())
}

/// Bars of equal width over the samples, each as high as it holds samples.
pub fn histogram(samples: &[f64], bars: usize) -> Mark {
    let sorted = sorted(samples);
    let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else {
        return Mark::Bars(Vec::new());
    };
    let bars = bars.max(1);
    // Halved first: the difference of two finite numbers need not be finite.
    let width = (greatest / bars as f64 - least / bars as f64).max(f64::MIN_POSITIVE);
    let mut counts = vec![0_u64; bars];
    for sample in sorted {
        let bar = (sample / width - least / width) as usize;
        counts[bar.min(bars - 1)] += 1;
    }
    let bar = |(i, &count): (usize, &u64)| {
        let at = |i: usize| least + width * i as f64;
        Bar { from: at(i), to: at(i + 1), height: count as f64 }
    };
    Mark::Bars(counts.iter().enumerate().map(bar).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_curve_climbs_to_the_greatest() {
        let Mark::Line(points) = percentiles(&[3.0, 1.0, f64::NAN, 2.0, 4.0]) else { panic!("not a line") };
        assert_eq!(points, [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.75, 4.0)]);
    }

    #[test]
    fn a_long_percentile_curve_keeps_its_tail() {
        let samples: Vec<f64> = (0..100_000).map(f64::from).collect();
        let Mark::Line(points) = percentiles(&samples) else { panic!("not a line") };
        assert!(points.len() < 2 * CURVE_POINTS, "{}", points.len());
        assert_eq!(points.last(), Some(&(0.99999, 99_999.0)));
        assert!(points.contains(&(0.9999, 99_990.0)));
    }

    #[test]
    fn shares_end_at_one() {
        assert_eq!(cumulative(&[2.0, 1.0]), Mark::Step(vec![(1.0, 0.5), (2.0, 1.0)]));
        assert_eq!(cumulative(&[]), Mark::Step(vec![]));
    }

    #[test]
    fn every_sample_is_in_one_bar() {
        let cases: [(&[f64], &[f64]); 4] = [
            (&[0.0, 1.0, 2.0, 3.0, 4.0], &[1.0, 1.0, 1.0, 2.0]),
            (&[5.0, 5.0], &[2.0, 0.0, 0.0, 0.0]),
            (&[-f64::MAX, f64::MAX], &[1.0, 0.0, 0.0, 1.0]),
            (&[], &[]),
        ];
        for (samples, heights) in cases {
            let Mark::Bars(bars) = histogram(samples, 4) else { panic!("no bars") };
            assert_eq!(bars.iter().map(|bar| bar.height).collect::<Vec<_>>(), heights, "{samples:?}");
        }
    }
}
