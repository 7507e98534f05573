//! Gauges of pools.

use prometheus::IntGaugeVec;

/// The counts of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolGauge {
    /// Its name.
    pub pool: &'static str,
    /// Objects handed out now.
    pub outstanding: usize,
    /// The most that were ever handed out at once.
    pub high_water: usize,
    /// How often there was none.
    pub misses: usize,
}

/// The gauges of all pools of one owner, by pool.
#[derive(Clone)]
pub(crate) struct Pools {
    outstanding: IntGaugeVec,
    high_water: IntGaugeVec,
    misses: IntGaugeVec,
}

impl Pools {
    pub(crate) fn new(gauges: impl Fn(&str, &str) -> IntGaugeVec) -> Self {
        Self {
            outstanding: gauges("plimsoll_pool_outstanding", "Objects out of their pool."),
            high_water: gauges("plimsoll_pool_high_water", "The most objects ever out of their pool."),
            misses: gauges("plimsoll_pool_misses", "How often a pool had no object left."),
        }
    }

    pub(crate) fn set(&self, counts: PoolGauge) {
        let PoolGauge { pool, outstanding, high_water, misses } = counts;
        let values =
            [(&self.outstanding, outstanding), (&self.high_water, high_water), (&self.misses, misses)];
        for (gauges, value) in values {
            gauges.with_label_values(&[pool]).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}
