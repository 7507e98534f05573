//! A tokenizer from the vocabulary in a GGUF file's metadata.

use super::bound::Bound;
use super::bytes_bpe::BytesBpe;
use super::merge::NONE;
use super::pieces::Pieces;
use super::pretokenize::PreTokenizer;
use super::sentence::{self, Sentence};
use super::special::Specials;
use super::{Codec, Tokenizer, alphabet};
use crate::checkpoint::{CheckpointError, GgufVocab};
use std::path::PathBuf;

/// Kinds of tokens in `tokenizer.ggml.token_type`.
mod kind {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
    pub(super) const BYTE: i32 = 6;
}

/// Tokens that end a text or a turn by what they are called. Files often name only one of several as `eos`, and some
/// mark these as user-defined, so that they would show up in answers; llama.cpp knows them by name as well.
const ENDS: &[&str] = &[
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
];

pub(super) fn load(vocab: &GgufVocab) -> Result<Tokenizer, CheckpointError> {
    check(vocab)?;
    match vocab.model.as_str() {
        "gpt2" => bytes(vocab),
        "llama" => sentence(vocab),
        other => Err(unsupported(format!("tokenizer.ggml.model is {other:?}; supported are gpt2, llama"))),
    }
}

fn bytes(vocab: &GgufVocab) -> Result<Tokenizer, CheckpointError> {
    let words = PreTokenizer::new(&vocab.pre).map_err(unsupported)?;
    let add_bos = words.add_bos;
    let pieces = pieces(vocab, |text, kind, out| {
        if kind != kind::NORMAL || !alphabet::decode(text, out) {
            out.extend_from_slice(text.as_bytes());
        }
    });
    let bpe = BytesBpe::new(words, &pieces, &vocab.tokens, &vocab.merges);
    finish(vocab, pieces, Codec::Bytes(bpe, specials(vocab)?), add_bos, false)
}

fn sentence(vocab: &GgufVocab) -> Result<Tokenizer, CheckpointError> {
    let pieces = pieces(vocab, |text, kind, out| match byte_value(text).filter(|_| kind == kind::BYTE) {
        Some(byte) => out.push(byte),
        None => out.extend_from_slice(text.replace(sentence::SPACE, " ").as_bytes()),
    });
    let mut bytes = [NONE; 256];
    for (text, id) in vocab.tokens.iter().zip(0..) {
        if let Some(byte) = byte_value(text).filter(|_| kind(vocab, id) == kind::BYTE) {
            bytes[usize::from(byte)] = id;
        }
    }
    let plain = |id| matches!(kind(vocab, id), kind::NORMAL | kind::USER_DEFINED) && !is_end(vocab, id);
    let codec = Sentence::new(&pieces, &vocab.scores, bytes, vocab.unk, plain);
    let space_prefix = vocab.add_space_prefix.unwrap_or(true);
    finish(vocab, pieces, Codec::Sentence(codec, specials(vocab)?), true, space_prefix)
}

fn finish(
    vocab: &GgufVocab,
    pieces: Pieces,
    codec: Codec,
    add_bos: bool,
    space_prefix: bool,
) -> Result<Tokenizer, CheckpointError> {
    let mut eos = vocab.eos.clone();
    eos.extend((0..vocab.tokens.len() as u32).filter(|&id| is_end(vocab, id) && !vocab.eos.contains(&id)));
    let add_eos = vocab.add_eos.unwrap_or(false);
    if vocab.add_bos == Some(true) && vocab.bos.is_none() {
        return Err(format(
            "tokenizer.ggml.add_bos_token is set, but there is no tokenizer.ggml.bos_token_id",
        ));
    }
    if add_eos && vocab.eos.is_empty() {
        return Err(format(
            "tokenizer.ggml.add_eos_token is set, but there is no tokenizer.ggml.eos_token_id",
        ));
    }
    let add_bos = vocab.add_bos.unwrap_or(add_bos);
    let bound = match &codec {
        Codec::Bytes(bpe, _) => bpe.bound(),
        Codec::Sentence(sentence, _) => sentence.bound(),
        Codec::Json(_) => Bound::Unknown,
    };
    Ok(Tokenizer { pieces, codec, bos: vocab.bos, eos, add_bos, add_eos, space_prefix, bound })
}

/// Lengths that must agree, and ids that must exist.
fn check(vocab: &GgufVocab) -> Result<(), CheckpointError> {
    let tokens = vocab.tokens.len();
    if tokens == 0 || tokens >= NONE as usize {
        return Err(format(format!("tokenizer.ggml.tokens has {tokens} entries")));
    }
    for (field, entries) in [("token_type", vocab.kinds.len()), ("scores", vocab.scores.len())] {
        if entries != 0 && entries != tokens {
            return Err(format(format!("tokenizer.ggml.{field} has {entries} entries for {tokens} tokens")));
        }
    }
    let named = [("bos", vocab.bos), ("unknown", vocab.unk)].into_iter();
    let ends = vocab.eos.iter().map(|&id| ("eos", Some(id)));
    for (field, id) in named.chain(ends) {
        if let Some(id) = id.filter(|&id| id as usize >= tokens) {
            return Err(format(format!("tokenizer.ggml.{field}_token_id is {id}, past {tokens} tokens")));
        }
    }
    Ok(())
}

fn pieces(vocab: &GgufVocab, decode: impl Fn(&str, i32, &mut Vec<u8>)) -> Pieces {
    let mut pieces = Pieces::default();
    let mut bytes = Vec::new();
    for (text, id) in vocab.tokens.iter().zip(0..) {
        bytes.clear();
        decode(text, kind(vocab, id), &mut bytes);
        pieces.push(&bytes, is_special(vocab, id));
    }
    pieces.shrink();
    pieces
}

fn specials(vocab: &GgufVocab) -> Result<Specials, CheckpointError> {
    let (mut always, mut on_request) = (Vec::new(), Vec::new());
    for (text, id) in vocab.tokens.iter().zip(0..) {
        if is_special(vocab, id) {
            on_request.push((id, text.as_str()));
        } else if kind(vocab, id) == kind::USER_DEFINED {
            always.push((id, text.as_str()));
        }
    }
    Specials::new(always, on_request).map_err(unsupported)
}

fn kind(vocab: &GgufVocab, id: u32) -> i32 {
    vocab.kinds.get(id as usize).copied().unwrap_or(kind::NORMAL)
}

fn is_special(vocab: &GgufVocab, id: u32) -> bool {
    matches!(kind(vocab, id), kind::CONTROL | kind::UNKNOWN) || is_end(vocab, id)
}

fn is_end(vocab: &GgufVocab, id: u32) -> bool {
    matches!(kind(vocab, id), kind::CONTROL | kind::USER_DEFINED)
        && vocab.tokens.get(id as usize).is_some_and(|text| ENDS.contains(&text.as_str()))
}

/// The byte that `<0xNN>` names.
pub(super) fn byte_value(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

fn path() -> PathBuf {
    PathBuf::from("GGUF vocabulary")
}

fn format(what: impl Into<String>) -> CheckpointError {
    CheckpointError::Format { path: path(), what: what.into() }
}

fn unsupported(what: String) -> CheckpointError {
    CheckpointError::Unsupported { path: path(), what }
}
