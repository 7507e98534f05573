//! Experiments on a running service: who gets which arm, when arms take turns, and what the figures show.
//!
//! An arm is a name and a weight here; what it stands for, and how it is put into force, is its user's.
//!
//! Never here: a clock (time is a parameter: the [`Duration`](std::time::Duration) since the service started), threads,
//! I/O, what the arms do.
//!
//! - [`design`]: what an experiment is, and what is wrong with it.
//! - [`assign`]: the arm of a request, by a stable hash.
//! - [`schedule`]: the arm of a moment, by blocks of time in random order.
//! - [`tally`]: what is counted of requests, in bounded memory and without locks.
//! - [`log`](mod@log): the blocks that are kept, and which one a request belongs to.
//! - `bootstrap`: figures with intervals. [`report`]: what is told of them, and the verdict.
//! - `random`: numbers that are the same for the same seed, on every machine and in every version.

pub mod assign;
mod bootstrap;
pub mod design;
pub mod log;
mod random;
pub mod report;
pub mod schedule;
pub mod tally;

pub use assign::arm_of;
pub use design::{Arm, Design, DesignError, Measure, Unit};
pub use log::{Log, Place, Seat};
pub use report::{Report, Verdict};
pub use tally::{Answered, Outcome};
