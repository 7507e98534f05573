//! The protocol between one producer and one consumer, whatever lies in the slots.
//!
//! - `tail`: positions before it are published. Only the producer stores it (release), after writing the slots.
//! - `head`: positions before it are free again. Only the consumer stores it (release), after reading the slots.
//! - Positions in `head..tail` belong to the consumer, those in `tail..head + capacity` to the producer.
//! - Each side keeps its own position and the last one it saw of the other ([`WriteCursor`], [`ReadCursor`]), and looks
//!   at the other's cache line only when that is not enough.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::Waker;

use crate::Wake;
use crate::pad::CachePadded;
use crate::sync::{AtomicBool, AtomicUsize};

pub(crate) struct Cursors {
    tail: CachePadded<AtomicUsize>,
    head: CachePadded<AtomicUsize>,
    /// Positions in one lap, a power of two.
    capacity: usize,
    producer_gone: AtomicBool,
    consumer_gone: AtomicBool,
    wake: Wake,
}

impl Cursors {
    pub(crate) fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self {
            tail: CachePadded(AtomicUsize::new(0)),
            head: CachePadded(AtomicUsize::new(0)),
            capacity,
            producer_gone: AtomicBool::new(false),
            consumer_gone: AtomicBool::new(false),
            wake: Wake::new(),
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(crate) fn mask(&self) -> usize {
        self.capacity - 1
    }

    #[inline]
    pub(crate) fn tail(&self) -> usize {
        self.tail.load(Acquire)
    }

    #[inline]
    pub(crate) fn head(&self) -> usize {
        self.head.load(Acquire)
    }

    #[inline]
    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.wake.register(waker);
    }

    /// Everything the producer published is visible to whoever sees this true.
    pub(crate) fn is_producer_gone(&self) -> bool {
        self.producer_gone.load(Acquire)
    }

    pub(crate) fn is_consumer_gone(&self) -> bool {
        self.consumer_gone.load(Acquire)
    }

    pub(crate) fn producer_leaves(&self) {
        self.producer_gone.store(true, Release);
        self.wake();
    }

    /// Both sides are in one hand.
    pub(crate) fn producer_returns(&self) {
        self.producer_gone.store(false, Release);
    }

    pub(crate) fn consumer_leaves(&self) {
        self.consumer_gone.store(true, Release);
    }
}

/// The producer's private half.
#[derive(Default)]
pub(crate) struct WriteCursor {
    /// The next position to write.
    pub(crate) tail: usize,
    head_seen: usize,
}

impl WriteCursor {
    /// Whether `wanted` positions are free.
    #[inline]
    pub(crate) fn has_room(&mut self, cursors: &Cursors, wanted: usize) -> bool {
        if self.room(cursors) >= wanted {
            return true;
        }
        self.head_seen = cursors.head();
        self.room(cursors) >= wanted
    }

    #[inline]
    fn room(&self, cursors: &Cursors) -> usize {
        cursors.capacity - self.tail.wrapping_sub(self.head_seen)
    }

    /// Free positions, freshly looked up.
    pub(crate) fn free(&self, cursors: &Cursors) -> usize {
        cursors.capacity - self.tail.wrapping_sub(cursors.head())
    }

    /// Hands the next `count` positions, written before, to the consumer.
    #[inline]
    pub(crate) fn publish(&mut self, cursors: &Cursors, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        cursors.tail.store(self.tail, Release);
    }
}

/// The consumer's private half.
#[derive(Default)]
pub(crate) struct ReadCursor {
    /// The next position to read.
    pub(crate) head: usize,
    tail_seen: usize,
}

impl ReadCursor {
    /// Whether anything is there to read.
    #[inline]
    pub(crate) fn has_item(&mut self, cursors: &Cursors) -> bool {
        if self.tail_seen == self.head {
            self.tail_seen = cursors.tail();
        }
        self.tail_seen != self.head
    }

    /// Published positions, freshly looked up.
    pub(crate) fn len(&self, cursors: &Cursors) -> usize {
        cursors.tail().wrapping_sub(self.head)
    }

    /// Published positions, freshly looked up, all of which may be read.
    pub(crate) fn available(&mut self, cursors: &Cursors) -> usize {
        self.tail_seen = cursors.tail();
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Counts the next `count` positions as read. The producer does not know yet.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.head = self.head.wrapping_add(count);
    }

    /// Hands everything that was read back to the producer.
    #[inline]
    pub(crate) fn release(&self, cursors: &Cursors) {
        cursors.head.store(self.head, Release);
    }
}
