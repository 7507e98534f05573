//! The bytes of every token, in one block of memory.

/// The bytes of every token, by id.
#[derive(Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where each token's bytes end; they begin where the one before ends.
    ends: Vec<u32>,
    special: Vec<bool>,
    longest: usize,
}

impl Pieces {
    pub(super) fn push(&mut self, bytes: &[u8], special: bool) {
        self.bytes.extend_from_slice(bytes);
        // A vocabulary past 4 GiB is refused by every reader of model files long before.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        self.special.push(special);
        self.longest = self.longest.max(bytes.len());
    }

    /// Gives back what growing left over.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.special.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)? as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.bytes.get(start..end)
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0u32..).map_while(|id| Some((id, self.bytes(id)?)))
    }
}

/// Finds a token by its bytes: a hash table of ids whose keys are in [`Pieces`].
pub(super) struct Lookup {
    table: hashbrown::HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl Lookup {
    /// Indexes the tokens that `wanted` names. Of two with equal bytes the later wins, as in llama.cpp.
    pub(super) fn new(pieces: &Pieces, wanted: impl Fn(u32) -> bool) -> Self {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let mut table = hashbrown::HashTable::with_capacity(pieces.len());
        for (id, bytes) in pieces.iter().filter(|&(id, _)| wanted(id)) {
            let found = table.find_mut(hash(&hasher, bytes), |&other| pieces.bytes(other) == Some(bytes));
            match found {
                Some(slot) => *slot = id,
                None => {
                    table.insert_unique(hash(&hasher, bytes), id, |&other| {
                        hash(&hasher, pieces.bytes(other).unwrap_or_default())
                    });
                }
            }
        }
        Self { table, hasher }
    }

    pub(super) fn find(&self, pieces: &Pieces, bytes: &[u8]) -> Option<u32> {
        // No token is longer, and hashing the whole of a long stretch again and again would be quadratic.
        if bytes.len() > pieces.longest() {
            return None;
        }
        self.table.find(hash(&self.hasher, bytes), |&id| pieces.bytes(id) == Some(bytes)).copied()
    }
}

fn hash(hasher: &hashbrown::DefaultHashBuilder, bytes: &[u8]) -> u64 {
    std::hash::BuildHasher::hash_one(hasher, bytes)
}
