//! Pull models: sources, cache, verification.
