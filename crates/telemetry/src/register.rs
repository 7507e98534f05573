//! Metrics into a registry.

use prometheus::Registry;

/// Registers a metric whose name and labels are fixed in this crate.
pub(crate) fn register<T>(registry: &Registry, metric: prometheus::Result<T>) -> T
where
    T: prometheus::core::Collector + Clone + 'static,
{
    let metric = metric.expect("metric names and labels of this crate are valid");
    registry.register(Box::new(metric.clone())).expect("each metric is registered once per model");
    metric
}
