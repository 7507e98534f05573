//! The registry of the process.

use crate::experiments::{ExperimentMetrics, Experiments};
use crate::model::ModelMetrics;
use crate::pools::{PoolGauge, Pools};
use crate::register::register;
use plimsoll_host::Host;
use prometheus::{
    Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Bucket bounds in seconds for what the server does with a request beside the engine; the target is 5 ms at P99.
const HANDLING: &[f64] = &[
    1e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1,
    0.5, 2.0,
];

/// Bucket bounds in seconds for what a refusal takes; the target is 2 ms at P99.
const REFUSALS: &[f64] =
    &[5e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0];

type Poll = Box<dyn Fn() + Send + Sync>;

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    build_info: IntGaugeVec,
    resident: IntGauge,
    handling: Histogram,
    refusal: Histogram,
    memory: Memory,
    pools: Pools,
    experiments: Experiments,
    models: Mutex<BTreeMap<String, Arc<ModelMetrics>>>,
    polls: Mutex<Vec<Poll>>,
}

impl Metrics {
    /// An empty registry, with the process' own metrics in it.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let registry = Registry::new();
        let requests = Opts::new("plimsoll_requests_total", "HTTP requests answered, by how they ended.");
        let requests = register(&registry, IntCounterVec::new(requests, &["model", "route", "outcome"]));
        let build_info = Opts::new("plimsoll_build_info", "Always 1; the labels say what is running.");
        let build_info = register(&registry, IntGaugeVec::new(build_info, &["version"]));
        let resident =
            Opts::new("process_resident_memory_bytes", "Resident memory of the process, in bytes.");
        let resident = register(&registry, IntGauge::with_opts(resident));
        let handling = HistogramOpts::new(
            "plimsoll_handling_seconds",
            "From the headers of a request for text to the first byte of its answer, without the engine's part.",
        );
        let handling = register(&registry, Histogram::with_opts(handling.buckets(HANDLING.to_vec())));
        let refusal = HistogramOpts::new(
            "plimsoll_refusal_seconds",
            "From the headers of a request to its refusal (429) being written.",
        );
        let refusal = register(&registry, Histogram::with_opts(refusal.buckets(REFUSALS.to_vec())));
        let memory = Memory::new(&registry);
        // The same names as a model's, so the same labels.
        let gauges = |name: &str, help: &str| {
            register(&registry, IntGaugeVec::new(Opts::new(name, help).const_label("model", ""), &["pool"]))
        };
        let pools = Pools::new(gauges);
        let experiments = Experiments::new(&registry);
        let (models, polls) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            registry,
            requests,
            build_info,
            resident,
            handling,
            refusal,
            memory,
            pools,
            experiments,
            models,
            polls,
        })
    }

    /// The handles of the model `name`: the same ones for the same name.
    #[must_use]
    pub fn model(&self, name: &str) -> Arc<ModelMetrics> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = models.get(name) {
            return Arc::clone(known);
        }
        let new = Arc::new(ModelMetrics::new(&self.registry, name));
        models.insert(name.to_owned(), Arc::clone(&new));
        new
    }

    /// The handles of an experiment on `model` with these arms.
    #[must_use]
    pub fn experiment(&self, model: &str, experiment: &str, arms: &[&str]) -> ExperimentMetrics {
        self.experiments.of(model, experiment, arms)
    }

    /// Says which version is running.
    pub fn build(&self, version: &str) {
        self.build_info.with_label_values(&[version]).set(1);
    }

    /// A request was answered. `model` is empty when none was concerned; never pass a name that a client made up, nor
    /// its path as `route`: every new value is a new series for ever.
    pub fn request(&self, model: &str, route: &str, outcome: &str) {
        self.requests.with_label_values(&[model, route, outcome]).inc();
    }

    /// How short memory is (0 not at all, 1 caches and pools shrink, 2 nobody is let in), and how much of what may be used
    /// is used, in bytes.
    pub fn memory(&self, level: i64, used: u64, limit: u64) {
        let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.memory.level.set(level);
        self.memory.used.set(bytes(used));
        self.memory.limit.set(bytes(limit));
    }

    /// A request for text was answered: so long from its headers to the first byte of the answer, without the engine's part.
    pub fn handled(&self, time: Duration) {
        self.handling.observe(time.as_secs_f64());
    }

    /// A request was refused for now (429), so long after its headers.
    pub fn refused(&self, time: Duration) {
        self.refusal.observe(time.as_secs_f64());
    }

    /// Asks `counts` before every rendering what is out of a pool that is no model's.
    pub fn watch_pool(&self, counts: impl Fn() -> PoolGauge + Send + Sync + 'static) {
        let pools = self.pools.clone();
        self.before_render(move || pools.set(counts()));
    }

    /// Calls `poll` before every rendering, for gauges that are cheaper to read than to keep up to date.
    pub fn before_render(&self, poll: impl Fn() + Send + Sync + 'static) {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(poll));
    }

    /// Everything, in Prometheus' text format 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        for poll in self.polls.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            poll();
        }
        if let Some(resident) = Host::this().resident() {
            self.resident.set(i64::try_from(resident.now).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        // Writing to a `String` cannot fail, and the encoder refuses only families without metrics, which `gather` leaves out.
        if let Err(error) = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            text = format!("# rendering failed: {error}\n");
        }
        text
    }
}

/// What the watch over memory reads and decides.
struct Memory {
    level: IntGauge,
    used: IntGauge,
    limit: IntGauge,
}

impl Memory {
    fn new(registry: &Registry) -> Self {
        let gauge = |name, help| register(registry, IntGauge::with_opts(Opts::new(name, help)));
        Self {
            level: gauge(
                "plimsoll_memory_level",
                "0: memory suffices, 1: caches shrink, 2: nobody is let in.",
            ),
            used: gauge("plimsoll_memory_used_bytes", "Memory in use of what the process is held to."),
            limit: gauge("plimsoll_memory_limit_bytes", "Memory the process is held to."),
        }
    }
}
