//! The primitives whose interleavings loom explores in tests.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, fence},
};
