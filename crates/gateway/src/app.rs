//! The state that handlers share.

use crate::body::Bodies;
use crate::config::GatewayConfig;
use crate::frames::FrameBuffer;
use plimsoll_api::service::{Readiness, Service};
use plimsoll_pool::{Pool, PoolCounts, Users};
use plimsoll_telemetry::{Metrics, PoolGauge};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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
        let bodies = Bodies::new(&config);
        let frames = frames(&config, &metrics);
        Arc::new(Self { service, metrics, config, bodies, frames, draining, closing })
    }

    /// Whether new work is taken.
    pub fn readiness(&self) -> Readiness {
        if self.draining.is_cancelled() { Readiness::Draining } else { self.service.readiness() }
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
