//! What steps cost on a machine, measured beforehand: a fit through many measured steps, and how far off that is.

use crate::load::{Load, Rates};
use std::time::Duration;

/// The shares of steps whose ratio of measured to predicted time is kept.
pub const QUANTILES: [f64; 11] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999];

/// Step times as measured: what a step costs, and how much longer or shorter than that it may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What the median step costs.
    pub rates: Rates,
    /// Measured over predicted time, at [`QUANTILES`]; rising.
    pub residuals: [f64; QUANTILES.len()],
}

impl Measured {
    /// The least squares fit of relative errors to the medians of `samples` with the same load, with no coefficient below zero;
    /// `None` for fewer than four loads, or times of zero. A sample that waited for a core thus counts in the residuals, and
    /// does not make every step longer.
    pub fn fit(samples: &[(Load, Duration)]) -> Option<Self> {
        let medians = medians(samples);
        if medians.len() < 4 || samples.iter().any(|(_, took)| took.is_zero()) {
            return None;
        }
        // Relative to what is fitted, not to what was measured: else what was measured short would count most.
        let mut scales: Vec<f64> = medians.iter().map(|(_, took)| *took).collect();
        let mut rates = Rates { base: 0.0, prefill: 0.0, decode: 0.0, kv: 0.0 };
        for _ in 0..REWEIGHTED {
            let [base, prefill, decode, kv] = solve(&medians, &scales);
            rates = Rates { base, prefill, decode, kv };
            scales = medians.iter().map(|(load, took)| rates.seconds(*load).max(took * 0.1)).collect();
        }
        let mut ratios: Vec<f64> =
            samples.iter().map(|(load, took)| took.as_secs_f64() / rates.seconds(*load)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |q: f64| ratios[((q * ratios.len() as f64) as usize).min(ratios.len() - 1)];
        Some(Self { rates, residuals: QUANTILES.map(at) })
    }

    /// The ratio of actual to predicted time that a share `q` of steps does not pass: linear between [`QUANTILES`], and flat
    /// beyond them.
    pub fn ratio(&self, q: f64) -> f64 {
        let after = QUANTILES.partition_point(|&at| at < q);
        let (Some(&high), Some(below)) = (self.residuals.get(after), after.checked_sub(1)) else {
            return if after == 0 { self.residuals[0] } else { self.residuals[QUANTILES.len() - 1] };
        };
        let part = (q - QUANTILES[below]) / (QUANTILES[after] - QUANTILES[below]);
        self.residuals[below] + (high - self.residuals[below]) * part
    }

    /// Whether every figure is one that steps can have: whatever a step holds, its time is one that can be told.
    pub fn is_sound(&self) -> bool {
        let Rates { base, prefill, decode, kv } = self.rates;
        let cost = [base, prefill, decode, kv];
        cost.iter().all(|cost| (0.0..=MOST_SECONDS).contains(cost))
            && base + prefill > 0.0
            && base + decode > 0.0
            && self.residuals.iter().all(|ratio| *ratio > 0.0 && *ratio <= MOST_RATIO)
            && self.residuals.is_sorted()
    }
}

/// Most seconds of a step, and of each unit of what is in it.
const MOST_SECONDS: f64 = 100.0;
/// Most that a step may have taken longer than predicted: a process that was stopped for minutes passes for one.
const MOST_RATIO: f64 = 1e6;

/// The loads, and the median seconds of each.
fn medians(samples: &[(Load, Duration)]) -> Vec<(Load, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by_key(|(load, took)| (load.prefill, load.decodes, load.kv, *took));
    let median = |of_one: &[(Load, Duration)]| {
        let (load, took) = of_one[of_one.len() / 2];
        (load, took.as_secs_f64())
    };
    sorted.chunk_by(|a, b| a.0 == b.0).map(median).collect()
}

/// Coordinate descent on the normal equations of errors relative to `scales`, each coefficient held at zero or above: the
/// problem is convex, and four coefficients are soon at rest.
fn solve(samples: &[(Load, f64)], scales: &[f64]) -> [f64; 4] {
    let (mut gram, mut target) = ([[0.0; 4]; 4], [0.0; 4]);
    for ((load, took), scale) in samples.iter().zip(scales) {
        let row = load.features().map(|feature| feature / scale);
        for i in 0..4 {
            target[i] += row[i] * took / scale;
            for j in 0..4 {
                gram[i][j] += row[i] * row[j];
            }
        }
    }
    let mut weights = [0.0; 4];
    for _ in 0..ROUNDS {
        let before = weights;
        for i in 0..4 {
            let others: f64 = (0..4).filter(|j| *j != i).map(|j| gram[i][j] * weights[j]).sum();
            weights[i] = if gram[i][i] > 0.0 { ((target[i] - others) / gram[i][i]).max(0.0) } else { 0.0 };
        }
        if weights.iter().zip(before).all(|(now, before): (&f64, f64)| (now - before).abs() <= now * 1e-9) {
            break;
        }
    }
    weights
}

/// Times the fit is made anew with weights from the last one.
const REWEIGHTED: usize = 5;
/// Rounds of the descent; columns that are nearly parallel take some thousands.
const ROUNDS: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> Vec<Load> {
        let mut shapes = Vec::new();
        for decodes in [0, 1, 4, 16] {
            for depth in [16, 512, 2048] {
                for prefill in [0, 16, 64, 256] {
                    let load = (0..decodes).fold(Load::default(), |load, _| load.with_decode(depth));
                    let load = if prefill > 0 { load.with_prefill(depth, prefill) } else { load };
                    shapes.extend((decodes + prefill > 0).then_some(load));
                }
            }
        }
        shapes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_made_the_times_is_found(
            base in 1e-3..1e-2_f64, prefill in 1e-4..1e-3_f64, decode in 1e-4..5e-3_f64, kv in 0.0..1e-6_f64,
        ) {
            let truth = Rates { base, prefill, decode, kv };
            let samples: Vec<_> =
                shapes().into_iter().map(|load| (load, Duration::from_secs_f64(truth.seconds(load)))).collect();
            let fit = Measured::fit(&samples).unwrap();
            prop_assert!(fit.is_sound());
            for load in shapes() {
                let off = fit.rates.seconds(load) / truth.seconds(load);
                prop_assert!((0.99..1.01).contains(&off), "{load:?}: {off}");
            }
            prop_assert!((fit.ratio(0.5) - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn ratios_are_read_between_those_kept() {
        let rates = Rates { base: 1e-3, prefill: 1e-3, decode: 1e-3, kv: 0.0 };
        let residuals = [0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 3.0];
        let measured = Measured { rates, residuals };
        assert!(measured.is_sound());
        for (q, expected) in [(0.0, 0.8), (0.01, 0.8), (0.5, 1.0), (0.625, 1.05), (0.999, 3.0), (1.0, 3.0)] {
            assert!((measured.ratio(q) - expected).abs() < 1e-9, "{q}: {}", measured.ratio(q));
        }
        let wrong = [
            Measured { residuals: [f64::NAN; 11], ..measured },
            Measured { rates: Rates { base: -1.0, ..rates }, ..measured },
            Measured { rates: Rates { base: 0.0, decode: 0.0, ..rates }, ..measured },
        ];
        wrong.iter().for_each(|wrong| assert!(!wrong.is_sound(), "{wrong:?}"));
    }

    #[test]
    fn what_waited_for_a_core_is_a_residual() {
        let truth = Rates { base: 3e-3, prefill: 5e-4, decode: 1e-3, kv: 1e-7 };
        let runs = |load: Load| {
            (0..10).map(move |i| {
                let stall = if i < 3 { 4.0 } else { 1.0 + 0.02 * f64::from(i - 6) };
                (load, Duration::from_secs_f64(truth.seconds(load) * stall))
            })
        };
        let samples: Vec<_> = shapes().into_iter().flat_map(runs).collect();
        let fit = Measured::fit(&samples).unwrap();
        for load in shapes() {
            let off = fit.rates.seconds(load) / truth.seconds(load);
            assert!((0.95..1.1).contains(&off), "{load:?}: {off}");
        }
        assert!((0.9..1.1).contains(&fit.ratio(0.5)) && fit.ratio(0.9) > 3.5, "{fit:?}");
    }

    #[test]
    fn too_little_is_no_measurement() {
        assert_eq!(Measured::fit(&[]), None);
        assert_eq!(Measured::fit(&[(Load::default(), Duration::ZERO); 9]), None);
    }
}
