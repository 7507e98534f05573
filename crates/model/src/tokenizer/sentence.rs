//! SentencePiece BPE (`tokenizer.ggml.model` = `llama`): characters joined into whatever token scores best, bytes for
//! what no token covers (Kudo and Richardson, 2018). No words: the whole text is one stretch.

use super::bound::{self, Bound};
use super::merge::{NONE, Scratch};
use super::pieces::{Lookup, Pieces};

/// What stands for a space in the vocabulary.
pub(super) const SPACE: char = '\u{2581}';

/// SentencePiece BPE.
pub(super) struct Sentence {
    lookup: Lookup,
    /// By token: lower is joined first.
    ranks: Vec<u32>,
    /// The token of each byte, [`NONE`] where the vocabulary has none.
    bytes: [u32; 256],
    unknown: Option<u32>,
}

impl Sentence {
    /// `plain` names the tokens that text may become: no control, byte or unused ones, so that writing `</s>` does not
    /// end a text. Missing scores are 0.
    pub(super) fn new(
        pieces: &Pieces,
        scores: &[f32],
        bytes: [u32; 256],
        unknown: Option<u32>,
        plain: impl Fn(u32) -> bool,
    ) -> Self {
        let scores = scores.iter().copied().chain(std::iter::repeat(0.0)).take(pieces.len());
        Self { lookup: Lookup::new(pieces, plain), ranks: scores.map(rank).collect(), bytes, unknown }
    }

    pub(super) fn bound(&self) -> Bound {
        Bound::characters(bound::of_bytes(&self.bytes).or(self.unknown.map(|_| 1)))
    }

    /// Appends the tokens of `text`, with a space put before it when `prefix`.
    pub(super) fn encode(
        &self,
        pieces: &Pieces,
        text: &str,
        prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<u32>,
    ) {
        // The vocabulary's stand-in for a space means a space in a text too; pieces hold real spaces.
        let mut spaced = String::with_capacity(text.len() + 1);
        spaced.extend(prefix.then_some(' '));
        spaced.extend(text.chars().map(|c| if c == SPACE { ' ' } else { c }));
        let text = spaced.as_bytes();
        scratch.clear();
        for (at, c) in spaced.char_indices() {
            let bytes = &text[at..at + c.len_utf8()];
            scratch.push(self.lookup.find(pieces, bytes).unwrap_or(NONE), bytes.len());
        }
        scratch.merge(|left, right| {
            let id = self.lookup.find(pieces, &text[left.range().start..right.range().end])?;
            Some((self.ranks[id as usize], id))
        });
        for symbol in scratch.symbols() {
            if symbol.id == NONE {
                self.spell(&text[symbol.range()], ids);
            } else {
                ids.push(symbol.id);
            }
        }
    }

    fn spell(&self, bytes: &[u8], ids: &mut Vec<u32>) {
        let tokens = bytes.iter().map(|&byte| self.bytes[usize::from(byte)]);
        if tokens.clone().all(|id| id != NONE) {
            ids.extend(tokens);
        } else {
            ids.extend(self.unknown);
        }
    }
}

/// Maps scores to ranks, highest score to lowest rank; NaN goes last.
fn rank(score: f32) -> u32 {
    let bits = if score.is_nan() { f32::NEG_INFINITY } else { score }.to_bits();
    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_scores_have_lower_ranks() {
        let scores = [f32::INFINITY, 2.0, 0.5, 0.0, -1.0, -2.0, f32::NEG_INFINITY];
        assert!(scores.map(rank).is_sorted_by(|a, b| a < b));
        assert_eq!(rank(f32::NAN), rank(f32::NEG_INFINITY));
    }
}
