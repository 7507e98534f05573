//! How a lane's thread sleeps and is woken.

use plimsoll_ring::{Wake, thread_waker};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Rung when a lane should look at its requests: somebody left, or read what had filled his ring, or a place was given
/// back. An idle lane sleeps until it rings: no ticks.
#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
    /// Nanoseconds from `begun` to the first call since the lane went to sleep; 0: none.
    called: AtomicU64,
    begun: Instant,
    wake: Wake,
}

impl Default for Bell {
    fn default() -> Self {
        let (rung, called, wake) = Default::default();
        Self { rung, called, begun: Instant::now(), wake }
    }
}

impl Bell {
    /// Something changed in a request that the lane has.
    pub(crate) fn ring(&self) {
        self.rung.store(true, SeqCst);
        self.wake();
    }

    /// Something was put into the mailbox.
    pub(crate) fn wake(&self) {
        if self.called.load(Relaxed) == 0 {
            let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
            self.called.compare_exchange(0, now, SeqCst, Relaxed).ok();
        }
        self.wake.wake();
    }

    /// Whether it rang since the last call.
    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, SeqCst)
    }

    /// Sleeps until it rings or `is_due`, at the longest until `until`. Returns when it was first called, or was due, if it
    /// was.
    pub(crate) fn sleep(
        &self,
        sleeper: &Sleeper,
        until: Option<Instant>,
        is_due: impl Fn() -> bool,
    ) -> Option<Instant> {
        // Before the first look: whoever calls after that look is noted.
        self.called.store(0, SeqCst);
        loop {
            self.wake.register(&sleeper.waker);
            if self.rung.load(SeqCst) || is_due() {
                let called = self.called.load(SeqCst);
                return (called > 0).then(|| self.begun + Duration::from_nanos(called));
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return until,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

/// The thread that sleeps.
pub(crate) struct Sleeper {
    waker: Waker,
}

impl Sleeper {
    /// The calling thread.
    pub(crate) fn current() -> Self {
        Self { waker: thread_waker() }
    }
}
