//! `serve`: listens, loads the models meanwhile, and drains at the first signal.

use crate::banner::{Addresses, Banner};
use crate::beside;
use crate::compute::Compute;
use crate::config::{Address, Server, keys::LogFormat};
use crate::load;
use crate::load::Loaded;
use crate::pull::STOP;
use crate::signals::{STOP_WAIT, Signals};
use anyhow::{Context, anyhow};
use plimsoll_gateway::{Gateway, GatewayConfig, control};
use plimsoll_host::Host;
use plimsoll_runtime::{MemoryConfig, MemoryWatch, Remedies, Runtime};
use plimsoll_telemetry::{Metrics, logs};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Serves until a signal and its drain.
pub fn serve(config: Server) -> anyhow::Result<()> {
    logs::init(log_format(config.log_format), &config.log)?;
    let gateway = gateway_config(&config);
    gateway.check()?;
    let compute = Compute::new(config.compute)?;
    // Both before a model is pulled: a port in use is known at once.
    let api = listen("http", &config.http)?;
    let admin = listen("admin", &config.admin)?;
    let addresses = Addresses { http: api.local_addr()?, admin: admin.local_addr()? };
    if let Some(path) = &config.announce {
        retract(path)?;
    }

    let metrics = Metrics::new();
    metrics.build(env!("CARGO_PKG_VERSION"));
    let service = Runtime::new(Arc::clone(&metrics));
    let control = control::spawn(admin, service.clone(), Arc::clone(&metrics))
        .context("cannot start the control plane")?;
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("plimsoll-gateway")
        .build()
        .context("cannot start the gateway's threads")?;
    let gateway = Gateway { service: service.clone(), metrics, config: gateway };
    let served = tokio.block_on(Serving { config, compute, addresses, service }.run(api, gateway));
    // What still blocks a thread now (a client that stopped reading) was given its time to drain.
    tokio.shutdown_background();
    control.stop();
    served
}

struct Serving {
    config: Server,
    compute: Compute,
    addresses: Addresses,
    service: Arc<Runtime>,
}

impl Serving {
    async fn run(self, api: TcpListener, gateway: Gateway) -> anyhow::Result<()> {
        let mut signals = Signals::catch().context("cannot catch signals")?;
        let (stop, stopped) = oneshot::channel::<()>();
        api.set_nonblocking(true)?;
        let api = tokio::net::TcpListener::from_std(api)?;
        let mut gateway = tokio::spawn(plimsoll_gateway::serve(api, gateway, async move {
            stopped.await.ok();
        }));
        // Before the models come: what they take is then part of what is fixed, whatever order they come in.
        let memory = MemoryConfig { limit: self.config.memory_limit, ..MemoryConfig::default() };
        let _watch = MemoryWatch::start(&self.service, Host::this(), memory, Remedies::default())
            .context("cannot start the watch over memory")?;
        let mut loading = self.load();
        tokio::select! {
            loaded = &mut loading => {
                self.greet(&loaded??)?;
                tokio::select! {
                    name = signals.next() => tracing::info!(signal = name, "draining; a second signal ends at once"),
                    ended = &mut gateway => return Err(gateway_ended(ended)),
                }
            }
            name = signals.next() => {
                tracing::info!(signal = name, "stopped while loading");
                STOP.stop();
                // A pull ends and removes what is of no use; whatever else loads is not waited for.
                tokio::time::timeout(STOP_WAIT, loading).await.ok();
            }
            ended = &mut gateway => return Err(gateway_ended(ended)),
        }
        tokio::spawn(signals.end_at_next());
        stop.send(()).ok();
        self.drain(gateway).await
    }

    /// Pulls and loads the models on a thread of its own, which nothing waits for when the server is stopped meanwhile.
    fn load(&self) -> oneshot::Receiver<anyhow::Result<Vec<Loaded>>> {
        let (done, loaded) = oneshot::channel();
        let (models, service) = (self.config.models.clone(), Arc::clone(&self.service));
        let compute = self.compute.clone();
        std::thread::spawn(move || done.send(load::all(&models, &compute, &service)));
        loaded
    }

    fn greet(&self, loaded: &[Loaded]) -> anyhow::Result<()> {
        self.service.ready();
        // Only now: whoever waits for the file may ask at once.
        if let Some(path) = &self.config.announce {
            announce(path, &self.addresses)?;
        }
        let banner = Banner {
            compute: &self.compute,
            models: loaded,
            addresses: self.addresses,
            keys: !self.config.api_keys.is_empty(),
        };
        // Whoever started it may have stopped listening; it serves all the same.
        writeln!(std::io::stdout(), "{banner}").ok();
        Ok(())
    }

    /// The gateway waits for its streams and the lanes for their sequences, both as long as the configuration says.
    async fn drain(self, gateway: JoinHandle<std::io::Result<()>>) -> anyhow::Result<()> {
        let (service, limit) = (self.service, self.config.drain);
        let lanes = tokio::task::spawn_blocking(move || service.drain(limit));
        gateway.await.context("the gateway panicked")??;
        let drained = lanes.await.context("a lane could not be drained")?;
        tracing::info!(dropped = drained.dropped, "drained");
        Ok(())
    }
}

fn gateway_ended(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("the gateway ended by itself"),
        Ok(Err(error)) => anyhow!(error).context("the gateway failed"),
        Err(error) => anyhow!(error).context("the gateway panicked"),
    }
}

fn listen(key: &str, address: &Address) -> anyhow::Result<TcpListener> {
    TcpListener::bind((address.host.as_str(), address.port)).with_context(|| {
        format!(
            "cannot listen on {address}: choose another address with --{key} HOST:PORT, or stop what uses it"
        )
    })
}

/// Removes what an earlier server left, which would send whoever waits for the file to where nobody listens; and a place
/// that cannot be written is known before a model is pulled.
fn retract(path: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write the addresses to {}", path.display());
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(failed),
        _ => {}
    }
    beside::try_write(path).with_context(failed)
}

fn announce(path: &Path, addresses: &Addresses) -> anyhow::Result<()> {
    let failed = || format!("cannot write the addresses to {}", path.display());
    beside::write(path, &serde_json::to_string(addresses)?).with_context(failed)
}

fn gateway_config(config: &Server) -> GatewayConfig {
    let default = GatewayConfig::default();
    let body_limit = usize::try_from(config.body_limit).unwrap_or(usize::MAX);
    GatewayConfig {
        api_keys: config.api_keys.clone(),
        body_limit,
        // Room for one body of the largest size, or none of them could ever be read.
        body_memory: default.body_memory.max(body_limit),
        drain_timeout: config.drain,
        ..default
    }
}

fn log_format(format: LogFormat) -> logs::Format {
    match format {
        LogFormat::Auto => logs::Format::Auto,
        LogFormat::Text => logs::Format::Text,
        LogFormat::Json => logs::Format::Json,
    }
}
