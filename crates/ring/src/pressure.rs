//! [`Pressure`]: low and high watermarks over a depth.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::sync::AtomicBool;

/// Which side of its watermarks a depth is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The depth has been at or under the low watermark since it last was at the high one.
    Low,
    /// The depth has reached the high watermark and has not been down at the low one since.
    High,
}

/// Tells when a depth crosses its watermarks. Between the two nothing changes, so a depth that trembles around one of
/// them does not switch a limiter on and off.
#[derive(Debug)]
pub struct Pressure {
    low: usize,
    high: usize,
    is_high: AtomicBool,
}

impl Pressure {
    /// Starts at [`Level::Low`].
    ///
    /// # Panics
    /// Unless `low < high`.
    pub fn new(low: usize, high: usize) -> Self {
        assert!(low < high, "the low watermark ({low}) must be under the high one ({high})");
        Self { low, high, is_high: AtomicBool::new(false) }
    }

    /// Takes note of a depth. `Some` with the new level when this observation changed it: of several threads exactly one
    /// is told. The latest observation counts, so observe after pushes and after pops.
    pub fn observe(&self, depth: usize) -> Option<Level> {
        let is_high = self.is_high.load(Relaxed);
        let becomes_high = if is_high { depth > self.low } else { depth >= self.high };
        let is_change = becomes_high != is_high
            && self.is_high.compare_exchange(is_high, becomes_high, AcqRel, Relaxed).is_ok();
        is_change.then(|| level(becomes_high))
    }

    /// The level now.
    pub fn level(&self) -> Level {
        level(self.is_high.load(Acquire))
    }
}

fn level(is_high: bool) -> Level {
    if is_high { Level::High } else { Level::Low }
}
