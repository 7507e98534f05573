//! What a request has of the gate.

use crate::bell::Bell;
use plimsoll_sched::{Ask, Expected, Gate, Refusal, Ticket};
use std::sync::Arc;
use std::time::Duration;

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

    /// Decides anew by what was counted, whether it was let in or only held.
    pub(crate) fn decide_again(&mut self, gate: &Gate, now: Duration, ask: &Ask) -> Result<(), Refusal> {
        self.ticket.as_mut().map_or(Ok(()), |ticket| gate.decide_again(now, ask, ticket))
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
