//! A gateway without a model: it says the same words to everybody. For trying clients.
//!
//! `cargo run -p plimsoll-gateway --example scripted`, then talk to port 8000, and to 8002 for metrics.

use plimsoll_gateway::{Gateway, GatewayConfig, control, serve};
use plimsoll_telemetry::{Metrics, logs};
use plimsoll_testkit::service::ScriptedService;
use std::error::Error;
use std::sync::Arc;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    logs::init(logs::Format::Auto, "info")?;
    let service = Arc::new(ScriptedService::saying(&["Once", " upon", " a", " time", "."]));
    let metrics = Metrics::new();
    metrics.build(env!("CARGO_PKG_VERSION"));
    let plane = std::net::TcpListener::bind("127.0.0.1:8002")?;
    let _control = control::spawn(plane, service.clone(), metrics.clone())?;
    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    serve(listener, Gateway { service, metrics, config: GatewayConfig::default() }, std::future::pending())
        .await?;
    Ok(())
}
