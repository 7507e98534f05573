//! [`ring`]: values move in and out.

use std::mem::MaybeUninit;
use std::task::{Context, Poll, Waker};

use super::cursor::{Cursors, ReadCursor, WriteCursor};
use crate::capacity::slots_for;
use crate::sync::{Arc, UnsafeCell};

struct Shared<T> {
    cursors: Cursors,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: values cross threads by move only (`T: Send`), and a position's slot is touched only by the side that
// `cursor` says owns it.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: there are `capacity` slots, and the mask is that minus one.
        unsafe { self.slots.get_unchecked(position & self.cursors.mask()) }
    }

    /// # Safety
    /// The caller is the producer and `position` is free.
    #[inline]
    unsafe fn write(&self, position: usize, value: T) {
        // SAFETY: a free position belongs to the producer alone.
        self.slot(position).with_mut(|cell| unsafe { (*cell).write(value) });
    }

    /// # Safety
    /// The caller is the consumer, `position` is published, and it is not read again.
    #[inline]
    unsafe fn read(&self, position: usize) -> T {
        // SAFETY: a published position holds a value and belongs to the consumer alone.
        self.slot(position).with(|cell| unsafe { (*cell).assume_init_read() })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let tail = self.cursors.tail();
        let mut head = self.cursors.head();
        while head != tail {
            // SAFETY: both sides are gone, so this thread is the consumer of what is published and was not read.
            drop(unsafe { self.read(head) });
            head = head.wrapping_add(1);
        }
    }
}

/// A ring with room for `capacity` items, rounded up to a power of two.
///
/// # Panics
/// When `capacity` is 0.
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = slots_for(capacity);
    let shared = Arc::new(Shared {
        cursors: Cursors::new(capacity),
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let producer = Producer { shared: Arc::clone(&shared), cursor: WriteCursor::default() };
    (producer, Consumer { shared, cursor: ReadCursor::default() })
}

/// The end that items go into. Dropping it wakes the consumer.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    cursor: WriteCursor,
}

impl<T> Producer<T> {
    /// Pushes and wakes a consumer that found the ring empty, or hands the item back when the ring is full.
    #[inline]
    pub fn try_push(&mut self, value: T) -> Result<(), T> {
        self.try_push_quietly(value)?;
        self.wake();
        Ok(())
    }

    /// Pushes without waking. For several pushes in a row; a [`Producer::wake`] must follow.
    #[inline]
    pub fn try_push_quietly(&mut self, value: T) -> Result<(), T> {
        if !self.cursor.has_room(&self.shared.cursors, 1) {
            return Err(value);
        }
        // SAFETY: there is room, so the next position is free.
        unsafe { self.shared.write(self.cursor.tail, value) };
        self.cursor.publish(&self.shared.cursors, 1);
        Ok(())
    }

    /// Pushes as many of `items` as there is room for, publishes them together, wakes once, and says how many. Takes no
    /// item from the iterator that has no room.
    pub fn push_batch(&mut self, items: impl IntoIterator<Item = T>) -> usize {
        let mut batch = Batch { written: 0, producer: self };
        let mut items = items.into_iter();
        while batch.producer.cursor.has_room(&batch.producer.shared.cursors, batch.written + 1) {
            let Some(item) = items.next() else { break };
            let position = batch.producer.cursor.tail.wrapping_add(batch.written);
            // SAFETY: there is room for the position.
            unsafe { batch.producer.shared.write(position, item) };
            batch.written += 1;
        }
        batch.written
    }

    /// Wakes the consumer if it has found the ring empty and left a waker. Otherwise costs a fence and a load.
    #[inline]
    pub fn wake(&self) {
        self.shared.cursors.wake();
    }

    /// Room left. It can only grow until the next push.
    pub fn free(&self) -> usize {
        self.cursor.free(&self.shared.cursors)
    }

    /// Items inside.
    pub fn len(&self) -> usize {
        self.capacity() - self.free()
    }

    /// Whether the consumer has read everything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items the ring holds when full.
    pub fn capacity(&self) -> usize {
        self.shared.cursors.capacity()
    }

    /// Says that nothing more will come, as dropping does: the consumer reads what is there and then the end. Until
    /// [`Producer::reopen`] nothing may be pushed.
    pub fn close(&self) {
        self.shared.cursors.producer_leaves();
    }

    /// Makes the ring as good as new for whoever holds both its ends: drops what was not read, forgets the waker and
    /// that the producer was closed.
    ///
    /// # Panics
    /// When `consumer` is the end of another ring.
    pub fn reopen(&mut self, consumer: &mut Consumer<T>) {
        assert!(Arc::ptr_eq(&self.shared, &consumer.shared), "two ends of different rings");
        while consumer.try_pop().is_some() {}
        self.shared.cursors.register(Waker::noop());
        self.shared.cursors.producer_returns();
    }

    /// Whether the consumer was dropped: nobody will read what is pushed.
    pub fn is_abandoned(&self) -> bool {
        self.shared.cursors.is_consumer_gone()
    }
}

/// Publishes what was written, also when the iterator panics half-way.
struct Batch<'a, T> {
    written: usize,
    producer: &'a mut Producer<T>,
}

impl<T> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        if self.written > 0 {
            self.producer.cursor.publish(&self.producer.shared.cursors, self.written);
            self.producer.wake();
        }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.cursors.producer_leaves();
    }
}

/// The end that items come out of.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    cursor: ReadCursor,
}

impl<T> Consumer<T> {
    /// Takes the oldest item.
    #[inline]
    pub fn try_pop(&mut self) -> Option<T> {
        if !self.cursor.has_item(&self.shared.cursors) {
            return None;
        }
        // SAFETY: the position is published, and counted as read right below.
        let value = unsafe { self.shared.read(self.cursor.head) };
        self.cursor.advance(1);
        self.cursor.release(&self.shared.cursors);
        Some(value)
    }

    /// Takes up to `max` of the items that are there now; their room is given back once, when the iterator is dropped.
    /// What the caller does not take stays in the ring.
    pub fn drain(&mut self, max: usize) -> Drain<'_, T> {
        let left = self.cursor.available(&self.shared.cursors).min(max);
        Drain { left, consumer: self }
    }

    /// The next item, or `None` once the producer is gone and everything was read. Leaves the task's waker when there is
    /// nothing yet. Only the last task to poll is woken.
    pub fn poll_pop(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.try_pop() {
            return Poll::Ready(Some(value));
        }
        self.register(context.waker());
        // Before the last look: whatever a producer pushed before it left is then seen by that look.
        let is_last = self.is_abandoned();
        match self.try_pop() {
            Some(value) => Poll::Ready(Some(value)),
            None if is_last => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Waits for the next item; `None` once the producer is gone and everything was read. Cancel-safe.
    pub async fn pop(&mut self) -> Option<T> {
        std::future::poll_fn(|context| self.poll_pop(context)).await
    }

    /// Leaves `waker` for the next [`Producer::wake`]. Look once more afterwards, before sleeping.
    pub fn register(&self, waker: &Waker) {
        self.shared.cursors.register(waker);
    }

    /// Items inside. It can only grow until the next pop.
    pub fn len(&self) -> usize {
        self.cursor.len(&self.shared.cursors)
    }

    /// Whether nothing is there to pop.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items the ring holds when full.
    pub fn capacity(&self) -> usize {
        self.shared.cursors.capacity()
    }

    /// Whether the producer was dropped: once the ring is empty too, nothing will come.
    pub fn is_abandoned(&self) -> bool {
        self.shared.cursors.is_producer_gone()
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // A `Drain` that was forgotten has read items without saying so; they must not be dropped again.
        self.cursor.release(&self.shared.cursors);
        self.shared.cursors.consumer_leaves();
    }
}

/// The iterator of [`Consumer::drain`].
pub struct Drain<'a, T> {
    left: usize,
    consumer: &'a mut Consumer<T>,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: `left` positions from here on are published, and this one is counted as read right below.
        let value = unsafe { self.consumer.shared.read(self.consumer.cursor.head) };
        self.consumer.cursor.advance(1);
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Drain<'_, T> {}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.consumer.cursor.release(&self.consumer.shared.cursors);
    }
}
