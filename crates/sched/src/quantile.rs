//! Quantiles that follow what they measure.

use std::time::Duration;

/// How far predictions must be raised so that a stated share of them is not passed.
///
/// Every miss raises the margin, every hit lowers it a little, in the proportion that leaves as many misses as are
/// wanted however the errors are distributed and however they drift (quantile tracking by the pinball loss, as in
/// adaptive conformal inference, Gibbs and Candès 2021). Steps are relative to the margin: it finds its way back from
/// a bad quarter of an hour in minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    value: f64,
    misses: f64,
    least: f64,
    learned: u32,
    raised_at: Duration,
}

impl Margin {
    /// How much one miss raises it, relative to itself; and how much more at first, when nothing is known.
    const STEP: f64 = 0.15;
    const FIRST_STEP: f64 = 0.3;
    /// Predictions after which less than half of that is left.
    const YOUNG: f64 = 150.0;
    /// Makes a margin of 0 grow, too.
    const FLOOR: f64 = 0.1;
    const MOST: f64 = 3.0;
    /// What a miss counts whose prediction was made before the margin was raised last: one disturbance makes everybody
    /// late who was let in before it showed.
    const SAME_CAUSE: f64 = 0.25;

    /// A margin that is to be missed by `misses` of all, begins at `value` and never falls below `least`.
    pub const fn new(misses: f64, value: f64, least: f64) -> Self {
        Self { value, misses, least, learned: 0, raised_at: Duration::ZERO }
    }

    /// The margin now.
    pub const fn get(&self) -> f64 {
        self.value
    }

    /// Learns at `now` whether a prediction that was made at `made` and raised by it was kept.
    pub fn learn(&mut self, now: Duration, made: Duration, is_hit: bool) {
        let young = (-f64::from(self.learned) / Self::YOUNG).exp();
        self.learned = self.learned.saturating_add(1);
        let scale = (Self::STEP + Self::FIRST_STEP * young) * (self.value + Self::FLOOR);
        let change = match is_hit {
            true => -scale * self.misses / (1.0 - self.misses),
            false if made < self.raised_at => scale * Self::SAME_CAUSE,
            false => {
                self.raised_at = now;
                scale
            }
        };
        self.value = (self.value + change).clamp(self.least, Self::MOST);
    }
}

/// How long outputs are, the older ones counting less.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// Outputs per length; see [`Lengths::bucket`].
    counts: [f64; Self::BUCKETS],
    total: f64,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { counts: [0.0; Self::BUCKETS], total: 0.0 }
    }
}

impl Lengths {
    /// Four to an octave, up to 2^20 tokens.
    const BUCKETS: usize = 80;
    /// What an output counts for after the next one.
    const KEEP: f64 = 0.995;

    fn bucket(tokens: usize) -> usize {
        ((tokens.max(1) as f64).log2() * 4.0).ceil().min((Self::BUCKETS - 1) as f64) as usize
    }

    /// An output of `tokens` was complete.
    pub fn add(&mut self, tokens: usize) {
        self.counts.iter_mut().for_each(|count| *count *= Self::KEEP);
        self.counts[Self::bucket(tokens)] += 1.0;
        self.total = self.total * Self::KEEP + 1.0;
    }

    /// As many tokens as a share `q` of the outputs has at most; `None` while too few are known.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.total < 8.0 {
            return None;
        }
        let mut below = 0.0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below >= q * self.total
        });
        at.map(|bucket| (bucket as f64 / 4.0).exp2())
    }
}

/// A share of what was counted lately.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    hits: f64,
    total: f64,
}

impl Share {
    /// What one counts for after the next one.
    const KEEP: f64 = 0.99;

    /// Counts one.
    pub fn add(&mut self, is_hit: bool) {
        self.hits = self.hits * Self::KEEP + f64::from(u8::from(is_hit));
        self.total = self.total * Self::KEEP + 1.0;
    }

    /// The share; 1 while nothing was counted.
    pub fn get(&self) -> f64 {
        if self.total > 0.0 { self.hits / self.total } else { 1.0 }
    }

    /// What has been counted, the older ones counting less.
    pub const fn weight(&self) -> f64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_back_within_a_fifth() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.quantile(0.5), None);
        (1..=400).for_each(|i| lengths.add(1 + i * 37 % 100));
        for (q, expected) in [(0.5, 50.0), (0.9, 90.0)] {
            let read = lengths.quantile(q).unwrap();
            assert!((0.95..1.25).contains(&(read / expected)), "{read} for {expected}");
        }
    }
}
