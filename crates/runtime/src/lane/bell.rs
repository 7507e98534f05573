//! How a lane's thread sleeps and is woken.

use plimsoll_ring::{Wake, thread_waker};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Waker;
use std::time::Instant;

/// Rung when a lane should look at its requests: somebody left, or read what had filled his ring, or a place was given
/// back. An idle lane sleeps until it rings: no ticks.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    wake: Wake,
}

impl Bell {
    /// Something changed in a request that the lane has.
    pub(crate) fn ring(&self) {
        self.rung.store(true, SeqCst);
        self.wake.wake();
    }

    /// Something was put into the mailbox.
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    /// Whether it rang since the last call.
    pub(super) fn take(&self) -> bool {
        self.rung.swap(false, SeqCst)
    }

    /// Sleeps until it rings or `is_due`, at the longest until `until`.
    pub(super) fn sleep(&self, sleeper: &Sleeper, until: Option<Instant>, is_due: impl Fn() -> bool) {
        loop {
            self.wake.register(&sleeper.waker);
            if self.rung.load(SeqCst) || is_due() {
                return;
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

/// The thread that sleeps.
pub(super) struct Sleeper {
    waker: Waker,
}

impl Sleeper {
    /// The calling thread.
    pub(super) fn current() -> Self {
        Self { waker: thread_waker() }
    }
}
