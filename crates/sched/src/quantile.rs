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
    most: f64,
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
    /// What a miss counts whose prediction was made before the margin was raised last: one disturbance makes everybody
    /// late who was let in before it showed.
    const SAME_CAUSE: f64 = 0.25;

    /// A margin that is to be missed by `misses` of all, begins at `value` and stays from `least` to `most`.
    pub const fn new(misses: f64, value: f64, (least, most): (f64, f64)) -> Self {
        Self { value, misses, least, most, learned: 0, raised_at: Duration::ZERO }
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
        self.value = (self.value + change).clamp(self.least, self.most);
    }
}

/// How much later than predicted something may come: so much, and so much more for every second it was predicted to take.
///
/// What is near is mostly off by a fixed time (a stall, a step that was half over), what is far by a share of itself, and by
/// less of one: a long wait is the sum of many steps, whose errors partly cancel. Hence two parts, and every prediction
/// teaches both by the size of its error, not only by whether it was missed: one hit in a hundred near ones says nothing of
/// far ones. How many such errors an allowance is made of is a [`Margin`]'s to find (as in conformal prediction with
/// normalised scores, Papadopoulos et al. 2008).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// Mean error in seconds at no distance, and per second of distance.
    error: [f64; 2],
    margin: Margin,
    learned: u32,
}

impl Allowance {
    /// What is believed before anything was seen: errors of so many seconds, and of such a share.
    const ERROR: [f64; 2] = [0.01, 0.06];
    /// Smaller ones are not believed in.
    const LEAST: [f64; 2] = [0.002, 0.005];
    /// What one prediction changes, once there were enough; more of it before.
    const GAIN: f64 = 0.03;
    /// Mean errors, to begin with, at least and at most: the rarest 0.5 % of a bell curve are 3.2 mean errors off.
    const ERRORS: f64 = 4.0;
    const BOUNDS: (f64, f64) = (1.5, 12.0);

    /// An allowance that a share `misses` of all is to come later than.
    pub const fn new(misses: f64) -> Self {
        let margin = Margin::new(misses, Self::ERRORS, Self::BOUNDS);
        Self { error: Self::ERROR, margin, learned: 0 }
    }

    /// Seconds at no distance, and per second of it.
    pub fn get(&self) -> [f64; 2] {
        self.error.map(|error| error * self.margin.get())
    }

    /// Learns at `now` of something that was predicted at `made` for `first` and not to be later than `at_most`.
    pub fn learn(&mut self, now: Duration, made: Duration, (first, at_most): (Duration, Duration)) {
        self.margin.learn(now, made, now <= at_most);
        self.learned = self.learned.saturating_add(1);
        let distance = first.saturating_sub(made).as_secs_f64();
        let error = now.abs_diff(first).as_secs_f64();
        let expected = self.error[0] + self.error[1] * distance;
        // One freak changes little, whatever its size.
        let off = ((error - expected) / expected).clamp(-1.0, 4.0);
        let gain = Self::GAIN.max(0.5 / (f64::from(self.learned) + 4.0));
        for (i, part) in [self.error[0], self.error[1] * distance].into_iter().enumerate() {
            let share = part / expected;
            self.error[i] = (self.error[i] * (1.0 + gain * off * share)).max(Self::LEAST[i]);
        }
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

    /// Errors of so many seconds, and of such a share, both as likely early as late, from a rough bell.
    fn learned(fixed: f64, share: f64, predictions: usize) -> (Allowance, f64) {
        let mut allowance = Allowance::new(0.01);
        let mut state = 1_u64;
        let mut unit = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut hits = 0;
        for i in 0..predictions {
            let made = 10.0 * i as f64 + 10.0;
            let distance = 0.02 + 0.48 * unit();
            let bell = (0..6).map(|_| unit()).sum::<f64>() - 3.0;
            let (near, far) = (allowance.get()[0], allowance.get()[1]);
            let came = distance + (fixed + share * distance) * bell;
            let at_most = distance + near + far * distance;
            hits += usize::from(came <= at_most);
            let at = |after: f64| Duration::from_secs_f64(made + after);
            allowance.learn(at(came), at(0.0), (at(distance), at(at_most)));
        }
        (allowance, hits as f64 / predictions as f64)
    }

    #[test]
    fn an_allowance_is_as_wide_as_errors_are() {
        for (fixed, share) in [(0.005, 0.02), (0.03, 0.02), (0.005, 0.2), (0.05, 0.3)] {
            let (allowance, hits) = learned(fixed, share, 4000);
            assert!((0.98..=0.997).contains(&hits), "{fixed} {share}: {hits}");
            // What 1 % of such a bell pass: 1.64 of it.
            for distance in [0.05, 0.45] {
                let [near, far] = allowance.get();
                let of = (near + far * distance) / (1.64 * (fixed + share * distance));
                assert!((0.6..2.0).contains(&of), "{fixed} {share} at {distance}: {of}");
            }
        }
    }

    #[test]
    fn what_stalls_near_ones_does_not_hold_up_far_ones() {
        // Steps of 50 ms whose errors cancel: what is far away is off by no larger share for that.
        let (allowance, _) = learned(0.04, 0.01, 2000);
        let [near, far] = allowance.get();
        assert!(near > 0.04 && near + far * 0.4 < 0.15, "{near} {far}");
    }

    #[test]
    fn a_calm_machine_is_soon_believed() {
        let (allowance, _) = learned(0.003, 0.01, 60);
        let [near, far] = allowance.get();
        assert!(near + far * 0.4 < 0.09, "{near} {far}");
    }

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
