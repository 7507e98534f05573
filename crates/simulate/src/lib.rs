//! The scheduler on a virtual clock: what a number of replicas would make of a load.
//!
//! Gate and planner are the server's own; the loop of a lane around them is here once more, without threads, tokens or an
//! engine: a step takes as long as a [`Machine`] says. docs/simulate.md says what is simulated and what is not.
//!
//! Never here: a clock, threads, files, the command line. The same seed gives the same result.
//!
//! - [`machine`]: how long steps take. [`lane`]: one replica. [`fleet`]: several, and who gets which request.
//! - [`summary`]: what became of the requests. [`search`]: how many replicas hold the promise. [`report`]: text and HTML.

pub mod fleet;
pub mod lane;
pub mod machine;
pub mod report;
pub mod search;
pub mod summary;

pub use fleet::{Fleet, Ran, Spread};
pub use lane::{End, Lane, Request, Spec};
pub use machine::{Drawn, Machine};
pub use report::Report;
pub use search::{Search, search};
pub use summary::Summary;
