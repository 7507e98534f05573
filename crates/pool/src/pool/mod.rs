//! [`Pool`]: a fixed number of objects, made once and used again and again.
//!
//! - [`reset`]: what an object must be able to do.
//! - [`stack`]: idle objects of one place, in one atomic word.
//! - [`idle`]: the places: magazines, depot, cold stack; and the counts.
//! - [`thread`]: which magazine is the calling thread's.
//!
//! The objects never move: they lie in one block, [`Shared::objects`], and what goes round is their numbers.
//!
//! Who keeps the block alive: each object has one strong count of it, made at the start, and a guard inherits its object's
//! count for as long as it lives; so handing out touches no counter. The handles have one more. When the last handle goes,
//! the stacks are closed and the counts of all idle objects given up; a guard that finds the stacks closed gives up its own.

mod idle;
#[cfg(all(test, loom))]
mod loom_tests;
mod reset;
mod stack;
mod thread;

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use self::idle::Idle;
pub use self::reset::Reset;
use crate::Users;
use crate::sync::Arc;

/// A fixed number of objects that are handed out and come back. Clones are handles of the same pool.
///
/// Neither [`Pool::try_take`] nor giving back allocates, locks or waits. Each thread has a magazine of up to 16 objects that
/// it gave back last and takes first; only when that is empty, or full, does it go to what all threads share.
pub struct Pool<T: Reset> {
    shared: Arc<Shared<T>>,
    _closer: Arc<Closer<T>>,
}

struct Shared<T> {
    idle: Idle,
    objects: Box<[Place<T>]>,
    is_checked: bool,
}

/// An object on cache lines of its own. Whoever took its number out of `idle` may touch it, alone.
#[repr(align(64))]
struct Place<T> {
    object: UnsafeCell<T>,
    /// Its number, so that a guard is two pointers and travels in registers.
    index: u32,
}

// SAFETY: an object is touched by one thread at a time (see `Place`), so it only has to bear being sent.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The counts of a [`Pool`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolCounts {
    /// Objects there are.
    pub capacity: usize,
    /// Objects handed out now. Exact when nobody takes or gives back meanwhile; whatever is under way counts or does not.
    pub outstanding: usize,
    /// The most that were ever handed out at once. Takes and returns of several threads that overlap in time are put in
    /// one of the orders they can be put in.
    pub high_water: usize,
    /// How often all were handed out when one more was wanted.
    pub misses: usize,
    /// Idle objects whose memory was given back ([`Pool::shrink`]).
    pub cold: usize,
}

impl<T: Reset> Pool<T> {
    /// Makes `capacity` objects. There will never be more. Checked in debug builds: see [`Pool::checked`].
    ///
    /// # Panics
    /// When `capacity` is 0 or above 65,535.
    pub fn new(capacity: usize, make: impl FnMut() -> T) -> Self {
        Self::build(capacity, make, cfg!(debug_assertions))
    }

    /// A pool that poisons what comes back and looks whether what goes out is clean, in release builds too: for tests.
    ///
    /// # Panics
    /// As [`Pool::new`]. [`Pool::try_take`] panics when an object is not clean ([`Reset::is_clean`]).
    pub fn checked(capacity: usize, make: impl FnMut() -> T) -> Self {
        Self::build(capacity, make, true)
    }

    /// A pool with as many objects as its users need together.
    ///
    /// # Panics
    /// As [`Pool::new`] and [`Users::sum`].
    pub fn sized(users: &Users, make: impl FnMut() -> T) -> Self {
        Self::new(users.sum(), make)
    }

    fn build(capacity: usize, mut make: impl FnMut() -> T, is_checked: bool) -> Self {
        let idle = Idle::new(capacity);
        let objects =
            (0..capacity as u32).map(|index| Place { object: UnsafeCell::new(make()), index }).collect();
        let shared = Arc::new(Shared { idle, objects, is_checked });
        for _ in 0..capacity {
            // The count of one object: given up by `Shared::close` or `Pooled::drop`.
            std::mem::forget(Arc::clone(&shared));
        }
        let closer = Arc::new(Closer { shared: Arc::clone(&shared) });
        Self { shared, _closer: closer }
    }

    /// An object for as long as the guard lives; `None`, and one more miss, when all are handed out.
    #[inline]
    pub fn try_take(&self) -> Option<Pooled<T>> {
        self.try_take_as(thread::number())
    }

    #[inline]
    fn try_take_as(&self, thread: usize) -> Option<Pooled<T>> {
        let index = self.shared.idle.take(thread)?;
        let guard = self.guard(index);
        if self.shared.is_checked {
            check_clean(&guard);
        }
        Some(guard)
    }

    #[inline]
    fn guard(&self, index: u32) -> Pooled<T> {
        let place = NonNull::from(&self.shared.objects[index as usize]);
        // SAFETY: an `Arc` points to something. (A pointer made from a reference could not give the count up.)
        let shared = unsafe { NonNull::new_unchecked(Arc::as_ptr(&self.shared).cast_mut()) };
        Pooled { place, shared }
    }

    /// Lets all idle objects give memory back ([`Reset::shrink`]). They are handed out again only when no other is idle.
    /// Each counts as handed out while it shrinks. Returns how many there were.
    pub fn shrink(&self) -> usize {
        let idle = &self.shared.idle;
        // At most each object once, whatever comes back meanwhile.
        (0..idle.capacity())
            .map_while(|_| idle.take_warm())
            .map(|index| self.work(index, T::shrink, Idle::put_cold))
            .count()
    }

    /// Lets up to `most` of the objects that shrank get their memory back ([`Reset::warm`]). Returns how many there were.
    pub fn prewarm(&self, most: usize) -> usize {
        let idle = &self.shared.idle;
        (0..most)
            .map_while(|_| idle.take_cold())
            .map(|index| self.work(index, T::warm, Idle::put_warm))
            .count()
    }

    fn work<R>(&self, index: u32, work: impl FnOnce(&mut T), put: impl FnOnce(&Idle, u32) -> R) {
        // SAFETY: the index was just taken out of `idle`, and no guard has it.
        work(unsafe { &mut *self.shared.objects[index as usize].object.get() });
        put(&self.shared.idle, index);
    }

    /// The counts, for gauges.
    pub fn counts(&self) -> PoolCounts {
        let idle = &self.shared.idle;
        PoolCounts {
            capacity: idle.capacity(),
            outstanding: idle.outstanding(),
            high_water: idle.high_water(),
            misses: idle.misses(),
            cold: idle.cold(),
        }
    }
}

impl<T: Reset> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), _closer: Arc::clone(&self._closer) }
    }
}

impl<T: Reset> std::fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.counts()).finish()
    }
}

#[inline(never)]
fn check_clean<T: Reset>(object: &Pooled<T>) {
    assert!(object.is_clean(), "an object of the pool is not as good as new: its `reset` forgets something");
}

/// Shared by the handles: closes the pool when the last one goes.
struct Closer<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Drop for Closer<T> {
    fn drop(&mut self) {
        for _ in 0..self.shared.idle.close() {
            // SAFETY: the count of an object that was idle and, as the stacks are closed, never is again.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.shared)) };
        }
    }
}

/// An object of a [`Pool`], given back when dropped, on whichever thread. It keeps the pool's memory alive.
pub struct Pooled<T: Reset> {
    place: NonNull<Place<T>>,
    /// Alive, and so is `place`: the guard has its object's strong count.
    shared: NonNull<Shared<T>>,
}

// SAFETY: it is the one way to the object, so sending it sends the object.
unsafe impl<T: Reset + Send> Send for Pooled<T> {}
// SAFETY: sharing it shares the object for reading.
unsafe impl<T: Reset + Sync> Sync for Pooled<T> {}

impl<T: Reset> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the block is alive, and the object's number is this guard's alone.
        unsafe { &*self.place.as_ref().object.get() }
    }
}

impl<T: Reset> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the guard is borrowed for writing.
        unsafe { &mut *self.place.as_ref().object.get() }
    }
}

impl<T: Reset> Pooled<T> {
    #[inline]
    fn give_back_as(&mut self, thread: usize) {
        // SAFETY: the guard has a count of the block until the number is put back.
        let (is_checked, idle, index) = unsafe {
            let shared = self.shared.as_ref();
            (shared.is_checked, NonNull::from(&shared.idle), self.place.as_ref().index)
        };
        if is_checked {
            self.poison();
        }
        let release = Release(self.shared);
        self.reset();
        // SAFETY: as above.
        if unsafe { Idle::give_back(idle, thread, index) }.is_ok() {
            // The object's count went back with its number.
            std::mem::forget(release);
        }
    }
}

/// Gives the count of one object up, also when its reset panics.
struct Release<T>(NonNull<Shared<T>>);

impl<T> Drop for Release<T> {
    fn drop(&mut self) {
        // SAFETY: a count that an object's guard had and that did not go back into the pool.
        unsafe { Arc::decrement_strong_count(self.0.as_ptr().cast_const()) };
    }
}

impl<T: Reset> Drop for Pooled<T> {
    #[inline]
    fn drop(&mut self) {
        self.give_back_as(thread::number());
    }
}

impl<T: Reset + std::fmt::Debug> std::fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
