//! What is in every slot of every block, and of the parking store.

use plimsoll_kv::BLOCK_TOKENS;
use plimsoll_sched::{Event, Limits, Moves, Parking, Planner, SeqId};
use std::collections::BTreeMap;

/// The contents of a block, one for each token.
pub type Block = [u64; BLOCK_TOKENS];

/// The slab, the parking store, and what is on its way back.
pub struct Memory {
    pub blocks: Vec<Block>,
    store: Vec<Option<Block>>,
    /// What is being fetched: when it is there, whose, from which block on.
    fetching: Vec<(usize, SeqId, usize)>,
    /// From which block on a sequence's slots are at hand.
    at_hand: BTreeMap<SeqId, usize>,
}

impl Memory {
    pub fn new(limits: &Limits) -> Self {
        let (fetching, at_hand) = Default::default();
        let blocks = vec![[0; BLOCK_TOKENS]; limits.blocks];
        Self { blocks, store: vec![None; limits.park_blocks], fetching, at_hand }
    }

    pub fn is_fetching(&self) -> bool {
        !self.fetching.is_empty()
    }

    /// What was fetched long enough by `step`. Now and then it is lost instead.
    pub fn answer(&mut self, step: usize, planner: &Planner, events: &mut Vec<Event>) {
        for (_, seq, from) in self.fetching.extract_if(.., |(due, ..)| *due <= step) {
            // A sequence may share a slot that another one's save was refused.
            let has_all = planner.slots(seq).iter().all(|&slot| self.store[slot as usize].is_some());
            if !has_all || step.is_multiple_of(11) {
                events.push(Event::ParkLost(seq));
            } else {
                self.at_hand.insert(seq, from);
                events.push(Event::Fetched(seq));
            }
        }
    }

    /// Moves blocks in `step`. Returns whose loads did not succeed; now and then one does not, and a save is refused.
    pub fn make(
        &mut self,
        step: usize,
        moves: &Moves,
        planner: &Planner,
        events: &mut Vec<Event>,
    ) -> Vec<SeqId> {
        for &slot in &moves.discards {
            self.store[slot as usize] = None;
        }
        for &Parking { seq, at } in &moves.saves {
            if step.is_multiple_of(17) {
                events.push(Event::ParkLost(seq));
            } else {
                self.store[at.slot as usize] = Some(self.blocks[at.block as usize]);
            }
        }
        let mut lost = Vec::new();
        for &Parking { seq, at } in &moves.loads {
            let k = planner.slots(seq).iter().position(|&slot| slot == at.slot);
            assert!(self.at_hand[&seq] <= k.expect("a slot of another"), "{seq:?} loads what is not at hand");
            self.blocks[at.block as usize] = self.store[at.slot as usize].expect("an empty slot is at hand");
            if step.is_multiple_of(19) {
                lost.push(seq);
            }
        }
        for copy in &moves.copies {
            self.blocks[copy.to as usize] = self.blocks[copy.from as usize];
        }
        for seq in &moves.fetched {
            self.at_hand.remove(seq);
            self.fetching.retain(|(_, other, _)| other != seq);
        }
        for &(seq, from) in &moves.fetches {
            assert!(self.fetching.iter().all(|(_, other, _)| *other != seq), "{seq:?} is being fetched");
            self.fetching.push((step + 1 + seq.0 as usize % 4, seq, from));
        }
        events.extend(lost.iter().map(|&seq| Event::ParkLost(seq)));
        lost
    }
}
