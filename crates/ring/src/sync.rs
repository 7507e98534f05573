//! Everything that `loom` has to see: the standard library's types normally, `loom`'s under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, fence},
    },
    thread::yield_now,
};

#[cfg(not(loom))]
pub(crate) use self::plain::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, fence},
    },
    thread::yield_now,
};

/// A full fence for the model checker only.
///
/// `loom` knows sequentially consistent fences but treats sequentially consistent loads and stores as acquire and
/// release. Where the proof rests on the latter, this stands between them so that `loom` sees what the language promises.
#[inline(always)]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    fence(std::sync::atomic::Ordering::SeqCst);
}

/// Waiting for a few instructions of another thread: spin a little, then let it run.
pub(crate) struct Spin {
    round: u32,
}

impl Spin {
    /// Past this many rounds (about a microsecond of spinning) the core is given away.
    const SPINS: u32 = if cfg!(loom) { 1 } else { 6 };

    pub(crate) fn new() -> Self {
        Self { round: 0 }
    }

    /// Waits a little longer than the last time.
    pub(crate) fn wait(&mut self) {
        if self.is_spent() {
            return yield_now();
        }
        for _ in 0..1u32 << self.round {
            spin_loop();
        }
        self.round += 1;
    }

    /// Whether spinning has been long enough that sleeping is cheaper.
    pub(crate) fn is_spent(&self) -> bool {
        self.round >= Self::SPINS
    }
}

#[cfg(not(loom))]
mod plain {
    /// `loom`'s interface over the standard cell.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}
