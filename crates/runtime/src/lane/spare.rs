//! Memory that a lane's KV blocks take though no sequence needs them, and how it goes back to the system.
//!
//! Whoever watches over memory says how many bytes it wants; the lane's thread gives them back between steps, a few blocks
//! at a time, because each is a number of system calls and a step must not wait for all of them.

use plimsoll_model::engine::Engine;
use plimsoll_sched::Planner;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Blocks given back between two steps: a millisecond or two.
const AT_ONCE: usize = 32;

/// What a lane's thread and the watch over memory tell each other. Bytes.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// Of blocks that were written to and that no sequence holds: free ones, and those kept for their contents.
    bytes: AtomicU64,
    wanted: AtomicU64,
}

impl Spare {
    /// What could be given back now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// So many bytes are wanted, in place of what was wanted before. The lane has to be woken.
    pub(crate) fn want(&self, bytes: u64) {
        self.wanted.store(bytes, SeqCst);
    }
}

/// The lane's side.
pub(super) struct Shedder {
    block_bytes: u64,
    /// Blocks that are still to be given back.
    due: usize,
    /// Those of one go; its memory is kept.
    blocks: Vec<u32>,
}

impl Shedder {
    pub(super) fn new(engine: &dyn Engine) -> Self {
        let block_bytes = (engine.block_bytes() as u64).max(1);
        Self { block_bytes, due: 0, blocks: Vec::with_capacity(AT_ONCE) }
    }

    /// Whether there is more to give back.
    pub(super) fn is_due(&self) -> bool {
        self.due > 0
    }

    /// Gives a few blocks back if that is wanted: free ones first, then those left longest ago. Returns whether it is.
    pub(super) fn give_back(
        &mut self,
        spare: &Spare,
        planner: &mut Planner,
        engine: &mut dyn Engine,
    ) -> bool {
        let wanted = spare.wanted.swap(0, SeqCst);
        if wanted > 0 {
            self.due = usize::try_from(wanted.div_ceil(self.block_bytes)).unwrap_or(usize::MAX);
        }
        let now = self.due.min(AT_ONCE);
        if now == 0 {
            return false;
        }
        planner.shed(now.saturating_sub(planner.warm()));
        self.blocks.clear();
        self.blocks.extend_from_slice(planner.cool(now));
        // In order, so that neighbours are given back in one go.
        self.blocks.sort_unstable();
        engine.release_blocks(&self.blocks);
        let is_all = self.blocks.len() < now;
        self.due = if is_all { 0 } else { self.due - now };
        true
    }

    /// Says what could be given back.
    pub(super) fn publish(&self, spare: &Spare, planner: &Planner) {
        let blocks = planner.warm() + planner.block_counts().cached;
        spare.bytes.store(blocks as u64 * self.block_bytes, SeqCst);
    }
}
