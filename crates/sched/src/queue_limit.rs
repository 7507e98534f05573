//! How many sequences may wait: three policies, one of which is in force. The others keep what they came to, so that a lane
//! can go from one to another and back.

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

impl QueuePolicy {
    const COUNT: usize = 3;

    const fn index(self) -> usize {
        self as usize
    }

    /// The most that it ever comes to, when so many are configured.
    pub fn most(self, configured: u32) -> u32 {
        match self {
            Self::Band => BAND.1.max(configured),
            Self::Fixed | Self::Little => configured,
        }
    }
}

/// A policy and its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueRule {
    /// Who decides, until another one is switched to.
    pub policy: QueuePolicy,
    /// As many as are configured.
    pub configured: u32,
    /// Time that a request may wait; `None`: no promise says.
    pub wait: Option<Duration>,
}

/// Least and most of `band`.
const BAND: (u32, u32) = (512, 8192);
/// How often it looks.
const PERIOD: Duration = Duration::from_secs(5);
/// Its bounds for the P95, in milliseconds.
const SLOW: f64 = 80.0;
const FAST: f64 = 30.0;
/// What `little` keeps of the best rate seen, per period: a quiet hour, of which four fifths are left, does not make the next
/// rush hour's queue short.
const KEEP: f64 = 0.9997;

/// How many may wait now.
#[derive(Debug, Clone)]
pub struct QueueLimit {
    rule: QueueRule,
    /// What each policy came to.
    limits: [u32; QueuePolicy::COUNT],
    /// Least that `little` comes to.
    least: u32,
    looked_at: Duration,
    latencies: Latencies,
    rated_at: Duration,
    best_rate: f64,
}

impl QueueLimit {
    /// For a batch of `places`.
    pub fn new(rule: QueueRule, places: u32) -> Self {
        let (looked_at, latencies, rated_at, best_rate) = Default::default();
        let limits = [rule.configured; QueuePolicy::COUNT];
        Self { rule, limits, least: places.min(rule.configured), looked_at, latencies, rated_at, best_rate }
    }

    /// Who decides.
    pub const fn policy(&self) -> QueuePolicy {
        self.rule.policy
    }

    /// Has another policy decide from `now` on. It begins with what it came to when it last did, and with a period of its
    /// own: what was completed before is none of its doing.
    pub fn switch(&mut self, now: Duration, policy: QueuePolicy) {
        if policy != self.rule.policy {
            self.rule.policy = policy;
            self.looked_at = now;
            self.latencies = Latencies::default();
        }
    }

    /// A request was complete, so long after it arrived.
    pub fn completed(&mut self, after: Duration) {
        self.latencies.add(after.as_secs_f64() * 1e3);
    }

    /// How many may wait from `now` on, when `per_second` are served.
    pub fn at(&mut self, now: Duration, per_second: f64) -> u32 {
        self.rate(now, per_second);
        let own = self.rule.policy.index();
        if now.saturating_sub(self.looked_at) >= PERIOD {
            self.looked_at = now;
            if self.rule.policy == QueuePolicy::Band {
                self.limits[own] =
                    self.latencies.p95().map_or(self.limits[own], |p95| band(self.limits[own], p95));
            }
            self.latencies = Latencies::default();
        }
        self.limits[own]
    }

    /// What `little` comes to. The rate is what it is whoever decides.
    fn rate(&mut self, now: Duration, per_second: f64) {
        if now.saturating_sub(self.rated_at) < PERIOD {
            return;
        }
        self.rated_at = now;
        let Some(wait) = self.rule.wait else { return };
        self.best_rate = per_second.max(self.best_rate * KEEP);
        let waiting = (self.best_rate * wait.as_secs_f64()).ceil() as u32;
        if self.best_rate > 0.0 {
            self.limits[QueuePolicy::Little.index()] = waiting.clamp(self.least, self.rule.configured);
        }
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
        let after_an_hour = (3..=720).map(|period| limit.at(SECOND * 5 * period, 1.0)).last();
        assert!(after_an_hour.is_some_and(|waiting| (80..100).contains(&waiting)), "{after_an_hour:?}");
        let open = QueueRule { wait: None, ..rule };
        assert_eq!(QueueLimit::new(open, 16).at(SECOND * 5, 1.0), 256);
        let fixed = QueueRule { policy: QueuePolicy::Fixed, ..rule };
        assert_eq!(QueueLimit::new(fixed, 16).at(SECOND * 5, 1.0), 256);
    }

    #[test]
    fn who_comes_back_goes_on_from_where_it_was() {
        let rule = QueueRule { policy: QueuePolicy::Band, configured: 1000, wait: Some(SECOND * 2) };
        let mut limit = QueueLimit::new(rule, 16);
        let slow =
            |limit: &mut QueueLimit| (0..100).for_each(|_| limit.completed(Duration::from_millis(200)));
        slow(&mut limit);
        assert_eq!(limit.at(SECOND * 5, 20.0), 1500);
        limit.switch(SECOND * 7, QueuePolicy::Fixed);
        assert_eq!((limit.policy(), limit.at(SECOND * 7, 20.0)), (QueuePolicy::Fixed, 1000));
        limit.switch(SECOND * 8, QueuePolicy::Little);
        assert_eq!(limit.at(SECOND * 8, 20.0), 40, "the rate was known all along");
        slow(&mut limit);
        limit.switch(SECOND * 12, QueuePolicy::Band);
        assert_eq!(limit.at(SECOND * 16, 20.0), 1500);
        assert_eq!(limit.at(SECOND * 17, 20.0), 1500, "those who were slow were another's");
        slow(&mut limit);
        assert_eq!(limit.at(SECOND * 22, 20.0), 2250);
        for (policy, most) in
            [(QueuePolicy::Fixed, 1000), (QueuePolicy::Little, 1000), (QueuePolicy::Band, 8192)]
        {
            assert_eq!(policy.most(1000), most);
        }
    }
}
