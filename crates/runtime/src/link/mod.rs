//! The link between a request's lane and its reader: the token ring, and what the reader says. Both sides hold one end, and
//! whichever drops its end last sends the link back to its pool, if it came from one.

mod control;
mod item;

pub(crate) use control::{Control, Needs};
pub(crate) use item::Item;

use crate::bell::Bell;
use plimsoll_pool::{Pool, Pooled, Reset};
use plimsoll_ring::spsc::{self, Consumer, Producer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

/// Continuations a pooled link has room for.
const MOST_SEQUENCES: usize = 128;

/// A link that is in a pool, or in the hands of two.
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    control: Control,
    home: Mutex<Home>,
}

/// What is at home: all of it in the pool, nothing while both sides hold their ends.
struct Home {
    producer: Option<Producer<Item>>,
    consumer: Option<Consumer<Item>>,
    /// Sends the link back to its pool.
    ticket: Option<Pooled<Link>>,
}

impl Link {
    /// A link with a ring of so many items.
    pub(crate) fn new(ring: usize, bell: Arc<Bell>) -> Self {
        Self::with(MOST_SEQUENCES, ring, bell)
    }

    fn with(sequences: usize, ring: usize, bell: Arc<Bell>) -> Self {
        let (producer, consumer) = spsc::ring(ring);
        let home = Home { producer: Some(producer), consumer: Some(consumer), ticket: None };
        Self { shared: Arc::new(Shared { control: Control::new(sequences, bell), home: Mutex::new(home) }) }
    }

    /// The two ends of a link: of one from `pool`, unless that has none or `needs` are too large for it.
    pub(crate) fn open(
        pool: &Pool<Self>,
        ring: usize,
        needs: Needs,
        bell: &Arc<Bell>,
    ) -> (ToReader, FromLane) {
        // Twice what a step may need, so that a request that pauses can go on before its ring is quite empty.
        let least = 2 * needs.items_per_step;
        let fits = needs.sequences <= MOST_SEQUENCES && least <= ring;
        let pooled = fits.then(|| pool.try_take()).flatten();
        let shared = match &pooled {
            Some(link) => link.shared.clone(),
            None => Self::with(needs.sequences, least.max(ring), bell.clone()).shared,
        };
        let (producer, consumer) = shared.home().leave(pooled, least.max(ring));
        shared.control.begin(needs, producer.capacity());
        let to_reader = ToReader { producer: Some(producer), shared: shared.clone() };
        (to_reader, FromLane { consumer: Some(consumer), shared })
    }
}

impl Shared {
    fn home(&self) -> MutexGuard<'_, Home> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home {
    /// The ends leave; `ticket` is what sends the link back to its pool once both have come home.
    fn leave(&mut self, ticket: Option<Pooled<Link>>, ring: usize) -> (Producer<Item>, Consumer<Item>) {
        self.ticket = ticket;
        match (self.producer.take(), self.consumer.take()) {
            (Some(producer), Some(consumer)) => (producer, consumer),
            // One was lost on its way home, by a panic.
            _ => spsc::ring(ring),
        }
    }

    /// The ticket, if both are home.
    fn ticket(&mut self) -> Option<Pooled<Link>> {
        let are_home = self.producer.is_some() && self.consumer.is_some();
        are_home.then(|| self.ticket.take()).flatten()
    }
}

impl Reset for Link {
    fn reset(&mut self) {
        let mut home = self.shared.home();
        let Home { producer, consumer, .. } = &mut *home;
        if let (Some(producer), Some(consumer)) = (producer, consumer) {
            producer.reopen(consumer);
        }
        self.shared.control.reset();
    }

    fn poison(&mut self) {
        self.shared.control.poison();
    }

    fn is_clean(&self) -> bool {
        let home = self.shared.home();
        let is_empty =
            home.consumer.as_ref().is_none_or(|consumer| consumer.is_empty() && !consumer.is_abandoned());
        is_empty && home.ticket.is_none() && self.shared.control.is_clean()
    }
}

/// The lane's end. Dropping it tells the reader that nothing more will come.
pub(crate) struct ToReader {
    /// `None` only while it is being dropped.
    producer: Option<Producer<Item>>,
    shared: Arc<Shared>,
}

impl ToReader {
    pub(crate) fn control(&self) -> &Control {
        &self.shared.control
    }

    /// Puts an item into the ring without waking the reader. The request pauses before the ring fills, so there is room;
    /// should there be none, the reader is told by the ring's end.
    pub(crate) fn push(&mut self, item: Item) {
        let pushed = self.producer.as_mut().map(|producer| producer.try_push_quietly(item));
        debug_assert!(pushed.is_some_and(|pushed| pushed.is_ok()), "the token ring is full");
    }

    pub(crate) fn wake(&self) {
        self.producer.iter().for_each(Producer::wake);
    }

    /// Items there is room for.
    pub(crate) fn free(&self) -> usize {
        self.producer.as_ref().map_or(0, Producer::free)
    }
}

impl Drop for ToReader {
    fn drop(&mut self) {
        let Some(producer) = self.producer.take() else { return };
        producer.close();
        let ticket = {
            let mut home = self.shared.home();
            home.producer = Some(producer);
            home.ticket()
        };
        drop(ticket);
    }
}

/// The reader's end. Dropping it does not cancel: see [`Control::cancel`].
pub(crate) struct FromLane {
    /// `None` only while it is being dropped.
    consumer: Option<Consumer<Item>>,
    shared: Arc<Shared>,
}

impl FromLane {
    pub(crate) fn control(&self) -> &Control {
        &self.shared.control
    }

    /// The next item; `None` after the last.
    pub(crate) fn poll_pop(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some(consumer) = &mut self.consumer else { return Poll::Ready(None) };
        let item = ready!(consumer.poll_pop(context));
        if item.is_some() {
            self.shared.control.made_room(consumer.capacity() - consumer.len());
        }
        Poll::Ready(item)
    }
}

impl Drop for FromLane {
    fn drop(&mut self) {
        let Some(consumer) = self.consumer.take() else { return };
        let ticket = {
            let mut home = self.shared.home();
            home.consumer = Some(consumer);
            home.ticket()
        };
        drop(ticket);
    }
}
