//! The state that handlers share, and the routes.

use crate::auth::authorize;
use crate::body::Bodies;
use crate::config::GatewayConfig;
use crate::exchange::observe;
use crate::generate::FrameBuffer;
use crate::refusal::Refusal;
use crate::{generate, info};
use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Readiness, Service};
use plimsoll_pool::{Pool, PoolCounts, Users};
use plimsoll_telemetry::{Metrics, PoolGauge};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// What a gateway is made of.
pub struct Gateway {
    /// Who answers.
    pub service: Arc<dyn Service>,
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    /// The limits.
    pub config: GatewayConfig,
}

/// The state that handlers share.
pub struct App {
    pub service: Arc<dyn Service>,
    pub metrics: Arc<Metrics>,
    pub config: GatewayConfig,
    /// The bodies being read.
    pub bodies: Bodies,
    /// What streams write their frames into.
    pub frames: Pool<FrameBuffer>,
    /// Cancelled when no new work is to be taken.
    pub draining: CancellationToken,
    /// Cancelled when running work is to end.
    pub closing: CancellationToken,
}

impl App {
    pub fn new(gateway: Gateway) -> Arc<Self> {
        let Gateway { service, metrics, config } = gateway;
        let (draining, closing) = Default::default();
        let bodies = Bodies::new(config.body_memory);
        let frames = frames(&config, &metrics);
        Arc::new(Self { service, metrics, config, bodies, frames, draining, closing })
    }

    /// Whether new work is taken.
    pub fn readiness(&self) -> Readiness {
        if self.draining.is_cancelled() { Readiness::Draining } else { self.service.readiness() }
    }

    pub fn router(self: &Arc<Self>) -> Router {
        let router = Router::new()
            .route("/v1/chat/completions", post(generate::chat))
            .route("/v1/completions", post(generate::completion))
            .route("/v1/models", get(info::models))
            .route("/v1/models/{*id}", get(info::model))
            .route("/tokenize", post(info::tokenize))
            .route("/detokenize", post(info::detokenize))
            .route("/health", get(info::health))
            .route("/ping", get(info::ping))
            .route("/version", get(info::version))
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(from_fn_with_state(Arc::clone(self), authorize))
            .layer(from_fn_with_state(Arc::clone(self), observe))
            .with_state(Arc::clone(self));
        match cors(&self.config.cors_origins) {
            Some(cors) => router.layer(cors),
            None => router,
        }
    }
}

/// A connection has one request at a time, and so at most one stream.
fn frames(config: &GatewayConfig, metrics: &Metrics) -> Pool<FrameBuffer> {
    let users = Users::of("frames").user("connections", config.max_connections.min(u16::MAX.into()));
    let frames = Pool::sized(&users, FrameBuffer::default);
    users.assert_sum(frames.counts().capacity);
    let theirs = frames.clone();
    metrics.watch_pool(move || {
        let PoolCounts { outstanding, high_water, misses, .. } = theirs.counts();
        PoolGauge { pool: "frames", outstanding, high_water, misses }
    });
    frames
}

pub async fn not_found(uri: axum::http::Uri) -> Response {
    let message = format!("there is nothing at `{}`", shown(&uri));
    Refusal(Error::new(Reason::NotFound, message)).into_response()
}

/// As much of a path as an answer repeats.
fn shown(uri: &axum::http::Uri) -> String {
    uri.path().chars().take(100).collect()
}

pub async fn method_not_allowed(method: Method, uri: axum::http::Uri) -> Response {
    let message = format!("`{}` does not take {method}; the `allow` header says what it takes", shown(&uri));
    Refusal(Error::new(Reason::MethodNotAllowed, message)).into_response()
}

/// No layer at all without origins.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origins = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let shown =
        ["x-request-id", "retry-after", "retry-after-ms", "x-plimsoll-reason"].map(HeaderName::from_static);
    let methods = [Method::GET, Method::POST];
    let cors = CorsLayer::new().allow_origin(origins).allow_methods(methods).expose_headers(shown);
    Some(cors.allow_headers(AllowHeaders::mirror_request()))
}
