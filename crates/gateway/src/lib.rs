//! HTTP over the service trait.
