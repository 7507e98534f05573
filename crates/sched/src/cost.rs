//! How long a step will take: a line through what was measured, corrected by every step.

use std::time::Duration;

/// What a step has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Rows of prefill chunks.
    pub prefill: usize,
    /// Sequences that decode one token.
    pub decodes: usize,
    /// Tokens of KV cache read, summed over all rows.
    pub kv: usize,
}

impl Load {
    /// This load and a prefill chunk of `len` rows from position `start` on.
    #[must_use]
    pub const fn with_prefill(self, start: usize, len: usize) -> Self {
        Self { prefill: self.prefill + len, kv: self.kv + len * start + len * (len + 1) / 2, ..self }
    }

    /// This load and the decode of the token at `position`.
    #[must_use]
    pub const fn with_decode(self, position: usize) -> Self {
        Self { decodes: self.decodes + 1, kv: self.kv + position + 1, ..self }
    }

    const fn features(self) -> [f64; 4] {
        [1.0, self.prefill as f64, self.decodes as f64, self.kv as f64]
    }
}

/// `seconds = base + a * prefill + b * decodes + c * kv`, all coefficients positive.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    /// Seconds per feature of [`Load`].
    weights: [f64; 4],
}

impl Default for CostModel {
    /// A small model on a slow machine: steps start short rather than long.
    fn default() -> Self {
        Self { weights: [2e-3, 1e-3, 2e-3, 1e-7] }
    }
}

impl CostModel {
    /// Share of an error that is corrected at once.
    const GAIN: f64 = 0.1;

    /// A model that fits `samples`, measured before serving.
    pub fn seeded(samples: &[(Load, Duration)]) -> Self {
        let mut model = Self::default();
        for _ in 0..200 {
            for &(load, elapsed) in samples {
                model.correct(load, elapsed);
            }
        }
        model
    }

    /// How long `load` should take.
    pub fn predict(&self, load: Load) -> Duration {
        Duration::from_secs_f64(self.seconds(load))
    }

    fn seconds(&self, load: Load) -> f64 {
        self.weights.iter().zip(load.features()).map(|(weight, feature)| weight * feature).sum()
    }

    /// Learns that `load` took `elapsed`. Each coefficient is scaled in proportion to its share in the prediction
    /// (a multiplicative form of normalised least mean squares), so none turns negative, and one freak step of any
    /// length changes none of them by more than a fifth.
    pub fn correct(&mut self, load: Load, elapsed: Duration) {
        let features = load.features();
        let predicted = self.seconds(load);
        let error = ((elapsed.as_secs_f64() - predicted) / predicted).clamp(-0.5, 1.0);
        let norm: f64 = self.weights.iter().zip(features).map(|(w, f)| (w * f / predicted).powi(2)).sum();
        for (weight, feature) in self.weights.iter_mut().zip(features) {
            let share = *weight * feature / predicted;
            *weight = (*weight * (1.0 + Self::GAIN * error * share / norm.max(0.25))).max(1e-12);
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
