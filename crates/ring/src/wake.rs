//! [`Wake`]: where a consumer leaves its waker.
//!
//! One word of state says who may touch the waker's cell:
//!
//! - `EMPTY`: nobody waits; the cell is empty. A registrant may take it to `WRITING`.
//! - `WRITING`: a registrant owns the cell. A wake turns it into `MISSED` and leaves the waking to the registrant.
//! - `SET`: the cell holds a waker. A registrant may take it to `WRITING`, a wake to `TAKING`.
//! - `TAKING`: a wake owns the cell, empties it, and goes to `EMPTY`.
//! - `MISSED`: the registrant still owns the cell; it empties it, goes to `EMPTY` and wakes itself.
//!
//! A consumer registers and THEN looks once more; a producer publishes and THEN wakes. Each has a sequentially consistent
//! fence between the two, so either the consumer sees what was published or the producer sees the waker. With nobody
//! waiting, a wake costs the fence and one load.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::task::Waker;
use std::thread::Thread;

use crate::sync::{AtomicUsize, UnsafeCell, fence, spin_loop};

const EMPTY: usize = 0;
const WRITING: usize = 1;
const SET: usize = 2;
const TAKING: usize = 3;
const MISSED: usize = 4;

/// A cell for the waker of one consumer, woken by any number of producers.
///
/// The consumer: look; if there is nothing, [`Wake::register`]; look again; if there is still nothing, sleep. The
/// producer: publish, then [`Wake::wake`].
pub struct Wake {
    state: AtomicUsize,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: `Waker` is `Send` and `Sync`, and the cell is only touched by whoever moved `state` to `WRITING` or `TAKING`.
unsafe impl Send for Wake {}
// SAFETY: as above.
unsafe impl Sync for Wake {}

impl Default for Wake {
    fn default() -> Self {
        Self::new()
    }
}

impl Wake {
    /// A cell in which nobody waits.
    pub fn new() -> Self {
        Self { state: AtomicUsize::new(EMPTY), waker: UnsafeCell::new(None) }
    }

    /// Leaves `waker` (in place of an earlier one) to be woken once by the next [`Wake::wake`].
    ///
    /// When a wake is under way at this moment, or another thread registers, `waker` is woken at once: the caller looks
    /// again, which is always right.
    pub fn register(&self, waker: &Waker) {
        // Cloned before the cell is taken: a clone that panics must not leave the cell in `WRITING`.
        let new = waker.clone();
        let state = self.state.load(Relaxed);
        let is_mine = matches!(state, EMPTY | SET)
            && self.state.compare_exchange(state, WRITING, Acquire, Relaxed).is_ok();
        if !is_mine {
            new.wake();
            spin_loop();
            fence(SeqCst);
            return;
        }
        // SAFETY: `WRITING` makes this thread the owner of the cell.
        let earlier = self.waker.with_mut(|cell| unsafe { (*cell).replace(new) });
        if self.state.compare_exchange(WRITING, SET, AcqRel, Acquire).is_err() {
            // SAFETY: `MISSED` leaves the cell with the registrant.
            let missed = self.waker.with_mut(|cell| unsafe { (*cell).take() });
            self.state.store(EMPTY, Release);
            wake(missed);
        }
        fence(SeqCst);
        drop(earlier);
    }

    /// Wakes the registered consumer, if any. Everything this thread did before is visible to it.
    #[inline]
    pub fn wake(&self) {
        fence(SeqCst);
        if self.state.load(Relaxed) != EMPTY {
            self.wake_registered();
        }
    }

    #[cold]
    fn wake_registered(&self) {
        let mut state = self.state.load(Relaxed);
        loop {
            let next = match state {
                SET => TAKING,
                WRITING => MISSED,
                // Somebody else's wake is under way, and the consumer's next look comes after it.
                _ => return,
            };
            match self.state.compare_exchange(state, next, AcqRel, Relaxed) {
                Ok(SET) => break,
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        // SAFETY: `TAKING` makes this thread the owner of the cell.
        let registered = self.waker.with_mut(|cell| unsafe { (*cell).take() });
        self.state.store(EMPTY, Release);
        wake(registered);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wake").finish_non_exhaustive()
    }
}

/// A waker that unparks the calling thread, for consumers that are threads: register it, look once more, then
/// [`std::thread::park`] (which may return for no reason, so look again).
pub fn thread_waker() -> Waker {
    struct Unpark(Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.0.unpark();
        }
    }

    Waker::from(Arc::new(Unpark(std::thread::current())))
}
