//! What one model records.

use crate::pools::{PoolGauge, Pools};
use crate::register::register;
use plimsoll_api::error::Reason;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use std::time::Duration;

/// Bucket bounds in seconds for what a user waits for: TTFT, queue, whole request.
const WAITS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0,
    60.0, 120.0,
];
/// Bucket bounds in seconds for steps and gaps between tokens; a step is meant to stay under 50 ms.
const STEPS: &[f64] = &[
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15,
    0.25, 0.5, 1.0, 2.5,
];
/// Bucket bounds in seconds for stalls of a lane; the target is 280 us at P99.
const STALLS: &[f64] = &[
    1e-5, 2e-5, 5e-5, 1e-4, 1.5e-4, 2e-4, 2.8e-4, 4e-4, 6e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0,
];
/// Bucket bounds in sequences.
const BATCHES: &[f64] =
    &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0];

/// One step of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// How long it took.
    pub took: Duration,
    /// Sequences that had rows in it.
    pub sequences: usize,
    /// Prompt tokens it read.
    pub prompt_tokens: usize,
    /// Prompt tokens it did not have to read, because another request had.
    pub shared_tokens: usize,
    /// Tokens it generated.
    pub generated_tokens: usize,
}

/// Where a model's KV blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvBlocks {
    /// Held by one sequence.
    pub used: usize,
    /// Held by several.
    pub shared: usize,
    /// Held by none, their contents still findable.
    pub cached: usize,
    /// Empty.
    pub free: usize,
}

/// What went to the parking store and came back, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parked {
    /// Saved since the last time.
    pub saved: usize,
    /// Loaded since the last time.
    pub loaded: usize,
    /// In its memory now.
    pub memory: usize,
    /// In its file now.
    pub file: usize,
}

/// The metrics of one model. Recording touches atomics only, except where a method says otherwise.
pub struct ModelMetrics {
    queue_depth: IntGauge,
    queue_limit: IntGauge,
    queue_cursor: IntGauge,
    running: IntGauge,
    kv_used: IntGauge,
    kv_shared: IntGauge,
    kv_cached: IntGauge,
    kv_free: IntGauge,
    park_memory: IntGauge,
    park_file: IntGauge,
    park_saved: IntCounter,
    park_loaded: IntCounter,
    pools: Pools,
    ttft: Histogram,
    itl: Histogram,
    e2e: Histogram,
    queue: Histogram,
    step: Histogram,
    stall: Histogram,
    batch_size: Histogram,
    prompt_tokens: IntCounter,
    prefix_hit: IntCounter,
    prefix_computed: IntCounter,
    generated_tokens: IntCounter,
    step_panics: IntCounter,
    predicted: Histogram,
    predictions_kept: IntCounter,
    predictions_missed: IntCounter,
    attainment: GaugeVec,
    expired: IntCounter,
    admissions: IntCounterVec,
    admitted: IntCounter,
}

impl ModelMetrics {
    pub(crate) fn new(registry: &Registry, model: &str) -> Self {
        let new = Maker { registry, model };
        let kv = new.gauges("plimsoll_kv_blocks", "KV cache blocks, by state.", "state");
        let parked = new.gauges("plimsoll_parked_blocks", "KV blocks in the parking store.", "place");
        let moved =
            new.counters("plimsoll_park_moves_total", "KV blocks parked and brought back.", "direction");
        let prefix =
            new.counters("plimsoll_prefix_tokens_total", "Prompt tokens found or computed.", "result");
        let admissions = new.counters("plimsoll_admission_total", "Decisions at the door.", "decision");
        let [predictions_kept, predictions_missed] = predictions(&new);
        Self {
            queue_depth: new.gauge("plimsoll_queue_depth", "Requests admitted and not yet running."),
            queue_limit: new.gauge("plimsoll_queue_limit", "Most requests that may wait."),
            queue_cursor: new.gauge("plimsoll_queue_cursor", "Requests ever taken from the request ring."),
            running: new.gauge("plimsoll_running", "Sequences being computed."),
            kv_used: kv.with_label_values(&["used"]),
            kv_shared: kv.with_label_values(&["shared"]),
            kv_cached: kv.with_label_values(&["cached"]),
            kv_free: kv.with_label_values(&["free"]),
            park_memory: parked.with_label_values(&["memory"]),
            park_file: parked.with_label_values(&["file"]),
            park_saved: moved.with_label_values(&["out"]),
            park_loaded: moved.with_label_values(&["in"]),
            pools: Pools::new(|name, help| new.gauges(name, help, "pool")),
            ttft: new.histogram("plimsoll_ttft_seconds", "From arrival to the first token.", WAITS),
            itl: new.histogram("plimsoll_itl_seconds", "Between two tokens of a sequence.", STEPS),
            e2e: new.histogram("plimsoll_e2e_seconds", "From arrival to the last token.", WAITS),
            queue: new.histogram("plimsoll_queue_seconds", "From arrival to the first step.", WAITS),
            step: new.histogram("plimsoll_step_seconds", "One step of the engine.", STEPS),
            stall: new.histogram(
                "plimsoll_lane_stall_seconds",
                "How much later than it could a step began, the lane's own computing excluded.",
                STALLS,
            ),
            batch_size: new.histogram("plimsoll_batch_size", "Sequences in a step.", BATCHES),
            prompt_tokens: new.counter("plimsoll_prompt_tokens_total", "Prompt tokens read."),
            prefix_hit: prefix.with_label_values(&["hit"]),
            prefix_computed: prefix.with_label_values(&["computed"]),
            generated_tokens: new.counter("plimsoll_generated_tokens_total", "Tokens generated."),
            step_panics: new
                .counter("plimsoll_step_panics_total", "Times a lane panicked, in a step or between steps, and went on."),
            predicted: new.histogram(
                "plimsoll_predicted_seconds",
                "Time to the first token that all but a few are predicted not to pass, of those that had one.",
                WAITS,
            ),
            predictions_kept,
            predictions_missed,
            attainment: new.shares(
                "plimsoll_slo_attainment",
                "Share of the requests that had what they were promised lately.",
                "class",
            ),
            expired: new.counter("plimsoll_expired_total", "Requests let in whose time was up before they were complete."),
            admitted: admissions.with_label_values(&["admitted"]),
            admissions,
        }
    }

    /// A request was let in.
    pub fn admitted(&self) {
        self.admitted.inc();
    }

    /// A request was turned away. Looks the reason up under a read lock: for the door, not for the lane.
    pub fn refused(&self, reason: Reason) {
        self.admissions.with_label_values(&[reason.row().1]).inc();
    }

    /// A request got its first step after waiting this long.
    pub fn started(&self, waited: Duration) {
        self.queue.observe(waited.as_secs_f64());
    }

    /// A sequence gave its first token, this long after its request arrived.
    pub fn first_token(&self, after: Duration) {
        self.ttft.observe(after.as_secs_f64());
    }

    /// A sequence gave its first token after `took`, and was predicted at the door to take `at_most`.
    pub fn predicted(&self, at_most: Duration, took: Duration) {
        self.predicted.observe(at_most.as_secs_f64());
        if took <= at_most { &self.predictions_kept } else { &self.predictions_missed }.inc();
    }

    /// A request's time was up.
    pub fn expired(&self) {
        self.expired.inc();
    }

    /// Which share of a class had what it was promised. Looks the class up under a read lock: once per step at most.
    pub fn set_attainment(&self, class: &'static str, share: f64) {
        self.attainment.with_label_values(&[class]).set(share);
    }

    /// A sequence gave another token, this long after the one before.
    pub fn token_gap(&self, gap: Duration) {
        self.itl.observe(gap.as_secs_f64());
    }

    /// A request finished all its continuations, this long after it arrived.
    pub fn finished(&self, after: Duration) {
        self.e2e.observe(after.as_secs_f64());
    }

    /// The engine did a step.
    pub fn step(&self, step: Step) {
        self.step.observe(step.took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a batch is far below 2^52 sequences")]
        self.batch_size.observe(step.sequences as f64);
        self.prompt_tokens.inc_by(step.prompt_tokens as u64);
        self.prefix_computed.inc_by(step.prompt_tokens as u64);
        self.prefix_hit.inc_by(step.shared_tokens as u64);
        self.generated_tokens.inc_by(step.generated_tokens as u64);
    }

    /// A step is about to begin, so much later than it could for a reason that is not compute.
    pub fn stalled(&self, stall: Duration) {
        self.stall.observe(stall.as_secs_f64());
    }

    /// A step panicked.
    pub fn step_panicked(&self) {
        self.step_panics.inc();
    }

    /// How many requests wait, and how many may.
    pub fn set_queue(&self, depth: usize, limit: usize) {
        self.queue_depth.set(gauge(depth));
        self.queue_limit.set(gauge(limit));
    }

    /// How many requests were ever taken from the request ring. An alarm looks at this: it must not stand still while
    /// the queue is not empty.
    pub fn set_queue_cursor(&self, taken: u64) {
        self.queue_cursor.set(i64::try_from(taken).unwrap_or(i64::MAX));
    }

    /// How many sequences are being computed.
    pub fn set_running(&self, sequences: usize) {
        self.running.set(gauge(sequences));
    }

    /// Where the KV blocks are.
    pub fn set_kv_blocks(&self, blocks: KvBlocks) {
        self.kv_used.set(gauge(blocks.used));
        self.kv_shared.set(gauge(blocks.shared));
        self.kv_cached.set(gauge(blocks.cached));
        self.kv_free.set(gauge(blocks.free));
    }

    /// KV blocks went to the parking store or came back.
    pub fn parked(&self, parked: Parked) {
        self.park_saved.inc_by(parked.saved as u64);
        self.park_loaded.inc_by(parked.loaded as u64);
        self.park_memory.set(gauge(parked.memory));
        self.park_file.set(gauge(parked.file));
    }

    /// What is out of a pool. Looks the pool up under a read lock: for a scrape.
    pub fn pool(&self, pool: PoolGauge) {
        self.pools.set(pool);
    }
}

fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// First tokens within what was predicted for them, and others.
fn predictions(new: &Maker<'_>) -> [IntCounter; 2] {
    let predictions = new.counters(
        "plimsoll_predictions_total",
        "First tokens that came within the time predicted for them at the door, and those that did not.",
        "result",
    );
    ["kept", "missed"].map(|result| predictions.with_label_values(&[result]))
}

/// Makes and registers metrics that carry `model` as a constant label, so that each is one handle without a look-up,
/// and a model may have buckets of its own.
struct Maker<'a> {
    registry: &'a Registry,
    model: &'a str,
}

impl Maker<'_> {
    fn opts(&self, name: &str, help: &str) -> Opts {
        Opts::new(name, help).const_label("model", self.model)
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        register(self.registry, IntGauge::with_opts(self.opts(name, help)))
    }

    fn gauges(&self, name: &str, help: &str, label: &str) -> IntGaugeVec {
        register(self.registry, IntGaugeVec::new(self.opts(name, help), &[label]))
    }

    fn shares(&self, name: &str, help: &str, label: &str) -> GaugeVec {
        register(self.registry, GaugeVec::new(self.opts(name, help), &[label]))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        register(self.registry, IntCounter::with_opts(self.opts(name, help)))
    }

    fn counters(&self, name: &str, help: &str, label: &str) -> IntCounterVec {
        register(self.registry, IntCounterVec::new(self.opts(name, help), &[label]))
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, help).const_label("model", self.model).buckets(buckets.to_vec());
        register(self.registry, Histogram::with_opts(opts))
    }
}
