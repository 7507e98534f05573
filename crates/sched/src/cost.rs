//! How long a step will take: a line through what was measured, corrected by every step.

use crate::load::{Load, Rates};
use crate::measured::Measured;
use std::time::Duration;

/// `seconds = pace * (base + a * prefill + b * decodes + c * kv)`, all coefficients positive. The coefficients are what
/// the model and the machine are like, and change slowly; the pace is what else the machine does, and changes fast.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    /// Seconds per feature of [`Load`].
    weights: [f64; 4],
    pace: f64,
    /// The lowest pace lately, by the coefficients it was measured with: how fast the machine can be.
    best: [f64; 4],
}

impl Default for CostModel {
    /// A small model on a slow machine: steps start short rather than long.
    fn default() -> Self {
        Self::of([2e-3, 1e-3, 2e-3, 1e-7])
    }
}

impl CostModel {
    /// Share of an error that the coefficients take in at once.
    const GAIN: f64 = 0.1;
    /// Share of an error that the pace takes in at once.
    const PACE_GAIN: f64 = 0.08;
    /// How much of the pace the coefficients take over per step.
    const SETTLE: f64 = 0.005;

    fn of(weights: [f64; 4]) -> Self {
        Self { weights, pace: 1.0, best: weights }
    }

    /// A model that fits `samples`, measured before serving.
    pub fn seeded(samples: &[(Load, Duration)]) -> Self {
        let mut model = Self::default();
        for _ in 0..200 {
            for &(load, elapsed) in samples {
                model.fit(load, elapsed.as_secs_f64(), Self::GAIN);
            }
        }
        Self::of(model.weights)
    }

    /// A model that begins with what was measured beforehand.
    pub fn measured(measured: &Measured) -> Self {
        let Rates { base, prefill, decode, kv } = measured.rates;
        // What was found to cost nothing may turn out to cost something: corrections are in proportion.
        let least = (base + prefill.max(decode)) * 2e-6;
        Self::of([base, prefill, decode, kv].map(|weight| weight.max(least)))
    }

    /// How long `load` should take.
    pub fn predict(&self, load: Load) -> Duration {
        Duration::from_secs_f64(self.seconds(load))
    }

    /// What the prediction is made of, as of now.
    pub fn rates(&self) -> Rates {
        rates(self.weights, self.pace)
    }

    /// The same on the machine's better days: what could be reached when nothing else runs.
    pub fn best_rates(&self) -> Rates {
        rates(self.best, 1.0)
    }

    fn seconds(&self, load: Load) -> f64 {
        self.pace * self.raw(load)
    }

    fn raw(&self, load: Load) -> f64 {
        rates(self.weights, 1.0).seconds(load)
    }

    /// Learns that `load` took `elapsed`. One freak step of any length changes little.
    pub fn correct(&mut self, load: Load, elapsed: Duration) {
        let elapsed = elapsed.as_secs_f64();
        let ratio = elapsed / self.seconds(load);
        self.pace *= ratio.clamp(0.5, 2.0).powf(Self::PACE_GAIN);
        // What lasts belongs to the coefficients.
        let settled = self.pace.powf(Self::SETTLE);
        self.pace /= settled;
        self.weights.iter_mut().for_each(|weight| *weight *= settled);
        self.fit(load, elapsed / self.pace, Self::GAIN / 4.0);
        for (best, weight) in self.best.iter_mut().zip(self.weights) {
            let now = weight * self.pace;
            // Down at once, up over some thousands of steps.
            *best = if now < *best { now } else { *best + (now - *best) * 2e-4 };
        }
    }

    /// Each coefficient is scaled in proportion to its share in the prediction (a multiplicative form of normalised
    /// least mean squares), so none turns negative, and none changes by more than a fifth.
    fn fit(&mut self, load: Load, elapsed: f64, gain: f64) {
        let features = load.features();
        let predicted = self.raw(load);
        let error = ((elapsed - predicted) / predicted).clamp(-0.5, 1.0);
        let norm: f64 = self.weights.iter().zip(features).map(|(w, f)| (w * f / predicted).powi(2)).sum();
        for (weight, feature) in self.weights.iter_mut().zip(features) {
            let share = *weight * feature / predicted;
            *weight = (*weight * (1.0 + gain * error * share / norm.max(0.25))).max(1e-12);
        }
    }

    /// The longest prefill chunk from `start` on, up to `most` rows, with which `load` stays within `budget`. May be 0.
    pub fn longest_prefill(&self, load: Load, start: usize, most: usize, budget: Duration) -> usize {
        let (mut fits, mut too_long) = (0, most + 1);
        while too_long - fits > 1 {
            let middle = usize::midpoint(fits, too_long);
            if self.predict(load.with_prefill(start, middle)) <= budget {
                fits = middle;
            } else {
                too_long = middle;
            }
        }
        fits
    }
}

fn rates([base, prefill, decode, kv]: [f64; 4], pace: f64) -> Rates {
    Rates { base: base * pace, prefill: prefill * pace, decode: decode * pace, kv: kv * pace }
}
