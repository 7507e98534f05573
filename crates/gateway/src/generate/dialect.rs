//! How chat and completions differ in what they write.

use crate::frames::{Frames, Head};
use crate::refusal::json;
use axum::response::Response;
use plimsoll_api::openai::response::{
    ChatChoice, ChatChunkChoice, ChatDelta, ChatLogprobs, ChatMessage, Offsets, TextChoice, TextLogprobs,
    UsageBody, finish_reason,
};
use plimsoll_api::service::{Delta, TokenInfo};

/// One of the two shapes of answer.
pub trait Dialect: Send + Unpin + 'static {
    /// What the answer's id begins with.
    const ID_PREFIX: &'static str;
    /// What a chunk is called.
    const CHUNK: &'static str;

    /// For this many choices, with log-probabilities or without.
    fn new(choices: usize, logprobs: bool) -> Self;

    /// Writes the chunks that tell of `delta`.
    fn chunk(&mut self, delta: &Delta, frames: &mut Frames);

    /// The whole answer. `choices` are deltas that hold all of their choice.
    fn whole(self, choices: &[Delta], usage: UsageBody, head: &Head) -> Response;
}

/// `/v1/chat/completions`.
pub struct Chat {
    logprobs: bool,
    /// Which choices have begun.
    begun: Vec<bool>,
}

impl Chat {
    fn logprobs<'a>(&self, tokens: &'a [TokenInfo]) -> Option<ChatLogprobs<'a>> {
        self.logprobs.then_some(ChatLogprobs(tokens))
    }

    /// The first chunk of a choice has the role and nothing else.
    fn begin(&mut self, index: u32, frames: &mut Frames) {
        let Some(begun) = self.begun.get_mut(index as usize) else { return };
        if !std::mem::replace(begun, true) {
            let delta = ChatDelta { role: Some("assistant"), content: Some("") };
            frames.choice(ChatChunkChoice { index, delta, logprobs: None, finish_reason: None });
        }
    }
}

impl Dialect for Chat {
    const ID_PREFIX: &'static str = "chatcmpl-";
    const CHUNK: &'static str = "chat.completion.chunk";

    fn new(choices: usize, logprobs: bool) -> Self {
        Self { logprobs, begun: vec![false; choices] }
    }

    fn chunk(&mut self, delta: &Delta, frames: &mut Frames) {
        let index = delta.choice;
        self.begin(index, frames);
        if !delta.text.is_empty() || !delta.tokens.is_empty() {
            let logprobs = self.logprobs(&delta.tokens);
            let delta = ChatDelta { role: None, content: Some(&delta.text) };
            frames.choice(ChatChunkChoice { index, delta, logprobs, finish_reason: None });
        }
        // The last chunk has the reason and nothing else.
        if let Some(finish) = delta.finish {
            let finish_reason = Some(finish_reason(finish));
            frames.choice(ChatChunkChoice {
                index,
                delta: ChatDelta::default(),
                logprobs: None,
                finish_reason,
            });
        }
    }

    fn whole(self, choices: &[Delta], usage: UsageBody, head: &Head) -> Response {
        let choices = choices.iter().map(|delta| ChatChoice {
            index: delta.choice,
            message: ChatMessage::new(&delta.text),
            logprobs: self.logprobs(&delta.tokens),
            finish_reason: delta.finish.map(finish_reason),
        });
        let choices: Vec<_> = choices.collect();
        json(&head.answer("chat.completion", choices, Some(Some(usage))))
    }
}

/// `/v1/completions`.
pub struct Text {
    logprobs: bool,
    /// How far each choice's text is.
    places: Vec<Offsets>,
    /// Reused from chunk to chunk.
    offsets: Vec<usize>,
}

impl Text {
    fn place(&mut self, delta: &Delta) {
        self.offsets.clear();
        if let Some(place) = self.places.get_mut(delta.choice as usize) {
            place.push(&delta.tokens, &mut self.offsets);
        }
    }
}

impl Dialect for Text {
    const ID_PREFIX: &'static str = "cmpl-";
    const CHUNK: &'static str = "text_completion";

    fn new(choices: usize, logprobs: bool) -> Self {
        Self { logprobs, places: vec![Offsets::default(); choices], offsets: Vec::new() }
    }

    fn chunk(&mut self, delta: &Delta, frames: &mut Frames) {
        if delta.text.is_empty() && delta.tokens.is_empty() && delta.finish.is_none() {
            return;
        }
        self.place(delta);
        let logprobs =
            self.logprobs.then_some(TextLogprobs { tokens: &delta.tokens, offsets: &self.offsets });
        let finish_reason = delta.finish.map(finish_reason);
        frames.choice(TextChoice { index: delta.choice, text: &delta.text, logprobs, finish_reason });
    }

    fn whole(mut self, choices: &[Delta], usage: UsageBody, head: &Head) -> Response {
        let mut offsets = Vec::with_capacity(choices.len());
        for delta in choices {
            self.place(delta);
            offsets.push(std::mem::take(&mut self.offsets));
        }
        let choices = choices.iter().zip(&offsets).map(|(delta, offsets)| TextChoice {
            index: delta.choice,
            text: &delta.text,
            logprobs: self.logprobs.then_some(TextLogprobs { tokens: &delta.tokens, offsets }),
            finish_reason: delta.finish.map(finish_reason),
        });
        let choices: Vec<_> = choices.collect();
        json(&head.answer("text_completion", choices, Some(Some(usage))))
    }
}
