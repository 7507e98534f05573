//! What goes through the mailbox to a lane, and what comes back.

use crate::experiment::Judged;
use crate::lane::Bell;
use crate::link::{Needs, ToReader};
use crate::pools::{Lent, Sequences};
use plimsoll_api::error::Error;
use plimsoll_api::service::{EngineTimes, Finish};
use plimsoll_kv::{BLOCK_TOKENS, BlockHash, Chain};
use plimsoll_model::sampling::{Params, Sampler};
use plimsoll_pool::Reset;
use plimsoll_sched::{Deadlines, Expected, Refusal, SeqId, Ticket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst, fence};
use std::time::{Duration, Instant};

/// A request on its way to, or in, a lane. Built where it arrives, so that the lane allocates nothing for it.
pub(crate) struct Request {
    /// The number of its first sequence; the lane gives it.
    pub(crate) first: SeqId,
    /// One per continuation.
    pub(crate) sequences: Lent<Sequences>,
    pub(crate) out: ToReader,
    pub(crate) ignore_end: bool,
    pub(crate) scores: Scores,
    /// Items that one step may put into the ring at most: see [`Scores::items_per_step`].
    pub(crate) items_per_step: usize,
    pub(crate) arrived: Instant,
    pub(crate) deadlines: Deadlines,
    /// When it was put into the mailbox.
    pub(crate) handed_over: Instant,
    pub(crate) has_started: bool,
    /// Something was put into the ring, and the reader was not woken.
    pub(crate) has_news: bool,
    /// Its reader is slow, and its sequences are out of the batch.
    pub(crate) is_paused: bool,
    pub(crate) judged: Judged,
    /// Dropped last: whoever sees the gate empty finds nothing of the request left.
    pub(crate) admission: Admission,
}

/// One continuation.
#[derive(Default)]
pub(crate) struct Sequence {
    /// The prompt, and what was generated.
    pub(crate) tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// Most tokens, prompt included.
    pub(crate) max_len: usize,
    /// The names of the prompt's full blocks, for the planner.
    pub(crate) names: Vec<BlockHash>,
    /// Names the blocks after those; `None`: they are not shared.
    pub(crate) chain: Option<Chain>,
    pub(crate) sampler: Sampler,
    pub(crate) first_token: Option<Instant>,
    pub(crate) last_token: Option<Instant>,
    pub(crate) is_done: bool,
}

/// Tokens that a sequence keeps room for when it goes back to its pool.
const KEPT: usize = 32 << 10;

impl Reset for Sequence {
    fn reset(&mut self) {
        self.tokens.clear();
        self.tokens.shrink_to(KEPT);
        self.names.clear();
        self.names.shrink_to(KEPT / BLOCK_TOKENS);
        self.sampler.restart(Params::default());
        (self.prompt, self.max_len, self.is_done) = Default::default();
        (self.chain, self.first_token, self.last_token) = (None, None, None);
    }

    fn poison(&mut self) {
        // Where there is room: a lane allocates nothing, in debug builds either.
        if self.tokens.len() < self.tokens.capacity() {
            self.tokens.push(u32::MAX);
        }
        if self.names.len() < self.names.capacity() {
            self.names.push(BlockHash(u128::MAX));
        }
        (self.prompt, self.max_len, self.is_done) = (usize::MAX, usize::MAX, true);
        (self.first_token, self.last_token) = (Some(Instant::now()), Some(Instant::now()));
    }

    fn is_clean(&self) -> bool {
        let is_empty = self.tokens.is_empty() && self.names.is_empty() && self.chain.is_none();
        let is_new = self.first_token.is_none() && self.last_token.is_none();
        is_empty && is_new && (self.prompt, self.max_len, self.is_done) == (0, 0, false)
    }

    fn shrink(&mut self) {
        *self = Self::default();
    }
}

impl Request {
    /// Room the ring must have for the next step, or the request pauses.
    pub(crate) const fn items_per_step(&self) -> usize {
        self.items_per_step
    }

    /// Whether a paused request can go on.
    pub(crate) fn has_room(&self) -> bool {
        self.out.free() >= self.control().resume_room()
    }

    /// What its reader says.
    pub(crate) fn control(&self) -> &Control {
        self.out.control()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.sequences.iter().all(|sequence| sequence.is_done)
    }

    /// All of it is done, and its reader has it or will.
    pub(crate) fn answered(&mut self, now: Instant) {
        self.judged.answered(now, self.arrived, &self.sequences);
    }

    /// The sequences that are not done.
    pub(crate) fn running(&self) -> impl Iterator<Item = SeqId> {
        let running = self.sequences.iter().enumerate().filter(|(_, sequence)| !sequence.is_done);
        running.map(|(i, _)| SeqId(self.first.0 + i as u64))
    }

    /// Puts an item into the ring without waking the reader.
    pub(crate) fn push(&mut self, item: Item) {
        self.has_news = true;
        self.out.push(item);
    }

    /// Wakes the reader, and says when, if there is anything for it.
    pub(crate) fn wake(&mut self) {
        if std::mem::replace(&mut self.has_news, false) {
            self.control().tell(self.handed_over.elapsed());
            self.out.wake();
        }
    }
}

/// Which log-probabilities a request wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores {
    /// Report log-probabilities, and of this many most likely tokens.
    pub(crate) logprobs: Option<usize>,
    /// Report the prompt's, too.
    pub(crate) of_prompt: bool,
}

impl Scores {
    /// Items that one step of a request with so many `sequences` may put into its ring at most, when a step has
    /// `max_logits` rows of logits: for each continuation a token, the score of it and its end; the scores of prompt
    /// tokens and the end of that chunk; and one failure.
    pub(crate) fn items_per_step(self, sequences: usize, max_logits: usize) -> usize {
        let score = self.logprobs.map_or(0, |k| k + 1);
        let of_prompt = if self.of_prompt { max_logits * score + 2 * sequences } else { 0 };
        sequences * (score + 2) + of_prompt + 1
    }
}

impl Sequence {
    /// Adds a generated token. Returns the name of the block that it fills.
    pub(crate) fn push(&mut self, token: u32) -> Option<BlockHash> {
        self.tokens.push(token);
        match self.tokens.as_rchunks() {
            ([], [.., block]) => self.chain.as_mut().map(|chain| chain.block(block)),
            _ => None,
        }
    }
}

/// What a lane says about a request. Small and without memory of its own, so that saying it allocates nothing.
#[derive(Debug)]
pub(crate) enum Item {
    /// One of the most likely tokens at the place that the next [`Item::Scored`] is about; the best one comes first.
    Likely { token: u32, logprob: f32 },
    /// The next token, of the prompt or generated, and how likely it was; `None` for the first token of a prompt.
    Scored { token: u32, logprob: Option<f32> },
    /// Those scored since the last [`Item::Token`] or [`Item::Prompt`] were the next tokens of the prompt.
    Prompt { choice: u32 },
    /// A token was generated. If log-probabilities are wanted, it is the one scored last.
    Token { choice: u32, token: u32 },
    /// A continuation is complete. `by_end_token`: one more token was generated, which is not part of it.
    Finished { choice: u32, finish: Finish, by_end_token: bool },
    /// The request is lost.
    Failed(Box<Error>),
}

/// What the reader of a request says to its lane.
pub(crate) struct Control {
    /// Per continuation: [`WANTED`], [`ENOUGH`] or [`GONE`]. Only ever grows while a request has it.
    wishes: Box<[AtomicU8]>,
    /// Continuations of the request that has it.
    sequences: AtomicUsize,
    /// The lane waits for room in the ring.
    paused: AtomicBool,
    /// As much of it.
    resume_room: AtomicUsize,
    /// What the lane says of the prompt: so many of its tokens need not be computed.
    cached_tokens: AtomicU32,
    /// Microseconds from handing over to when the lane first and last had something for the reader; 0: it had nothing yet.
    told: [AtomicU64; 2],
    bell: Arc<Bell>,
}

/// The reader wants more.
const WANTED: u8 = 0;
/// The reader has what it wanted: a stop string was met.
const ENOUGH: u8 = 1;
/// The reader is gone.
const GONE: u8 = 2;

impl Control {
    /// For requests of up to so many continuations.
    pub(crate) fn new(most: usize, bell: Arc<Bell>) -> Self {
        let wishes = (0..most).map(|_| AtomicU8::new(WANTED)).collect();
        let (sequences, paused, resume_room, cached_tokens, told) = Default::default();
        Self { wishes, sequences, paused, resume_room, cached_tokens, told, bell }
    }

    /// A request has it from now on, with a ring of `capacity` items.
    pub(crate) fn begin(&self, needs: Needs, capacity: usize) {
        self.sequences.store(needs.sequences, SeqCst);
        self.resume_room.store(needs.items_per_step.max(capacity / 2), SeqCst);
    }

    /// No request has it any more.
    pub(crate) fn reset(&self) {
        self.wishes.iter().for_each(|wish| wish.store(WANTED, SeqCst));
        self.paused.store(false, SeqCst);
        self.cached_tokens.store(0, SeqCst);
        self.told.iter().for_each(|told| told.store(0, SeqCst));
        self.sequences.store(0, SeqCst);
        self.resume_room.store(0, SeqCst);
    }

    pub(crate) fn poison(&self) {
        self.wishes.iter().for_each(|wish| wish.store(GONE, SeqCst));
        self.paused.store(true, SeqCst);
        self.cached_tokens.store(u32::MAX, SeqCst);
        self.told.iter().for_each(|told| told.store(1, SeqCst));
        self.sequences.store(usize::MAX, SeqCst);
        self.resume_room.store(usize::MAX, SeqCst);
    }

    pub(crate) fn is_clean(&self) -> bool {
        let is_wanted = self.wishes.iter().all(|wish| wish.load(SeqCst) == WANTED);
        is_wanted
            && !self.paused.load(SeqCst)
            && self.cached_tokens.load(SeqCst) == 0
            && self.told.iter().all(|told| told.load(SeqCst) == 0)
            && self.sequences.load(SeqCst) == 0
            && self.resume_room.load(SeqCst) == 0
    }

    /// Those of the request that has it.
    fn wishes(&self) -> &[AtomicU8] {
        &self.wishes[..self.sequences.load(SeqCst).min(self.wishes.len())]
    }

    /// The reader has enough of continuation `choice`: a stop string was met.
    pub(crate) fn enough(&self, choice: usize) {
        self.wishes[choice].fetch_max(ENOUGH, SeqCst);
        self.bell.ring();
    }

    /// The reader is gone.
    pub(crate) fn cancel(&self) {
        self.wishes().iter().for_each(|wish| wish.store(GONE, SeqCst));
        self.bell.ring();
    }

    /// Whether no more is wanted of continuation `choice`.
    pub(crate) fn is_over(&self, choice: usize) -> bool {
        self.wishes[choice].load(SeqCst) != WANTED
    }

    /// Whether the reader left before it had what it wanted.
    pub(crate) fn is_gone(&self) -> bool {
        self.wishes().iter().any(|wish| wish.load(SeqCst) == GONE)
    }

    /// Room in the ring at which a paused request goes on.
    pub(crate) fn resume_room(&self) -> usize {
        self.resume_room.load(SeqCst)
    }

    /// The lane is about to wake the reader, so long after the request was handed over.
    pub(crate) fn tell(&self, after: Duration) {
        let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX).max(1);
        self.told[0].compare_exchange(0, after, SeqCst, SeqCst).ok();
        self.told[1].store(after, SeqCst);
    }

    /// When the lane had something for the reader.
    pub(crate) fn told(&self) -> EngineTimes {
        let [to_first, to_last] =
            [&self.told[0], &self.told[1]].map(|told| Duration::from_micros(told.load(SeqCst)));
        EngineTimes { to_first, to_last }
    }

    /// The lane says how many tokens of the prompt need not be computed.
    pub(crate) fn set_cached_tokens(&self, tokens: usize) {
        self.cached_tokens.store(u32::try_from(tokens).unwrap_or(u32::MAX), SeqCst);
    }

    /// Tokens of the prompt that were not computed for this request.
    pub(crate) fn cached_tokens(&self) -> u32 {
        self.cached_tokens.load(SeqCst)
    }

    /// The lane says whether it waits for room. It looks at the room once more afterwards, and the reader looks here
    /// after making room: one of them sees the other.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.paused.store(is_paused, SeqCst);
        fence(SeqCst);
    }

    /// The reader took something out, and now there are `room` places free in the ring.
    pub(crate) fn made_room(&self, room: usize) {
        fence(SeqCst);
        if room >= self.resume_room() && self.paused.load(SeqCst) {
            self.bell.ring();
        }
    }
}

/// A place behind the gate. When it is given back the lane is told, which may be waiting for the last one.
pub(crate) struct Admission {
    ticket: Option<Ticket>,
    /// The planner has not heard of it yet.
    is_coming: bool,
    bell: Arc<Bell>,
}

impl Admission {
    pub(crate) const fn new(ticket: Ticket, bell: Arc<Bell>) -> Self {
        Self { ticket: Some(ticket), is_coming: true, bell }
    }

    /// Whether the planner has not heard of it yet.
    pub(crate) const fn is_coming(&self) -> bool {
        self.is_coming
    }

    /// The planner's published figures include it.
    pub(crate) fn arrived(&mut self) {
        self.is_coming = false;
        self.ticket.iter_mut().for_each(Ticket::arrived);
    }

    /// When its first token was predicted for.
    pub(crate) fn expected(&self) -> Option<Expected> {
        self.ticket.as_ref().and_then(Ticket::expected)
    }

    /// Replaces the estimated tokens by the counted ones: all, and those of the prompt.
    pub(crate) fn correct(&mut self, tokens: u64, prompt: u64) -> Result<(), Refusal> {
        self.ticket.as_mut().map_or(Ok(()), |ticket| ticket.correct(tokens, prompt))
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.ticket = None;
        self.bell.ring();
    }
}
