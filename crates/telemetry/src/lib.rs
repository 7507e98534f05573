//! What a running server tells its operator: metrics in Prometheus' text format, and logs.
//!
//! Never here: sockets (the gateway's control plane serves the text), decisions (nothing reads a metric back to act on
//! it), and prompt text, in any form.
//!
//! - [`Metrics`]: the registry of the process; renders the text.
//! - [`ModelMetrics`]: the handles one model records into, without locks or allocation.
//! - [`ExperimentMetrics`]: the handles one experiment on a model records into, likewise.
//! - [`logs`]: the `tracing` subscriber: text on a terminal, JSON otherwise.

mod experiments;
pub mod logs;
mod metrics;
mod model;
mod pools;
mod register;

pub use experiments::{ExperimentMetrics, Requests};
pub use metrics::{CONTENT_TYPE, Metrics};
pub use model::{KvBlocks, ModelMetrics, Parked, Step};
pub use pools::PoolGauge;
