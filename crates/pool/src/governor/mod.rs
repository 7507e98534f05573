//! When memory is short, and what to do about it. Pure: readings are values, and so is the time.
//!
//! - [`marks`]: the amounts of memory at which something happens.
//! - [`Governor`]: the level, from one reading to the next.
//!
//! First caches and pools give memory back ([`Level::Shed`]), then, if that does not help, nobody is let in
//! ([`Level::Refuse`]): a server that refuses lives, one that the system kills does not.

mod marks;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::marks::Marks;

/// When the governor acts. Shares are of the limit, as long as what cannot be given back leaves room: see [`Marks::of`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Over this share caches and pools shrink. Default 0.8.
    pub shed: f64,
    /// Under this share they may grow again. Default 0.3.
    pub normal: f64,
    /// Over this share nobody is let in. Default 0.95.
    pub refuse: f64,
    /// Over this share of time in which some task waits for memory, caches and pools shrink, whatever the amounts say.
    /// Default 0.2.
    pub stalled: f64,
    /// How long a level lasts before a lower one may follow, so that none comes and goes. Default 5 s.
    pub hold: Duration,
    /// How long shedding is given before nobody is let in. Default 2 s.
    pub grace: Duration,
    /// How long after asking the allocator for its free pages it is asked again. Default 10 s.
    pub purge_every: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            shed: 0.8,
            normal: 0.3,
            refuse: 0.95,
            stalled: 0.2,
            hold: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            purge_every: Duration::from_secs(10),
        }
    }
}

/// Memory as it was read at some moment. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    /// What may be used: the tightest limit of the control groups, or what the machine has.
    pub limit: u64,
    /// How much of that is used, by whomever the limit holds.
    pub used: u64,
    /// How much of that stays used when nobody is served and all caches are empty: weights, other processes.
    pub fixed: u64,
    /// Share of the last seconds in which some task waited for memory, 0 to 1.
    pub stalled: f64,
    /// How often the limit could not be kept by reclaiming, ever (`oom` of the control group).
    pub failures: u64,
}

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Level {
    /// Not short.
    #[default]
    Normal,
    /// Caches and pools give memory back and do not grow.
    Shed,
    /// And nobody is let in.
    Refuse,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The level from now on.
    pub level: Level,
    /// Whether that is another one than before.
    pub is_change: bool,
    /// Bytes that caches and pools should give back now; 0 at [`Level::Normal`].
    pub give_back: u64,
    /// Whether the allocator should now return its free pages to the system.
    pub purge: bool,
}

/// Decides what to do about memory from one reading to the next.
#[derive(Debug, Clone)]
pub struct Governor {
    policy: Policy,
    level: Level,
    /// When the level last changed.
    since: Option<Duration>,
    purged: Option<Duration>,
    failures: Option<u64>,
}

impl Governor {
    /// At [`Level::Normal`].
    ///
    /// # Panics
    /// Unless `0 <= normal < shed < refuse <= 1`.
    pub fn new(policy: Policy) -> Self {
        let Policy { normal, shed, refuse, .. } = policy;
        let is_ordered = 0.0 <= normal && normal < shed && shed < refuse && refuse <= 1.0;
        assert!(is_ordered, "shares must be ordered: normal {normal} < shed {shed} < refuse {refuse}");
        Self { policy, level: Level::Normal, since: None, purged: None, failures: None }
    }

    /// The level now.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Takes a reading in, made at `now` (since any fixed moment). The level changes by one step at most: from
    /// [`Level::Normal`] to [`Level::Shed`] at once; on to [`Level::Refuse`] when shedding had its time; down again only
    /// when the level has lasted.
    pub fn observe(&mut self, now: Duration, reading: &Reading) -> Decision {
        let marks = Marks::of(&self.policy, reading);
        let next = self.next(now, reading, &marks);
        let is_change = next != self.level;
        if is_change {
            (self.level, self.since) = (next, Some(now));
        }
        let give_back =
            if self.level == Level::Normal { 0 } else { reading.used.saturating_sub(marks.normal) };
        // No more than there is to give.
        let give_back = give_back.min(reading.used.saturating_sub(reading.fixed));
        Decision { level: self.level, is_change, give_back, purge: self.is_time_to_purge(now, is_change) }
    }

    fn next(&mut self, now: Duration, reading: &Reading, marks: &Marks) -> Level {
        let has_failed =
            self.failures.replace(reading.failures).is_some_and(|before| before < reading.failures);
        let is_stalled = reading.stalled > self.policy.stalled;
        let lasted = self.since.map_or(Duration::MAX, |since| now.saturating_sub(since));
        let has_lasted = lasted >= self.policy.hold;
        match self.level {
            Level::Normal if reading.used > marks.shed || is_stalled || has_failed => Level::Shed,
            Level::Shed if has_failed || reading.used > marks.refuse && lasted >= self.policy.grace => {
                Level::Refuse
            }
            Level::Shed if reading.used < marks.normal && !is_stalled && has_lasted => Level::Normal,
            Level::Refuse if reading.used < marks.shed && !has_failed && has_lasted => Level::Shed,
            same => same,
        }
    }

    /// On the way up always, and every now and then while memory is short.
    fn is_time_to_purge(&mut self, now: Duration, is_change: bool) -> bool {
        let since = self.purged.map_or(Duration::MAX, |purged| now.saturating_sub(purged));
        let is_time = self.level > Level::Normal && (is_change || since >= self.policy.purge_every);
        if is_time {
            self.purged = Some(now);
        }
        is_time
    }
}
