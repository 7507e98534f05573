//! What a request takes in memory, about: enough to bound what all of them take.

use crate::service::{GenerateRequest, Prompt};
use serde_json::{Map, Value};

/// What an entry of an object takes besides key and value: its hash, and its place in the index.
const ENTRY: usize = 32;

pub(super) fn request(request: &GenerateRequest) -> usize {
    let stops: usize = request.stop.iter().map(String::len).sum();
    size_of::<GenerateRequest>()
        + stops
        + size_of_val(&*request.sampling.logit_bias)
        + prompt(&request.prompt)
}

fn prompt(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Chat { messages, extra, .. } => messages.iter().map(value).sum::<usize>() + map(extra),
        Prompt::Text(text) => text.len(),
        Prompt::Tokens(tokens) => size_of_val(&**tokens),
    }
}

fn value(json: &Value) -> usize {
    let inside = match json {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value).sum(),
        Value::Object(fields) => map(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

fn map(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(key, json)| ENTRY + size_of::<String>() + key.len() + value(json)).sum()
}
