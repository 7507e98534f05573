//! Which blocks are free, and how many hold each of the others.

/// Blocks by state; the fields add up to the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Nobody holds them, and their bytes mean nothing.
    pub free: usize,
    /// Nobody holds them, and whoever has the same prefix may have their bytes.
    pub cached: usize,
    /// One holder, who may write.
    pub owned: usize,
    /// Several holders, none of whom may write.
    pub shared: usize,
}

/// The ledger of a slab of blocks, each named by its index. Allocation takes the block released last, whose bytes are
/// the likeliest to be in the processor's cache still, and so is deterministic.
#[derive(Debug, Clone)]
pub struct Blocks {
    /// Holders of each block.
    holders: Vec<u32>,
    /// Free blocks, the next one to hand out last.
    free: Vec<u32>,
    /// The first so many of `free` have no memory of the system's: nobody wrote to them yet, or since they were cooled.
    cold: usize,
    /// Blocks with more than one holder.
    shared: usize,
    /// Blocks without a holder that are not free either: see [`Blocks::keep`].
    kept: usize,
}

impl Blocks {
    /// A slab of `count` free blocks.
    ///
    /// # Panics
    /// When `count` does not fit a `u32`.
    pub fn new(count: usize) -> Self {
        let count = u32::try_from(count).expect("block indices are u32");
        let free: Vec<_> = (0..count).rev().collect();
        Self { holders: vec![0; count as usize], cold: free.len(), free, shared: 0, kept: 0 }
    }

    /// Blocks in the slab.
    pub const fn len(&self) -> usize {
        self.holders.len()
    }

    /// Whether the slab has no blocks at all.
    pub const fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Blocks that can be allocated now.
    pub const fn free(&self) -> usize {
        self.free.len()
    }

    /// Blocks by state.
    pub const fn counts(&self) -> Counts {
        let (free, cached) = (self.free.len(), self.kept);
        Counts { free, cached, owned: self.holders.len() - free - cached - self.shared, shared: self.shared }
    }

    /// Holders of `block`; 0 when it is free or kept.
    pub fn holders(&self, block: u32) -> u32 {
        self.holders[block as usize]
    }

    /// A free block, now with one holder; `None` when there is none.
    pub fn allocate(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        debug_assert_eq!(self.holders[block as usize], 0, "block {block} was on the free list and held");
        self.holders[block as usize] = 1;
        self.cold = self.cold.min(self.free.len());
        Some(block)
    }

    /// Free blocks that were written to and have not been cooled since.
    pub const fn warm(&self) -> usize {
        self.free.len() - self.cold
    }

    /// Up to `count` warm blocks, which count as cold from now on: the caller gives their memory back to the system. They
    /// are handed out after all warm ones.
    pub fn cool(&mut self, count: usize) -> &[u32] {
        let from = self.cold;
        self.cold += count.min(self.warm());
        &self.free[from..self.cold]
    }

    /// Appends `count` free blocks to `out`, or none at all when there are not that many. Tells which.
    pub fn allocate_into(&mut self, count: usize, out: &mut Vec<u32>) -> bool {
        if self.free.len() < count {
            return false;
        }
        out.extend((0..count).map_while(|_| self.allocate()));
        true
    }

    /// One more holder of `block`.
    ///
    /// # Panics
    /// When nobody holds the block: its bytes are nobody's.
    pub fn retain(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        assert!(*holders > 0, "block {block} is free and cannot be retained");
        *holders += 1;
        if *holders == 2 {
            self.shared += 1;
        }
    }

    /// One holder of `block` less; tells whether that was the last one and the block is free now.
    ///
    /// # Panics
    /// When nobody holds the block: somebody released it twice.
    pub fn release(&mut self, block: u32) -> bool {
        let is_last = self.let_go(block);
        if is_last {
            self.free.push(block);
        }
        is_last
    }

    /// As [`Blocks::release`], but the last holder leaves the block with its bytes, neither held nor free, until
    /// [`Blocks::revive`] or [`Blocks::discard`].
    ///
    /// # Panics
    /// When nobody holds the block.
    pub fn keep(&mut self, block: u32) -> bool {
        let is_last = self.let_go(block);
        self.kept += usize::from(is_last);
        is_last
    }

    fn let_go(&mut self, block: u32) -> bool {
        let holders = &mut self.holders[block as usize];
        assert!(*holders > 0, "block {block} was released twice");
        *holders -= 1;
        self.shared -= usize::from(*holders == 1);
        *holders == 0
    }

    /// A kept block has a holder again.
    pub fn revive(&mut self, block: u32) {
        debug_assert_eq!(self.holders[block as usize], 0, "block {block} was not kept");
        self.holders[block as usize] = 1;
        self.kept -= 1;
    }

    /// A kept block is free.
    pub fn discard(&mut self, block: u32) {
        debug_assert_eq!(self.holders[block as usize], 0, "block {block} was not kept");
        self.kept -= 1;
        self.free.push(block);
    }

    /// Checks that the free list, the reference counts and `held` (every holding of a block, once per holder) tell the
    /// same story. For tests and debug builds; takes time in proportion to the slab.
    ///
    /// # Panics
    /// When they do not.
    pub fn assert_balance(&self, held: impl IntoIterator<Item = u32>) {
        let mut counted = vec![0; self.holders.len()];
        for block in held {
            counted[block as usize] += 1;
        }
        assert_eq!(counted, self.holders, "reference counts differ from what is held");
        let unheld = self.holders.iter().filter(|&&holders| holders == 0).count();
        assert_eq!(unheld, self.free.len() + self.kept, "the free list differs from the reference counts");
        let shared = self.holders.iter().filter(|&&holders| holders > 1).count();
        assert_eq!(shared, self.shared, "the count of shared blocks is off");
    }
}
