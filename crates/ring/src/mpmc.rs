//! [`Ring`]: bounded, many producers, many consumers.
//!
//! Dmitry Vyukov's bounded queue. Who may touch what:
//!
//! - `tail` is the position of the next push, `head` that of the next pop. Both only grow.
//! - The slot of position `p` is `slots[p & mask]`. Its `stamp` says whose turn it is:
//!   - `2p`: free. Whoever moves `tail` from `p` to `p + 1` owns the value and writes it.
//!   - `2p + 1`: filled. Whoever moves `head` from `p` to `p + 1` owns the value and reads it.
//!   - afterwards `2(p + capacity)`: free for the next lap.
//! - The owner hands the slot on by storing the next stamp (release); the next owner has loaded it (acquire).
//!
//! (Vyukov's own stamps are `p` and `p + 1`, which cannot tell full from free when the capacity is 1.)

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::capacity::slots_for;
use crate::overflow::{Overflow, Pushed};
use crate::pad::CachePadded;
use crate::room::Room;
use crate::sync::{AtomicUsize, Spin, UnsafeCell};

/// A bounded queue for any number of producers and consumers, first in, first out.
///
/// No operation waits for another thread, except [`Ring::push`] where its policy says so. The price: an item counts as
/// inside from the moment its push begins until its pop has ended. So while another thread is in the middle of an
/// operation, [`Ring::try_push`] may find the ring full one item early, and [`Ring::try_pop`] may find nothing although a
/// later push has ended already. Whoever sleeps after an empty pop must be woken by every pusher AFTER its push (see
/// [`Wake`](crate::Wake)).
pub struct Ring<T> {
    tail: CachePadded<AtomicUsize>,
    head: CachePadded<AtomicUsize>,
    room: CachePadded<Room>,
    mask: usize,
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    stamp: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: values cross threads by move only (`T: Send`); the stamps give every value one owner at a time, so shared
// access to the ring never is shared access to a `T`.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

#[inline]
fn free_at(position: usize) -> usize {
    position.wrapping_mul(2)
}

#[inline]
fn filled_at(position: usize) -> usize {
    free_at(position).wrapping_add(1)
}

/// How far `a` is ahead of `b`, both positions or both stamps.
#[inline]
fn ahead(a: usize, b: usize) -> isize {
    a.wrapping_sub(b) as isize
}

impl<T> Ring<T> {
    /// A ring with room for `capacity` items, rounded up to a power of two.
    ///
    /// # Panics
    /// When `capacity` is 0.
    pub fn new(capacity: usize) -> Self {
        Self::starting_at(0, slots_for(capacity))
    }

    /// An empty ring of `slots` slots, a power of two, whose cursors are both at `position`, a multiple of it.
    fn starting_at(position: usize, slots: usize) -> Self {
        Self {
            tail: CachePadded(AtomicUsize::new(position)),
            head: CachePadded(AtomicUsize::new(position)),
            room: CachePadded(Room::new()),
            mask: slots - 1,
            slots: (0..slots)
                .map(|index| Slot {
                    stamp: AtomicUsize::new(free_at(position.wrapping_add(index))),
                    value: UnsafeCell::new(MaybeUninit::uninit()),
                })
                .collect(),
        }
    }

    /// Items the ring holds when full.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Items inside, those being pushed or popped right now included. Only a snapshot when others work on the ring.
    pub fn len(&self) -> usize {
        let inside = ahead(self.tail.load(SeqCst), self.head.load(SeqCst));
        inside.clamp(0, self.capacity() as isize) as usize
    }

    /// Whether [`Ring::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`Ring::len`] is the capacity.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// Items ever pushed: the write cursor. For gauges, and for the alarm on a cursor that stands still.
    pub fn pushed(&self) -> u64 {
        self.tail.load(Relaxed) as u64
    }

    /// Items ever popped or evicted: the read cursor.
    pub fn popped(&self) -> u64 {
        self.head.load(Relaxed) as u64
    }

    /// Pushes at the end, or hands the item back when the ring is full. Wakes nobody.
    pub fn try_push(&self, value: T) -> Result<(), T> {
        let mut position = self.tail.load(Relaxed);
        loop {
            let slot = self.slot(position);
            let lag = ahead(slot.stamp.load(Acquire), free_at(position));
            if lag < 0 {
                return Err(value);
            }
            if lag > 0 {
                position = self.tail.load(Relaxed);
                continue;
            }
            match self.tail.compare_exchange_weak(position, position.wrapping_add(1), Relaxed, Relaxed) {
                Ok(_) => {
                    // SAFETY: the stamp said free and moving `tail` made this thread the owner of the slot, which holds
                    // no value; nobody else touches it until the stamp below.
                    slot.value.with_mut(|cell| unsafe { (*cell).write(value) });
                    slot.stamp.store(filled_at(position), Release);
                    return Ok(());
                }
                Err(now) => position = now,
            }
        }
    }

    /// Takes the oldest item.
    pub fn try_pop(&self) -> Option<T> {
        let mut position = self.head.load(Relaxed);
        loop {
            let slot = self.slot(position);
            let lag = ahead(slot.stamp.load(Acquire), filled_at(position));
            if lag < 0 {
                return None;
            }
            if lag > 0 {
                position = self.head.load(Relaxed);
                continue;
            }
            // Sequentially consistent for `Room`.
            match self.head.compare_exchange_weak(position, position.wrapping_add(1), SeqCst, Relaxed) {
                Ok(_) => {
                    // SAFETY: the stamp said filled and moving `head` made this thread the owner of the value, which
                    // is read once: the stamp below calls the slot free.
                    let value = slot.value.with(|cell| unsafe { (*cell).assume_init_read() });
                    slot.stamp.store(free_at(position.wrapping_add(self.capacity())), Release);
                    self.room.freed();
                    return Some(value);
                }
                Err(now) => position = now,
            }
        }
    }

    /// Pushes, and does what `overflow` says when the ring is full. Wakes no consumer.
    ///
    /// [`Overflow::EvictOldest`] evicts exactly one item, and only from a full ring; it waits (a few instructions) for
    /// an item that another thread is just writing or reading.
    pub fn push(&self, value: T, overflow: Overflow) -> Pushed<T> {
        match (self.try_push(value), overflow) {
            (Ok(()), _) => Pushed::Stored,
            (Err(value), Overflow::Reject) => Pushed::Rejected(value),
            (Err(value), Overflow::Block) => {
                self.push_waiting(value);
                Pushed::Stored
            }
            (Err(value), Overflow::EvictOldest) => self.push_evicting(value),
        }
    }

    fn push_waiting(&self, mut value: T) {
        let mut spin = Spin::new();
        loop {
            if spin.is_spent() {
                self.room.wait_while(|| self.is_full());
            }
            match self.try_push(value) {
                Ok(()) => return,
                Err(back) => value = back,
            }
            spin.wait();
        }
    }

    fn push_evicting(&self, mut value: T) -> Pushed<T> {
        let mut spin = Spin::new();
        loop {
            match self.replace_oldest(value) {
                Ok(oldest) => return Pushed::Evicted(oldest),
                Err(back) => value = back,
            }
            match self.try_push(value) {
                Ok(()) => return Pushed::Stored,
                Err(back) => value = back,
            }
            spin.wait();
        }
    }

    /// Pops the oldest and pushes `value` in one go, which needs no second free slot: in a full ring the oldest item's
    /// slot is the newest's. Hands `value` back when the ring is not full or another thread is at the slot.
    fn replace_oldest(&self, value: T) -> Result<T, T> {
        let head = self.head.load(Relaxed);
        let tail = head.wrapping_add(self.capacity());
        let slot = self.slot(head);
        let is_full = self.tail.load(Relaxed) == tail && slot.stamp.load(Acquire) == filled_at(head);
        if !is_full || self.head.compare_exchange(head, head.wrapping_add(1), SeqCst, Relaxed).is_err() {
            return Err(value);
        }
        // `head` had not moved, so until now the slot was filled at `head` and no push could claim position `tail`;
        // none can before the stamp below, so `tail` is still what was read and this is its only writer.
        self.tail.store(tail.wrapping_add(1), Relaxed);
        let value = MaybeUninit::new(value);
        // SAFETY: moving `head` off a filled slot made this thread the owner of its value.
        let oldest = slot.value.with_mut(|cell| unsafe { cell.replace(value).assume_init() });
        slot.stamp.store(filled_at(tail), Release);
        Ok(oldest)
    }

    #[inline]
    fn slot(&self, position: usize) -> &Slot<T> {
        // SAFETY: `mask` is the number of slots minus one.
        unsafe { self.slots.get_unchecked(position & self.mask) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.try_pop().is_some() {}
    }
}

impl<T> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn positions_may_wrap() {
        for slots in [1, 2, 8] {
            let ring = Ring::starting_at(0_usize.wrapping_sub(slots), slots);
            for lap in 0..3 {
                for item in 0..slots {
                    assert_eq!((ring.len(), ring.try_push((lap, item))), (item, Ok(())));
                }
                assert_eq!(ring.try_push((lap, slots)), Err((lap, slots)));
                assert_eq!(ring.push((lap, slots), Overflow::EvictOldest), Pushed::Evicted((lap, 0)));
                for item in 1..=slots {
                    assert_eq!(ring.try_pop(), Some((lap, item)));
                }
                assert_eq!((ring.try_pop(), ring.is_empty()), (None, true));
            }
        }
    }
}
