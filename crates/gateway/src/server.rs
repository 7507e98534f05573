//! Connections: accepting, bounding and draining them.

use crate::app::{App, Gateway};
use crate::config::GatewayConfig;
use crate::routes::router;
use crate::stall::StallLimit;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long connections may take to send what is already written, at the very end.
const FLUSH: Duration = Duration::from_secs(1);
/// How long a connection is silent before the kernel asks whether the client's machine is still there, and how often.
const PROBE: Duration = Duration::from_secs(15);
/// Pause after the system could not give us a connection (out of descriptors, say), so that retrying does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the API on `listener` until `shutdown` is ready, then drains: new requests are refused as draining, running ones go
/// on for up to `drain_timeout`; streams that last longer end with an error event.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with a [`ConfigError`](crate::ConfigError) inside for a setting that cannot work.
pub async fn serve(
    listener: TcpListener,
    gateway: Gateway,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    gateway.config.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let app = App::new(gateway);
    let connections = Connections::from(&app.config);
    let drain = Drain {
        timeout: app.config.drain_timeout,
        draining: app.draining.clone(),
        closing: app.closing.clone(),
    };
    accept_until(listener, router(&app), connections, shutdown, drain).await;
    Ok(())
}

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    pub most: usize,
    pub header_timeout: Duration,
    pub buffer: usize,
    pub send_buffer: usize,
    pub stall_timeout: Duration,
}

impl From<&GatewayConfig> for Connections {
    fn from(config: &GatewayConfig) -> Self {
        Self {
            most: config.max_connections,
            header_timeout: config.header_timeout,
            buffer: config.connection_buffer,
            send_buffer: config.send_buffer,
            stall_timeout: config.stall_timeout,
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::from(&GatewayConfig::default())
    }
}

/// How the end is announced to those who run.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// How long running requests may go on.
    pub timeout: Duration,
    /// Cancelled at the beginning: no new work.
    pub draining: CancellationToken,
    /// Cancelled after `timeout`: end now.
    pub closing: CancellationToken,
}

/// Accepts and serves until `shutdown`, then drains as [`serve`] says.
pub async fn accept_until(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    shutdown: impl Future<Output = ()>,
    drain: Drain,
) {
    let door = Door { listener, router, connections, slots: Arc::new(Semaphore::new(connections.most)) };
    let mut running = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = running.join_next() => {}
            (stream, slot) = door.accept() => {
                running.spawn(door.serve(stream, slot, Some(drain.draining.clone())));
            }
        }
    }
    if !running.is_empty() {
        tracing::info!(connections = running.len(), "draining");
    }
    drain.draining.cancel();
    // Those who come now are told so, rather than find a closed door; they are not waited for.
    let mut late = JoinSet::new();
    if timeout(drain.timeout, door.refuse_while(&mut running, &mut late)).await.is_err() {
        tracing::warn!(connections = running.len(), "the time to drain is over; ending what still runs");
        drain.closing.cancel();
        let _ = timeout(FLUSH, all_ended(&mut running)).await;
    }
    let _ = timeout(FLUSH, all_ended(&mut late)).await;
}

/// Waits for all of them. (`JoinSet::join_all` would pass on the panic of a connection, and the drain would end there.)
async fn all_ended(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Where connections come in.
struct Door {
    listener: TcpListener,
    router: Router,
    connections: Connections,
    slots: Arc<Semaphore>,
}

impl Door {
    /// The next connection, once there is a slot for it.
    async fn accept(&self) -> (TcpStream, OwnedSemaphorePermit) {
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, slot),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection: until its client leaves, or until `draining` and its request is answered. Without
    /// `draining` it takes one request only.
    fn serve(
        &self,
        stream: TcpStream,
        slot: OwnedSemaphorePermit,
        draining: Option<CancellationToken>,
    ) -> impl Future<Output = ()> + use<> {
        self.tune(&stream);
        let stream = StallLimit::new(stream, self.connections.stall_timeout);
        // Who closes its sending half is taken for gone (no `half_close`): the system tells the two apart only by what comes back
        // for bytes sent, and a request that waits, or answers at once when all is computed, has none to send. Whoever left
        // would be computed for to the end.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.connections.header_timeout)
            .max_buf_size(self.connections.buffer)
            .max_header_size(self.connections.buffer)
            .keep_alive(draining.is_some())
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router.clone()));
        async move {
            let _slot = slot;
            let mut connection = std::pin::pin!(connection);
            let ended = match draining {
                None => connection.await,
                Some(draining) => tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = draining.cancelled() => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                },
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
    }

    /// What the kernel buffers hides that a reader is slow: let it buffer little. And a client whose machine vanished while
    /// its request waits is noticed by keep-alive probes alone.
    fn tune(&self, stream: &TcpStream) {
        let size = self.connections.send_buffer;
        let socket = SockRef::from(stream);
        let tuned =
            stream.set_nodelay(true).and_then(|()| socket.set_send_buffer_size(size)).and_then(|()| {
                socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE).with_interval(PROBE))
            });
        if let Err(error) = tuned {
            tracing::debug!(%error, "a socket could not be tuned");
        }
    }

    async fn refuse_while(&self, running: &mut JoinSet<()>, late: &mut JoinSet<()>) {
        loop {
            tokio::select! {
                ended = running.join_next() => if ended.is_none() { return },
                Some(_) = late.join_next() => {}
                (stream, slot) = self.accept() => {
                    late.spawn(self.serve(stream, slot, None));
                }
            }
        }
    }
}
