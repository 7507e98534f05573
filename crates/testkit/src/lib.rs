//! Test doubles: a scripted engine, a scripted service, tiny models.
//!
//! - [`tiny`]: tiny models with random weights.

pub mod tiny;
