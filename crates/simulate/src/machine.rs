//! How long steps take.

use fastrand::Rng;
use plimsoll_sched::{Load, Measured};

/// What computes the steps of one replica.
pub trait Machine {
    /// Seconds that a step of `load` takes which begins at `now`, in seconds from the start. Above 0.
    fn seconds(&mut self, load: Load, now: f64) -> f64;
}

/// A machine that was measured: every step is off by a ratio drawn from those that were seen, independent of each other.
#[derive(Debug, Clone)]
pub struct Drawn {
    measured: Measured,
    rng: Rng,
}

impl Drawn {
    /// The seed decides every step.
    pub fn new(measured: Measured, seed: u64) -> Self {
        Self { measured, rng: Rng::with_seed(seed) }
    }
}

impl Machine for Drawn {
    fn seconds(&mut self, load: Load, _: f64) -> f64 {
        (self.measured.rates.seconds(load) * self.measured.ratio(self.rng.f64())).max(1e-6)
    }
}
