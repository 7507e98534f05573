//! Lanes: the threads that drive an engine by the scheduler's plans, behind the service trait.
//!
//! The way of a request: [`Runtime`] finds its model and reserves a place at the gate; the text side renders and
//! tokenizes it; it goes through the mailbox to the lane's thread, which plans, computes and samples step by step; its
//! tokens come back through a ring of its own to the event stream, which makes text of them.
//!
//! Never here: HTTP, wire formats, decisions about order and admission (`plimsoll-sched` makes them), numbers.
//!
//! - [`runtime`]: the models of a process, as a `Service`.
//! - [`config`]: the limits of a lane.
//! - [`memory`]: the watch over memory.
//! - [`experiment`]: experiments on a lane.
//! - `generate`: from a request to a place in the mailbox: everything that can be refused is refused here.
//! - `events`: from the token ring to text, stop strings and usage.
//! - [`tune`]: what steps cost, measured at length. `probe`: one step to be measured.
//! - `request`: what goes through the mailbox. `sequence`: its continuations. `admission`: its place behind the gate.
//! - `lane`: the thread.
//! - `link`: the token ring of a request, what a lane says through it, and what its reader says. `bell`: how that wakes the lane.
//! - `pools`: what requests are made of. `lent`: one such thing.
//! - `park`: the parking store of a lane.
//! - `stagers`: who works on texts off the async threads.
//! - `terms`: what a request may ask for instead of what its model promises.
//! - `text`: the text side of a model.
//! - `turnstile`: lanes take turns on the one compute team.

mod admission;
mod bell;
pub mod config;
mod events;
pub mod experiment;
mod generate;
mod lane;
mod lent;
mod link;
pub mod memory;
mod park;
mod pools;
mod probe;
mod request;
pub mod runtime;
mod sequence;
mod stagers;
mod terms;
mod text;
pub mod tune;
mod turnstile;

pub use config::{LaneConfig, Parking, TenantLimits};
pub use experiment::{Experiment, Vary};
pub use memory::{MemoryConfig, MemoryWatch, Remedies};
pub use plimsoll_sched::{Class, Measured, Promise, QueuePolicy};
pub use plimsoll_trial::{Arm, Design, Measure, Unit};
pub use probe::Probe;
pub use runtime::{Drained, ModelParts, Runtime, StartError};
