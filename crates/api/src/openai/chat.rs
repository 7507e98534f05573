//! `/v1/chat/completions`.

use super::common::{Common, check_max_tokens, check_top_logprobs};
use super::{Caller, Job, Limits, json, pick_model};
use crate::error::Error;
use crate::service::{GenerateRequest, ModelCard, Prompt};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Most JSON values of a body: messages and tools are kept as JSON for the template.
pub const MAX_VALUES: usize = 1 << 17;

/// The fields that only chat has.
#[derive(Debug, Deserialize)]
struct Fields {
    messages: Option<Vec<Map<String, Value>>>,
    max_completion_tokens: Option<u32>,
    logprobs: Option<bool>,
    top_logprobs: Option<u32>,
    add_generation_prompt: Option<bool>,
    chat_template_kwargs: Option<Map<String, Value>>,
    tools: Option<Vec<Map<String, Value>>>,
    tool_choice: Option<Value>,
    functions: Option<Vec<Value>>,
    response_format: Option<Map<String, Value>>,
    modalities: Option<Vec<String>>,
}

/// Reads a chat request.
///
/// # Errors
/// See [`crate::openai`]; what this server cannot do yet (JSON schemas, forced tools, images) is refused by name.
pub fn read(body: &[u8], models: &[ModelCard], caller: Caller<'_>, limits: Limits) -> Result<Job, Error> {
    json::check_values(body, MAX_VALUES)?;
    let mut common: Common = json::parse(body)?;
    let mut fields: Fields = json::parse(body)?;
    let card = pick_model(models, common.model.as_deref())?;
    if !card.chat {
        let id = &card.id;
        return Err(Error::invalid("model", format!("`{id}` has no chat template; use /v1/completions")));
    }
    let checked = common.check(card, caller, limits)?;
    refuse_formats(&fields)?;
    let max_tokens = fields.max_tokens(common.max_tokens)?;
    let logprobs = fields.logprobs()?;
    let extra = fields.template_variables()?;
    let messages = check_messages(fields.messages.take())?;
    let request = GenerateRequest {
        model: card.id.clone(),
        request_id: caller.request_id.to_owned(),
        tenant: caller.tenant,
        urgency: checked.urgency,
        cache_salt: checked.cache_salt,
        prompt: Prompt::Chat {
            messages,
            extra,
            add_generation_prompt: fields.add_generation_prompt.unwrap_or(true),
        },
        n: checked.n,
        max_tokens,
        stop: checked.stop,
        ignore_eos: checked.ignore_eos,
        echo: false,
        logprobs,
        sampling: checked.sampling,
    };
    Ok(Job {
        model: card.id.clone(),
        requests: vec![request],
        n: checked.n,
        stream: checked.stream,
        include_usage: checked.include_usage,
        logprobs: logprobs.is_some(),
    })
}

impl Fields {
    /// `max_completion_tokens` is the newer name of `max_tokens`; both may be given if they agree.
    fn max_tokens(&self, old: Option<u32>) -> Result<Option<u32>, Error> {
        let new = check_max_tokens("max_completion_tokens", self.max_completion_tokens)?;
        let old = check_max_tokens("max_tokens", old)?;
        match (new, old) {
            (Some(new), Some(old)) if new != old => Err(Error::invalid(
                "max_completion_tokens",
                format!("`max_completion_tokens` is {new} and `max_tokens` is {old}; give one of them"),
            )),
            (new, old) => Ok(new.or(old)),
        }
    }

    fn logprobs(&self) -> Result<Option<u32>, Error> {
        match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (true, top) => check_top_logprobs("top_logprobs", top.unwrap_or(0)).map(Some),
            (false, None) => Ok(None),
            (false, Some(_)) => {
                Err(Error::invalid("top_logprobs", "`top_logprobs` is only allowed with `logprobs`: true"))
            }
        }
    }

    fn template_variables(&mut self) -> Result<Map<String, Value>, Error> {
        let mut extra = self.chat_template_kwargs.take().unwrap_or_default();
        let choice = self.tool_choice.take().unwrap_or(Value::Null);
        let wanted = match choice.as_str() {
            Some("none") => false,
            Some("auto") => true,
            None if choice.is_null() => true,
            _ => {
                return Err(Error::invalid(
                    "tool_choice",
                    "a tool cannot be forced here; `tool_choice` must be \"auto\" or \"none\"",
                ));
            }
        };
        let tools = self.tools.take().unwrap_or_default();
        if wanted && !tools.is_empty() {
            extra.insert("tools".to_owned(), tools.into_iter().map(Value::Object).collect());
        }
        Ok(extra)
    }
}

fn refuse_formats(fields: &Fields) -> Result<(), Error> {
    if let Some(format) = &fields.response_format
        && format.get("type").and_then(Value::as_str) != Some("text")
    {
        let path = "response_format.type";
        return Err(Error::invalid(
            path,
            "output cannot be forced into a format here; the only `type` is \"text\"",
        ));
    }
    if fields.functions.as_ref().is_some_and(|functions| !functions.is_empty()) {
        return Err(Error::invalid("functions", "`functions` is not supported; use `tools`"));
    }
    if fields.modalities.iter().flatten().any(|modality| modality != "text") {
        return Err(Error::invalid("modalities", "the only modality is \"text\""));
    }
    Ok(())
}

fn check_messages(messages: Option<Vec<Map<String, Value>>>) -> Result<Vec<Value>, Error> {
    let messages =
        messages.ok_or_else(|| Error::invalid("messages", "`messages` is missing; it is an array"))?;
    if messages.is_empty() {
        return Err(Error::invalid("messages", "`messages` is empty; there must be at least one message"));
    }
    messages
        .into_iter()
        .enumerate()
        .map(|(i, message)| check_message(i, message).map(Value::Object))
        .collect()
}

fn check_message(i: usize, mut message: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let role = format!("messages[{i}].role");
    match message.get("role") {
        Some(Value::String(text)) if !text.is_empty() => {}
        _ => {
            return Err(Error::invalid(role.clone(), format!("`{role}` must be a string, such as \"user\"")));
        }
    }
    let path = format!("messages[{i}].content");
    let calls_tools = message.get("tool_calls").is_some_and(Value::is_array);
    match message.get_mut("content") {
        Some(Value::String(_)) => {}
        Some(content @ Value::Array(_)) => *content = Value::String(join_parts(&path, content)?),
        None | Some(Value::Null) if calls_tools => {}
        _ => {
            return Err(Error::invalid(
                path.clone(),
                format!("`{path}` must be a string or an array of {{\"type\": \"text\", \"text\": …}}"),
            ));
        }
    }
    Ok(message)
}

/// Templates expect one string; the parts of a text are put together by lines, as vLLM and llama-server do.
fn join_parts(path: &str, content: &Value) -> Result<String, Error> {
    let mut joined = String::new();
    for (i, part) in content.as_array().into_iter().flatten().enumerate() {
        if i > 0 {
            joined.push('\n');
        }
        match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
            (Some("text"), Some(text)) => joined.push_str(text),
            (Some(kind), _) if kind != "text" => {
                return Err(Error::invalid(
                    format!("{path}[{i}].type"),
                    format!("content of type `{}` is not supported, only \"text\"", json::shorten(kind)),
                ));
            }
            _ => {
                let path = format!("{path}[{i}]");
                let message = format!("`{path}` must be {{\"type\": \"text\", \"text\": …}}");
                return Err(Error::invalid(path, message));
            }
        }
    }
    Ok(joined)
}
