//! Weights of a row of logits: what sampling draws from.

use crate::isa::{Isa, Kernel};
use crate::simd::{LANES, Simd, exp};

/// Weights that are summed up together.
pub const PART: usize = 64;

/// What is known of [`PART`] weights.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// Their sum.
    pub sum: f32,
    /// The largest.
    pub largest: f32,
}

/// `weights[i] = e^((logits[i] - highest) * scale)`, 0 where that is below e^-87 or the logit is not a number; `parts` tells of
/// [`PART`] weights each. Weights beyond the logits are 0.
///
/// # Panics
/// When `weights` is not [`PART`] times as long as `parts`, or shorter than `logits`.
pub fn weigh(
    isa: Isa,
    logits: &[f32],
    (highest, scale): (f32, f32),
    weights: &mut [f32],
    parts: &mut [Part],
) {
    assert!(
        weights.len() == parts.len() * PART && logits.len() <= weights.len(),
        "{} weights in {} parts for {} logits",
        weights.len(),
        parts.len(),
        logits.len()
    );
    isa.run(Weigh { logits, highest, scale, weights, parts });
}

struct Weigh<'a> {
    logits: &'a [f32],
    highest: f32,
    scale: f32,
    weights: &'a mut [f32],
    parts: &'a mut [Part],
}

impl Kernel for Weigh<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (highest, scale) = (s.splat(self.highest), s.splat(self.scale));
        // Smaller ones all come out as this.
        let least = exp(s, s.splat(-87.0));
        let mut logits = self.logits.chunks(PART);
        for (weights, part) in self.weights.chunks_exact_mut(PART).zip(self.parts) {
            let mut padded = [f32::NEG_INFINITY; PART];
            let from = match logits.next() {
                Some(whole) if whole.len() == PART => whole.as_ptr(),
                rest => {
                    let rest = rest.unwrap_or_default();
                    padded[..rest.len()].copy_from_slice(rest);
                    padded.as_ptr()
                }
            };
            let (mut sum, mut largest) = (s.splat(0.0), s.splat(0.0));
            for at in (0..PART).step_by(LANES) {
                // SAFETY: both are 64 long.
                unsafe {
                    let below = s.mul(s.sub(s.load(from.add(at)), highest), scale);
                    let weight = s.sub(exp(s, below), least);
                    s.store(weights.as_mut_ptr().add(at), weight);
                    sum = s.add(sum, weight);
                    largest = s.max(largest, weight);
                }
            }
            *part = Part { sum: s.sum(sum), largest: s.largest(largest) };
        }
    }
}
