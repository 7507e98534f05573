//! A tokenizer from a `tokenizer.json`, through the `tokenizers` crate.

use super::bound::{self, Bound};
use super::pieces::Pieces;
use super::{Codec, Encode, TextError, Tokenizer, alphabet, gguf, sentence};
use crate::checkpoint::{CheckpointError, TOKENIZER_MOST, read_text};
use std::path::Path;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::{AddedVocabulary, Model, OffsetType, PreTokenizer, Tokenizer as Inner};

/// A `tokenizer.json`.
pub(super) struct Json {
    inner: Inner,
    /// The added tokens, with the special ones taken as plain text.
    plain: AddedVocabulary,
    /// BOS, and whether prompts must or must not start with it; `None`: as the file's own template says.
    bos: Option<(u32, bool)>,
}

pub(super) fn load(
    path: &Path,
    bos: Option<&str>,
    eos: &[String],
    add_bos: Option<bool>,
) -> Result<Tokenizer, CheckpointError> {
    let format = |what: String| CheckpointError::Format { path: path.to_owned(), what };
    let text = read_text(path, TOKENIZER_MOST)?.ok_or_else(|| CheckpointError::Io {
        path: path.to_owned(),
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    let mut inner = Inner::from_bytes(&text).map_err(|error| format(error.to_string()))?;
    drop(text);
    let id = |text: &str| {
        let missing = || format(format!("token {text:?} of tokenizer_config.json is not in the vocabulary"));
        inner.token_to_id(text).ok_or_else(missing)
    };
    let bos = bos.map(id).transpose()?;
    let eos = eos.iter().map(|text| id(text)).collect::<Result<Vec<_>, _>>()?;
    // Lengths are the caller's business: nothing is cut off or filled up in silence.
    inner.with_padding(None).with_truncation(None).map_err(|error| format(error.to_string()))?;
    let mut plain = inner.get_added_vocabulary().clone();
    plain.set_encode_special_tokens(true);
    let style = Style::of(inner.get_decoder());
    let pieces = pieces(&inner, &style);
    let space_prefix = matches!(style, Style::Sentence { prefix: true } | Style::WordPiece(_));
    let bound = Bound::characters(bound::of_json(&inner, &pieces));
    let bos_rule = bos.zip(add_bos);
    let codec = Codec::Json(Box::new(Json { inner, plain, bos: bos_rule }));
    Ok(Tokenizer { pieces, codec, bos, eos, add_bos: false, add_eos: false, space_prefix, bound })
}

impl Json {
    pub(super) fn encode(&self, text: &str, how: Encode, ids: &mut Vec<u32>) -> Result<(), TextError> {
        let encoding = self.run(text, how).map_err(|error| TextError::Failed(error.to_string()))?;
        let mut found = encoding.get_ids();
        // Only what the file's own rule has put there is taken away again; a BOS in the text is the text's.
        let by_rule = encoding.get_special_tokens_mask().first() == Some(&1);
        if let (Some((bos, wanted)), true) = (self.bos, how.add_special) {
            match (found.split_first(), wanted) {
                (Some((first, rest)), false) if by_rule && *first == bos => found = rest,
                (Some((first, _)), true) if *first == bos => {}
                (_, true) => ids.push(bos),
                _ => {}
            }
        }
        ids.extend_from_slice(found);
        Ok(())
    }

    /// What `Tokenizer::encode` does, but whether special tokens are parsed is a parameter here, not a setting.
    fn run(&self, text: &str, how: Encode) -> tokenizers::Result<tokenizers::Encoding> {
        let added = if how.parse_special { self.inner.get_added_vocabulary() } else { &self.plain };
        let mut parts = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(words) = self.inner.get_pre_tokenizer() {
            words.pre_tokenize(&mut parts)?;
        }
        parts.tokenize(|part| self.inner.get_model().tokenize(part.get()))?;
        let encoding = parts.into_encoding(None, 0, OffsetType::None)?;
        self.inner.post_process(encoding, None, how.add_special)
    }
}

/// How the vocabulary writes bytes.
enum Style {
    /// In the byte alphabet.
    Bytes,
    /// SentencePiece: a stand-in for spaces, `<0xNN>` for bytes; `prefix`: a space is put before the text.
    Sentence { prefix: bool },
    /// Words, and their continuations marked by this prefix.
    WordPiece(String),
    /// As they are.
    Plain,
}

impl Style {
    fn of(decoder: Option<&DecoderWrapper>) -> Self {
        match decoder {
            Some(DecoderWrapper::ByteLevel(_)) => Self::Bytes,
            Some(DecoderWrapper::WordPiece(words)) => Self::WordPiece(words.prefix.clone()),
            Some(DecoderWrapper::Metaspace(meta)) => {
                use tokenizers::decoders::metaspace::PrependScheme;
                Self::Sentence { prefix: meta.get_prepend_scheme() != PrependScheme::Never }
            }
            Some(DecoderWrapper::Sequence(steps)) => Self::of_steps(steps.get_decoders()),
            Some(DecoderWrapper::ByteFallback(_) | DecoderWrapper::Replace(_)) => {
                Self::Sentence { prefix: false }
            }
            _ => Self::Plain,
        }
    }

    fn of_steps(steps: &[DecoderWrapper]) -> Self {
        let strips = |step: &DecoderWrapper| matches!(step, DecoderWrapper::Strip(strip) if strip.content == ' ' && strip.start > 0);
        let styles = steps.iter().map(|step| Self::of(Some(step)));
        match styles.into_iter().find(|style| !matches!(style, Self::Plain)) {
            Some(Self::Sentence { prefix }) => Self::Sentence { prefix: prefix || steps.iter().any(strips) },
            Some(style) => style,
            None => Self::Plain,
        }
    }

    fn decode(&self, text: &str, out: &mut Vec<u8>) {
        match self {
            Self::Bytes if alphabet::decode(text, out) => {}
            Self::Sentence { .. } => match gguf::byte_value(text) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(text.replace(sentence::SPACE, " ").as_bytes()),
            },
            Self::WordPiece(prefix) => match text.strip_prefix(prefix.as_str()) {
                Some(rest) => out.extend_from_slice(rest.as_bytes()),
                None => {
                    out.push(b' ');
                    out.extend_from_slice(text.as_bytes());
                }
            },
            _ => out.extend_from_slice(text.as_bytes()),
        }
    }
}

/// The bytes of every token. Ids may have holes; a hole is a special token without text.
fn pieces(inner: &Inner, style: &Style) -> Pieces {
    let added = inner.get_added_tokens_decoder();
    let mut left = inner.get_vocab_size(true);
    // A file whose ids run far past their number is not worth a table that long.
    let limit = left.saturating_mul(2).saturating_add(1 << 16);
    let mut pieces = Pieces::default();
    let mut bytes = Vec::new();
    for id in (0u32..).take(limit) {
        if left == 0 {
            break;
        }
        bytes.clear();
        let text = inner.id_to_token(id);
        left -= usize::from(text.is_some());
        match (added.get(&id), text) {
            (Some(token), _) => pieces.push(token.content.as_bytes(), token.special),
            (None, Some(text)) => {
                style.decode(&text, &mut bytes);
                pieces.push(&bytes, false);
            }
            (None, None) => pieces.push(&[], true),
        }
    }
    pieces.shrink();
    pieces
}
