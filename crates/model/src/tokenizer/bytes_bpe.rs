//! Byte-level BPE (`tokenizer.ggml.model` = `gpt2`): words of bytes, joined by the vocabulary's list of merges.

use super::bound::Bound;
use super::merge::{NONE, Scratch};
use super::pieces::{Lookup, Pieces};
use super::pretokenize::PreTokenizer;
use hashbrown::HashMap;

/// Byte-level BPE.
pub(super) struct BytesBpe {
    words: PreTokenizer,
    /// The token of each byte, [`NONE`] where the vocabulary has none.
    bytes: [u32; 256],
    /// `(left, right)` to `(rank, joined)`.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// Finds whole words, when merges do not matter for them.
    whole: Option<Lookup>,
}

impl BytesBpe {
    /// `tokens` and `merges` are in the byte alphabet, `left right`. A merge whose parts or result are no tokens could
    /// never lead to one, and is left out.
    pub(super) fn new(words: PreTokenizer, pieces: &Pieces, tokens: &[String], merges: &[String]) -> Self {
        let ids: HashMap<&str, u32> = tokens.iter().map(String::as_str).zip(0..).collect();
        let mut text = String::new();
        let bytes =
            super::alphabet::chars().map(|c| ids.get(c.encode_utf8(&mut [0; 4])).copied().unwrap_or(NONE));
        let mut table = HashMap::with_capacity(merges.len());
        for (merge, rank) in merges.iter().zip(0u32..) {
            // A token may itself begin with a space, hence not the first byte.
            let Some(at) = merge.bytes().skip(1).position(|b| b == b' ').map(|at| at + 1) else { continue };
            let (Some(left), Some(right)) = (merge.get(..at), merge.get(at + 1..)) else { continue };
            text.clear();
            text.push_str(left);
            text.push_str(right);
            if let (Some(&l), Some(&r), Some(&joined)) =
                (ids.get(left), ids.get(right), ids.get(text.as_str()))
            {
                table.entry((l, r)).or_insert((rank, joined));
            }
        }
        table.shrink_to_fit();
        let whole = words.ignore_merges.then(|| Lookup::new(pieces, |id| !pieces.is_special(id)));
        Self { words, bytes, merges: table, whole }
    }

    pub(super) fn bound(&self) -> Bound {
        Bound::bytes(&self.bytes)
    }

    /// Appends the tokens of `text`. Bytes that are no token are left out, as in llama.cpp.
    pub(super) fn encode(&self, pieces: &Pieces, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        self.words.split(text, &mut |word| match self
            .whole
            .as_ref()
            .and_then(|whole| whole.find(pieces, word.as_bytes()))
        {
            Some(id) => ids.push(id),
            None => self.word(word, scratch, ids),
        });
    }

    fn word(&self, word: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        scratch.clear();
        for byte in word.bytes() {
            scratch.push(self.bytes[usize::from(byte)], 1);
        }
        scratch.merge(|left, right| self.merges.get(&(left.id, right.id)).copied());
        ids.extend(scratch.symbols().map(|symbol| symbol.id).filter(|&id| id != NONE));
    }
}
