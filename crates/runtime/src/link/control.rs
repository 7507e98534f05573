//! What a reader says, and the little that its lane says beside the ring.

use crate::bell::Bell;
use plimsoll_api::service::EngineTimes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst, fence};
use std::time::Duration;

/// What a request needs of its link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) sequences: usize,
    /// Items one step may put into the ring.
    pub(crate) items_per_step: usize,
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

    /// The reader has read all there is, and there was nothing in it to write, such as the first byte of a character of three: the lane's
    /// part goes on until it has more.
    pub(crate) fn nothing_yet(&self) {
        self.told[0].store(0, SeqCst);
    }

    /// When the lane had something for the reader.
    pub(crate) fn told(&self) -> EngineTimes {
        let [first, to_last] =
            [&self.told[0], &self.told[1]].map(|told| Duration::from_micros(told.load(SeqCst)));
        // It was told of between the reader's look and its `nothing_yet`.
        let to_first = if first.is_zero() { to_last } else { first };
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
