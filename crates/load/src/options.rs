//! What a bench is told to do.

use crate::arrivals::Extent;
use crate::slo::Slo;
use crate::sweep::SweepOptions;
use crate::workload::Workload;
use std::time::Duration;

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchOptions {
    /// What is sent.
    pub workload: Workload,
    /// How much, in each run.
    pub extent: Extent,
    /// The promise.
    pub slo: Option<Slo>,
    /// Runs at these rates; `None` is a trace's own.
    pub rates: Vec<Option<f64>>,
    /// Looks for the highest rate in the promise first.
    pub sweep: Option<SweepOptions>,
    /// Then runs at these multiples of it.
    pub multiples: Vec<f64>,
    /// Most requests under way.
    pub max_in_flight: usize,
    /// Between two runs.
    pub pause: Duration,
    /// Length of the windows of the figures over time.
    pub window: Duration,
    /// The server's process, if it is of this machine and its memory is to be watched.
    pub pid: Option<u32>,
}
