//! [`Pool`]: a fixed number of objects, made once and used again and again.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use plimsoll_ring::{Overflow, Ring};

/// What can be used again.
pub trait Reset {
    /// Makes the object as good as new while keeping what it has allocated. Runs when the object is given back, on the
    /// thread that gives it back. Must not panic: an object whose reset panics is lost to its pool and counts as
    /// outstanding for ever.
    fn reset(&mut self);
}

impl<T> Reset for Vec<T> {
    fn reset(&mut self) {
        self.clear();
    }
}

impl Reset for String {
    fn reset(&mut self) {
        self.clear();
    }
}

/// A fixed number of objects that are handed out and come back. Clones are handles of the same pool.
///
/// Neither [`Pool::try_take`] nor giving back allocates. Both are lock-free but for one case: a thread that was stopped
/// half-way through giving back is waited for rather than reported as a miss.
pub struct Pool<T: Reset> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    idle: Ring<T>,
    capacity: usize,
    /// Objects handed out. Raised BEFORE an object is taken from `idle` and lowered AFTER it is back, so whoever raised it
    /// to at most `capacity` will find an object there.
    outstanding: AtomicUsize,
    high_water: AtomicUsize,
    misses: AtomicUsize,
}

/// The counts of a [`Pool`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolCounts {
    /// Objects there are.
    pub capacity: usize,
    /// Objects handed out now.
    pub outstanding: usize,
    /// The most that were ever handed out at once.
    pub high_water: usize,
    /// How often all were handed out when one more was wanted.
    pub misses: usize,
}

impl<T: Reset> Pool<T> {
    /// Makes `capacity` objects. There will never be more.
    ///
    /// # Panics
    /// When `capacity` is 0.
    pub fn new(capacity: usize, mut make: impl FnMut() -> T) -> Self {
        let idle = Ring::new(capacity);
        for _ in 0..capacity {
            let _stored = idle.push(make(), Overflow::Block);
        }
        let shared = Shared {
            idle,
            capacity,
            outstanding: AtomicUsize::new(0),
            high_water: AtomicUsize::new(0),
            misses: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// An object for as long as the guard lives; `None`, and one more miss, when all are handed out.
    pub fn try_take(&self) -> Option<Pooled<T>> {
        if !self.shared.reserve() {
            self.shared.misses.fetch_add(1, Relaxed);
            return None;
        }
        let object = ManuallyDrop::new(self.shared.take_reserved());
        Some(Pooled { object, shared: Arc::clone(&self.shared) })
    }

    /// The counts, for gauges.
    pub fn counts(&self) -> PoolCounts {
        PoolCounts {
            capacity: self.shared.capacity,
            outstanding: self.shared.outstanding.load(Relaxed),
            high_water: self.shared.high_water.load(Relaxed),
            misses: self.shared.misses.load(Relaxed),
        }
    }
}

impl<T: Reset> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Reset> std::fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.counts()).finish()
    }
}

impl<T> Shared<T> {
    fn reserve(&self) -> bool {
        let one_more = |outstanding| (outstanding < self.capacity).then_some(outstanding + 1);
        let Ok(before) = self.outstanding.fetch_update(AcqRel, Acquire, one_more) else { return false };
        self.high_water.fetch_max(before + 1, Relaxed);
        true
    }

    fn take_reserved(&self) -> T {
        loop {
            if let Some(object) = self.idle.try_pop() {
                return object;
            }
            // There is one (see `outstanding`), behind one that another thread is just putting back.
            std::thread::yield_now();
        }
    }

    fn put_back(&self, object: T) {
        // There is room for all objects; at most another thread is just taking one from the place this one goes to.
        let _stored = self.idle.push(object, Overflow::Block);
        self.outstanding.fetch_sub(1, Release);
    }
}

/// An object of a [`Pool`], given back when dropped. It keeps the pool's memory alive.
pub struct Pooled<T: Reset> {
    object: ManuallyDrop<T>,
    shared: Arc<Shared<T>>,
}

impl<T: Reset> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: Reset> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

impl<T: Reset> Drop for Pooled<T> {
    fn drop(&mut self) {
        // SAFETY: taken once: the guard is being dropped and does not touch `object` again.
        let mut object = unsafe { ManuallyDrop::take(&mut self.object) };
        object.reset();
        self.shared.put_back(object);
    }
}

impl<T: Reset + std::fmt::Debug> std::fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
