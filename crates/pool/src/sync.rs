//! Everything that `loom` has to see: the standard library's types normally, `loom`'s under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize},
    },
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize},
    },
};
