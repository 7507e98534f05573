//! The control plane: `/metrics`, `/experiments` and health on a thread and a port of their own.
//!
//! One thread with one runtime and nothing else on it: whatever the gateway and the engine do, the kernel gives this thread
//! its turn, and a scrape is answered in milliseconds.

use crate::info;
use crate::refusal::Refusal;
use crate::routes::{method_not_allowed, not_found};
use crate::server::{Connections, Drain, accept_until};
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::Service;
use plimsoll_telemetry::{CONTENT_TYPE as METRICS_TYPE, Metrics};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Few, because only operators and their probes come here.
const MAX_CONNECTIONS: usize = 256;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may ask for nothing: idle ones must not keep a probe waiting longer than probes wait.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// A running control plane; ends when dropped.
pub struct Control {
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Plane {
    service: Arc<dyn Service>,
    metrics: Arc<Metrics>,
}

/// Starts the control plane on `listener`.
///
/// # Errors
/// When the thread or its runtime cannot be made.
pub fn spawn(listener: TcpListener, service: Arc<dyn Service>, metrics: Arc<Metrics>) -> io::Result<Control> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let router = router(Plane { service, metrics });
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let connections =
        Connections { most: MAX_CONNECTIONS, header_timeout: HEADER_TIMEOUT, ..Connections::default() };
    let drain = Drain { timeout: DRAIN_TIMEOUT, ..Drain::default() };
    let thread = thread::Builder::new()
        .name("plimsoll-control".to_owned())
        .spawn(move || runtime.block_on(accept_until(listener, router, connections, stopped, drain)))?;
    Ok(Control { address, stop, thread: Some(thread) })
}

impl Control {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and waits until it has ended.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.cancel();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the control plane panicked");
        }
    }
}

fn router(plane: Plane) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/experiments", get(experiments))
        .route("/health", get(health))
        .route("/ping", get(info::ping))
        .route("/version", get(info::version))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(plane)
}

async fn metrics(State(plane): State<Plane>) -> Response {
    ([(CONTENT_TYPE, METRICS_TYPE)], plane.metrics.render()).into_response()
}

/// What experiments have shown. The figures are made on a thread of their own: this one has probes to answer.
async fn experiments(State(plane): State<Plane>) -> Response {
    let made = tokio::task::spawn_blocking(move || {
        serde_json::json!({ "experiments": plane.service.experiments() }).to_string()
    });
    match made.await {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => Refusal(Error::new(Reason::Internal, "the figures could not be made")).into_response(),
    }
}

async fn health(State(plane): State<Plane>) -> Response {
    info::answer_readiness(plane.service.readiness())
}
