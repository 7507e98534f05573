//! Bounded lock-free rings.
