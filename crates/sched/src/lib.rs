//! Who is let in, and what runs in the next step. Pure: the server drives it with the real clock, a simulator with a
//! virtual one.
//!
//! Never here: threads, a clock (time is a parameter: the [`Duration`](std::time::Duration) since the lane started),
//! I/O, the tokens themselves (only how many there are, and the names of their blocks).
//!
//! - [`promise`]: what is promised, and the deadlines that follow.
//! - [`gate`]: admission, on any thread: exact reservations of places and tokens, then a prediction.
//! - `predict`: the next steps, played through in numbers. `tenants`: who has how much in flight.
//! - [`view`]: the state of the lane that predictions start from.
//! - [`snapshot`]: what the planner last published about itself, which the gate's answers are computed from.
//! - [`planner`]: which sequences run in the next step, and which KV blocks they have, within [`limits`].
//! - [`plan`]: what goes into the planner and comes out of it.
//! - [`queue_limit`]: how many may wait.
//! - [`load`]: what is in a step. [`cost`]: how long it will take. [`measured`]: what that begins with. [`quantile`]: quantiles that follow what they measure.

pub mod cost;
pub mod gate;
pub mod limits;
pub mod load;
pub mod measured;
pub mod plan;
pub mod planner;
mod predict;
pub mod promise;
pub mod quantile;
pub mod queue_limit;
pub mod snapshot;
mod sync;
mod tenants;
pub mod view;

pub use cost::CostModel;
pub use gate::{Ask, Bounds, Door, Gate, Refusal, Ticket};
pub use limits::Limits;
pub use load::{Load, Rates};
pub use measured::Measured;
pub use plan::{
    Arrival, BlockCopy, Event, LogitRows, Moves, Parking, Plan, PlannedSpan, SeqId, Start, Switch,
};
pub use planner::Planner;
pub use promise::{Asked, Class, Deadlines, Expected, Promise, Terms};
pub use queue_limit::{QueuePolicy, QueueRule};
pub use snapshot::Snapshot;
