//! The bodies of OpenAI's API, and the neighbours clients send along (vLLM's and llama-server's fields).
//!
//! Bytes in, checked requests out; events in, JSON out. Unknown fields are ignored and `null` is the same as absent, as
//! OpenAI has it. A wrong type is refused with the field's path, a value out of range is refused and never clamped.
//!
//! - [`chat`], [`completion`], [`tokenize`]: each reads one kind of body.
//! - [`common`]: what `/v1/chat/completions` and `/v1/completions` share.
//! - [`response`]: the shapes that go back.
//! - `json`, `fields`: JSON with paths in its errors; field types that take several forms.
//! - `weight`: what a request takes in memory.

pub mod chat;
pub mod common;
pub mod completion;
mod fields;
mod json;
pub mod response;
pub mod tokenize;
mod weight;

use crate::error::{Error, Reason};
use crate::service::{GenerateRequest, ModelCard, Urgency};

/// Who asks, as the gateway knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// For logs and traces.
    pub request_id: &'a str,
    /// The index of the API key, 0 without keys.
    pub tenant: u32,
    /// What its headers say; a `priority` there wins over the body's.
    pub urgency: Urgency,
}

/// What the gateway allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most continuations of one HTTP request: prompts times `n`.
    pub max_choices: u32,
}

impl Limits {
    /// Most continuations of one request to this model: more than it lets in at once would be told to come back for ever.
    fn choices(self, card: &ModelCard) -> u32 {
        self.max_choices.min(card.choices)
    }
}

/// A checked body: what to ask the service, and how to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The model's name as served.
    pub model: String,
    /// One per prompt, each with `n` continuations; choice `i` of prompt `p` is the answer's choice `p * n + i`.
    pub requests: Vec<GenerateRequest>,
    /// Continuations per prompt.
    pub n: u32,
    /// Answer as server-sent events.
    pub stream: bool,
    /// End a stream with a chunk that has the usage.
    pub include_usage: bool,
    /// Log-probabilities were asked for.
    pub logprobs: bool,
}

impl Job {
    /// About how many bytes of memory its requests take: texts, tokens and JSON.
    pub fn bytes(&self) -> usize {
        self.requests.iter().map(weight::request).sum()
    }
}

/// The model called `name`; without a name the only one served.
///
/// # Errors
/// [`Reason::ModelNotFound`] for a name that is not served, [`Reason::InvalidRequest`] for no name where there are several,
/// [`Reason::Loading`] while none is there yet.
pub fn pick_model<'a>(models: &'a [ModelCard], name: Option<&str>) -> Result<&'a ModelCard, Error> {
    let Some(name) = name else {
        return match models {
            [only] => Ok(only),
            [] => Err(Error::new(Reason::Loading, "no model has been loaded yet")),
            _ => Err(Error::invalid("model", format!("`model` is missing; {}", served(models)))),
        };
    };
    models.iter().find(|card| card.id == name).ok_or_else(|| Error {
        param: Some("model".to_owned()),
        ..Error::new(
            Reason::ModelNotFound,
            format!("there is no model `{}`; {}", json::shorten(name), served(models)),
        )
    })
}

fn served(models: &[ModelCard]) -> String {
    let names: Vec<String> = models.iter().map(|card| format!("`{}`", card.id)).collect();
    if names.is_empty() {
        "none is served yet".to_owned()
    } else {
        format!("served here: {}", names.join(", "))
    }
}
