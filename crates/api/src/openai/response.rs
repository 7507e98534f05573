//! The shapes that go back. They borrow from the events, so that writing a frame copies only into the frame.

use crate::error::Error;
use crate::service::{Finish, ModelCard, TokenInfo, Usage};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct, Serializer};

/// JSON has no infinities: what stands for the log of 0, as in vLLM.
const LOG_OF_ZERO: f32 = -9999.0;

/// A whole answer or a chunk of one; `C` is a slice or array of choices.
#[derive(Debug, Serialize)]
pub struct Answer<'a, C> {
    /// `chatcmpl-…` or `cmpl-…`; the same for all chunks.
    pub id: &'a str,
    /// `chat.completion`, `chat.completion.chunk` or `text_completion`.
    pub object: &'static str,
    /// Seconds of the Unix epoch.
    pub created: u64,
    /// The model's name.
    pub model: &'a str,
    /// Which build answered.
    pub system_fingerprint: &'a str,
    /// The choices.
    pub choices: C,
    /// `None`: no such field. `Some(None)`: `null`, as in the chunks before the one with the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<UsageBody>>,
}

/// `usage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UsageBody {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: PromptTokensDetails,
}

/// `prompt_tokens_details`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct PromptTokensDetails {
    cached_tokens: u32,
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = usage;
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
        }
    }
}

/// `finish_reason`.
#[must_use]
pub const fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    }
}

/// A choice of a whole chat answer.
#[derive(Debug, Serialize)]
pub struct ChatChoice<'a> {
    /// Which.
    pub index: u32,
    /// The text.
    pub message: ChatMessage<'a>,
    /// `null` unless asked for.
    pub logprobs: Option<ChatLogprobs<'a>>,
    /// Why it ended.
    pub finish_reason: Option<&'static str>,
}

/// The assistant's message.
#[derive(Debug, Serialize)]
pub struct ChatMessage<'a> {
    role: &'static str,
    content: &'a str,
    refusal: (),
}

impl<'a> ChatMessage<'a> {
    /// A message of the assistant.
    #[must_use]
    pub const fn new(content: &'a str) -> Self {
        Self { role: "assistant", content, refusal: () }
    }
}

/// A choice of a chunk of a chat answer.
#[derive(Debug, Serialize)]
pub struct ChatChunkChoice<'a> {
    /// Which.
    pub index: u32,
    /// What is new.
    pub delta: ChatDelta<'a>,
    /// `null` unless asked for.
    pub logprobs: Option<ChatLogprobs<'a>>,
    /// Why it ended, in its last chunk.
    pub finish_reason: Option<&'static str>,
}

/// What is new in a chunk of a chat answer: all of it absent in the last one.
#[derive(Debug, Default, Serialize)]
pub struct ChatDelta<'a> {
    /// Only in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// More text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
}

/// A choice of a completion, whole or in a chunk.
#[derive(Debug, Serialize)]
pub struct TextChoice<'a> {
    /// Which.
    pub index: u32,
    /// The text, or more of it.
    pub text: &'a str,
    /// `null` unless asked for.
    pub logprobs: Option<TextLogprobs<'a>>,
    /// Why it ended.
    pub finish_reason: Option<&'static str>,
}

/// Chat's log-probabilities: `{"content": [{token, logprob, bytes, top_logprobs}], "refusal": null}`.
#[derive(Debug, Clone, Copy)]
pub struct ChatLogprobs<'a>(pub &'a [TokenInfo]);

impl Serialize for ChatLogprobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct("ChatLogprobs", 2)?;
        all.serialize_field("content", &Each(self.0.iter().map(ChatToken)))?;
        all.serialize_field("refusal", &())?;
        all.end()
    }
}

struct ChatToken<'a>(&'a TokenInfo);

impl Serialize for ChatToken<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let top = self.0.top.iter().map(|(_, token, bytes, logprob)| Alternative {
            token,
            logprob: finite(*logprob),
            bytes,
        });
        let mut token = serializer.serialize_struct("ChatToken", 4)?;
        token.serialize_field("token", &self.0.text)?;
        token.serialize_field("logprob", &self.0.logprob.map(finite))?;
        token.serialize_field("bytes", &self.0.bytes)?;
        token.serialize_field("top_logprobs", &Each(top))?;
        token.end()
    }
}

#[derive(Serialize)]
struct Alternative<'a> {
    token: &'a str,
    logprob: f32,
    bytes: &'a [u8],
}

/// Completions' log-probabilities: four arrays side by side.
#[derive(Debug, Clone, Copy)]
pub struct TextLogprobs<'a> {
    /// The tokens.
    pub tokens: &'a [TokenInfo],
    /// Where each begins in the choice's whole text, in characters; see [`Offsets`].
    pub offsets: &'a [usize],
}

impl Serialize for TextLogprobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct("TextLogprobs", 4)?;
        all.serialize_field("text_offset", self.offsets)?;
        all.serialize_field(
            "token_logprobs",
            &Each(self.tokens.iter().map(|token| token.logprob.map(finite))),
        )?;
        all.serialize_field("tokens", &Each(self.tokens.iter().map(|token| &token.text)))?;
        all.serialize_field("top_logprobs", &Each(self.tokens.iter().map(TopMap::of)))?;
        all.end()
    }
}

/// `{token: logprob}` of the most likely tokens and of the one chosen.
struct TopMap<'a>(&'a TokenInfo);

impl<'a> TopMap<'a> {
    /// `None` for the first token of a prompt, which nothing predicted.
    fn of(token: &'a TokenInfo) -> Option<Self> {
        token.logprob.is_some().then_some(Self(token))
    }
}

impl Serialize for TopMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let top = &self.0.top;
        for (i, (_, text, _, logprob)) in top.iter().enumerate() {
            // Different bytes that are not UTF-8 have one text; the best stands for all.
            if !top.iter().take(i).any(|(_, earlier, _, _)| earlier == text) {
                map.serialize_entry(text, &finite(*logprob))?;
            }
        }
        if !top.iter().any(|(_, text, _, _)| *text == self.0.text) {
            map.serialize_entry(&self.0.text, &self.0.logprob.map(finite))?;
        }
        map.end()
    }
}

/// An iterator as a JSON array.
struct Each<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Each<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for item in self.0.clone() {
            seq.serialize_element(&item)?;
        }
        seq.end()
    }
}

/// Where tokens begin in a choice's text, in characters (code points), through all its chunks. A token that begins inside a
/// character has that character's place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offsets {
    characters: usize,
}

impl Offsets {
    /// Appends the offsets of the next `tokens` to `out`.
    pub fn push(&mut self, tokens: &[TokenInfo], out: &mut Vec<usize>) {
        for token in tokens {
            let inside = token.bytes.first().is_some_and(|&byte| is_continuation(byte));
            out.push(self.characters - usize::from(inside && self.characters > 0));
            self.characters += token.bytes.iter().filter(|&&byte| !is_continuation(byte)).count();
        }
    }
}

/// Whether a byte continues a UTF-8 character.
const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

const fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { LOG_OF_ZERO }
}

/// `{"error": {message, type, param, code}}`.
#[derive(Debug, Serialize)]
pub struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Debug, Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: &'static str,
}

impl<'a> From<&'a Error> for ErrorBody<'a> {
    fn from(error: &'a Error) -> Self {
        let (_, code, kind) = error.reason.row();
        Self {
            error: ErrorFields { message: &error.message, r#type: kind, param: error.param.as_deref(), code },
        }
    }
}

/// `GET /v1/models`.
#[derive(Debug, Serialize)]
pub struct ModelList<'a> {
    object: &'static str,
    data: Vec<ModelBody<'a>>,
}

impl<'a> From<&'a [ModelCard]> for ModelList<'a> {
    fn from(cards: &'a [ModelCard]) -> Self {
        Self { object: "list", data: cards.iter().map(ModelBody::from).collect() }
    }
}

/// `GET /v1/models/{id}`.
#[derive(Debug, Serialize)]
pub struct ModelBody<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    max_model_len: usize,
}

impl<'a> From<&'a ModelCard> for ModelBody<'a> {
    fn from(card: &'a ModelCard) -> Self {
        Self {
            id: &card.id,
            object: "model",
            created: card.created,
            owned_by: "plimsoll",
            max_model_len: card.context,
        }
    }
}
