//! The OpenAI API, as far as load needs it: bodies of requests, events of streams.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Where requests go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `/v1/chat/completions`
    #[default]
    Chat,
    /// `/v1/completions`
    Completions,
}

impl Endpoint {
    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }
}

/// What the server understands beyond the bare API; found out before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Dialect {
    /// `ignore_eos`: answers are as long as asked for.
    pub ignore_eos: bool,
    /// `stream_options.include_usage`: the server counts tokens.
    pub usage: bool,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// This side.
    User,
    /// The server.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
}

/// The body of a streamed, greedy request. For [`Endpoint::Completions`] the last message is the prompt.
pub fn body(
    endpoint: Endpoint,
    dialect: Dialect,
    model: &str,
    messages: &[Message],
    max_tokens: u32,
) -> Vec<u8> {
    let mut body = json!({"model": model, "max_tokens": max_tokens, "temperature": 0, "stream": true});
    let mut set =
        |key: &str, value: Value| body.as_object_mut().and_then(|body| body.insert(key.to_owned(), value));
    match endpoint {
        Endpoint::Chat => set("messages", json!(messages)),
        Endpoint::Completions => set("prompt", json!(messages.last().map(|message| &message.content))),
    };
    if dialect.ignore_eos {
        set("ignore_eos", Value::Bool(true));
    }
    if dialect.usage {
        set("stream_options", json!({"include_usage": true}));
    }
    body.to_string().into_bytes()
}

/// Tokens, as the server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: Option<u32>,
    /// Of the answer.
    pub completion_tokens: Option<u32>,
    /// More about the prompt's.
    pub prompt_tokens_details: Option<PromptTokens>,
}

/// More about a prompt's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct PromptTokens {
    /// Those the server had in a cache.
    pub cached_tokens: Option<u32>,
}

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Text of the answer, its reasoning included; empty if there is none in it.
    pub text: String,
    /// It says why the answer ended.
    pub finished: bool,
    /// Tokens so far, or in all.
    pub usage: Option<Usage>,
    /// It is an error, with these words.
    pub error: Option<String>,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    error: Option<Value>,
    /// Old llama-servers send an error's fields bare.
    code: Option<Value>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
}

/// Reads the data of one event that is not `[DONE]`.
///
/// # Errors
/// In words: it is not JSON of a known shape.
pub fn event(data: &[u8]) -> Result<Event, String> {
    let chunk: Chunk =
        serde_json::from_slice(data).map_err(|error| format!("an event cannot be read: {error}"))?;
    let mut event = Event { usage: chunk.usage, ..Event::default() };
    if chunk.choices.is_none() && chunk.code.is_some() && chunk.message.is_some() {
        event.error = chunk.message;
    } else if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
        event.error = Some(error_words(&error));
    }
    for choice in chunk.choices.into_iter().flatten() {
        event.finished |= choice.finish_reason.is_some();
        let delta = choice.delta.map(|delta| [delta.reasoning_content.or(delta.reasoning), delta.content]);
        for text in delta.into_iter().flatten().chain([choice.text]).flatten() {
            event.text.push_str(&text);
        }
    }
    Ok(event)
}

fn error_words(error: &Value) -> String {
    error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned)
}

/// The words of an error body, whatever its shape, at most a line of them.
pub fn error_message(body: &[u8]) -> String {
    let parsed: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    let words = parsed.and_then(|body| {
        let error = body.get("error").map(error_words);
        error.or_else(|| body.get("message").or_else(|| body.get("detail")).map(|text| text.to_string()))
    });
    let words = words.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    words.lines().next().unwrap_or_default().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events() {
        let usage = |prompt, completion, cached: Option<u32>| {
            let prompt_tokens_details = cached.map(|cached| PromptTokens { cached_tokens: Some(cached) });
            Some(Usage {
                prompt_tokens: Some(prompt),
                completion_tokens: Some(completion),
                prompt_tokens_details,
            })
        };
        let text = |text: &str| Event { text: text.to_owned(), ..Event::default() };
        let cases = [
            (r#"{"choices":[{"delta":{"role":"assistant","content":null}}]}"#, Event::default()),
            (r#"{"choices":[{"delta":{"content":"a\n"},"finish_reason":null}],"usage":null}"#, text("a\n")),
            (r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#, text("hm")),
            (r#"{"choices":[{"text":"b","index":0}]}"#, text("b")),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
                Event { finished: true, ..Event::default() },
            ),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}},"timings":{}}"#,
                Event { usage: usage(7, 3, Some(4)), ..Event::default() },
            ),
            (
                r#"{"error":{"message":"too late","code":"deadline"}}"#,
                Event { error: Some("too late".to_owned()), ..Event::default() },
            ),
            (
                r#"{"code":500,"message":"no","type":"server_error"}"#,
                Event { error: Some("no".to_owned()), ..Event::default() },
            ),
        ];
        for (data, wanted) in cases {
            assert_eq!(event(data.as_bytes()).as_ref(), Ok(&wanted), "{data}");
        }
        assert!(event(b"{").is_err() && event(b"[1]").is_err());
    }

    #[test]
    fn bodies_say_only_what_the_server_knows() {
        let messages = [Message { role: Role::User, content: "hi".to_owned() }];
        let read = |endpoint, ignore_eos, usage| -> Value {
            let bytes = body(endpoint, Dialect { ignore_eos, usage }, "m", &messages, 7);
            serde_json::from_slice(&bytes).unwrap()
        };
        let plain = json!({"model": "m", "max_tokens": 7, "temperature": 0, "stream": true, "prompt": "hi"});
        assert_eq!(read(Endpoint::Completions, false, false), plain);
        let chat = read(Endpoint::Chat, true, true);
        assert_eq!(chat["messages"], json!([{"role": "user", "content": "hi"}]));
        assert_eq!(
            (&chat["ignore_eos"], &chat["stream_options"]["include_usage"]),
            (&json!(true), &json!(true))
        );
    }

    #[test]
    fn error_bodies() {
        let cases = [
            (r#"{"error":{"message":"full"}}"#, "full"),
            (r#"{"error":"no such"}"#, "\"no such\""),
            (r#"{"detail":"Not Found"}"#, "\"Not Found\""),
            ("<html>\nx", "<html>"),
            ("", ""),
        ];
        for (body, words) in cases {
            assert_eq!(error_message(body.as_bytes()), words);
        }
    }
}
