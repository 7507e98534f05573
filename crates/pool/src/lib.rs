//! Memory that is there before a request needs it.
//!
//! - [`AlignedBuf`]: zeroed numbers on a cache line border (large ones on a huge page border), for weights, KV and scratch.
//! - [`view()`] and [`view_mut()`]: the same memory as numbers of another type, without copying.
//! - [`AlignedBuf::release_range`] and [`trim_heap`]: pages go back to the system; [`AlignedBuf::touch`]: and come again.
//! - [`Arena`]: slices of numbers for one step.
//! - [`Pool`] of [`Reset`] objects: a fixed number, made at the start, that come back when their guards are dropped;
//!   [`Users`]: how many that is.
//! - [`counting`]: an allocator that counts, for tests.
//! - [`governor`]: when memory is short, and what to do about it.
//! - [`numa`]: on which node a buffer should lie.
//!
//! Nothing here does I/O, reads a clock or asks the machine anything: sizes and limits are given as values.
//!
//! Unsafe code lies in `buffer` (allocation), `view` (casts), `arena` (disjoint slices), `pages` (system calls, which Miri
//! does not know), `counting` (an allocator) and `pool` (objects that go round by number); Miri reaches the rest: `cargo +nightly miri test -p plimsoll-pool`. What is lock-free in `pool` is explored by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-pool --release --lib`.

mod arena;
mod buffer;
pub mod counting;
pub mod governor;
pub mod numa;
mod number;
mod pages;
mod pool;
mod sync;
mod users;
mod view;

pub use arena::{Arena, ArenaCounts, ArenaFull};
pub use buffer::{AlignedBuf, OutOfMemory};
pub use number::Number;
pub use pages::trim_heap;
pub use pool::{Pool, PoolCounts, Pooled, Reset};
pub use users::Users;
pub use view::{ViewError, view, view_mut};
