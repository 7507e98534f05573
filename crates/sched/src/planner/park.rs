//! Who is parked rather than computed again, and how what is parked comes back.

use super::Planner;
use super::sequence::{Fetch, Place};
use crate::load::Load;
use crate::plan::{Parking, Plan, SeqId};
use plimsoll_kv::{BLOCK_TOKENS, Move, blocks_for};
use std::time::Duration;

impl Planner {
    /// Saves what sequence `i` has in the cache, if that costs less than computing it again. It is about to lose it.
    pub(super) fn park(&mut self, i: usize, plan: &mut Plan) {
        if !self.is_worth_parking(i) {
            return;
        }
        let sequence = &self.sequences[i];
        let (_, slots) = self.ledger.wanted(&sequence.parked, &sequence.names, sequence.computed);
        if slots > self.ledger.free() && !self.make_room(slots) {
            return;
        }
        let sequence = &mut self.sequences[i];
        let (parked, names) = (&mut sequence.parked, &sequence.names);
        self.ledger.park(parked, &sequence.blocks, names, sequence.computed, &mut self.moving);
        let saves = self.moving.drain(..).map(|at| Parking { seq: sequence.id, at });
        plan.moves.saves.extend(saves);
    }

    /// Whether moving the blocks of sequence `i` away and back is predicted to take less time than computing their
    /// tokens again. That some of them may stay in the index until then is not counted: their space is wanted.
    fn is_worth_parking(&self, i: usize) -> bool {
        let sequence = &self.sequences[i];
        if self.limits.park_blocks == 0 || sequence.computed == 0 {
            return false;
        }
        let (writes, _) = self.ledger.wanted(&sequence.parked, &sequence.names, sequence.computed);
        let moves = writes + blocks_for(sequence.computed);
        let moving = self.limits.park_move * u32::try_from(moves).unwrap_or(u32::MAX);
        moving < self.recomputing(sequence.computed)
    }

    /// What computing `tokens` again adds to the steps they run in.
    fn recomputing(&self, tokens: usize) -> Duration {
        let idle = self.cost.predict(Load::default());
        self.cost.predict(Load::default().with_prefill(0, tokens)).saturating_sub(idle)
    }

    /// Gives up what the store still has of sequences that have their blocks, until `slots` are free. Not of those that
    /// are loaded by the plan in the making.
    fn make_room(&mut self, slots: usize) -> bool {
        for i in 0..self.sequences.len() {
            if self.ledger.free() >= slots {
                break;
            }
            let sequence = &mut self.sequences[i];
            if !sequence.blocks.is_empty() && sequence.loaded_in != self.step {
                self.ledger.release(&mut sequence.parked, &mut self.moves.discards);
            }
        }
        self.ledger.free() >= slots
    }

    /// The first block of sequence `i`, which has none, that would come from the parking store; `None` when others have
    /// as much of it.
    pub(super) fn parked_from(&self, i: usize) -> Option<usize> {
        let parked = self.sequences[i].parked.tokens();
        if parked == 0 {
            return None;
        }
        let found = self.found(i);
        (parked > found * BLOCK_TOKENS).then_some(found)
    }

    /// Asks for the parked blocks of those that are next in line, so that they are at hand when it is their turn.
    pub(super) fn fetch_ahead(&mut self, plan: &mut Plan) {
        let mut left = if self.ledger.used() == 0 { 0 } else { self.limits.park_ahead };
        for k in 0..self.line.len() {
            let i = self.line[k];
            let sequence = &self.sequences[i];
            if left == 0 {
                break;
            }
            if sequence.is(Place::Waiting) && sequence.blocks.is_empty() && self.parked_from(i).is_some() {
                self.fetch(i, plan);
                left -= 1;
            }
        }
    }

    /// Asks for the parked blocks of waiting sequence `i`, if they are not at hand yet.
    pub(super) fn fetch(&mut self, i: usize, plan: &mut Plan) {
        let Some(from) = self.parked_from(i) else { return };
        let ask = match self.sequences[i].fetch {
            Fetch::No => from,
            // The index has less of it by now, and may have less still when the answer comes: all, then.
            Fetch::Ready(at_hand) if at_hand > from => 0,
            // Asked: the answer comes first, or two answers could not be told apart.
            Fetch::Asked(_) | Fetch::Ready(_) => return,
        };
        self.sequences[i].fetch = Fetch::Asked(ask);
        plan.moves.fetches.push((self.sequences[i].id, ask));
    }

    pub(super) fn take_fetched(&mut self, seq: SeqId) {
        if let Some(i) = self.find(seq)
            && let Fetch::Asked(from) = self.sequences[i].fetch
        {
            self.sequences[i].fetch = Fetch::Ready(from);
        }
    }

    /// Has the parked blocks of sequence `i` loaded that nobody else has. Returns how many tokens that is.
    pub(super) fn load(&mut self, i: usize, plan: &mut Plan) -> usize {
        self.unfetch(i);
        let sequence = &mut self.sequences[i];
        let restored = sequence.parked.tokens().saturating_sub(sequence.computed);
        if restored > 0 {
            debug_assert!(
                sequence.computed.is_multiple_of(BLOCK_TOKENS),
                "part of a block would be overwritten"
            );
            let from = sequence.computed / BLOCK_TOKENS;
            let slots = sequence.parked.slots().iter().zip(&sequence.blocks).skip(from);
            plan.moves
                .loads
                .extend(slots.map(|(&slot, &block)| Parking { seq: sequence.id, at: Move { block, slot } }));
            sequence.computed = sequence.parked.tokens();
            sequence.loaded_in = self.step;
        }
        restored
    }

    fn unfetch(&mut self, i: usize) {
        let sequence = &mut self.sequences[i];
        if std::mem::replace(&mut sequence.fetch, Fetch::No) != Fetch::No {
            self.moves.fetched.push(sequence.id);
        }
    }

    /// Gives up what the store has of sequence `i`.
    pub(super) fn unpark(&mut self, i: usize) {
        self.unfetch(i);
        self.ledger.release(&mut self.sequences[i].parked, &mut self.moves.discards);
    }

    /// The store lost what it had of a sequence: it is computed again, from where the index ends.
    pub(super) fn lose(&mut self, seq: SeqId) {
        let Some(i) = self.find(seq) else { return };
        self.unfetch(i);
        self.ledger.lose(&mut self.sequences[i].parked, &mut self.moves.discards);
        if self.sequences[i].loaded_in == self.step && !self.sequences[i].blocks.is_empty() {
            self.strip(i);
            if self.sequences[i].is(Place::Active) {
                self.sequences[i].place = Place::Waiting;
            }
        }
    }
}
