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
}

fn slot(blocks: &[u32], position: usize) -> usize {
    blocks[position / BLOCK] as usize * BLOCK + position % BLOCK
}
