//! Tokens to text as they come, in whole UTF-8 characters.

use crate::tokenizer::Tokenizer;
use std::sync::Arc;

/// Turns the tokens of one output into text as they come. The text handed out is at any time a prefix of what
/// [`String::from_utf8_lossy`] makes of all the bytes: a character is held back until its last byte is there, and
/// U+FFFD comes only where the finished text has it.
///
/// Special tokens have no text here. After the first tokens nothing is allocated but what `out` needs to grow.
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    /// Bytes not handed out: the beginning of a character, at most 3 between calls.
    pending: Vec<u8>,
    /// The next plain token begins a text, and loses the space that encoding put before it.
    first: bool,
}

impl Detokenizer {
    /// For tokens that continue a text, as generated ones do: a leading space is theirs.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        let pending = Vec::with_capacity(tokenizer.longest_token() + 3);
        Self { tokenizer, pending, first: false }
    }

    /// Begins another text, as [`Detokenizer::new`] does.
    pub fn restart(&mut self) {
        self.pending.clear();
        self.first = false;
    }

    /// For tokens that begin a text, such as an echoed prompt: a space that encoding put before it is dropped.
    pub fn at_start(tokenizer: Arc<Tokenizer>) -> Self {
        Self { first: true, ..Self::new(tokenizer) }
    }

    /// Appends to `out` the text that `id` completes. An id outside the vocabulary has no text.
    pub fn push(&mut self, id: u32, out: &mut String) {
        if self.tokenizer.is_special(id) {
            return;
        }
        let piece = self.tokenizer.token_bytes(id).unwrap_or_default();
        let piece = self.tokenizer.without_prefix(piece, self.first);
        self.first = false;
        self.pending.extend_from_slice(piece);
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            out.push_str(chunk.valid());
            done += chunk.valid().len();
            if chunk.invalid().is_empty() || may_go_on(&self.pending[done..]) {
                break;
            }
            out.push(char::REPLACEMENT_CHARACTER);
            done += chunk.invalid().len();
        }
        self.pending.drain(..done);
    }

    /// Ends the text: a character that is still incomplete becomes U+FFFD. Tokens pushed later begin anew.
    pub fn finish(&mut self, out: &mut String) {
        if !self.pending.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }
}

/// Whether `rest`, which is no UTF-8, is only cut short.
fn may_go_on(rest: &[u8]) -> bool {
    std::str::from_utf8(rest).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}
