//! Message content given as a list of parts.

use super::TemplateError;
use serde_json::Value;

/// The messages with every content list of text parts joined into one string: most templates know strings only.
///
/// # Errors
/// When a part is not `{"type": "text", "text": ...}`.
pub(super) fn flatten(messages: &[Value]) -> Result<Vec<Value>, TemplateError> {
    let mut messages = messages.to_vec();
    for (at, message) in messages.iter_mut().enumerate() {
        if let Some(content @ Value::Array(_)) = message.get_mut("content") {
            *content = Value::String(join(content, at)?);
        }
    }
    Ok(messages)
}

fn join(content: &Value, message: usize) -> Result<String, TemplateError> {
    let mut text = String::new();
    for (at, part) in content.as_array().into_iter().flatten().enumerate() {
        let path = format!("messages[{message}].content[{at}]");
        match (part.get("type").and_then(Value::as_str), part.get("text")) {
            (Some("text"), Some(Value::String(part))) => text.push_str(part),
            (Some("text"), _) => {
                let what = "a part of type \"text\" needs a string in \"text\"".to_owned();
                return Err(TemplateError::Content { path, what });
            }
            (kind, _) => {
                let kind =
                    kind.map_or_else(|| "without a type".to_owned(), |kind| format!("of type {kind:?}"));
                let what = format!("parts {kind} are not supported; this model takes {{\"type\": \"text\"}}");
                return Err(TemplateError::Content { path, what });
            }
        }
    }
    Ok(text)
}
