//! Byte-pair merging: joins the best pair of neighbours until none can be joined (Sennrich et al., 2016).
//!
//! A heap holds the pairs, so n symbols take n log n steps however they merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// No token.
pub(super) const NONE: u32 = u32::MAX;

/// A stretch of the text that is, or may become, a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    /// Token id, [`NONE`] when there is none for these bytes.
    pub(super) id: u32,
    start: u32,
    /// 0: merged into the symbol before it.
    len: u32,
    prev: u32,
    next: u32,
}

impl Symbol {
    /// Bytes of the text it covers.
    pub(super) fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// A pair that may be joined.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// Lower goes first.
    rank: u32,
    /// Index of the left symbol; among equal ranks the leftmost goes first.
    left: u32,
    /// Length of the two together: when it has changed since, this entry is out of date.
    len: u32,
    /// What they become.
    id: u32,
}

/// Buffers of one encoding, used for each stretch of text in turn.
#[derive(Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Reverse<Pair>>,
}

impl Scratch {
    /// Forgets the last stretch.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.pairs.clear();
    }

    /// Appends a symbol of `len` bytes that begins where the last one ends.
    pub(super) fn push(&mut self, id: u32, len: usize) {
        let at = self.symbols.len() as u32;
        let start = self.symbols.last_mut().map_or(0, |last| {
            last.next = at;
            last.start + last.len
        });
        self.symbols.push(Symbol { id, start, len: len as u32, prev: at.wrapping_sub(1), next: NONE });
    }

    /// Merges as long as `join` has a rank and a token for two neighbours, lowest rank first.
    pub(super) fn merge(&mut self, join: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        for left in 1..self.symbols.len() as u32 {
            self.propose(left - 1, &join);
        }
        while let Some(Reverse(pair)) = self.pairs.pop() {
            let left = self.symbols[pair.left as usize];
            if left.len == 0
                || left.next == NONE
                || left.len + self.symbols[left.next as usize].len != pair.len
            {
                continue;
            }
            self.join(&pair, left);
            if left.prev != NONE {
                self.propose(left.prev, &join);
            }
            self.propose(pair.left, &join);
        }
    }

    fn join(&mut self, pair: &Pair, left: Symbol) {
        let right = &mut self.symbols[left.next as usize];
        let after = right.next;
        right.len = 0;
        self.symbols[pair.left as usize] = Symbol { id: pair.id, len: pair.len, next: after, ..left };
        if after != NONE {
            self.symbols[after as usize].prev = pair.left;
        }
    }

    fn propose(&mut self, at: u32, join: &impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        let left = &self.symbols[at as usize];
        let Some(right) = self.symbols.get(left.next as usize) else { return };
        if let Some((rank, id)) = join(left, right) {
            self.pairs.push(Reverse(Pair { rank, left: at, len: left.len + right.len, id }));
        }
    }

    /// What is left, in the order of the text.
    pub(super) fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.len > 0)
    }
}
