//! Rotary position embedding (Su et al., 2021) with the scalings that real models use.

use plimsoll_model::spec::{Rope, RopeOrder, RopeScaling};
use std::f64::consts::TAU;

/// Turns heads by their positions.
pub(super) struct Turner {
    /// Radians per position, of each pair.
    frequencies: Vec<f64>,
    /// Factor on cos and sin.
    temperature: f64,
    order: RopeOrder,
}

impl Turner {
    pub(super) fn new(rope: &Rope) -> Self {
        let plain = (0..rope.dim / 2).map(|i| f64::from(rope.theta).powf(-2.0 * i as f64 / rope.dim as f64));
        let scaled = plain.enumerate().map(|(i, frequency)| scale(rope, i, frequency)).collect();
        let temperature = match rope.scaling {
            RopeScaling::Yarn { attention_factor: Some(factor), .. } => f64::from(factor),
            RopeScaling::Yarn { factor, .. } => 0.1 * f64::from(factor).ln() + 1.0,
            _ => 1.0,
        };
        Self { frequencies: scaled, temperature, order: rope.order }
    }

    pub(super) fn turn(&self, head: &mut [f32], position: usize) {
        let pairs = self.frequencies.len();
        for (i, frequency) in self.frequencies.iter().enumerate() {
            let (a, b) = match self.order {
                RopeOrder::Interleaved => (2 * i, 2 * i + 1),
                RopeOrder::Half => (i, i + pairs),
            };
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (x, y) = (f64::from(head[a]), f64::from(head[b]));
            head[a] = (self.temperature * (x * cos - y * sin)) as f32;
            head[b] = (self.temperature * (x * sin + y * cos)) as f32;
        }
    }
}

/// The frequency of pair `i` after scaling.
fn scale(rope: &Rope, i: usize, frequency: f64) -> f64 {
    match rope.scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / f64::from(factor),
        RopeScaling::Factors(ref factors) => frequency / f64::from(factors[i]),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            let (low, high) = (f64::from(low_freq_factor), f64::from(high_freq_factor));
            let rotations = f64::from(original_context) * frequency / TAU;
            let kept = ((rotations - low) / (high - low)).clamp(0.0, 1.0);
            blend(frequency, f64::from(factor), kept)
        }
        RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, .. } => {
            let pair_of = |rotations: f32| {
                let wavelength = f64::from(original_context) / (f64::from(rotations) * TAU);
                rope.dim as f64 * wavelength.ln() / (2.0 * f64::from(rope.theta).ln())
            };
            let first = pair_of(beta_fast).floor().max(0.0);
            let last = pair_of(beta_slow).ceil().min(rope.dim as f64 - 1.0);
            let last = if first == last { last + 0.001 } else { last };
            blend(frequency, f64::from(factor), 1.0 - ((i as f64 - first) / (last - first)).clamp(0.0, 1.0))
        }
    }
}

fn blend(frequency: f64, factor: f64, kept: f64) -> f64 {
    frequency * kept + frequency / factor * (1.0 - kept)
}
