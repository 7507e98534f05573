//! An order of use over block indices: a doubly linked list in two arrays.

const NONE: u32 = u32::MAX;

/// Block indices from the one used longest ago to the one used last. Each at most once.
#[derive(Debug, Clone)]
pub(crate) struct Lru {
    /// The neighbours of each index: used before it and after it.
    links: Vec<(u32, u32)>,
    oldest: u32,
    newest: u32,
}

impl Lru {
    /// Empty, for indices below `count`.
    pub(crate) fn new(count: usize) -> Self {
        Self { links: vec![(NONE, NONE); count], oldest: NONE, newest: NONE }
    }

    /// Adds an index that is not in the list as the one used last.
    pub(crate) fn push(&mut self, index: u32) {
        self.links[index as usize] = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = index,
            newest => self.links[newest as usize].1 = index,
        }
        self.newest = index;
    }

    /// Takes an index that is in the list out of it.
    pub(crate) fn remove(&mut self, index: u32) {
        let (before, after) = self.links[index as usize];
        match before {
            NONE => self.oldest = after,
            before => self.links[before as usize].1 = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.links[after as usize].0 = before,
        }
    }

    /// Takes the one used longest ago out.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let oldest = (self.oldest != NONE).then_some(self.oldest)?;
        self.remove(oldest);
        Some(oldest)
    }

    /// From the one used longest ago on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let some = |index| (index != NONE).then_some(index);
        std::iter::successors(some(self.oldest), move |&index| some(self.links[index as usize].1))
    }
}
