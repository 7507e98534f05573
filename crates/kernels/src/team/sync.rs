//! Everything that `loom` has to see: the standard library's types normally, `loom`'s under `--cfg loom`.

#[cfg(loom)]
pub(super) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, fence},
    },
    thread::{self, JoinHandle, Thread},
};

#[cfg(not(loom))]
pub(super) use self::plain::UnsafeCell;
#[cfg(not(loom))]
pub(super) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, fence},
    },
    thread::{self, JoinHandle, Thread},
};

#[cfg(not(loom))]
mod plain {
    /// The standard library's cell with loom's interface.
    pub(in super::super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(in super::super) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(in super::super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline(always)]
        pub(in super::super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}
