//! The one binary: command line and configuration.
fn main() {}
