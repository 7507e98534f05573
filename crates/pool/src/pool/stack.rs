//! [`Stack`]: idle objects of one place, last in, first out.
//!
//! R. K. Treiber's stack over indices, the whole of it in one word, changed by compare-and-swap:
//!
//! ```text
//! bits 0-15   the top object's number plus 1; 0: none
//! bits 16-31  how many there are
//! bit 32      closed: nothing is put in any more
//! bits 33-63  how often something was put in, modulo 2^31
//! ```
//!
//! `next[i]` is what lies under object `i`. Only the owner of an index (whoever took it and has not put it anywhere)
//! writes its `next`. A thread that takes reads the word, then `next` of the top, then swaps the word: the swap fails if
//! anything was put in since, for then the count is another, and if anything was taken since, for then the top is another
//! or the count is. So a `next` that was read too late is never used. (The count would have to come round to the same
//! value, 2^31 times later and with the same top, while that thread stands still between two instructions.)
//!
//! All changes of the word are read-modify-write operations, so a swap that takes an object synchronizes with the one that
//! put it in, however many lie between.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use crate::sync::{AtomicU32, AtomicU64};

/// Most objects one word can number.
pub(super) const MOST: usize = (1 << 16) - 1;

const ONE: u64 = 1 << 16;
const CLOSED: u64 = 1 << 32;
const PUT: u64 = 1 << 33;
const TOP: u64 = ONE - 1;

/// A stack alone on its cache line, and on the neighbour that x86-64 and big ARM cores fetch with it.
#[repr(align(128))]
pub(super) struct Stack {
    word: AtomicU64,
}

/// Why an object was not put into a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Not {
    Full,
    Closed,
}

/// What a stack looked like at one moment; or the sums over several stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Look {
    /// Objects inside.
    pub(super) len: usize,
    /// How often something was ever put in, modulo 2^31. Together with `len` it says how often something was taken.
    pub(super) puts: u64,
}

impl std::ops::Add for Look {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { len: self.len + other.len, puts: self.puts + other.puts }
    }
}

impl std::iter::Sum for Look {
    fn sum<I: Iterator<Item = Self>>(looks: I) -> Self {
        looks.fold(Self::default(), std::ops::Add::add)
    }
}

impl Stack {
    pub(super) fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Takes the top. Sequentially consistent when it succeeds, as `Look` is: see `Idle::raise_high_water`.
    #[inline]
    pub(super) fn take(&self, next: &[AtomicU32]) -> Option<u32> {
        let mut word = self.word.load(Acquire);
        loop {
            let top = (word & TOP).checked_sub(1)?;
            let under = u64::from(next[top as usize].load(Relaxed));
            let taken = (word & !TOP) - ONE + under;
            match self.word.compare_exchange_weak(word, taken, SeqCst, Acquire) {
                Ok(_) => return Some(top as u32),
                Err(now) => word = now,
            }
        }
    }

    /// Puts the object `index`, which the caller owns, on top, unless there are `limit` already.
    ///
    /// Once it is in, another thread may take it and free all of this. So stack and links are pointers: a reference that
    /// is an argument promises that its memory lives until the function returns.
    ///
    /// # Safety
    /// `stack` and `next` point to what they say at least until the object is in.
    #[inline]
    pub(super) unsafe fn put(
        stack: NonNull<Self>,
        next: NonNull<[AtomicU32]>,
        index: u32,
        limit: usize,
    ) -> Result<(), Not> {
        // SAFETY: alive by the caller's word, while the object is not in.
        let (shared_word, under) = unsafe { (&stack.as_ref().word, &next.as_ref()[index as usize]) };
        let mut word = shared_word.load(Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Err(Not::Closed);
            }
            if len(word) >= limit {
                return Err(Not::Full);
            }
            under.store((word & TOP) as u32, Relaxed);
            let put = (word & !TOP).wrapping_add(PUT + ONE) + u64::from(index) + 1;
            match shared_word.compare_exchange_weak(word, put, AcqRel, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Nothing can be put in from now on.
    pub(super) fn close(&self) {
        self.word.fetch_or(CLOSED, AcqRel);
    }

    /// Objects inside.
    #[inline]
    pub(super) fn len(&self) -> usize {
        len(self.word.load(SeqCst))
    }

    pub(super) fn look(&self) -> Look {
        let word = self.word.load(SeqCst);
        Look { len: len(word), puts: word / PUT }
    }
}

#[inline]
fn len(word: u64) -> usize {
    ((word / ONE) & TOP) as usize
}
