//! [`Room`]: where pushers sleep while a ring is full.
//!
//! A sleeper and a popper must not miss each other, and a pop with no sleeper should pay one load. Both rest on the
//! single order of sequentially consistent operations:
//!
//! - the sleeper adds itself to `waiting`, then looks at the ring's `head`;
//! - the popper moves `head`, then looks at `waiting`.
//!
//! One of the two sees the other. The popper that sees a sleeper takes the lock before it notifies, so it cannot slip in
//! between the sleeper's look and its sleep.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, fence_for_loom};

pub(crate) struct Room {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    freed: Condvar,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { waiting: AtomicUsize::new(0), lock: Mutex::new(()), freed: Condvar::new() }
    }

    /// Called after a slot was freed; `head` was moved sequentially consistently before.
    #[inline]
    pub(crate) fn freed(&self) {
        fence_for_loom();
        if self.waiting.load(SeqCst) != 0 {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        drop(self.lock());
        self.freed.notify_one();
    }

    /// Sleeps until `is_full` (which loads `head` sequentially consistently) says no.
    #[cold]
    pub(crate) fn wait_while(&self, is_full: impl Fn() -> bool) {
        let mut held = self.lock();
        self.waiting.fetch_add(1, SeqCst);
        fence_for_loom();
        while is_full() {
            held = self.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, SeqCst);
        drop(held);
    }

    /// The lock guards no data, so a panic under it leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use loom::thread;

    #[test]
    fn two_sleepers_are_woken_by_two_pops() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new((Room::new(), AtomicUsize::new(0)));
            let sleepers = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.0.wait_while(|| shared.1.load(SeqCst) == 0))
            });
            for _ in 0..2 {
                shared.1.fetch_add(1, SeqCst);
                shared.0.freed();
            }
            sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("no panic"));
        });
    }
}
