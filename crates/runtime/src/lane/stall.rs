//! Lane stalls: steps that begin later than they could, for a reason that is not compute.
//!
//! A step could begin when the one before it was over, or, on a lane that slept, when the first thing that woke it was there.
//! From then until the lane is ready for the step it computes (it takes in what came, plans, moves blocks) or it does not:
//! it has not been woken yet, others have its core, it waits for a lock. The second is the stall: the time that went by less
//! the time the lane's thread computed. A lane's turn among the lanes of other models comes afterwards and does not count:
//! those compute.

use plimsoll_host::thread::cpu_time;
use std::time::{Duration, Instant};

/// Since when a step could begin, and what the lane's thread had computed by then.
#[derive(Debug)]
pub(super) struct Stall {
    ready: Instant,
    computed: Duration,
}

impl Stall {
    /// A step could begin now.
    pub(super) fn now() -> Self {
        Self { ready: Instant::now(), computed: cpu_time() }
    }

    /// The lane slept, and was called at `called`.
    pub(super) fn slept(&mut self, called: Option<Instant>) {
        self.ready = called.unwrap_or_else(Instant::now);
    }

    /// The lane is about to sleep, with nothing to do.
    pub(super) fn sleeps(&mut self) {
        self.computed = cpu_time();
    }

    /// How long the step that is about to begin has been kept from it.
    pub(super) fn ends(&self) -> Duration {
        let computed = cpu_time().saturating_sub(self.computed);
        self.ready.elapsed().saturating_sub(computed)
    }
}
