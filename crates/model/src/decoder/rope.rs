//! Rotary frequencies by a spec's scaling.

use crate::spec::{Rope, RopeScaling};
use std::f64::consts::PI;

/// Angle per position of each pair, and a factor on all cosines and sines.
pub(crate) struct Frequencies {
    per_position: Vec<f64>,
    factor: f64,
}

impl Frequencies {
    pub(crate) fn new(rope: &Rope) -> Self {
        let pairs = rope.dim / 2;
        let theta = f64::from(rope.theta);
        let plain = |i: usize| theta.powf(-((2 * i) as f64) / rope.dim as f64);
        let scaled = |i: usize| match &rope.scaling {
            RopeScaling::None => plain(i),
            RopeScaling::Linear { factor } => plain(i) / f64::from(*factor),
            RopeScaling::Factors(factors) => plain(i) / f64::from(factors[i]),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => llama3(
                plain(i),
                [*factor, *low_freq_factor, *high_freq_factor, *original_context].map(f64::from),
            ),
            RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, .. } => {
                let at =
                    |rotations: f32| correction(rope, f64::from(rotations), f64::from(*original_context));
                let (low, high) =
                    (at(*beta_fast).floor().max(0.0), at(*beta_slow).ceil().min(rope.dim as f64 - 1.0));
                let high = if high == low { high + 0.001 } else { high };
                let interpolated = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                plain(i) / f64::from(*factor) * interpolated + plain(i) * (1.0 - interpolated)
            }
        };
        let factor = match rope.scaling {
            RopeScaling::Yarn { attention_factor: Some(given), .. } => f64::from(given),
            RopeScaling::Yarn { factor, .. } if factor > 1.0 => 0.1 * f64::from(factor).ln() + 1.0,
            _ => 1.0,
        };
        Self { per_position: (0..pairs).map(scaled).collect(), factor }
    }

    /// Elements of a head that turn.
    pub(crate) fn dim(&self) -> usize {
        2 * self.per_position.len()
    }

    /// Cosines, then sines, of all pairs at `position`.
    pub(crate) fn angles(&self, position: usize, out: &mut [f32]) {
        let (cos, sin) = out.split_at_mut(self.per_position.len());
        for ((frequency, cos), sin) in self.per_position.iter().zip(cos).zip(sin) {
            let (s, c) = (position as f64 * frequency).sin_cos();
            (*cos, *sin) = ((c * self.factor) as f32, (s * self.factor) as f32);
        }
    }
}

/// Llama 3.1: frequencies whose wavelength exceeds the trained context are divided, short ones kept, the middle blended.
fn llama3(plain: f64, [factor, low, high, context]: [f64; 4]) -> f64 {
    let wavelength = 2.0 * PI / plain;
    if wavelength < context / high {
        return plain;
    }
    if wavelength > context / low {
        return plain / factor;
    }
    let kept = (context / wavelength - low) / (high - low);
    (1.0 - kept) * plain / factor + kept * plain
}

/// The pair that turns `rotations` times over `context` positions (YaRN, section 3.2).
fn correction(rope: &Rope, rotations: f64, context: f64) -> f64 {
    rope.dim as f64 * (context / (rotations * 2.0 * PI)).ln() / (2.0 * f64::from(rope.theta).ln())
}
