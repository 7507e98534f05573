//! Bounded lock-free rings: the mailboxes and token streams every request passes through.
//!
//! - [`Ring`]: many producers, many consumers. The request mailbox of a lane.
//! - [`Overflow`] and [`Pushed`]: what happens when a [`Ring`] is full, said by whoever pushes.
//! - [`spsc`]: one producer, one consumer, wait-free: values ([`spsc::ring`]) or slots that are filled and read in
//!   place ([`spsc::slots`]). The token stream of one request.
//! - [`bytes`]: frames of varying size inside one block of memory.
//! - [`Wake`]: where a consumer that found nothing leaves its waker.
//! - [`Pressure`]: low and high watermarks over a depth.
//!
//! Nothing here does I/O, reads a clock, or knows tokio: waiting is a [`std::task::Waker`], or a parked thread where the
//! policy is [`Overflow::Block`]. Every ring has a fixed capacity, allocated when it is made; afterwards nothing
//! allocates.
//!
//! Capacities are rounded up to a power of two, so that a position becomes an index by a mask. Positions only grow (they
//! wrap with `usize`, which no process lives to see on 64 bits), so `position & mask` is the slot and differences of
//! positions are depths.
//!
//! Atomics, cells and threads come from the private module `sync`, which is `loom`'s under `--cfg loom`:
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-ring --release`.
//! Miri runs the other tests, made smaller: `cargo +nightly miri test -p plimsoll-ring`.

pub mod bytes;
mod capacity;
mod mpmc;
mod overflow;
mod pad;
mod pressure;
mod room;
pub mod spsc;
mod sync;
mod wake;

pub use mpmc::Ring;
pub use overflow::{Overflow, Pushed};
pub use pressure::{Level, Pressure};
pub use wake::{Wake, thread_waker};
