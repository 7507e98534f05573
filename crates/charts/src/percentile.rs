//! Percentiles, exact: nearest rank over all samples, nothing interpolated or bucketed.

use serde::Serialize;

/// How samples are spread; all of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Samples.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// The least sample that half of them do not pass; and so on.
    pub p50: f64,
    #[expect(missing_docs, reason = "see p50")]
    pub p90: f64,
    #[expect(missing_docs, reason = "see p50")]
    pub p95: f64,
    #[expect(missing_docs, reason = "see p50")]
    pub p99: f64,
    /// The 99.9th.
    #[serde(rename = "p99.9")]
    pub p999: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of samples; `None` without any. All must be finite.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let max = *sorted.last()?;
        let n = sorted.len();
        let mean = sorted.iter().sum::<f64>() / n as f64;
        let at = |quantile| nearest_rank(&sorted, quantile).unwrap_or(max);
        Some(Self { n, mean, p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99), p999: at(0.999), max })
    }
}

/// The least of the sorted samples that a share of `quantile` of them does not pass; `None` without samples.
pub fn nearest_rank(sorted: &[f64], quantile: f64) -> Option<f64> {
    // A product such as 0.99 * 100 may come out a little above the rank it stands for.
    let rank = (quantile * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hundred() {
        let spread = Spread::of((1..=100).rev().map(f64::from)).unwrap();
        let wanted = Spread {
            n: 100,
            mean: 50.5,
            p50: 50.0,
            p90: 90.0,
            p95: 95.0,
            p99: 99.0,
            p999: 100.0,
            max: 100.0,
        };
        assert_eq!(spread, wanted);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([7.0]).map(|spread| (spread.p50, spread.p999)), Some((7.0, 7.0)));
    }

    proptest! {
        /// The definition, counted out: the least sample at or below which lie enough of them.
        #[test]
        fn as_counted_out(samples in prop::collection::vec(0..50_i32, 1..200), per_mille in 0..=1000_usize) {
            let mut sorted: Vec<f64> = samples.iter().copied().map(f64::from).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let enough = |&&sample: &&f64| {
                let below = sorted.iter().filter(|&&other| other <= sample).count();
                below * 1000 >= per_mille * sorted.len()
            };
            let wanted = sorted.iter().find(enough).copied();
            prop_assert_eq!(nearest_rank(&sorted, per_mille as f64 / 1000.0), wanted);
        }
    }
}
