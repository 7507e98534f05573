//! Who is let in, and what runs in the next step. Pure: the server drives it with the real clock, a simulator with a
//! virtual one.
//!
//! Never here: threads, a clock (time is a parameter: the [`Duration`](std::time::Duration) since the lane started),
//! I/O, the tokens themselves (only how many there are, and the names of their blocks).
//!
//! - [`gate`]: admission, on any thread: exact reservations of places and tokens.
//! - [`snapshot`]: what the planner last published about itself, which the gate's answers are computed from.
//! - [`planner`]: which sequences run in the next step, and which KV blocks they have.
//! - [`plan`]: what goes into the planner and comes out of it.
//! - [`cost`]: how long a step will take.

pub mod cost;
pub mod gate;
pub mod plan;
pub mod planner;
pub mod snapshot;
mod sync;

pub use cost::{CostModel, Load};
pub use gate::{Bounds, Gate, Refusal, Ticket};
pub use plan::{Arrival, BlockCopy, Event, LogitRows, Moves, Parking, Plan, PlannedSpan, SeqId, Start};
pub use planner::{Limits, Planner};
pub use snapshot::Snapshot;
