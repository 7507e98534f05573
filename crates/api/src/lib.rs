//! What the outside says to Plimsoll and hears from it: wire types, the service trait, and the one error table.
//!
//! Never here: engines, threads, clocks, sockets. A gateway turns bytes into these types; a runtime answers them.
//!
//! - [`service`]: the trait between every gateway (HTTP, later gRPC) and the runtime.
//! - [`openai`]: the bodies of OpenAI's API and their checks.
//! - [`error`]: every way a request can fail, with its code, status and whether to come back.

pub mod error;
pub mod openai;
pub mod service;
