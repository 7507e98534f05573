//! What who was let in holds.

use super::{Ask, Refusal, Shared, TOKENS, pack};
use crate::promise::{Class, Expected};
use crate::sync::{Arc, AtomicU64};
use std::sync::atomic::Ordering::AcqRel;

/// Places and tokens reserved at a [`Gate`](super::Gate); dropping it returns them.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    class: Class,
    tenant: u32,
    sequences: u32,
    tokens: u64,
    /// What it counts for among those who are coming; 0: the planner has it.
    pub(super) coming: u64,
    pub(super) expected: Option<Expected>,
}

impl Ticket {
    pub(super) fn new(shared: &Arc<Shared>, ask: &Ask) -> Self {
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
