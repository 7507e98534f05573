//! An open-loop load generator for servers of the OpenAI API: vLLM, llama-server, Plimsoll.
//!
//! Requests are sent when a plan says so, whatever became of those before, and every latency counts from the intended
//! arrival: a server that stalls cannot hide the requests it kept from being sent (Tene's "coordinated omission").
//! docs/load.md defines every figure.
//!
//! Never here: anything of the servers themselves, the command line, the environment. Everything is bounded: requests under
//! way, the time of each, what is read of an answer.
//!
//! - What is sent: [`arrivals`], [`lengths`], [`trace`], [`workload`]; its words: [`prompts`], `conversation`; by whom: [`manner`].
//! - To whom: [`target`], `connection`, [`client`] (model, dialect, calibration), [`openai`], `sse`.
//! - What becomes of it: `exchange`, [`record`], [`run`]; and how that is ended early: [`stop`].
//! - What that says: [`percentile`], [`slo`], [`summary`], [`over_time`], [`sweep`], [`bench`](mod@bench) by [`BenchOptions`], [`report`].

pub mod arrivals;
pub mod bench;
pub mod client;
mod connection;
mod conversation;
mod cpu;
pub mod error;
mod exchange;
pub mod lengths;
pub mod manner;
pub mod openai;
mod options;
pub mod over_time;
pub mod progress;
pub mod prompts;
pub mod record;
pub mod report;
pub mod run;
pub mod slo;
mod sse;
pub mod stop;
pub mod summary;
pub mod sweep;
pub mod target;
pub mod trace;
pub mod workload;

pub use bench::bench;
pub use client::{Client, ClientOptions};
pub use error::LoadError;
pub use exchange::Exchange;
/// Names and values of headers.
pub use hyper::header::{HeaderName, HeaderValue};
pub use options::BenchOptions;
pub use plimsoll_charts::percentile;
pub use report::Report;
pub use stop::Stop;
