//! Which block of which sequence is where in a parking store.

use crate::hash::BlockHash;
use crate::prefix::PrefixCache;
use crate::{BLOCK_TOKENS, blocks_for};

/// What of one sequence is in the store: its first tokens, in a slot per block. Stays when the sequence is taken up
/// again, so that the next time only what was written since has to be saved.
#[derive(Debug, Clone, Default)]
pub struct Parked {
    slots: Vec<u32>,
    tokens: usize,
}

impl Parked {
    /// Nothing, with room for so many slots.
    pub fn with_room(slots: usize) -> Self {
        Self { slots: Vec::with_capacity(slots), tokens: 0 }
    }

    /// The slots of its blocks, from position 0 on.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Tokens whose K and V are in the store, from position 0 on.
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether block `k` is saved with at least the first `tokens` tokens of its sequence. What is written stays.
    const fn has(&self, k: usize, tokens: usize) -> bool {
        self.tokens >= tokens || self.tokens >= (k + 1) * BLOCK_TOKENS
    }
}

/// The bytes of a block go to a slot, or come from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// In the slab.
    pub block: u32,
    /// In the store.
    pub slot: u32,
}

/// The slots of a parking store. Sequences that parked the same full block share a slot.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Slots are counted and named like blocks; none is kept without a holder.
    slots: PrefixCache,
}

impl Ledger {
    /// A store of `count` free slots.
    ///
    /// # Panics
    /// When `count` does not fit a `u32`.
    pub fn new(count: usize) -> Self {
        Self { slots: PrefixCache::new(count) }
    }

    /// Slots nobody holds.
    pub const fn free(&self) -> usize {
        self.slots.counts().free
    }

    /// Slots that are held.
    pub const fn used(&self) -> usize {
        let counts = self.slots.counts();
        counts.owned + counts.shared
    }

    /// Blocks to be written before the first `tokens` tokens of a sequence are in the store, and the slots that takes.
    /// `names` are those of its full blocks, as far as they have any.
    pub fn wanted(&self, parked: &Parked, names: &[BlockHash], tokens: usize) -> (usize, usize) {
        let absent = (0..blocks_for(tokens)).filter(|&k| !parked.has(k, tokens));
        absent.fold((0, 0), |(writes, slots), k| match full(names, k, tokens) {
            _ if k < parked.slots.len() => (writes + 1, slots),
            Some(name) if self.slots.has(name) => (writes, slots),
            _ => (writes + 1, slots + 1),
        })
    }

    /// Notes that the first `tokens` tokens of a sequence are in the store, and appends to `moves` what has to be
    /// written for that to be so; or does nothing, when there are not slots enough. Tells which.
    pub fn park(
        &mut self,
        parked: &mut Parked,
        blocks: &[u32],
        names: &[BlockHash],
        tokens: usize,
        moves: &mut Vec<Move>,
    ) -> bool {
        if self.wanted(parked, names, tokens).1 > self.free() {
            return false;
        }
        for (k, &block) in blocks.iter().enumerate().take(blocks_for(tokens)) {
            if !parked.has(k, tokens) {
                moves.extend(self.save(parked, k, full(names, k, tokens)).map(|slot| Move { block, slot }));
            }
        }
        parked.tokens = parked.tokens.max(tokens);
        true
    }

    /// A slot for block `k`; to be written, when it is returned.
    fn save(&mut self, parked: &mut Parked, k: usize, name: Option<BlockHash>) -> Option<u32> {
        if k == parked.slots.len() {
            if let Some(same) = name.and_then(|name| self.slots.take(name)) {
                parked.slots.push(same);
                return None;
            }
            parked.slots.push(self.slots.allocate()?);
        }
        let slot = parked.slots[k];
        if let Some(name) = name.filter(|&name| !self.slots.has(name)) {
            self.slots.publish(slot, name);
        }
        Some(slot)
    }

    /// Lets go of all slots of a sequence, and appends those that nobody else holds to `freed`.
    pub fn release(&mut self, parked: &mut Parked, freed: &mut Vec<u32>) {
        parked.tokens = 0;
        while let Some(slot) = parked.slots.pop() {
            if self.slots.holders(slot) == 1 {
                self.slots.unpublish(slot);
                freed.push(slot);
            }
            self.slots.release(slot);
        }
    }

    /// As [`Ledger::release`], when the store has lost some of them: nobody shares any of these slots from now on.
    pub fn lose(&mut self, parked: &mut Parked, freed: &mut Vec<u32>) {
        parked.slots.iter().for_each(|&slot| self.slots.unpublish(slot));
        self.release(parked, freed);
    }

    /// Checks that the slots and `held`, once per holder, tell the same story. For tests.
    ///
    /// # Panics
    /// When they do not.
    pub fn assert_balance<'a>(&self, held: impl IntoIterator<Item = &'a Parked>) {
        self.slots.assert_balance(held.into_iter().flat_map(|parked| parked.slots.iter().copied()));
        assert_eq!(self.slots.counts().cached, 0, "a slot is kept and nobody holds it");
    }
}

/// The name of block `k` of the first `tokens` tokens, when it is full and has one.
fn full(names: &[BlockHash], k: usize, tokens: usize) -> Option<BlockHash> {
    names.get(k).copied().filter(|_| (k + 1) * BLOCK_TOKENS <= tokens)
}
