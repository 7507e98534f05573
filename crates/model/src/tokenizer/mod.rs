//! Text to tokens and back.
//!
//! A GGUF vocabulary is encoded by this module itself ([`bytes_bpe`], [`sentence`]); a `tokenizer.json` by the
//! `tokenizers` crate ([`json`]). The crate keeps an alignment and several strings per token while it works: 40 MB and
//! more for a prompt of 100 000 tokens, which a server with a budget of 60 MB does not have. The tests hold both
//! against each other.
//!
//! - [`bound`]: how few tokens a text can be.
//! - [`merge`]: byte-pair merging, shared by the two BPE forms.
//! - [`pretokenize`]: which regular expressions cut a text before BPE, by `tokenizer.ggml.pre`.
//! - [`pieces`]: the bytes of every token.
//! - [`special`]: finds special tokens in a text.

mod alphabet;
mod bound;
mod bytes_bpe;
mod gguf;
mod json;
mod merge;
mod pieces;
mod pretokenize;
mod sentence;
mod special;

use crate::checkpoint::{CheckpointError, TokenizerSource};
use bound::Bound;
use bytes_bpe::BytesBpe;
use json::Json;
use pieces::Pieces;
use sentence::Sentence;
use special::{Part, Specials};

/// Longest text taken, in bytes. Positions are 32-bit, and a body limit belongs in front of this anyway.
pub const MAX_TEXT: usize = 1 << 28;

/// A text that could not be encoded, or tokens that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// No such token.
    #[error("token {id} is outside the vocabulary of {vocab} tokens")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Vocabulary size.
        vocab: usize,
    },
    /// The text is longer than [`MAX_TEXT`].
    #[error("text of {bytes} bytes is longer than {MAX_TEXT}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The tokenizer failed on this text.
    #[error("tokenizer: {0}")]
    Failed(String),
}

/// How to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encode {
    /// Add what the model puts around a prompt: BOS, EOS, or what its template says.
    pub add_special: bool,
    /// Take special tokens written in the text as those tokens. Otherwise they are plain text, except those the model's
    /// maker marked as ordinary vocabulary (user-defined).
    pub parse_special: bool,
}

/// Cuts text into tokens and joins them again. Immutable, shared by threads.
pub struct Tokenizer {
    pieces: Pieces,
    codec: Codec,
    bos: Option<u32>,
    eos: Vec<u32>,
    add_bos: bool,
    add_eos: bool,
    space_prefix: bool,
    /// What is known about the number of tokens before a text is cut.
    bound: Bound,
}

/// What encodes.
enum Codec {
    Bytes(BytesBpe, Specials),
    Sentence(Sentence, Specials),
    Json(Box<Json>),
}

impl Tokenizer {
    /// Builds the tokenizer a checkpoint describes.
    ///
    /// # Errors
    /// When the file cannot be read, contradicts itself, or is of a kind that is not known here.
    pub fn new(source: &TokenizerSource) -> Result<Self, CheckpointError> {
        match source {
            TokenizerSource::Json { path, bos, eos, add_bos } => {
                json::load(path, bos.as_deref(), eos, *add_bos)
            }
            TokenizerSource::Gguf(vocab) => gguf::load(vocab),
        }
    }

    /// Token ids of `text`. Time grows as n log n with the longest stretch that pre-tokenizing leaves whole.
    ///
    /// # Errors
    /// When the text is longer than [`MAX_TEXT`] or the tokenizer fails on it.
    pub fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, TextError> {
        if text.len() > MAX_TEXT {
            return Err(TextError::TooLong { bytes: text.len() });
        }
        let mut ids = Vec::new();
        let around = |wanted, id: Option<u32>| id.filter(|_| how.add_special && wanted);
        ids.extend(around(self.add_bos, self.bos));
        match &self.codec {
            Codec::Bytes(bpe, specials) => {
                let mut scratch = merge::Scratch::default();
                for part in specials.parts(text, how.parse_special) {
                    match part {
                        Part::Token(id) => ids.push(id),
                        Part::Text(text) => bpe.encode(&self.pieces, text, &mut scratch, &mut ids),
                    }
                }
            }
            Codec::Sentence(sentence, specials) => {
                let mut scratch = merge::Scratch::default();
                let mut after_special = true;
                for part in specials.parts(text, how.parse_special) {
                    match part {
                        Part::Token(id) => ids.push(id),
                        Part::Text(text) => {
                            let prefix = self.space_prefix && after_special;
                            sentence.encode(&self.pieces, text, prefix, &mut scratch, &mut ids);
                        }
                    }
                    after_special = matches!(part, Part::Token(_));
                }
            }
            Codec::Json(json) => json.encode(text, how, &mut ids)?,
        }
        ids.extend(around(self.add_eos, self.eos.first().copied()));
        Ok(ids)
    }

    /// Text of a whole sequence of tokens, special ones left out; bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// When an id is outside the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        self.join(ids, false)
    }

    /// [`decode`](Self::decode), with the text of special tokens.
    ///
    /// # Errors
    /// When an id is outside the vocabulary.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String, TextError> {
        self.join(ids, true)
    }

    fn join(&self, ids: &[u32], special: bool) -> Result<String, TextError> {
        let mut bytes = Vec::new();
        let mut first = true;
        for &id in ids {
            let Some(piece) = self.token_bytes(id) else {
                return Err(TextError::UnknownToken { id, vocab: self.vocab() });
            };
            if special || !self.is_special(id) {
                let plain = !self.is_special(id);
                bytes.extend_from_slice(self.without_prefix(piece, first && plain));
                first &= !plain;
            }
        }
        Ok(match String::from_utf8_lossy(&bytes) {
            std::borrow::Cow::Owned(text) => text,
            // The bytes are UTF-8 as they are: take them over instead of a copy.
            std::borrow::Cow::Borrowed(_) => String::from_utf8(bytes).unwrap_or_default(),
        })
    }

    /// `piece` without the space that encoding put before a text, when it is the `first` of one.
    pub(crate) fn without_prefix<'a>(&self, piece: &'a [u8], first: bool) -> &'a [u8] {
        match piece {
            [b' ', rest @ ..] if first && self.space_prefix => rest,
            _ => piece,
        }
    }

    /// The bytes a token stands for; of a special token, its text. `None` outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.pieces.bytes(id)
    }

    /// Whether the token is a control token: no text of its own. False outside the vocabulary.
    pub fn is_special(&self, id: u32) -> bool {
        self.pieces.is_special(id)
    }

    /// Tokens that end a text.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// The token that begins a text, whether or not prompts get it.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Vocabulary size: ids are below this.
    pub fn vocab(&self) -> usize {
        self.pieces.len()
    }

    /// A number of tokens that `text` is sure to have at least, known without cutting it; 0 when nothing is known.
    pub fn at_least(&self, text: &str) -> usize {
        self.bound.at_least(text, self.longest_token())
    }

    /// Length of the longest token, in bytes.
    pub fn longest_token(&self) -> usize {
        self.pieces.longest()
    }
}

#[cfg(test)]
mod tests;
