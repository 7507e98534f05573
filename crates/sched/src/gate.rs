//! Admission: places and tokens are reserved before anything else is done for a request, and returned when its
//! [`Ticket`] is dropped.
//!
//! Both counts and the closed flag live in ONE 64-bit word, changed by compare-and-swap, so that a bound is never
//! passed, not even for a moment, and no request is refused because of another that was itself being refused:
//!
//! ```text
//! bit 63      closed
//! bits 40-62  sequences in flight (waiting, running, paused)
//! bits 0-39   tokens reserved
//! ```

use crate::snapshot::Snapshot;
use crate::sync::{Arc, AtomicBool, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

const CLOSED: u64 = 1 << 63;
const SEQUENCE: u64 = 1 << 40;
const TOKENS: u64 = SEQUENCE - 1;

/// About as long as it takes at least until memory is found to suffice again.
const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// What may be in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Sequences, whether waiting, running or paused. Below 2^23.
    pub sequences: u32,
    /// Tokens they may come to hold. Below 2^40.
    pub tokens: u64,
}

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// All places are taken.
    #[error("the queue is full")]
    Sequences {
        /// When a place should be free.
        retry_after: Duration,
    },
    /// The tokens of what is in flight leave no room.
    #[error("the KV cache is spoken for")]
    Tokens {
        /// When enough tokens should be free.
        retry_after: Duration,
    },
    /// The machine is short of memory.
    #[error("memory is short")]
    Memory {
        /// When there may be more.
        retry_after: Duration,
    },
    /// Larger than the bounds themselves: refused even when idle.
    #[error("more sequences or tokens than are ever let in at once")]
    TooLarge,
    /// The gate was closed for good.
    #[error("closed")]
    Closed,
}

/// The door of one lane. A handle: clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    word: AtomicU64,
    /// Memory is short: nobody is let in for now.
    is_short: AtomicBool,
    bounds: Bounds,
    snapshot: std::sync::Arc<Snapshot>,
}

impl Gate {
    /// A gate with nothing in flight.
    ///
    /// # Panics
    /// When a bound does not fit its part of the word.
    pub fn new(bounds: Bounds, snapshot: std::sync::Arc<Snapshot>) -> Self {
        assert!(
            u64::from(bounds.sequences) < CLOSED / SEQUENCE,
            "{} sequences: at most 2^23 - 1",
            bounds.sequences
        );
        assert!(bounds.tokens <= TOKENS, "{} tokens: at most 2^40 - 1", bounds.tokens);
        let (word, is_short) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { word, is_short, bounds, snapshot }) }
    }

    /// Reserves places for `sequences` and `tokens` (all of them together), or neither.
    ///
    /// # Errors
    /// When a bound would be passed, memory is short, or the gate is closed.
    pub fn try_admit(&self, sequences: u32, tokens: u64) -> Result<Ticket, Refusal> {
        if self.shared.is_short.load(Relaxed) {
            return Err(Refusal::Memory { retry_after: MEMORY_WAIT });
        }
        self.shared.reserve(sequences, tokens)?;
        Ok(Ticket { shared: self.shared.clone(), sequences, tokens })
    }

    /// Lets nobody in any more. Tickets already given stay good.
    pub fn close(&self) {
        self.shared.word.fetch_or(CLOSED, AcqRel);
    }

    /// Whether memory is so short that nobody may be let in. Tickets already given stay good, and may be corrected.
    pub fn set_short_of_memory(&self, is_short: bool) {
        self.shared.is_short.store(is_short, Relaxed);
    }

    /// `(sequences, tokens)` reserved now.
    pub fn in_flight(&self) -> (u32, u64) {
        unpack(self.shared.word.load(Acquire))
    }

    /// What may be in flight at once.
    pub fn bounds(&self) -> Bounds {
        self.shared.bounds
    }
}

const fn unpack(word: u64) -> (u32, u64) {
    (((word & !CLOSED) / SEQUENCE) as u32, word & TOKENS)
}

impl Shared {
    fn reserve(&self, sequences: u32, tokens: u64) -> Result<(), Refusal> {
        if sequences > self.bounds.sequences || tokens > self.bounds.tokens {
            return Err(Refusal::TooLarge);
        }
        let mut word = self.word.load(Acquire);
        loop {
            self.check(word, sequences, tokens)?;
            let next = word + u64::from(sequences) * SEQUENCE + tokens;
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    fn check(&self, word: u64, sequences: u32, tokens: u64) -> Result<(), Refusal> {
        let (taken, reserved) = unpack(word);
        if word & CLOSED != 0 {
            return Err(Refusal::Closed);
        }
        if taken + sequences > self.bounds.sequences {
            let missing = taken + sequences - self.bounds.sequences;
            let retry_after = wait(f64::from(missing), self.snapshot.sequences_per_second());
            return Err(Refusal::Sequences { retry_after });
        }
        if reserved + tokens > self.bounds.tokens {
            let missing = reserved + tokens - self.bounds.tokens;
            let retry_after = wait(missing as f64, self.snapshot.tokens_per_second());
            return Err(Refusal::Tokens { retry_after });
        }
        Ok(())
    }

    fn put_back(&self, sequences: u32, tokens: u64) {
        let returned = u64::from(sequences) * SEQUENCE + tokens;
        let before = self.word.fetch_sub(returned, AcqRel);
        debug_assert!(before & !CLOSED >= returned, "more was returned to the gate than was taken");
    }
}

/// How long until `missing` units have been served at `per_second`: at least a step, at most half a minute, a second
/// while the rate is unknown.
fn wait(missing: f64, per_second: f64) -> Duration {
    if per_second <= 0.0 {
        return Duration::from_secs(1);
    }
    Duration::from_secs_f64((missing / per_second).clamp(0.05, 30.0))
}

/// Places and tokens reserved at a [`Gate`]; dropping it returns them.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    sequences: u32,
    tokens: u64,
}

impl Ticket {
    /// Replaces the estimated tokens by the counted ones. On an error the estimate stays reserved until the ticket is
    /// dropped.
    ///
    /// # Errors
    /// When there are more than estimated and no room for the difference, or the gate has closed meanwhile.
    pub fn correct(&mut self, tokens: u64) -> Result<(), Refusal> {
        if tokens > self.shared.bounds.tokens {
            return Err(Refusal::TooLarge);
        }
        match tokens.checked_sub(self.tokens) {
            Some(0) => {}
            Some(more) => self.shared.reserve(0, more)?,
            None => self.shared.put_back(0, self.tokens - tokens),
        }
        self.tokens = tokens;
        Ok(())
    }

    /// Tokens reserved.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.put_back(self.sequences, self.tokens);
    }
}
