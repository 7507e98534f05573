//! How many sequences may wait: three policies.

use std::time::Duration;

/// Who decides how many may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueuePolicy {
    /// As many as configured.
    Fixed,
    /// Every 5 s by the P95 of whole requests: above 80 ms half as many again, up to 8192; below 30 ms a quarter fewer,
    /// down to 512.
    Band,
    /// By Little's law: as many as are served in the time that the promise leaves for waiting. More would only wait
    /// longer. Without a promise, as many as configured.
    #[default]
    Little,
}

/// A policy and its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueRule {
    /// Who decides.
    pub policy: QueuePolicy,
    /// As many as are configured.
    pub configured: u32,
    /// Time that a request may wait; `None`: no promise says.
    pub wait: Option<Duration>,
}

impl QueueRule {
    /// The most that it ever comes to.
    pub fn most(&self) -> u32 {
        match self.policy {
            QueuePolicy::Band => BAND.1.max(self.configured),
            QueuePolicy::Fixed | QueuePolicy::Little => self.configured,
        }
    }
}

/// Least and most of `band`.
const BAND: (u32, u32) = (512, 8192);
/// How often it looks.
const PERIOD: Duration = Duration::from_secs(5);
/// Its bounds for the P95, in milliseconds.
const SLOW: f64 = 80.0;
const FAST: f64 = 30.0;
/// What `little` keeps of the best rate seen, per period: a quiet hour does not make the next rush hour's queue short.
const KEEP: f64 = 0.995;

/// How many may wait now.
#[derive(Debug, Clone)]
pub struct QueueLimit {
    rule: QueueRule,
    limit: u32,
    /// Least that `little` comes to.
    least: u32,
    looked_at: Duration,
    latencies: Latencies,
    best_rate: f64,
}

impl QueueLimit {
    /// For a batch of `places`.
    pub fn new(rule: QueueRule, places: u32) -> Self {
        let (looked_at, latencies, best_rate) = Default::default();
        Self {
            rule,
            limit: rule.configured,
            least: places.min(rule.configured),
            looked_at,
            latencies,
            best_rate,
        }
    }

    /// A request was complete, so long after it arrived.
    pub fn completed(&mut self, after: Duration) {
        self.latencies.add(after.as_secs_f64() * 1e3);
    }

    /// How many may wait from `now` on, when `per_second` are served.
    pub fn at(&mut self, now: Duration, per_second: f64) -> u32 {
        if now.saturating_sub(self.looked_at) < PERIOD {
            return self.limit;
        }
        self.looked_at = now;
        match (self.rule.policy, self.rule.wait) {
            (QueuePolicy::Band, _) => {
                self.limit = self.latencies.p95().map_or(self.limit, |p95| band(self.limit, p95));
            }
            (QueuePolicy::Little, Some(wait)) => {
                self.best_rate = per_second.max(self.best_rate * KEEP);
                let waiting = (self.best_rate * wait.as_secs_f64()).ceil() as u32;
                if self.best_rate > 0.0 {
                    self.limit = waiting.clamp(self.least, self.rule.configured);
                }
            }
            (QueuePolicy::Fixed | QueuePolicy::Little, _) => {}
        }
        self.latencies = Latencies::default();
        self.limit
    }
}

/// The articles' rule.
fn band(size: u32, p95_ms: f64) -> u32 {
    if p95_ms > SLOW {
        BAND.1.min((f64::from(size) * 1.5) as u32)
    } else if p95_ms < FAST {
        BAND.0.max((f64::from(size) * 0.75) as u32)
    } else {
        size
    }
}

/// The latencies of one period, in milliseconds.
#[derive(Debug, Clone)]
struct Latencies {
    /// Sixteen to an octave from 1 ms on.
    counts: [u32; Self::BUCKETS],
    total: u32,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; Self::BUCKETS], total: 0 }
    }
}

impl Latencies {
    const BUCKETS: usize = 320;

    fn add(&mut self, ms: f64) {
        let bucket = (ms.max(1.0).log2() * 16.0) as usize;
        self.counts[bucket.min(Self::BUCKETS - 1)] += 1;
        self.total += 1;
    }

    fn p95(&self) -> Option<f64> {
        let wanted = (f64::from(self.total) * 0.95).ceil() as u32;
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            self.total > 0 && below >= wanted
        })?;
        // The middle of the bucket.
        Some(((at as f64 + 0.5) / 16.0).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_band_is_that_of_the_articles() {
        for (size, p95, expected) in [
            (512, 81.0, 768),
            (769, 100.0, 1153),
            (6000, 1e4, 8192),
            (8192, 81.0, 8192),
            (1000, 80.0, 1000),
            (1000, 30.0, 1000),
            (1000, 29.0, 750),
            (513, 1.0, 512),
            (600, 0.5, 512),
            (256, 50.0, 256),
        ] {
            assert_eq!(band(size, p95), expected, "{size} at {p95} ms");
        }
    }

    #[test]
    fn it_looks_every_five_seconds_and_forgets_what_was_before() {
        let rule = QueueRule { policy: QueuePolicy::Band, configured: 1000, wait: None };
        let mut limit = QueueLimit::new(rule, 16);
        (0..100).for_each(|i| limit.completed(Duration::from_millis(if i < 94 { 10 } else { 200 })));
        assert_eq!(limit.at(SECOND * 4, 1.0), 1000);
        assert_eq!(limit.at(SECOND * 5, 1.0), 1500);
        (0..100).for_each(|_| limit.completed(Duration::from_millis(10)));
        assert_eq!(limit.at(SECOND * 9, 1.0), 1500);
        assert_eq!(limit.at(SECOND * 10, 1.0), 1125);
        assert_eq!(limit.at(SECOND * 15, 1.0), 1125, "nothing was served, nothing is known");
    }

    #[test]
    fn little_is_rate_times_wait_within_its_bounds() {
        let rule = QueueRule { policy: QueuePolicy::Little, configured: 256, wait: Some(SECOND * 2) };
        for (rate, expected) in [(0.0, 256), (1.0, 16), (20.0, 40), (1000.0, 256)] {
            assert_eq!(QueueLimit::new(rule, 16).at(SECOND * 5, rate), expected, "{rate}/s");
        }
        let mut limit = QueueLimit::new(rule, 16);
        limit.at(SECOND * 5, 50.0);
        assert_eq!(limit.at(SECOND * 10, 1.0), 100, "the best rate is remembered");
        let open = QueueRule { wait: None, ..rule };
        assert_eq!(QueueLimit::new(open, 16).at(SECOND * 5, 1.0), 256);
        let fixed = QueueRule { policy: QueuePolicy::Fixed, ..rule };
        assert_eq!(QueueLimit::new(fixed, 16).at(SECOND * 5, 1.0), 256);
    }
}
