//! HTTP over the service trait: OpenAI's API for clients, and a control plane for operators.
//!
//! Never here: scheduling decisions (the service admits or refuses), model code, and statuses of its own (the table in
//! `plimsoll_api::error` has them all).
//!
//! The way of a request: `server` accepts and bounds connections → `exchange` gives it an id and notes how it ends →
//! `auth` finds the tenant → `routes` → `body` reads under a limit → `plimsoll_api::openai` checks → `generate` asks the
//! service and writes the answer, whole or as server-sent events. Dropping a future or a body anywhere on this way
//! drops the `Generation`, which cancels it.
//!
//! - [`serve`] runs the API until told to stop, then drains.
//! - [`control`] runs `/metrics` and health on a thread and a port of their own, so that they answer while every core computes.
//! - [`GatewayConfig`]: every limit, with its default.
//! - `stall`: breaks connections whose readers take nothing for too long.
//! - `urgency`: what headers say about deadlines and priority.
//! - `frames`: server-sent events, written into reused buffers.
//! - `refusal`: an error of the table as an HTTP answer.

mod app;
mod auth;
mod body;
mod config;
pub mod control;
mod exchange;
mod frames;
mod generate;
mod info;
mod key;
mod refusal;
mod routes;
mod server;
mod stall;
mod urgency;

pub use app::Gateway;
pub use config::{ConfigError, GatewayConfig};
pub use key::ApiKey;
pub use server::serve;

/// The version that `/version` gives.
const VERSION: &str = env!("CARGO_PKG_VERSION");
