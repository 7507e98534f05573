//! The limits of a lane.

use crate::experiment::vary::Experiment;
use plimsoll_sched::{Class, Measured, Promise, QueuePolicy};
use std::path::PathBuf;
use std::time::Duration;

/// The limits of a lane. The engine's own sizes (context, blocks, rows) come from its shape.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneConfig {
    /// Most sequences in a batch. Cut to what the engine's shape allows. Default 16.
    pub max_seqs: usize,
    /// Most sequences that wait for the batch; more are refused with `queue_full`. Default 256.
    pub queue: u32,
    /// How many of those may wait now. Default `Little`.
    pub queue_policy: QueuePolicy,
    /// Most tokens of requests that are let in beyond what the KV cache holds. Default: `kv_overcommit` alone decides.
    pub max_queue_tokens: Option<u64>,
    /// How often over the tokens of all requests let in (prompt and expected output) may fill the KV cache; more are
    /// refused with `kv_full`. Default 16.
    pub kv_overcommit: u32,
    /// Tokens a request is expected to generate, if its `max_tokens` is not less: for the gate's estimate alone.
    /// Default 256.
    pub expected_output: u32,
    /// The latency that accepted requests have. Default none.
    pub promise: Promise,
    /// API keys, each of which is a tenant with a fair share. Default 1.
    pub tenants: u32,
    /// Most sequences of one tenant in flight. Default: no limit of its own.
    pub per_tenant: u32,
    /// What each of them may ask for, in their order; who is not in the list may ask for everything. Default: nobody is.
    pub tenant_limits: Vec<TenantLimits>,
    /// What a step is cut to by prediction: it bounds cancellation and everybody's gap between tokens. Default 50 ms.
    pub step_budget: Duration,
    /// Tokens a request may be ahead of its reader before it pauses. Default 1024.
    pub token_ring: usize,
    /// Answers that may be complete and not read to their ends before a new request needs memory of its own. Default 256.
    pub unread: usize,
    /// Prompts up to this many bytes are tokenized where they arrive, longer ones on a blocking thread. Default 2048.
    pub inline_bytes: usize,
    /// Whether prompts with the same beginning share what was computed for it, also after each other. Default true.
    pub prefix_cache: bool,
    /// Where KV blocks go that have to make way.
    pub parking: Parking,
    /// What is tried out on it. Every two vary something else. Default nothing.
    pub experiments: Vec<Experiment>,
    /// Whether a few steps are measured before serving, to seed the cost model. Default true.
    pub warm_up: bool,
    /// What was measured beforehand, and seeds it instead. Default `None`.
    pub measured: Option<Measured>,
}

impl Default for LaneConfig {
    fn default() -> Self {
        Self {
            max_seqs: 16,
            queue: 256,
            queue_policy: QueuePolicy::default(),
            max_queue_tokens: None,
            kv_overcommit: 16,
            expected_output: 256,
            promise: Promise::default(),
            tenants: 1,
            per_tenant: u32::MAX,
            tenant_limits: Vec::new(),
            step_budget: Duration::from_millis(50),
            token_ring: 1024,
            unread: 256,
            inline_bytes: 2048,
            prefix_cache: true,
            parking: Parking::default(),
            experiments: Vec::new(),
            warm_up: true,
            measured: None,
        }
    }
}

/// What one API key may ask for, so that nobody jumps the queue by claiming to be urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantLimits {
    /// The most urgent class. Default: `Interactive`.
    pub class: Class,
    /// The least `x-slo-ttft-ms`. Default: any.
    pub least_ttft: Duration,
    /// The least `x-slo-itl-ms`. Default: any.
    pub least_itl: Duration,
    /// The least `x-request-timeout-ms`. Default: any.
    pub least_timeout: Duration,
    /// Sequences in flight, instead of [`LaneConfig::per_tenant`]. Default: that.
    pub in_flight: Option<u32>,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            class: Class::Interactive,
            least_ttft: Duration::ZERO,
            least_itl: Duration::ZERO,
            least_timeout: Duration::ZERO,
            in_flight: None,
        }
    }
}

impl LaneConfig {
    /// What a tenant may ask for.
    pub fn limits_of(&self, tenant: u32) -> TenantLimits {
        self.tenant_limits.get(tenant as usize).copied().unwrap_or_default()
    }

    /// Most sequences that a tenant may have in flight.
    pub(crate) fn in_flight_of(&self, tenant: u32) -> u32 {
        self.limits_of(tenant).in_flight.unwrap_or(self.per_tenant)
    }
}

/// Where KV blocks go that have to make way, so that they need not be computed again: memory first, then a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// Most bytes in memory, taken as they are needed. All blocks go through it: 0 means no parking. It should hold the
    /// longest sequence. Default 64 MiB.
    pub memory: usize,
    /// The folder of the file. `None`: there is no file. Default `None`.
    pub folder: Option<PathBuf>,
    /// Most bytes in the file. Default 4 GiB.
    pub file: u64,
    /// Sequences whose blocks are read back before it is their turn. Default 2.
    pub ahead: usize,
}

impl Default for Parking {
    fn default() -> Self {
        Self { memory: 64 << 20, folder: None, file: 4 << 30, ahead: 2 }
    }
}
