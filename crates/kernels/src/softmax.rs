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

/// The highest of the logits and the first place that has it; one that is not a number is passed over. Without one above it,
/// `-inf` and a place inside, or 0.
pub fn highest(isa: Isa, logits: &[f32]) -> (usize, f32) {
    let mut found = (0, f32::NEG_INFINITY);
    isa.run(Highest { logits, found: &mut found });
    let (start, most) = found;
    let within = logits.get(start..).and_then(|rest| rest.iter().position(|x| *x == most));
    (start + within.unwrap_or(0), most)
}

struct Highest<'a> {
    logits: &'a [f32],
    /// The start of the first run that has it, and the highest.
    found: &'a mut (usize, f32),
}

impl Kernel for Highest<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const RUN: usize = 8 * PART;
        for (i, run) in self.logits.chunks(RUN).enumerate() {
            let mut most = [s.splat(f32::NEG_INFINITY); 4];
            let mut parts = run.chunks_exact(PART);
            for part in &mut parts {
                for (at, most) in (0..PART).step_by(LANES).zip(&mut most) {
                    // SAFETY: the part is 64 long. The second operand is kept when the first is not a number.
                    *most = unsafe { s.max(s.load(part.as_ptr().add(at)), *most) };
                }
            }
            let most = s.largest(s.max(s.max(most[0], most[1]), s.max(most[2], most[3])));
            let most = parts.remainder().iter().fold(most, |most, &x| if x > most { x } else { most });
            if most > self.found.1 {
                *self.found = (i * RUN, most);
            }
        }
    }
}

/// What a range of weights makes of [`PART`] of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Split {
    /// The sum of those above the range.
    pub above: f32,
    /// The sum of those in the range.
    pub among: f32,
    /// Bit `i` is set when the `i`-th is in the range.
    pub members: u64,
}

/// Splits weights by a range: more than `low`, at most `high`. What is not more than `low` is left out. `parts` are those of
/// [`weigh`].
///
/// # Panics
/// When there are not as many splits as parts, or `weights` is not [`PART`] times as long.
pub fn split(isa: Isa, (weights, parts): (&[f32], &[Part]), (low, high): (f32, f32), splits: &mut [Split]) {
    assert!(
        weights.len() == parts.len() * PART && splits.len() == parts.len(),
        "{} weights in {} parts for {} splits",
        weights.len(),
        parts.len(),
        splits.len()
    );
    isa.run(ByRange { weights, parts, low, high, splits });
}

struct ByRange<'a> {
    weights: &'a [f32],
    parts: &'a [Part],
    low: f32,
    high: f32,
    splits: &'a mut [Split],
}

impl Kernel for ByRange<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (low, high) = (s.splat(self.low), s.splat(self.high));
        for ((part, weights), split) in
            self.parts.iter().zip(self.weights.chunks_exact(PART)).zip(self.splits)
        {
            *split = Split::default();
            if part.largest <= self.low {
                continue;
            }
            let (mut above, mut among, mut members) = (s.splat(0.0), s.splat(0.0), 0);
            for at in (0..PART).step_by(LANES) {
                // SAFETY: the part is 64 long.
                let weights = unsafe { s.load(weights.as_ptr().add(at)) };
                let over = s.above(weights, high);
                // What was taken is itself, so nothing is rounded.
                let inside = s.sub(s.above(weights, low), over);
                above = s.add(above, over);
                among = s.add(among, inside);
                members |= u64::from(s.nonzero(inside)) << at;
            }
            *split = Split { above: s.sum(above), among: s.sum(among), members };
        }
    }
}
