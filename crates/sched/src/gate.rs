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

use crate::predict::{Forecast, Newcomer, forecast, idle};
use crate::promise::{Class, Expected, Terms};
use crate::snapshot::Snapshot;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicU64};
use crate::tenants::Tenants;
use crate::view::View;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

const CLOSED: u64 = 1 << 63;
const SEQUENCE: u64 = 1 << 40;
const TOKENS: u64 = SEQUENCE - 1;

/// About as long as it takes at least until memory is found to suffice again.
const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// Seconds of a deadline that go to what is not predicted: tokenizing, sampling, the way out.
const WAY_OUT: f64 = 0.005;
/// Predictions are raised in proportion to themselves and so many seconds, a step or two: near ones are off by that, far
/// ones by a share of themselves.
const BLUR: f64 = 0.1;
/// Seconds that predictions look ahead when there is no deadline.
const HORIZON: f64 = 30.0;
/// What of its time a tenant may plan with that has more than its share in flight while others ask: the rest is theirs.
const OVER_SHARE: f64 = 0.6;

/// What may be in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Sequences, whether waiting, running or paused. Below 2^23.
    pub sequences: u32,
    /// Tokens they may come to hold. Below 2^40.
    pub tokens: u64,
    /// Sequences of one tenant.
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
        let shared = &self.shared;
        if shared.is_short.load(Relaxed) {
            return Err(Refusal::Memory { retry_after: MEMORY_WAIT });
        }
        if ask.sequences > shared.door.bounds.per_tenant {
            return Err(Refusal::TooLarge);
        }
        let crowd = shared.tenants.saw(ask.tenant, now);
        let Some(own) = shared.tenants.enter(ask.tenant, ask.sequences) else {
            return Err(Refusal::Tenant { retry_after: shared.wait_for(ask.sequences) });
        };
        let (mut ticket, before) = match shared.reserve(ask.sequences, ask.tokens, ask.terms.class) {
            Ok(before) => (Ticket::new(shared, ask), before),
            Err(refusal) => {
                shared.tenants.leave(ask.tenant, ask.sequences);
                return Err(refusal);
            }
        };
        let is_over = crowd > 1 && u64::from(own) * u64::from(crowd) > u64::from(before + ask.sequences);
        let visit = Visit { ask, now: now.as_secs_f64(), is_alone: before == 0, is_over };
        shared.let_in(&visit, &mut ticket)?;
        Ok(ticket)
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

/// Somebody who has a place, while it is decided whether there is time for it.
struct Visit<'a> {
    ask: &'a Ask,
    /// Seconds.
    now: f64,
    /// Nobody else had a place. Then the prediction is not asked: a model of costs that has gone wrong is put right by
    /// work alone.
    is_alone: bool,
    /// Its tenant has more than its share.
    is_over: bool,
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
        let over = self.over(taken + sequences, class);
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

    /// Decides by prediction, and counts the newcomer among those who are coming.
    fn let_in(&self, visit: &Visit<'_>, ticket: &mut Ticket) -> Result<(), Refusal> {
        let view = self.snapshot.view();
        let ask = visit.ask;
        let own = &self.coming[ask.terms.class.index()];
        let mut word = own.load(Acquire);
        loop {
            let expected = self.judge(visit, &view, word)?;
            let coming = pack(ask.sequences, ask.prompt);
            match own.compare_exchange_weak(word, word + coming, AcqRel, Acquire) {
                Ok(_) => {
                    (ticket.coming, ticket.expected) = (coming, Some(expected));
                    return Ok(());
                }
                Err(seen) => word = seen,
            }
        }
    }

    fn judge(&self, visit: &Visit<'_>, view: &View, own: u64) -> Result<Expected, Refusal> {
        let Ask { terms, prompt, arrived, .. } = *visit.ask;
        let computed = (prompt as f64 * view.fresh).max(1.0);
        let alone = idle(&view.best, view.budget, computed);
        let is_never =
            |limit: Option<Duration>, takes: f64| limit.is_some_and(|limit| takes > limit.as_secs_f64());
        if is_never(terms.ttft, alone)
            || is_never(terms.e2e, alone)
            || is_never(terms.itl, view.best.base + view.best.decode)
        {
            return Err(Refusal::Never);
        }
        let time = |limit: Option<Duration>| {
            let share = if visit.is_over { OVER_SHARE } else { 1.0 };
            limit.map(|limit| arrived.as_secs_f64() - visit.now - WAY_OUT + limit.as_secs_f64() * share)
        };
        let (first_by, last_by) = (time(terms.ttft), time(terms.e2e));
        let newcomer = self.newcomer(visit.ask, view, own, computed);
        let until = first_by.map_or(HORIZON, |by| by.max(0.0) + HORIZON);
        let seen = forecast(view, visit.now, f64::from(self.door.places), &newcomer, until);
        let at_most = seen.first + view.margin[terms.class.index()] * (seen.first + BLUR);
        // Somebody may have come in since it was found to be alone.
        let is_alone = visit.is_alone && newcomer.waiting <= 0.0 && newcomer.tokens <= 0.0 && own == 0;
        if !is_alone {
            let late = |by: Option<f64>, at: f64| by.map_or(0.0, |by| at - by);
            let last = at_most + self.output(visit.ask, view) * seen.step.max(seen.decoding);
            let over =
                late(first_by, at_most).max(late(last_by, last)).max(overtaking(visit, view, &newcomer));
            if over > 0.0 {
                return Err(Refusal::Late { retry_after: Duration::from_secs_f64(over.clamp(0.05, 30.0)) });
            }
            if crowds(&terms, view, &seen) {
                return Err(Refusal::Late { retry_after: self.wait_for(1) });
            }
        }
        let after = |seconds: f64| Duration::from_secs_f64(visit.now + seconds.min(1e6));
        let at = Duration::from_secs_f64(visit.now);
        Ok(Expected { at, first: after(seen.first), at_most: after(at_most) })
    }

    fn newcomer(&self, ask: &Ask, view: &View, own: u64, prompt: f64) -> Newcomer {
        let class = ask.terms.class;
        let (mut tokens, mut waiting) = (0.0, 0.0);
        for other in Class::ALL.into_iter().filter(|other| *other <= class) {
            let word = if other == class { own } else { self.coming[other.index()].load(Acquire) };
            let (sequences, coming) = unpack(word);
            tokens += view.pending[other.index()] + coming as f64 * view.fresh;
            waiting += view.waiting[other.index()] + f64::from(sequences);
        }
        let less = Class::ALL.into_iter().filter(|other| *other > class && view.pending[other.index()] > 0.0);
        let kept: f64 = less.map(Class::share).sum();
        Newcomer {
            prompt,
            sequences: f64::from(ask.sequences),
            tokens,
            waiting,
            yielding: view.yielding[class.index()],
            share: (1.0 - kept) * (1.0 - view.above[class.index()]).max(class.share().max(0.1)),
        }
    }

    /// Tokens that one should be ready for: as many as nine of ten outputs have.
    fn output(&self, ask: &Ask, view: &View) -> f64 {
        ask.max_tokens
            .map_or(view.output[1].min(f64::from(u16::MAX)), |most| view.output[1].min(f64::from(most)))
    }
}

/// Seconds by which somebody who waits would be late, if the newcomer with its earlier deadline went before.
fn overtaking(visit: &Visit<'_>, view: &View, newcomer: &Newcomer) -> f64 {
    let terms = &visit.ask.terms;
    let class = terms.class.index();
    let Some(ttft) = terms.ttft else { return 0.0 };
    if (visit.ask.arrived + ttft).as_secs_f64() >= view.latest[class] {
        return 0.0;
    }
    newcomer.prompt * view.rates.prefill / newcomer.share - view.slack[class]
}

/// Whether with the newcomer in the batch steps take longer than the promised gaps allow, its own or others'.
fn crowds(terms: &Terms, view: &View, seen: &Forecast) -> bool {
    let own = terms.itl.map_or(f64::INFINITY, |itl| itl.as_secs_f64() * view.aim);
    seen.decoding > own.min(view.tightest)
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
    class: Class,
    tenant: u32,
    sequences: u32,
    tokens: u64,
    /// What it counts for among those who are coming; 0: the planner has it.
    coming: u64,
    expected: Option<Expected>,
}

impl Ticket {
    fn new(shared: &Arc<Shared>, ask: &Ask) -> Self {
        let Ask { sequences, tokens, tenant, .. } = *ask;
        let class = ask.terms.class;
        shared.count(class, sequences, true);
        Self { shared: shared.clone(), class, tenant, sequences, tokens, coming: 0, expected: None }
    }

    /// Replaces the estimated tokens by the counted ones: those it may come to hold, and those of its prompt. On an
    /// error the estimate stays reserved until the ticket is dropped.
    ///
    /// # Errors
    /// When there are more than estimated and no room for the difference, or the gate has closed meanwhile.
    pub fn correct(&mut self, tokens: u64, prompt: u64) -> Result<(), Refusal> {
        if tokens > self.shared.door.bounds.tokens {
            return Err(Refusal::TooLarge);
        }
        match tokens.checked_sub(self.tokens) {
            Some(0) => {}
            Some(more) => drop(self.shared.reserve(0, more, self.class)?),
            None => self.shared.put_back(0, self.tokens - tokens),
        }
        self.tokens = tokens;
        if self.coming > 0 {
            let coming = pack(self.sequences, prompt.min(TOKENS));
            // One addition, modulo 2^64: the word never shows one without the other.
            self.word().fetch_add(coming.wrapping_sub(self.coming), AcqRel);
            self.coming = coming;
        }
        Ok(())
    }

    /// The planner has the request, and its published view, too.
    pub fn arrived(&mut self) {
        let coming = std::mem::take(&mut self.coming);
        if coming > 0 {
            self.word().fetch_sub(coming, AcqRel);
        }
    }

    fn word(&self) -> &AtomicU64 {
        &self.shared.coming[self.class.index()]
    }

    /// Tokens reserved.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// When the first token was predicted for, at the door.
    pub const fn expected(&self) -> Option<Expected> {
        self.expected
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.arrived();
        self.shared.tenants.leave(self.tenant, self.sequences);
        self.shared.count(self.class, self.sequences, false);
        self.shared.put_back(self.sequences, self.tokens);
    }
}
