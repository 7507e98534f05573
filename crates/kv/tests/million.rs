//! A million random operations on blocks, names and slots, against a toy that knows what must be in each of them.

use plimsoll_kv::{BLOCK_TOKENS, BlockHash, Chain, Counts, HashKey, Ledger, Move, Parked, PrefixCache};

const RUNS: u64 = 100;
const OPERATIONS: usize = 10_000;
const LONGEST: usize = 150;

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = mix(self.0);
        (self.0 % n as u64) as usize
    }
}

/// A sequence: its tokens, and where what was computed of them is. It has blocks, or is parked.
#[derive(Clone)]
struct Sequence {
    tokens: Vec<u32>,
    /// What is in the cache at each position: it depends on all tokens up to there.
    contents: Vec<u64>,
    chain: Chain,
    names: Vec<BlockHash>,
    blocks: Vec<u32>,
    published: usize,
    parked: Parked,
}

impl Sequence {
    fn new(tenant: u32) -> Self {
        let chain = Chain::new(HashKey([5, 6]), tenant, "");
        let (tokens, contents, names, blocks, parked) = Default::default();
        Self { tokens, contents, chain, names, blocks, published: 0, parked }
    }

    fn push(&mut self, token: u32) {
        let tenant_and_tokens = self.contents.last().copied().unwrap_or(1);
        self.contents.push(mix(tenant_and_tokens ^ u64::from(token)));
        self.tokens.push(token);
        if let ([], [.., block]) = self.tokens.as_rchunks() {
            self.names.push(self.chain.block(block));
        }
    }

    fn is_running(&self) -> bool {
        !self.blocks.is_empty()
    }
}

struct Toy {
    random: Random,
    kv: PrefixCache,
    ledger: Ledger,
    blocks: Vec<[u64; BLOCK_TOKENS]>,
    slots: Vec<[u64; BLOCK_TOKENS]>,
    sequences: Vec<Sequence>,
    /// Tokens that were found by name, forked and loaded.
    found: usize,
    forked: usize,
    loaded: usize,
}

impl Toy {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let (blocks, slots) = (4 + random.below(60), random.below(80));
        Self {
            random,
            kv: PrefixCache::new(blocks),
            ledger: Ledger::new(slots),
            blocks: vec![[0; BLOCK_TOKENS]; blocks],
            slots: vec![[0; BLOCK_TOKENS]; slots],
            sequences: Vec::new(),
            found: 0,
            forked: 0,
            loaded: 0,
        }
    }

    fn any(&mut self, which: fn(&Sequence) -> bool) -> Option<Sequence> {
        let found: Vec<_> = (0..self.sequences.len()).filter(|&i| which(&self.sequences[i])).collect();
        let i = *found.get(self.random.below(found.len().max(1)))?;
        Some(self.sequences.swap_remove(i))
    }

    fn operate(&mut self) {
        match self.random.below(12) {
            0 => self.create(),
            1 => self.fork(),
            2 => self.park(),
            3 => self.resume(),
            4 if self.sequences.len() > 12 || self.random.below(4) == 0 => self.cancel(),
            5 if self.random.below(3) == 0 => {
                let count = self.random.below(self.blocks.len());
                assert!(self.kv.shed(count) <= count);
            }
            6 if self.random.below(4) == 0 => self.lose(),
            _ => self.append(),
        }
    }

    /// A prompt of one of three families, cut somewhere; or one of its own.
    fn create(&mut self) {
        let (family, len) = (self.random.below(4) as u32, 1 + self.random.below(LONGEST - 20));
        let mut sequence = Sequence::new(family % 2);
        let noise = self.random.0 as u32;
        for at in 0..len as u32 {
            sequence.push(if family == 3 { noise ^ at } else { at / (family / 2 + 1) });
        }
        if self.join(&mut sequence) {
            self.sequences.push(sequence);
        }
    }

    /// Gives a sequence without blocks all it needs, or nothing.
    fn join(&mut self, sequence: &mut Sequence) -> bool {
        let len = sequence.tokens.len();
        self.kv.take_longest(&sequence.names, &mut sequence.blocks);
        let found = sequence.blocks.len();
        if !self.kv.allocate_into(len.div_ceil(BLOCK_TOKENS) - found, &mut sequence.blocks) {
            self.kv.release_all(&mut sequence.blocks);
            return false;
        }
        self.found += found;
        sequence.published = found;
        let parked = sequence.parked.slots();
        for (k, &slot) in parked.iter().enumerate().skip(found) {
            self.blocks[sequence.blocks[k] as usize] = self.slots[slot as usize];
            self.loaded += 1;
        }
        let computed = sequence.parked.tokens().max(found * BLOCK_TOKENS);
        self.write(sequence, computed);
        true
    }

    /// Computes the tokens of a sequence from `from` on.
    fn write(&mut self, sequence: &mut Sequence, from: usize) {
        for at in from..sequence.tokens.len() {
            let block = sequence.blocks[at / BLOCK_TOKENS];
            assert_eq!(self.kv.holders(block), 1, "others read block {block}, which is written to");
            self.blocks[block as usize][at % BLOCK_TOKENS] = sequence.contents[at];
        }
        for k in sequence.published..sequence.names.len() {
            sequence.blocks[k] = self.kv.publish(sequence.blocks[k], sequence.names[k]);
        }
        sequence.published = sequence.names.len();
        self.check(sequence);
    }

    /// All that a sequence reads is its own.
    fn check(&self, sequence: &Sequence) {
        for (at, &content) in sequence.contents.iter().enumerate() {
            let block = sequence.blocks[at / BLOCK_TOKENS];
            assert_eq!(self.blocks[block as usize][at % BLOCK_TOKENS], content, "position {at}");
        }
    }

    fn append(&mut self) {
        let Some(mut sequence) = self.any(|s| s.is_running() && s.tokens.len() < LONGEST) else { return };
        let at = sequence.tokens.len();
        if !at.is_multiple_of(BLOCK_TOKENS) || self.kv.allocate_into(1, &mut sequence.blocks) {
            sequence.push(self.random.below(2) as u32);
            self.write(&mut sequence, at);
        }
        self.sequences.push(sequence);
    }

    fn fork(&mut self) {
        let Some(origin) = self.any(Sequence::is_running) else { return };
        let mut fork = Sequence { parked: Parked::default(), blocks: Vec::new(), ..origin.clone() };
        let whole = fork.tokens.len() / BLOCK_TOKENS;
        for &block in &origin.blocks[..whole] {
            self.kv.retain(block);
            fork.blocks.push(block);
        }
        let own = origin.blocks.len() - whole;
        if self.kv.allocate_into(own, &mut fork.blocks) {
            for k in whole..origin.blocks.len() {
                self.blocks[fork.blocks[k] as usize] = self.blocks[origin.blocks[k] as usize];
            }
            self.check(&fork);
            self.forked += fork.tokens.len();
            self.sequences.push(fork);
        } else {
            self.kv.release_all(&mut fork.blocks);
        }
        self.sequences.push(origin);
    }

    fn park(&mut self) {
        let Some(mut sequence) = self.any(Sequence::is_running) else { return };
        let (mut moves, len) = (Vec::new(), sequence.tokens.len());
        let (writes, slots) = self.ledger.wanted(&sequence.parked, &sequence.names, len);
        let fits = slots <= self.ledger.free();
        let free = self.ledger.free();
        let Sequence { parked, blocks, names, .. } = &mut sequence;
        assert_eq!(self.ledger.park(parked, blocks, names, len, &mut moves), fits);
        if fits {
            assert_eq!((moves.len(), free - self.ledger.free()), (writes, slots));
            assert_eq!(parked.tokens(), len);
        }
        for &Move { block, slot } in &moves {
            self.slots[slot as usize] = self.blocks[block as usize];
        }
        self.kv.release_all(&mut sequence.blocks);
        self.sequences.push(sequence);
    }

    fn resume(&mut self) {
        let Some(mut sequence) = self.any(|s| !s.is_running()) else { return };
        self.join(&mut sequence);
        self.sequences.push(sequence);
    }

    fn cancel(&mut self) {
        let Some(mut sequence) = self.any(|_| true) else { return };
        self.kv.release_all(&mut sequence.blocks);
        self.free_slots(&mut sequence, Ledger::release);
    }

    /// The store lost what it has of a sequence.
    fn lose(&mut self) {
        let Some(mut sequence) = self.any(|s| s.parked.tokens() > 0) else { return };
        self.free_slots(&mut sequence, Ledger::lose);
        self.sequences.push(sequence);
    }

    fn free_slots(&mut self, sequence: &mut Sequence, by: fn(&mut Ledger, &mut Parked, &mut Vec<u32>)) {
        let (free, mut freed) = (self.ledger.free(), Vec::new());
        by(&mut self.ledger, &mut sequence.parked, &mut freed);
        assert_eq!(free + freed.len(), self.ledger.free());
        for slot in freed {
            self.slots[slot as usize] = [0; BLOCK_TOKENS];
        }
    }

    fn assert_balance(&self) {
        self.kv.assert_balance(self.sequences.iter().flat_map(|s| s.blocks.iter().copied()));
        self.ledger.assert_balance(self.sequences.iter().map(|s| &s.parked));
        for sequence in &self.sequences {
            let known: Vec<_> = sequence.names.iter().map(|&name| self.kv.has(name)).collect();
            assert!(known.is_sorted_by(|a, b| a >= b), "a block is kept without its beginning: {known:?}");
        }
    }
}

#[test]
fn nothing_leaks_and_nothing_is_shared_that_should_not_be() {
    let (mut found, mut forked, mut loaded) = (0, 0, 0);
    for seed in 0..RUNS {
        let mut toy = Toy::new(seed);
        for operation in 0..OPERATIONS {
            toy.operate();
            if operation % 16 == 0 {
                toy.assert_balance();
            }
        }
        (found, forked, loaded) = (found + toy.found, forked + toy.forked, loaded + toy.loaded);
        while !toy.sequences.is_empty() {
            toy.cancel();
        }
        toy.assert_balance();
        let Counts { free, cached, .. } = toy.kv.counts();
        assert_eq!((free + cached, toy.ledger.used()), (toy.blocks.len(), 0), "run {seed}");
        assert_eq!(toy.kv.shed(usize::MAX), cached);
    }
    assert!(found.min(forked).min(loaded) > 10_000, "{found} found, {forked} forked, {loaded} loaded");
}
