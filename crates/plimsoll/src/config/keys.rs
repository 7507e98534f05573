//! The keys a user may set, each once: a field here is a key of the file, a flag and a variable.
//!
//! All are optional, so that layers can be laid over each other: what the command line and the environment leave open, the
//! file may set, and what that leaves open has a default.

use super::slo::{NamedSlo, Slo};
use super::units::{Period, Size};
use clap::ValueEnum;
use plimsoll_gateway::ApiKey;
use plimsoll_kernels::KvType;
use plimsoll_runtime::{Class, QueuePolicy};
use serde::Deserialize;
use std::path::PathBuf;

/// How models are run. `serve`, `run` and `bench` take these.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
#[serde(default)]
pub struct EngineKeys {
    /// Threads that compute [default: the cores this process may use]
    #[arg(long, env = "PLIMSOLL_THREADS", value_name = "N")]
    pub threads: Option<usize>,
    /// Instruction set of the kernels [default: auto, the best this machine has]
    #[arg(long, env = "PLIMSOLL_KERNEL", value_enum)]
    pub kernel: Option<Kernel>,
    /// What is asked for before it is needed: panels, kv, parked (each worth it only where measured so), or none
    /// [default: panels,kv,parked]
    #[arg(long, env = "PLIMSOLL_PREFETCH", value_name = "LIST", value_enum, value_delimiter = ',')]
    pub prefetch: Option<Vec<PrefetchKey>>,
    /// Longest prompt plus output, in tokens [default: the model's own]
    #[arg(long, env = "PLIMSOLL_CTX", value_name = "TOKENS")]
    pub ctx: Option<usize>,
    /// Sequences that run at the same time [default: 16]
    #[arg(long, env = "PLIMSOLL_MAX_SEQS", value_name = "N")]
    pub max_seqs: Option<usize>,
    /// Memory for the KV cache of each model, such as 512MiB [default: 512MiB, or one full context if that is more]
    #[arg(long, env = "PLIMSOLL_KV_MEMORY", value_name = "SIZE")]
    pub kv_memory: Option<Size>,
    /// How keys and values are stored: f16, or q8 (bytes: half the memory, and faster) [default: f16]
    #[arg(long, env = "PLIMSOLL_KV_TYPE", value_enum)]
    pub kv_type: Option<KvTypeKey>,
    /// Whether prompts with the same beginning share what was computed for it [default: true]
    #[arg(long, env = "PLIMSOLL_PREFIX_CACHE", value_name = "BOOL")]
    pub prefix_cache: Option<bool>,
    /// Memory for KV blocks that make way for others, for each model; 0B computes them again instead [default: 64MiB]
    #[arg(long, env = "PLIMSOLL_PARK_MEMORY", value_name = "SIZE")]
    pub park_memory: Option<Size>,
    /// Folder for what that memory has no room for; nothing is left there [default: none]
    #[arg(long, env = "PLIMSOLL_PARK_FOLDER", value_name = "FOLDER")]
    pub park_folder: Option<PathBuf>,
    /// Most of that for each model [default: 4GiB]
    #[arg(long, env = "PLIMSOLL_PARK_FILE", value_name = "SIZE")]
    pub park_file: Option<Size>,
    /// Requests that may wait for each model [default: 256]
    #[arg(long, env = "PLIMSOLL_QUEUE", value_name = "N")]
    pub queue: Option<usize>,
    /// How many of those may wait now: fixed, band (by the P95 of whole requests) or little (as many as are served in
    /// the time that the promise leaves) [default: little]
    #[arg(long, env = "PLIMSOLL_QUEUE_POLICY", value_enum)]
    pub queue_policy: Option<QueuePolicyKey>,
    /// Most tokens, prompts and expected outputs, of what waits for each model [default: 15 times the KV cache]
    #[arg(long, env = "PLIMSOLL_MAX_QUEUE_TOKENS", value_name = "TOKENS")]
    pub max_queue_tokens: Option<u64>,
    /// Most sequences that one API key may have in flight at each model [default: no limit of its own]
    #[arg(long, env = "PLIMSOLL_MAX_PER_KEY", value_name = "N")]
    pub max_per_key: Option<u32>,
    /// Latency that a model promises, such as smollm2:ttft=500ms,itl=60ms; without a name, what all models promise. Also
    /// ttft_per_token, e2e and quantile. Repeatable [default: none]
    #[arg(long, env = "PLIMSOLL_SLO", value_name = "[MODEL:]TERMS", value_delimiter = ';')]
    pub slo: Option<Vec<NamedSlo>>,
    /// What the model's steps cost, as `plimsoll tune` wrote it [default: what it wrote for this model and machine, if it did;
    /// else a few steps are measured]
    #[arg(long, env = "PLIMSOLL_PROFILE", value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

/// How the server meets the world.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
#[serde(default)]
pub struct ServerKeys {
    /// Address of the API [default: 127.0.0.1:8000]; port 0 takes a free one
    #[arg(long, env = "PLIMSOLL_HTTP", value_name = "HOST:PORT")]
    pub http: Option<String>,
    /// Address of /metrics and /health, which never wait for inference [default: 127.0.0.1:8002]
    #[arg(long, env = "PLIMSOLL_ADMIN", value_name = "HOST:PORT")]
    pub admin: Option<String>,
    /// A key that clients must send as `authorization: Bearer KEY`; repeatable, each key is a tenant [default: none, no
    /// key is asked for]
    #[arg(long, env = "PLIMSOLL_API_KEY", value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    pub api_key: Option<Vec<ApiKey>>,
    /// Largest request body [default: 8MiB]
    #[arg(long, env = "PLIMSOLL_BODY_LIMIT", value_name = "SIZE")]
    pub body_limit: Option<Size>,
    /// How long running streams may take to finish after SIGTERM or Ctrl-C [default: 30s]
    #[arg(long, env = "PLIMSOLL_DRAIN", value_name = "DURATION")]
    pub drain: Option<Period>,
    /// Memory the process is held to: above 80 % of it caches and pools shrink, above 95 % nobody is let in [default: what the
    /// machine or the control group has]
    #[arg(long, env = "PLIMSOLL_MEMORY_LIMIT", value_name = "SIZE")]
    pub memory_limit: Option<Size>,
    /// How log lines look [default: auto, text on a terminal and JSON otherwise]
    #[arg(long, env = "PLIMSOLL_LOG_FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or per module as in `info,plimsoll_gateway=debug` [default: info]
    #[arg(long, env = "PLIMSOLL_LOG", value_name = "LEVEL")]
    pub log: Option<String>,
    /// Write the addresses to this file, as JSON, once the server listens
    #[arg(long, env = "PLIMSOLL_ANNOUNCE", value_name = "FILE")]
    pub announce: Option<PathBuf>,
}

/// One `[[model]]` of the file. What it sets wins over `[server]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModelKeys {
    pub name: Option<String>,
    pub source: Option<String>,
    pub ctx: Option<usize>,
    pub max_seqs: Option<usize>,
    pub kv_memory: Option<Size>,
    pub kv_type: Option<KvTypeKey>,
    pub queue: Option<usize>,
    pub slo: Option<Slo>,
    pub profile: Option<PathBuf>,
}

/// One `[[key]]` of the file: an API key, and what it may ask for.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub struct TenantKeys {
    pub key: ApiKey,
    pub priority: Option<PriorityKey>,
    pub least_ttft: Option<Period>,
    pub least_itl: Option<Period>,
    pub least_timeout: Option<Period>,
    pub max_in_flight: Option<u32>,
}

/// The names of the fields of [`TenantKeys`].
pub const TENANT_KEYS: [&str; 6] =
    ["key", "priority", "least_ttft", "least_itl", "least_timeout", "max_in_flight"];

/// A class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorityKey {
    /// Somebody waits in front of a screen.
    Interactive,
    /// The usual.
    Standard,
    /// Nobody waits.
    Batch,
}

impl From<PriorityKey> for Class {
    fn from(key: PriorityKey) -> Self {
        match key {
            PriorityKey::Interactive => Self::Interactive,
            PriorityKey::Standard => Self::Standard,
            PriorityKey::Batch => Self::Batch,
        }
    }
}

/// The names of the fields of [`ModelKeys`].
pub const MODEL_KEYS: [&str; 9] =
    ["name", "source", "ctx", "max_seqs", "kv_memory", "kv_type", "queue", "slo", "profile"];

/// Keys that are planned, and what to say to who uses one already.
pub const PLANNED_KEYS: [(&str, &str); 1] =
    [("grpc", "gRPC is not served yet; remove it and use the HTTP API")];

/// An instruction set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// The best this machine has.
    #[default]
    Auto,
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2.
    Avx2,
    /// Any machine.
    Portable,
}

/// Something to ask for before it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrefetchKey {
    /// Nothing: has to stand alone.
    None,
    /// The next panels of weights.
    Panels,
    /// The next block of the KV cache.
    Kv,
    /// Parked KV blocks of sequences whose turn comes next.
    Parked,
    /// The next step's rows of the embedding table.
    Embeddings,
}

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvTypeKey {
    /// IEEE halves.
    #[default]
    F16,
    /// Bytes, with a scale for 32 numbers of a key and for each value.
    Q8,
}

impl From<KvTypeKey> for KvType {
    fn from(key: KvTypeKey) -> Self {
        match key {
            KvTypeKey::F16 => Self::F16,
            KvTypeKey::Q8 => Self::Q8,
        }
    }
}

/// Who decides how many may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicyKey {
    /// As many as configured.
    Fixed,
    /// By the P95 of whole requests.
    Band,
    /// By Little's law.
    Little,
}

impl From<QueuePolicyKey> for QueuePolicy {
    fn from(key: QueuePolicyKey) -> Self {
        match key {
            QueuePolicyKey::Fixed => Self::Fixed,
            QueuePolicyKey::Band => Self::Band,
            QueuePolicyKey::Little => Self::Little,
        }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One object per line.
    Json,
}

impl EngineKeys {
    /// These keys, and `lower`'s where they are not set.
    pub fn or(self, lower: Self) -> Self {
        Self {
            threads: self.threads.or(lower.threads),
            kernel: self.kernel.or(lower.kernel),
            prefetch: self.prefetch.or(lower.prefetch),
            ctx: self.ctx.or(lower.ctx),
            max_seqs: self.max_seqs.or(lower.max_seqs),
            kv_memory: self.kv_memory.or(lower.kv_memory),
            kv_type: self.kv_type.or(lower.kv_type),
            prefix_cache: self.prefix_cache.or(lower.prefix_cache),
            park_memory: self.park_memory.or(lower.park_memory),
            park_folder: self.park_folder.or(lower.park_folder),
            park_file: self.park_file.or(lower.park_file),
            queue: self.queue.or(lower.queue),
            queue_policy: self.queue_policy.or(lower.queue_policy),
            max_queue_tokens: self.max_queue_tokens.or(lower.max_queue_tokens),
            max_per_key: self.max_per_key.or(lower.max_per_key),
            slo: self.slo.or(lower.slo),
            profile: self.profile.or(lower.profile),
        }
    }
}

impl ServerKeys {
    /// These keys, and `lower`'s where they are not set.
    pub fn or(self, lower: Self) -> Self {
        Self {
            http: self.http.or(lower.http),
            admin: self.admin.or(lower.admin),
            api_key: self.api_key.or(lower.api_key),
            body_limit: self.body_limit.or(lower.body_limit),
            drain: self.drain.or(lower.drain),
            memory_limit: self.memory_limit.or(lower.memory_limit),
            log_format: self.log_format.or(lower.log_format),
            log: self.log.or(lower.log),
            announce: self.announce.or(lower.announce),
        }
    }
}

impl ModelKeys {
    /// The keys of this model that an engine reads.
    pub fn engine(&self) -> EngineKeys {
        EngineKeys {
            ctx: self.ctx,
            max_seqs: self.max_seqs,
            kv_memory: self.kv_memory,
            kv_type: self.kv_type,
            queue: self.queue,
            profile: self.profile.clone(),
            ..EngineKeys::default()
        }
    }
}
