//! What requests of one model are made of: objects that are there before a request needs them, and go back when it is over.
//!
//! - sequences: a continuation's tokens, names of blocks and sampler. [`Sequences`]: those of a request.
//! - links: the token ring between lane and reader, and what the reader says to the lane. See [`crate::link`].
//! - readings: what a reader holds. Choices: the detokenizer and the stop strings of one of its continuations.
//!
//! Each pool is as large as the sum of its users. A request that wants more than any user may have (more continuations, or
//! log-probabilities for more tokens than a ring holds), or comes while too many finished answers are being read, gets an
//! object of its own, which the pool counts as a miss.

use crate::bell::Bell;
use crate::events::{Choice, Reading};
use crate::link::Link;
use crate::sequence::{Sequence, Sequences};
use plimsoll_pool::{Pool, Reset, Users};
use plimsoll_telemetry::{ModelMetrics, PoolGauge};
use std::sync::Arc;

/// The most objects a pool can have.
pub(crate) const MOST: usize = u16::MAX as usize;

/// How many objects the pools hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Sequences in the batch.
    pub(crate) running: usize,
    /// Sequences that wait for it.
    pub(crate) waiting: usize,
    /// Answers that are complete and not read to their ends.
    pub(crate) unread: usize,
    /// Items of a token ring.
    pub(crate) ring: usize,
}

/// The pools of one model.
pub(crate) struct Pools {
    pub(crate) sequences: Pool<Sequence>,
    pub(crate) lists: Pool<Sequences>,
    pub(crate) links: Pool<Link>,
    pub(crate) readings: Pool<Reading>,
    pub(crate) choices: Pool<Choice>,
}

impl Pools {
    /// Together, the users that `sizes` names are at most [`MOST`].
    pub(crate) fn new(sizes: Sizes, text: &crate::text::Text, bell: &Arc<Bell>) -> Self {
        let Sizes { running, waiting, unread, ring } = sizes;
        let in_lane = |pool| Users::of(pool).user("running", running).user("waiting", waiting);
        let with_reader = |pool| in_lane(pool).user("unread", unread);
        Self {
            sequences: Pool::sized(&in_lane("sequences"), Sequence::default),
            lists: Pool::sized(&in_lane("lists"), Sequences::default),
            links: Pool::sized(&with_reader("links"), || Link::new(ring, bell.clone())),
            readings: Pool::sized(&with_reader("readings"), Reading::default),
            choices: Pool::sized(&with_reader("choices"), || Choice::new(text)),
        }
    }

    /// Sets the gauges of the pools. For a scrape.
    pub(crate) fn report(&self, metrics: &ModelMetrics) {
        report(&self.sequences, "sequences", metrics);
        report(&self.lists, "lists", metrics);
        report(&self.links, "links", metrics);
        report(&self.readings, "readings", metrics);
        report(&self.choices, "choices", metrics);
    }

    /// Memory is short: what is idle gives back what it holds.
    pub(crate) fn shrink(&self) {
        self.sequences.shrink();
        self.lists.shrink();
        self.links.shrink();
        self.readings.shrink();
        self.choices.shrink();
    }

    /// Memory suffices again.
    pub(crate) fn prewarm(&self) {
        self.sequences.prewarm(MOST);
        self.lists.prewarm(MOST);
        self.links.prewarm(MOST);
        self.readings.prewarm(MOST);
        self.choices.prewarm(MOST);
    }
}

fn report<T: Reset>(pool: &Pool<T>, name: &'static str, metrics: &ModelMetrics) {
    let counts = pool.counts();
    let (outstanding, high_water, misses) = (counts.outstanding, counts.high_water, counts.misses);
    metrics.pool(PoolGauge { pool: name, outstanding, high_water, misses });
}
