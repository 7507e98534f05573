//! Configuration: raw keys from the command line, the environment and `plimsoll.toml`, validated once, then passed on.
//!
//! Precedence: flag, then variable, then file, then default. The environment is read here alone: `PLIMSOLL_*` by clap, as
//! [`keys`] says, and what belongs to other tools in [`env`].
//!
//! - [`keys`]: every key. [`file`]: the file. [`models`]: which models. [`slo`]: latency promises. [`units`]: `512MiB`, `30s`.
//! - [`experiments`]: what is tried out on models.

pub mod env;
mod experiments;
mod file;
pub mod keys;
mod models;
pub mod slo;
pub mod units;

use anyhow::{Context, bail, ensure};
use file::File;
pub use file::at_line;
use keys::{EngineKeys, Kernel, LogFormat, PrefetchKey, ServerKeys, TenantKeys};
use plimsoll_gateway::ApiKey;
use plimsoll_kernels::{KvType, Prefetch};
use plimsoll_runtime::{Experiment, LaneConfig, Parking, Promise, QueuePolicy, TenantLimits};
use slo::NamedSlo;
use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::{Period, Size};

/// The file that is read when none is named and it is there.
const DEFAULT_FILE: &str = "plimsoll.toml";
const DEFAULT_HTTP: &str = "127.0.0.1:8000";
const DEFAULT_ADMIN: &str = "127.0.0.1:8002";
const DEFAULT_BODY_LIMIT: Size = Size(8 << 20);
const DEFAULT_DRAIN: Period = Period(Duration::from_secs(30));

const THREADS: RangeInclusive<usize> = 1..=1024;
const CTX: RangeInclusive<usize> = 16..=16_777_216;
const MAX_SEQS: RangeInclusive<usize> = 1..=1024;
const QUEUE: RangeInclusive<usize> = 1..=65_536;
const MAX_PER_KEY: RangeInclusive<u32> = 1..=u32::MAX;
const KV_MEMORY: RangeInclusive<Size> = Size(1 << 20)..=Size(1 << 50);
const PARK: RangeInclusive<Size> = Size(0)..=Size(1 << 50);
const MEMORY_LIMIT: RangeInclusive<Size> = Size(64 << 20)..=Size(1 << 50);
/// A point in time that is further away than the clock reaches cannot be waited for.
const DRAIN: RangeInclusive<Period> = Period(Duration::ZERO)..=Period(Duration::from_secs(86_400));
const BODY_LIMIT: RangeInclusive<Size> = Size(1 << 10)..=Size(1 << 30);

/// A server's configuration, every value in range.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub http: Address,
    pub admin: Address,
    pub api_keys: Vec<ApiKey>,
    pub body_limit: u64,
    pub drain: Duration,
    /// Bytes; `None`: what the machine or the control group has.
    pub memory_limit: Option<u64>,
    pub log_format: LogFormat,
    pub log: String,
    pub announce: Option<PathBuf>,
    pub compute: Compute,
    pub models: Vec<Model>,
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compute {
    /// `None`: as many as this process may use cores.
    pub threads: Option<usize>,
    pub kernel: Kernel,
    pub prefetch: Prefetch,
}

/// One model's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What requests call it.
    pub name: String,
    /// Where it is pulled from.
    pub source: String,
    /// Longest sequence in tokens; `None`: the model's own limit.
    pub ctx: Option<usize>,
    /// Sequences that run at the same time.
    pub max_seqs: usize,
    /// Bytes for K and V; `None`: decided when the model's sizes are known.
    pub kv_memory: Option<u64>,
    /// How K and V are stored.
    pub kv_type: KvType,
    /// Whether prompts share their beginnings.
    pub prefix_cache: bool,
    /// Where KV blocks go that make way.
    pub parking: Parking,
    /// Requests that may wait.
    pub queue: usize,
    /// How many of those may wait now.
    pub queue_policy: QueuePolicy,
    /// Most tokens of what waits.
    pub max_queue_tokens: Option<u64>,
    /// Most sequences of one API key.
    pub max_per_key: u32,
    /// What it promises.
    pub promise: Promise,
    /// API keys that share it.
    pub tenants: u32,
    /// What is tried out on it.
    pub experiments: Vec<Experiment>,
    /// What each of them may ask for.
    pub tenant_limits: Vec<TenantLimits>,
    /// What its steps cost, as `tune` wrote it.
    pub profile: Option<PathBuf>,
}

/// Where to listen: a host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// What the command line says about models and how to run them.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub models: Vec<String>,
    pub engine: EngineKeys,
    pub file: Option<PathBuf>,
}

/// The configuration of `serve`.
pub fn server(wanted: &Wanted, flags: ServerKeys) -> anyhow::Result<Server> {
    let file = read_file(wanted.file.as_deref())?;
    let keys = flags.or(file.server.clone());
    let (compute, mut models) = engine(wanted, &file)?;
    ensure!(
        !models.is_empty(),
        "no model is named; try `plimsoll serve smollm2`, or write a [[model]] into {DEFAULT_FILE} (`plimsoll models` lists names)"
    );
    let (api_keys, limits) = tenants(keys.api_key.unwrap_or_default(), &file.keys)?;
    ensure!(
        api_keys.iter().all(ApiKey::is_sendable),
        "api_key: a key is empty, or has blanks or letters that no client can send: use visible ASCII"
    );
    let tenants = u32::try_from(api_keys.len())?.max(1);
    for model in &mut models {
        model.tenants = tenants;
        model.tenant_limits.clone_from(&limits);
    }
    experiments::assign(&file.experiments, &mut models)?;
    let body_limit = in_range("body_limit", keys.body_limit.unwrap_or(DEFAULT_BODY_LIMIT), &BODY_LIMIT)?;
    Ok(Server {
        http: address("http", keys.http.as_deref().unwrap_or(DEFAULT_HTTP))?,
        admin: address("admin", keys.admin.as_deref().unwrap_or(DEFAULT_ADMIN))?,
        api_keys,
        body_limit: body_limit.0,
        drain: in_range("drain", keys.drain.unwrap_or(DEFAULT_DRAIN), &DRAIN)?.0,
        memory_limit: keys
            .memory_limit
            .map(|limit| in_range("memory_limit", limit, &MEMORY_LIMIT))
            .transpose()?
            .map(|limit| limit.0),
        log_format: keys.log_format.unwrap_or_default(),
        log: keys.log.unwrap_or_else(|| "info".to_owned()),
        announce: keys.announce,
        compute,
        models,
    })
}

/// All API keys, those with limits after the others, and what each may ask for.
fn tenants(
    mut keys: Vec<ApiKey>,
    limited: &[TenantKeys],
) -> anyhow::Result<(Vec<ApiKey>, Vec<TenantLimits>)> {
    // It would be two tenants, the second of which nobody is.
    if let Some(twice) = (1..keys.len()).find(|&i| keys[..i].contains(&keys[i])) {
        bail!("api_key: number {} is there already", twice + 1);
    }
    let mut limits = vec![TenantLimits::default(); keys.len()];
    for (number, tenant) in (1..).zip(limited) {
        ensure!(
            !keys.contains(&tenant.key),
            "key: number {number} is there already, among those of api_key or before"
        );
        let most = tenant.max_in_flight.map(|most| in_range("key.max_in_flight", most, &MAX_PER_KEY));
        let least = |period: Option<Period>| period.map_or(Duration::ZERO, |period| period.0);
        limits.push(TenantLimits {
            class: tenant.priority.map_or(TenantLimits::default().class, Into::into),
            least_ttft: least(tenant.least_ttft),
            least_itl: least(tenant.least_itl),
            least_timeout: least(tenant.least_timeout),
            in_flight: most.transpose()?,
        });
        keys.push(tenant.key.clone());
    }
    Ok((keys, limits))
}

/// The configuration of a command that runs one model and does not serve.
pub fn single(wanted: &Wanted) -> anyhow::Result<(Compute, Model)> {
    let (compute, models) = engine(wanted, &read_file(wanted.file.as_deref())?)?;
    let model = models.into_iter().next().context("no model is named")?;
    Ok((compute, model))
}

fn engine(wanted: &Wanted, file: &File) -> anyhow::Result<(Compute, Vec<Model>)> {
    let shared = wanted.engine.clone().or(file.engine.clone());
    let threads = shared.threads.map(|threads| in_range("threads", threads, &THREADS)).transpose()?;
    let named = models::resolve(&wanted.models, &file.models)?;
    ensure_served(&wanted.engine.slo, &named)?;
    ensure_once(&wanted.engine.slo)?;
    ensure_once(&file.engine.slo)?;
    let models = named.into_iter().map(|named| model(&named, wanted, file)).collect::<Result<_, _>>()?;
    let prefetch = shared.prefetch.as_deref().map_or(Ok(Prefetch::default()), prefetch)?;
    Ok((Compute { threads, kernel: shared.kernel.unwrap_or_default(), prefetch }, models))
}

/// What the kernels ask for early.
fn prefetch(list: &[PrefetchKey]) -> anyhow::Result<Prefetch> {
    ensure!(
        !list.contains(&PrefetchKey::None) || list.len() == 1,
        "prefetch: `none` stands alone; name only what is wanted: panels, kv, parked, embeddings"
    );
    let has = |key| list.contains(&key);
    Ok(Prefetch {
        panels: has(PrefetchKey::Panels),
        kv: has(PrefetchKey::Kv),
        embeddings: has(PrefetchKey::Embeddings),
    })
}

/// A flag speaks of all models, so it wins over what the file says of one.
fn model(named: &models::Named, wanted: &Wanted, file: &File) -> anyhow::Result<Model> {
    let keys = wanted.engine.clone().or(named.keys.engine()).or(file.engine.clone());
    let lane = LaneConfig::default();
    let checked = || {
        anyhow::Ok(Model {
            name: named.name.clone(),
            source: named.source.clone(),
            ctx: keys.ctx.map(|ctx| in_range("ctx", ctx, &CTX)).transpose()?,
            max_seqs: in_range("max_seqs", keys.max_seqs.unwrap_or(lane.max_seqs), &MAX_SEQS)?,
            kv_memory: keys
                .kv_memory
                .map(|size| in_range("kv_memory", size, &KV_MEMORY))
                .transpose()?
                .map(|size| size.0),
            kv_type: keys.kv_type.unwrap_or_default().into(),
            prefix_cache: keys.prefix_cache.unwrap_or(true),
            parking: parking(&keys)?,
            queue: in_range("queue", keys.queue.unwrap_or(lane.queue as usize), &QUEUE)?,
            queue_policy: keys.queue_policy.map_or(lane.queue_policy, Into::into),
            max_queue_tokens: keys.max_queue_tokens,
            max_per_key: in_range("max_per_key", keys.max_per_key.unwrap_or(lane.per_tenant), &MAX_PER_KEY)?,
            promise: promise(named, wanted, file)?,
            tenants: 1,
            experiments: Vec::new(),
            tenant_limits: Vec::new(),
            profile: keys.profile.clone(),
        })
    };
    checked().with_context(|| format!("model `{}`", named.name))
}

/// A flag wins over the model's own key, and what is said of a model over what is said of all.
fn promise(named: &models::Named, wanted: &Wanted, file: &File) -> anyhow::Result<Promise> {
    let of = |list: &Option<Vec<NamedSlo>>, name: Option<&str>| {
        let found = list.iter().flatten().rev().find(|slo| slo.model.as_deref() == name);
        found.map(|found| found.slo.clone())
    };
    let name = Some(named.name.as_str());
    let slo = of(&wanted.engine.slo, name)
        .or_else(|| named.keys.slo.clone())
        .or_else(|| of(&file.engine.slo, name))
        .or_else(|| of(&wanted.engine.slo, None))
        .or_else(|| of(&file.engine.slo, None));
    slo.map_or(Ok(Promise::default()), |slo| slo.check())
}

/// A promise of a model that is not served would be forgotten in silence.
fn ensure_served(promises: &Option<Vec<NamedSlo>>, models: &[models::Named]) -> anyhow::Result<()> {
    let names = || promises.iter().flatten().filter_map(|slo| slo.model.as_ref());
    if let Some(name) = names().find(|name| models.iter().all(|model| model.name != **name)) {
        let served: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
        bail!("slo: there is no model `{name}`; served are {}", served.join(", "));
    }
    Ok(())
}

/// Of two promises for the same models one would be forgotten in silence.
fn ensure_once(promises: &Option<Vec<NamedSlo>>) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    for slo in promises.iter().flatten() {
        let whose =
            slo.model.as_deref().map_or("what all models promise".to_owned(), |name| format!("`{name}`"));
        ensure!(
            seen.insert(&slo.model),
            "slo: {whose} stands there twice; write its terms as ttft=500ms,itl=60ms"
        );
    }
    Ok(())
}

fn parking(keys: &EngineKeys) -> anyhow::Result<Parking> {
    let defaults = Parking::default();
    let size = |name, size: Option<Size>, default| match size {
        Some(size) => anyhow::Ok(in_range(name, size, &PARK)?.0),
        None => Ok(default),
    };
    Ok(Parking {
        memory: usize::try_from(size("park_memory", keys.park_memory, defaults.memory as u64)?)?,
        folder: keys.park_folder.clone(),
        file: size("park_file", keys.park_file, defaults.file)?,
        ahead: match &keys.prefetch {
            Some(list) if !list.contains(&PrefetchKey::Parked) => 0,
            _ => defaults.ahead,
        },
    })
}

fn read_file(path: Option<&Path>) -> anyhow::Result<File> {
    match path {
        Some(path) => File::read(path),
        None if Path::new(DEFAULT_FILE).exists() => File::read(Path::new(DEFAULT_FILE)),
        None => Ok(File::default()),
    }
}

fn in_range<T: PartialOrd + fmt::Display>(
    key: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> anyhow::Result<T> {
    ensure!(
        range.contains(&value),
        "{key} = {value} is out of range; it must be from {} to {}",
        range.start(),
        range.end()
    );
    Ok(value)
}

fn address(key: &str, text: &str) -> anyhow::Result<Address> {
    let (host, port) = text.rsplit_once(':').unwrap_or((DEFAULT_HOST, text));
    let Ok(port) = port.parse() else {
        bail!("{key} = `{text}` is no address; write HOST:PORT, such as {DEFAULT_HTTP}");
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { DEFAULT_HOST } else { host };
    Ok(Address { host: host.to_owned(), port })
}

/// Loopback: reached from outside only when asked for.
const DEFAULT_HOST: &str = "127.0.0.1";

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests;
