//! Test doubles: a scripted engine, a scripted service, tiny models.
//!
//! - [`engine`]: an engine that follows a script and notices when its KV blocks are mixed up.
//! - [`reference`]: a decoder as simple as can be, the oracle for the fast one.
//! - [`service`]: a service that follows a script and counts what became of each request.
//! - [`steady`]: which threads allocate.
//! - [`tiny`]: tiny models with random weights.

pub mod engine;
pub mod reference;
pub mod service;
pub mod steady;
pub mod tiny;
