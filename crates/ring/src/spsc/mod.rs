//! One producer, one consumer, wait-free.
//!
//! - [`ring`]: values move in and out.
//! - [`slots`]: the values stay in the ring and are filled and read in place, so big ones are not moved and what they
//!   have allocated is used again.
//!
//! The producer polls for room ([`Producer::free`]). The consumer may poll too, or leave a waker ([`Consumer::poll_pop`],
//! [`Consumer::pop`]): then it is woken once for each time it found the ring empty, not once per item.

pub(crate) mod cursor;
mod slots;
mod values;

pub use slots::{SlotReader, SlotWriter, slots};
pub use values::{Consumer, Drain, Producer, ring};
