//! Names of blocks: a chained, keyed hash of the tokens in them and before them.
//!
//! A block's name says all that its K and V depend on: two blocks of one name have the same tokens from position 0 on.
//! Names are 128 bits of SipHash-1-3 (Aumasson and Bernstein, 2012) under a key drawn when the server starts, so nobody
//! can look for two prompts of one name, and a collision by chance is not to be expected in any server's lifetime.

use crate::BLOCK_TOKENS;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

/// The name of a full block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockHash(pub u128);

/// What names are made with; secret, and different in every process.
#[derive(Clone, Copy)]
pub struct HashKey(pub [u64; 2]);

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

/// The names of a sequence's blocks, one after the other. Sequences of different tenants or salts have different names
/// for the same tokens: neither finds the other's blocks, and so cannot tell by the time it takes what the other asked.
#[derive(Debug, Clone)]
pub struct Chain {
    key: HashKey,
    last: u128,
}

impl Chain {
    /// The chain of a sequence without tokens.
    pub fn new(key: HashKey, tenant: u32, salt: &str) -> Self {
        let mut hasher = hasher(key);
        hasher.write(&tenant.to_le_bytes());
        hasher.write(salt.as_bytes());
        Self { key, last: hasher.finish128().as_u128() }
    }

    /// The name of the next block, which has these tokens.
    pub fn block(&mut self, tokens: &[u32; BLOCK_TOKENS]) -> BlockHash {
        let mut bytes = [0; size_of::<u128>() + size_of::<[u32; BLOCK_TOKENS]>()];
        let (parent, words) = bytes.split_at_mut(size_of::<u128>());
        parent.copy_from_slice(&self.last.to_le_bytes());
        for (word, token) in words.chunks_exact_mut(4).zip(tokens) {
            word.copy_from_slice(&token.to_le_bytes());
        }
        let mut hasher = hasher(self.key);
        hasher.write(&bytes);
        self.last = hasher.finish128().as_u128();
        BlockHash(self.last)
    }

    /// Appends the names of the full blocks of `tokens` to `out`. What is left over at the end is not part of the chain
    /// yet.
    pub fn extend(&mut self, tokens: &[u32], out: &mut Vec<BlockHash>) {
        let (blocks, _) = tokens.as_chunks::<BLOCK_TOKENS>();
        out.extend(blocks.iter().map(|block| self.block(block)));
    }
}

fn hasher(key: HashKey) -> SipHasher13 {
    SipHasher13::new_with_keys(key.0[0], key.0[1])
}

/// For maps by [`BlockHash`], which need no second hash.
pub(crate) type ByHash = BuildHasherDefault<Low64>;

#[derive(Debug, Default)]
pub(crate) struct Low64(u64);

impl Hasher for Low64 {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("block names are one u128");
    }

    fn write_u128(&mut self, name: u128) {
        self.0 = name as u64;
    }
}
