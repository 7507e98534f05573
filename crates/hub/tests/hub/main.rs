//! The hub against stand-ins: a web server, a Hugging Face endpoint, a pip. No network.

#![allow(clippy::unwrap_used, reason = "fixtures fail by panicking, like the tests they serve")]

mod cache;
mod fixture;
mod hf;
mod https;
mod pypi;
mod server;
