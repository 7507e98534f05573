//! How few tokens a text can be, known without cutting it.
//!
//! A tokenizer that loses nothing gives every character of a text to some token, and no token has more characters than
//! the longest one has bytes. What may lose characters (blanks that are cut off, a long word that becomes one unknown
//! token) has no such bound. One that works on bytes loses those that are no token and no others, and they are known.

use super::merge::NONE;
use super::pieces::Pieces;
use tokenizers::normalizers::NormalizerWrapper as Normalizer;
use tokenizers::pre_tokenizers::PreTokenizerWrapper as PreTokenizer;
use tokenizers::{AddedToken, ModelWrapper, SplitDelimiterBehavior, Tokenizer as Inner};

/// Most characters that composing (NFC, NFKC) makes one of: a letter and three marks.
const COMPOSED: usize = 4;

/// What is sure about the tokens of a text.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    /// Nothing.
    Unknown,
    /// At most so many characters of a text become one character of its tokens.
    Characters(usize),
    /// Each of these bytes of a text becomes one byte of its tokens.
    Bytes(Box<[bool; 256]>),
}

impl Bound {
    pub(super) fn characters(shrinks: Option<usize>) -> Self {
        shrinks.map_or(Self::Unknown, Self::Characters)
    }

    /// Of a vocabulary in which `bytes` are the tokens of single bytes, [`NONE`] where there is none.
    pub(super) fn bytes(bytes: &[u32; 256]) -> Self {
        Self::Bytes(Box::new(bytes.map(|id| id != NONE)))
    }

    /// The fewest tokens of `text`, when none has more than `longest` bytes.
    pub(super) fn at_least(&self, text: &str, longest: usize) -> usize {
        let longest = longest.max(1);
        match self {
            Self::Unknown => 0,
            Self::Characters(by) => text.chars().count() / (by * longest),
            Self::Bytes(kept) => text.bytes().filter(|&byte| kept[usize::from(byte)]).count() / longest,
        }
    }
}

/// 1 when every byte that a text may have is a token (the entry of `bytes` is not [`NONE`]); otherwise `None`.
pub(super) fn of_bytes(bytes: &[u32; 256]) -> Option<usize> {
    (0..=u8::MAX).zip(bytes).all(|(byte, &id)| id != NONE || !is_in_texts(byte)).then_some(1)
}

/// UTF-8 has no use for the others.
fn is_in_texts(byte: u8) -> bool {
    !matches!(byte, 0xC0 | 0xC1 | 0xF5..)
}

/// How many characters of a text at most become one of what a `tokenizer.json` cuts into tokens; `None`: any number.
pub(super) fn of_json(inner: &Inner, pieces: &Pieces) -> Option<usize> {
    let takes_blanks = |token: &AddedToken| token.lstrip || token.rstrip;
    if inner.get_added_tokens_decoder().values().any(takes_blanks) || !keeps_all(inner.get_pre_tokenizer()) {
        return None;
    }
    match inner.get_model() {
        ModelWrapper::BPE(bpe)
            if bpe.continuing_subword_prefix.is_none()
                && bpe.end_of_word_suffix.is_none()
                && every_byte_is_a_token(pieces) =>
        {
            of_normalizer(inner.get_normalizer())
        }
        _ => None,
    }
}

fn of_normalizer(normalizer: Option<&Normalizer>) -> Option<usize> {
    match normalizer {
        None | Some(Normalizer::NFD(_) | Normalizer::NFKD(_) | Normalizer::Prepend(_)) => Some(1),
        Some(Normalizer::NFC(_) | Normalizer::NFKC(_)) => Some(COMPOSED),
        Some(_) => None,
    }
}

/// Whether words are cut in the byte alphabet and nothing between them is dropped.
fn keeps_all(words: Option<&PreTokenizer>) -> bool {
    fn keeps(step: &PreTokenizer) -> bool {
        match step {
            PreTokenizer::ByteLevel(_) | PreTokenizer::Digits(_) => true,
            PreTokenizer::Split(split) => !matches!(split.behavior, SplitDelimiterBehavior::Removed),
            PreTokenizer::Sequence(steps) => steps.as_ref().iter().all(keeps),
            _ => false,
        }
    }
    words.is_some_and(keeps)
}

fn every_byte_is_a_token(pieces: &Pieces) -> bool {
    let mut found = [false; 256];
    for (_, piece) in pieces.iter() {
        if let [byte] = piece {
            found[usize::from(*byte)] = true;
        }
    }
    (0..=u8::MAX).zip(found).all(|(byte, found)| found || !is_in_texts(byte))
}
