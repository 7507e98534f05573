//! What a body becomes, and what it is refused with.

mod any;
mod body;
mod chat;
mod completion;
mod fields;
mod tokenize;

use plimsoll_api::error::Error;
use plimsoll_api::openai::{self, Caller, Job, Limits};
use plimsoll_api::service::{GenerateRequest, ModelCard, Urgency};
use serde_json::{Value, json};

fn cards() -> Vec<ModelCard> {
    vec![ModelCard { id: "tiny".to_owned(), context: 128, vocab: 100, choices: 1024, created: 1, chat: true }]
}

const CALLER: Caller<'static> = Caller {
    request_id: "r1",
    tenant: 3,
    urgency: Urgency { priority: None, arrived: None, ttft: None, itl: None, timeout: None },
};
const LIMITS: Limits = Limits { max_choices: 8 };

fn read_chat(body: &[u8]) -> Result<Job, Error> {
    openai::chat::read(body, &cards(), CALLER, LIMITS)
}

fn read_completion(body: &[u8]) -> Result<Job, Error> {
    openai::completion::read(body, &cards(), CALLER, LIMITS)
}

/// The least body, with more fields in it.
fn with(least: Value, more: &Value) -> Vec<u8> {
    let mut body = least;
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    body.to_string().into_bytes()
}

fn chat_with(more: &Value) -> Result<Job, Error> {
    read_chat(&with(json!({"messages": [{"role": "user", "content": "Hi"}]}), more))
}

fn completion_with(more: &Value) -> Result<Job, Error> {
    read_completion(&with(json!({"prompt": "Hi"}), more))
}

fn only(job: Result<Job, Error>) -> GenerateRequest {
    let mut job = job.expect("accepted");
    assert_eq!(job.requests.len(), 1);
    job.requests.remove(0)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(got: Result<T, Error>, param: &str, words: &str) {
    let error = got.expect_err("refused");
    assert_eq!(error.param.as_deref().unwrap_or(""), param, "{error:?}");
    assert!(error.message.contains(words), "`{words}` is not in `{}`", error.message);
}
