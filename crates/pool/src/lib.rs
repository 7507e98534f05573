//! Memory that is there before a request needs it.
//!
//! - [`AlignedBuf`]: zeroed numbers on a cache line border (large ones on a huge page border), for weights, KV and scratch.
//! - [`view()`] and [`view_mut()`]: the same memory as numbers of another type, without copying.
//! - [`Pool`] of [`Reset`] objects: a fixed number, made at the start, that come back when their guards are dropped;
//!   [`Users`]: how many that is.
//!
//! Nothing here does I/O, reads a clock or asks the machine anything: sizes and limits are given as values.
//!
//! Unsafe code lies in `buffer` (allocation), `view` (casts) and `pool` (objects that go round by number); Miri reaches all
//! of it: `cargo +nightly miri test -p plimsoll-pool`. What is lock-free in `pool` is explored by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-pool --release --lib`.

mod buffer;
mod number;
mod pool;
mod sync;
mod users;
mod view;

pub use buffer::{AlignedBuf, OutOfMemory};
pub use number::Number;
pub use pool::{Pool, PoolCounts, Pooled, Reset};
pub use users::Users;
pub use view::{ViewError, view, view_mut};
