//! [`slots`]: values that stay in the ring.

use super::cursor::{Cursors, ReadCursor, WriteCursor};
use crate::capacity::slots_for;
use crate::sync::{Arc, UnsafeCell};

struct Shared<T> {
    cursors: Cursors,
    slots: Box<[UnsafeCell<T>]>,
}

// SAFETY: a slot is touched only by the side that `cursor` says owns its position, so a `T` is only ever reached by one
// thread at a time (`T: Send`).
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// The caller owns `position`: it is the producer and the position is free, or it is the consumer and the position
    /// is published.
    unsafe fn with<R>(&self, position: usize, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the owner is alone with the slot.
        self.slots[position & self.cursors.mask()].with_mut(|cell| work(unsafe { &mut *cell }))
    }
}

/// A ring of `capacity` slots (rounded up to a power of two), each made once by `make` and reused for ever.
///
/// # Panics
/// When `capacity` is 0.
pub fn slots<T>(capacity: usize, mut make: impl FnMut() -> T) -> (SlotWriter<T>, SlotReader<T>) {
    let capacity = slots_for(capacity);
    let shared = Arc::new(Shared {
        cursors: Cursors::new(capacity),
        slots: (0..capacity).map(|_| UnsafeCell::new(make())).collect(),
    });
    let writer = SlotWriter { shared: Arc::clone(&shared), cursor: WriteCursor::default() };
    (writer, SlotReader { shared, cursor: ReadCursor::default() })
}

/// The end that fills slots. Dropping it wakes the reader.
pub struct SlotWriter<T> {
    shared: Arc<Shared<T>>,
    cursor: WriteCursor,
}

impl<T> SlotWriter<T> {
    /// Lets `fill` overwrite the next slot (which still holds what was in it a lap ago), publishes it and wakes the
    /// reader. `None` when the ring is full. When `fill` panics nothing is published.
    pub fn write<R>(&mut self, fill: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.cursor.has_room(&self.shared.cursors, 1) {
            return None;
        }
        // SAFETY: there is room, so the producer owns the next position.
        let result = unsafe { self.shared.with(self.cursor.tail, fill) };
        self.cursor.publish(&self.shared.cursors, 1);
        self.shared.cursors.wake();
        Some(result)
    }

    /// Slots that can be written now.
    pub fn free(&self) -> usize {
        self.cursor.free(&self.shared.cursors)
    }

    /// Whether the reader was dropped.
    pub fn is_abandoned(&self) -> bool {
        self.shared.cursors.is_consumer_gone()
    }
}

impl<T> Drop for SlotWriter<T> {
    fn drop(&mut self) {
        self.shared.cursors.producer_leaves();
    }
}

/// The end that reads slots.
pub struct SlotReader<T> {
    shared: Arc<Shared<T>>,
    cursor: ReadCursor,
}

impl<T> SlotReader<T> {
    /// Lets `work` read the oldest slot, then gives it back. `None` when there is none. When `work` panics the slot stays.
    ///
    /// The slot may be changed, but what is left in it is what the writer will find: leave its allocations there.
    pub fn read<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.cursor.has_item(&self.shared.cursors) {
            return None;
        }
        // SAFETY: the position is published, so the consumer owns it.
        let result = unsafe { self.shared.with(self.cursor.head, work) };
        self.cursor.advance(1);
        self.cursor.release(&self.shared.cursors);
        Some(result)
    }

    /// Slots that can be read now.
    pub fn len(&self) -> usize {
        self.cursor.len(&self.shared.cursors)
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the writer was dropped: once the ring is empty too, nothing will come.
    pub fn is_abandoned(&self) -> bool {
        self.shared.cursors.is_producer_gone()
    }

    /// Leaves `waker` for the next write. Look once more afterwards, before sleeping.
    pub fn register(&self, waker: &std::task::Waker) {
        self.shared.cursors.register(waker);
    }
}

impl<T> Drop for SlotReader<T> {
    fn drop(&mut self) {
        self.shared.cursors.consumer_leaves();
    }
}
