//! KV blocks that hold, instead of numbers, which token was written at which position.

/// Tokens in a block.
pub(super) const BLOCK: usize = plimsoll_model::engine::BLOCK_TOKENS;

pub(super) struct FakeKv {
    /// `(position, token)` of each slot.
    slots: Vec<Option<(usize, u32)>>,
}

impl FakeKv {
    pub(super) fn new(blocks: usize) -> Self {
        Self { slots: vec![None; blocks * BLOCK] }
    }

    pub(super) fn write(&mut self, blocks: &[u32], position: usize, token: u32) {
        self.slots[slot(blocks, position)] = Some((position, token));
    }

    /// Reads positions 0 to `last` into `out`, and says how many of them were never written for that position.
    pub(super) fn read(&self, blocks: &[u32], last: usize, out: &mut Vec<u32>) -> usize {
        out.clear();
        let mut stale = 0;
        for position in 0..=last {
            let (written, token) = self.slots[slot(blocks, position)].unwrap_or((usize::MAX, u32::MAX));
            stale += usize::from(written != position);
            out.push(token);
        }
        stale
    }

    pub(super) fn forget(&mut self, block: u32) {
        self.slots[block as usize * BLOCK..][..BLOCK].fill(None);
    }

    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let from = from as usize * BLOCK;
        self.slots.copy_within(from..from + BLOCK, to as usize * BLOCK);
    }

    pub(super) fn save(&self, block: u32, to: &mut [u8]) {
        let slots = &self.slots[block as usize * BLOCK..][..BLOCK];
        for (slot, to) in slots.iter().zip(to.chunks_exact_mut(SLOT)) {
            let (position, token) = slot.map_or((u64::MAX, u32::MAX), |(p, t)| (p as u64, t));
            to[..8].copy_from_slice(&position.to_ne_bytes());
            to[8..].copy_from_slice(&token.to_ne_bytes());
        }
    }

    pub(super) fn load(&mut self, block: u32, from: &[u8]) {
        let slots = &mut self.slots[block as usize * BLOCK..][..BLOCK];
        for (slot, from) in slots.iter_mut().zip(from.chunks_exact(SLOT)) {
            let (position, token) = from.split_at(8);
            let position = u64::from_ne_bytes(std::array::from_fn(|i| position[i]));
            let token = u32::from_ne_bytes(std::array::from_fn(|i| token[i]));
            *slot = (position != u64::MAX).then_some((position as usize, token));
        }
    }
}

/// Bytes of a saved slot.
const SLOT: usize = 12;

/// Bytes of a saved block.
pub(super) const BLOCK_BYTES: usize = SLOT * BLOCK;

fn slot(blocks: &[u32], position: usize) -> usize {
    blocks[position / BLOCK] as usize * BLOCK + position % BLOCK
}
