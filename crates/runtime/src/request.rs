//! What goes through the mailbox to a lane.

use crate::admission::Admission;
use crate::experiment::Judged;
use crate::lent::Lent;
use crate::link::{Control, Item, ToReader};
use crate::sequence::Sequences;
use plimsoll_sched::{Deadlines, SeqId};
use std::time::Instant;

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
