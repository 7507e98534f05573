//! Blocks that sequences with the same beginning share, also after each other.

use crate::blocks::{Blocks, Counts};
use crate::hash::{BlockHash, ByHash};
use crate::lru::Lru;
use std::collections::HashMap;

/// A slab of blocks whose full ones can be found by what is in them. A block in the index that loses its last holder is
/// kept until its space is wanted; the one left longest ago goes first.
///
/// Two rules of its users make every block that is kept reachable from its beginning: a sequence publishes its blocks
/// from position 0 on, each time going on with the block that [`PrefixCache::publish`] names, and it releases them from
/// the last to the first. So whoever holds a block of a chain holds the one before it, and a block is always left, and
/// evicted, before the one before it.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    blocks: Blocks,
    index: HashMap<BlockHash, u32, ByHash>,
    /// The name of each block that is in the index.
    names: Vec<Option<BlockHash>>,
    /// Indexed blocks that nobody holds.
    unheld: Lru,
}

impl PrefixCache {
    /// A slab of `count` free blocks.
    ///
    /// # Panics
    /// When `count` does not fit a `u32`.
    pub fn new(count: usize) -> Self {
        Self {
            blocks: Blocks::new(count),
            // Never more than half full: a table of this kind then cleans up in place, and never allocates again.
            index: HashMap::with_capacity_and_hasher(2 * count, ByHash::default()),
            names: vec![None; count],
            unheld: Lru::new(count),
        }
    }

    /// Blocks by state.
    pub const fn counts(&self) -> Counts {
        self.blocks.counts()
    }

    /// Blocks that can be allocated now: free ones, and those only kept.
    pub const fn available(&self) -> usize {
        let Counts { free, cached, .. } = self.counts();
        free + cached
    }

    /// Holders of `block`.
    pub fn holders(&self, block: u32) -> u32 {
        self.blocks.holders(block)
    }

    /// A block nobody holds, now with one holder. A kept one only when none is free. `None` when all are held.
    pub fn allocate(&mut self) -> Option<u32> {
        if self.blocks.free() == 0 {
            self.shed(1);
        }
        self.blocks.allocate()
    }

    /// Appends `count` blocks to `out`, or none at all when there are not that many. Tells which.
    pub fn allocate_into(&mut self, count: usize, out: &mut Vec<u32>) -> bool {
        self.shed(count.saturating_sub(self.blocks.free()));
        self.blocks.allocate_into(count, out)
    }

    /// One more holder of a block that is held.
    ///
    /// # Panics
    /// When nobody holds it.
    pub fn retain(&mut self, block: u32) {
        self.blocks.retain(block);
    }

    /// One holder of `block` less.
    ///
    /// # Panics
    /// When nobody holds it.
    pub fn release(&mut self, block: u32) {
        if self.names[block as usize].is_none() {
            self.blocks.release(block);
        } else if self.blocks.keep(block) {
            self.unheld.push(block);
        }
    }

    /// Releases `blocks` of one sequence, in order of position, from the last to the first.
    pub fn release_all(&mut self, blocks: &mut Vec<u32>) {
        while let Some(block) = blocks.pop() {
            self.release(block);
        }
    }

    /// Whether the block of this name is there.
    pub fn has(&self, name: BlockHash) -> bool {
        self.index.contains_key(&name)
    }

    /// The block of this name, with one more holder.
    pub fn take(&mut self, name: BlockHash) -> Option<u32> {
        let block = *self.index.get(&name)?;
        if self.blocks.holders(block) == 0 {
            self.unheld.remove(block);
            self.blocks.revive(block);
        } else {
            self.blocks.retain(block);
        }
        Some(block)
    }

    /// The longest beginning of `names` that is there: appends its blocks to `out`, each with one more holder.
    pub fn take_longest(&mut self, names: &[BlockHash], out: &mut Vec<u32>) {
        out.extend(names.iter().map_while(|&name| self.take(name)));
    }

    /// A held block is full and has this name from now on. Returns the block to go on with: another one when the name
    /// was there already (it has the same bytes), and then `block` has one holder less and the other one more.
    pub fn publish(&mut self, block: u32, name: BlockHash) -> u32 {
        if self.names[block as usize] == Some(name) {
            return block;
        }
        debug_assert!(self.names[block as usize].is_none(), "block {block} was written to after it was full");
        if let Some(same) = self.take(name) {
            self.release(block);
            return same;
        }
        self.index.insert(name, block);
        self.names[block as usize] = Some(name);
        block
    }

    /// Free blocks whose bytes take memory of the system's: see [`Blocks::cool`].
    pub const fn warm(&self) -> usize {
        self.blocks.warm()
    }

    /// Up to `count` free blocks whose memory is given back to the system: see [`Blocks::cool`].
    pub fn cool(&mut self, count: usize) -> &[u32] {
        self.blocks.cool(count)
    }

    /// Nobody finds a held block by its name any more.
    pub fn unpublish(&mut self, block: u32) {
        if let Some(name) = self.names[block as usize].take() {
            self.index.remove(&name);
        }
    }

    /// Gives up to `count` kept blocks up, the one left longest ago first. Returns how many.
    pub fn shed(&mut self, count: usize) -> usize {
        let shed = (0..count).map_while(|_| self.unheld.pop().map(|block| self.forget(block)));
        shed.count()
    }

    fn forget(&mut self, block: u32) {
        self.unpublish(block);
        self.blocks.discard(block);
    }

    /// Checks that index, order of use, reference counts and `held` (every holding of a block, once per holder) tell
    /// the same story. For tests; takes time in proportion to the slab.
    ///
    /// # Panics
    /// When they do not.
    pub fn assert_balance(&self, held: impl IntoIterator<Item = u32>) {
        self.blocks.assert_balance(held);
        let named = self.names.iter().flatten().count();
        assert_eq!(named, self.index.len(), "the index has blocks without a name");
        for (name, &block) in &self.index {
            assert_eq!(
                self.names[block as usize],
                Some(*name),
                "block {block} is in the index by another name"
            );
        }
        let mut unheld = 0;
        for block in self.unheld.iter() {
            assert!(self.blocks.holders(block) == 0 && self.names[block as usize].is_some(), "{block}");
            unheld += 1;
        }
        assert_eq!(unheld, self.counts().cached, "kept blocks are missing from the order of use");
    }
}
