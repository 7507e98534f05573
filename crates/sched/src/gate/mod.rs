//! Admission: places and tokens are reserved before anything else is done for a request, and returned when its
//! [`Ticket`] is dropped. Who has a place is let in if it is predicted to keep what it is promised, and what those in
//! flight are.
//!
//! Both counts and the closed flag live in ONE 64-bit word, changed by compare-and-swap, so that a bound is never
//! passed, not even for a moment:
//!
//! ```text
//! bit 63      closed
//! bits 40-62  sequences in flight (waiting, running, paused)
//! bits 0-39   tokens reserved
//! ```
//!
//! Who was let in and is not in the planner's view yet counts by a word per class, of the same layout: prompt tokens
//! and sequences on their way. A newcomer adds itself by compare-and-swap to exactly what it was predicted from, so of
//! a thousand at once no more come in than have time. Two of different classes may miss each other in the same
//! microsecond; that costs one of them the other's service time, once.

mod judge;
mod ticket;

pub use ticket::Ticket;

use crate::promise::{Class, Terms};
use crate::snapshot::Snapshot;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64};
use crate::tenants::Tenants;
use judge::Visit;
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
    /// Sequences of one tenant, unless [`Gate::limit_tenant`] says otherwise.
    pub per_tenant: u32,
}

/// What a gate is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Door {
    /// What may be in flight at once.
    pub bounds: Bounds,
    /// Places in the batch.
    pub places: u32,
    /// API keys; each is a tenant.
    pub tenants: u32,
}

/// Somebody at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Continuations of its prompt.
    pub sequences: u32,
    /// Tokens they may come to hold, all of them together.
    pub tokens: u64,
    /// Tokens of its prompt.
    pub prompt: u64,
    /// Most tokens it may generate.
    pub max_tokens: Option<u32>,
    /// What it is promised.
    pub terms: Terms,
    /// When its headers were parsed.
    pub arrived: Duration,
    /// Who asks; see [`Door::tenants`].
    pub tenant: u32,
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
    /// The tenant has as much in flight as one may.
    #[error("this tenant has all in flight that one may")]
    Tenant {
        /// When a place should be free.
        retry_after: Duration,
    },
    /// By prediction it would come too late, or make another one late.
    #[error("it would be late")]
    Late {
        /// When it should not be any more, if nobody else comes.
        retry_after: Duration,
    },
    /// It would be late on an idle server.
    #[error("it would be late even alone")]
    Never,
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
    /// Sequences and prompt tokens let in that the planner's view does not have yet, by class.
    coming: [AtomicU64; Class::COUNT],
    /// Sequences of [`Class::Batch`] in flight.
    batch: AtomicU32,
    tenants: Tenants,
    /// Memory is short: nobody is let in for now.
    is_short: AtomicBool,
    door: Door,
    snapshot: std::sync::Arc<Snapshot>,
}

impl Gate {
    /// A gate with nothing in flight.
    ///
    /// # Panics
    /// When a bound does not fit its part of the word.
    pub fn new(door: Door, snapshot: std::sync::Arc<Snapshot>) -> Self {
        let bounds = door.bounds;
        assert!(
            u64::from(bounds.sequences) < CLOSED / SEQUENCE,
            "{} sequences: at most 2^23 - 1",
            bounds.sequences
        );
        assert!(bounds.tokens <= TOKENS, "{} tokens: at most 2^40 - 1", bounds.tokens);
        Self {
            shared: Arc::new(Shared {
                word: AtomicU64::new(0),
                coming: std::array::from_fn(|_| AtomicU64::new(0)),
                batch: AtomicU32::new(0),
                tenants: Tenants::new(door.tenants, bounds.per_tenant),
                is_short: AtomicBool::new(false),
                door,
                snapshot,
            }),
        }
    }

    /// Reserves places and tokens for `ask` (all of them together), or nothing, and lets it in if it is predicted to be
    /// in time. `now` is counted from the lane's start.
    ///
    /// # Errors
    /// Why it was not let in.
    pub fn try_admit(&self, now: Duration, ask: &Ask) -> Result<Ticket, Refusal> {
        let (mut ticket, visit) = self.take_place(now, ask)?;
        self.shared.let_in(&visit, &mut ticket)?;
        Ok(ticket)
    }

    /// Reserves places and tokens for `ask`, or nothing, for somebody who is not to be let in yet: whether there is time for
    /// it is not asked.
    ///
    /// # Errors
    /// Why there is no place.
    pub fn try_hold(&self, now: Duration, ask: &Ask) -> Result<Ticket, Refusal> {
        self.take_place(now, ask).map(|(ticket, _)| ticket)
    }

    fn take_place<'a>(&self, now: Duration, ask: &'a Ask) -> Result<(Ticket, Visit<'a>), Refusal> {
        let shared = &self.shared;
        if shared.is_short.load(Relaxed) {
            return Err(Refusal::Memory { retry_after: MEMORY_WAIT });
        }
        if ask.sequences > shared.tenants.most(ask.tenant) {
            return Err(Refusal::TooLarge);
        }
        let crowd = shared.tenants.saw(ask.tenant, now);
        let Some(own) = shared.tenants.enter(ask.tenant, ask.sequences) else {
            return Err(Refusal::Tenant { retry_after: shared.wait_for(ask.sequences) });
        };
        let (ticket, before) = match shared.reserve(ask.sequences, ask.tokens, ask.terms.class) {
            Ok(before) => (Ticket::new(shared, ask), before),
            Err(refusal) => {
                shared.tenants.leave(ask.tenant, ask.sequences);
                return Err(refusal);
            }
        };
        let visit = Visit::new(ask, now, (own, crowd), before + ask.sequences);
        Ok((ticket, visit))
    }

    /// Decides anew about somebody who has a place, held or let in by an estimate, now that `ask` has been counted: reserves what it
    /// needs and predicts with that. It keeps its place meanwhile, and so does nobody else lose one to it.
    ///
    /// # Errors
    /// Why it is not to stay. The place is kept until the ticket is dropped.
    pub fn decide_again(&self, now: Duration, ask: &Ask, ticket: &mut Ticket) -> Result<(), Refusal> {
        let shared = &self.shared;
        ticket.correct(ask.tokens, ask.prompt)?;
        let tenant = (shared.tenants.has(ask.tenant), shared.tenants.saw(ask.tenant, now));
        let (in_flight, _) = unpack(shared.word.load(Acquire));
        shared.let_in(&Visit::new(ask, now, tenant, in_flight), ticket)
    }

    /// From now on `tenant` may have so many sequences in flight, instead of [`Bounds::per_tenant`].
    pub fn limit_tenant(&self, tenant: u32, most: u32) {
        self.shared.tenants.set_most(tenant, most);
    }

    /// Lets nobody in any more. Tickets already given stay good.
    pub fn close(&self) {
        self.shared.word.fetch_or(CLOSED, AcqRel);
    }

    /// Whether memory is so short that nobody may be let in. Tickets already given stay good, and may be corrected.
    pub fn set_short_of_memory(&self, is_short: bool) {
        self.shared.is_short.store(is_short, Relaxed);
    }

    /// How many sequences may be in flight now, those of `batch` not counted; never more than the bound.
    pub fn limit(&self) -> u32 {
        self.shared.limit()
    }

    /// `(sequences, tokens)` reserved now.
    pub fn in_flight(&self) -> (u32, u64) {
        unpack(self.shared.word.load(Acquire))
    }

    /// `(sequences, prompt tokens)` let in that the planner has not taken in yet.
    pub fn coming(&self) -> (u32, u64) {
        let each = self.shared.coming.iter().map(|word| unpack(word.load(Acquire)));
        each.fold((0, 0), |(sequences, tokens), (s, t)| (sequences + s, tokens + t))
    }

    /// What may be in flight at once.
    pub fn bounds(&self) -> Bounds {
        self.shared.door.bounds
    }
}

const fn unpack(word: u64) -> (u32, u64) {
    (((word & !CLOSED) / SEQUENCE) as u32, word & TOKENS)
}

const fn pack(sequences: u32, tokens: u64) -> u64 {
    sequences as u64 * SEQUENCE + tokens
}

impl Shared {
    /// Returns the sequences in flight before.
    fn reserve(&self, sequences: u32, tokens: u64, class: Class) -> Result<u32, Refusal> {
        let bounds = self.door.bounds;
        if sequences > bounds.sequences || tokens > bounds.tokens {
            return Err(Refusal::TooLarge);
        }
        let mut word = self.word.load(Acquire);
        loop {
            self.check(word, sequences, tokens, class)?;
            match self.word.compare_exchange_weak(word, word + pack(sequences, tokens), AcqRel, Acquire) {
                Ok(_) => return Ok(unpack(word).0),
                Err(seen) => word = seen,
            }
        }
    }

    fn check(&self, word: u64, sequences: u32, tokens: u64, class: Class) -> Result<(), Refusal> {
        let (taken, reserved) = unpack(word);
        if word & CLOSED != 0 {
            return Err(Refusal::Closed);
        }
        // Alone nobody is too many: told to come back, it would be for ever.
        let over = if taken == 0 { 0 } else { self.over(taken + sequences, class) };
        if over > 0 && sequences > 0 {
            return Err(Refusal::Sequences { retry_after: self.wait_for(over) });
        }
        if reserved + tokens > self.door.bounds.tokens {
            let missing = reserved + tokens - self.door.bounds.tokens;
            let retry_after = wait(missing as f64, self.snapshot.tokens_per_second());
            return Err(Refusal::Tokens { retry_after });
        }
        Ok(())
    }

    /// How many sequences there would be too many with `taken` in flight. The bound holds for all; what may wait now, for
    /// all but `batch`, which waits as long as it must. A quarter of the queue is kept from that, so that it cannot shut
    /// the others out.
    fn over(&self, taken: u32, class: Class) -> u32 {
        let most = self.door.bounds.sequences;
        if class == Class::Batch {
            return taken.saturating_sub(most - most.saturating_sub(self.door.places) / 4);
        }
        let others = taken.saturating_sub(self.batch.load(Relaxed));
        taken.saturating_sub(most).max(others.saturating_sub(self.limit()))
    }

    fn limit(&self) -> u32 {
        self.door.bounds.sequences.min(self.door.places.saturating_add(self.snapshot.queue_limit()))
    }

    fn wait_for(&self, sequences: u32) -> Duration {
        wait(f64::from(sequences), self.snapshot.sequences_per_second())
    }

    /// One of a class came, or left.
    fn count(&self, class: Class, sequences: u32, has_come: bool) {
        if class == Class::Batch && has_come {
            self.batch.fetch_add(sequences, Relaxed);
        } else if class == Class::Batch {
            self.batch.fetch_sub(sequences, Relaxed);
        }
    }

    fn put_back(&self, sequences: u32, tokens: u64) {
        let returned = pack(sequences, tokens);
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
