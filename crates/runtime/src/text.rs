//! The text side of a model: prompts to tokens, tokens to text.

use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{GenerateRequest, Prompt, TokenInfo};
use plimsoll_model::template::ChatTemplate;
use plimsoll_model::tokenizer::{Encode, TextError, Tokenizer};
use std::sync::Arc;

pub(crate) struct Text {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) template: Option<ChatTemplate>,
}

impl Text {
    /// The tokens of a prompt, at least one. A text that is sure to be more than `most` tokens is refused unread.
    pub(crate) fn prompt(&self, prompt: &Prompt, most: usize) -> Result<Vec<u32>, Error> {
        let tokens = match prompt {
            Prompt::Chat { messages, extra, add_generation_prompt } => {
                let text =
                    self.template()?.render(messages, extra, *add_generation_prompt).map_err(|error| {
                        Error {
                            param: Some("messages".into()),
                            ..Error::new(Reason::Template, error.to_string())
                        }
                    })?;
                self.check_length("messages", &text, most)?;
                // The template writes what stands around a conversation, BOS included.
                self.encode(&text, Encode { add_special: false, parse_special: true })?
            }
            Prompt::Text(text) => {
                self.check_length("prompt", text, most)?;
                self.encode(text, Encode { add_special: true, parse_special: true })?
            }
            Prompt::Tokens(tokens) => self.checked(tokens)?,
        };
        if tokens.is_empty() {
            return Err(Error::invalid("prompt", "the prompt has no tokens; it needs at least one"));
        }
        Ok(tokens)
    }

    /// Refuses a text of too many tokens before it is cut into them: for 8 MB, the largest body, that takes ten seconds of
    /// a core and a gigabyte.
    fn check_length(&self, param: &str, text: &str, most: usize) -> Result<(), Error> {
        let least = self.tokenizer.at_least(text);
        if least <= most {
            return Ok(());
        }
        let message = format!(
            "the prompt's {} bytes are at least {least} tokens; the context holds {most}, prompt and output together",
            text.len()
        );
        Err(Error { param: Some(param.into()), ..Error::new(Reason::ContextLength, message) })
    }

    fn template(&self) -> Result<&ChatTemplate, Error> {
        let missing = || {
            Error::invalid("messages", "this model has no chat template; use /v1/completions with a prompt")
        };
        self.template.as_ref().ok_or_else(missing)
    }

    fn checked(&self, tokens: &[u32]) -> Result<Vec<u32>, Error> {
        let vocab = self.tokenizer.vocab();
        match tokens.iter().position(|&token| token as usize >= vocab) {
            None => Ok(tokens.to_vec()),
            Some(i) => {
                let message =
                    format!("token {} is outside the vocabulary; ids are 0 to {}", tokens[i], vocab - 1);
                Err(Error::invalid(format!("prompt[{i}]"), message))
            }
        }
    }

    pub(crate) fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, Error> {
        self.tokenizer.encode(text, how).map_err(text_error)
    }

    pub(crate) fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        self.tokenizer.decode(tokens).map_err(text_error)
    }

    /// The prompt as the beginning of an echoed output.
    pub(crate) fn echo(&self, request: &GenerateRequest, tokens: &[u32]) -> Result<String, Error> {
        match &request.prompt {
            Prompt::Text(text) => Ok(text.clone()),
            Prompt::Chat { .. } | Prompt::Tokens(_) => self.decode(tokens),
        }
    }

    /// Writes a token as clients see it over `info`, and uses the memory that is there.
    pub(crate) fn inform(
        &self,
        info: &mut TokenInfo,
        (token, logprob): (u32, Option<f32>),
        top: &[(u32, f32)],
    ) {
        (info.id, info.logprob) = (token, logprob);
        self.token(token, &mut info.text, &mut info.bytes);
        info.top.resize_with(top.len(), Default::default);
        for (to, &(id, logprob)) in info.top.iter_mut().zip(top) {
            (to.0, to.3) = (id, logprob);
            self.token(id, &mut to.1, &mut to.2);
        }
    }

    fn token(&self, id: u32, text: &mut String, bytes: &mut Vec<u8>) {
        let token = self.tokenizer.token_bytes(id).unwrap_or_default();
        text.clear();
        for chunk in token.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        bytes.clear();
        bytes.extend_from_slice(token);
    }
}

fn text_error(error: TextError) -> Error {
    Error::new(Reason::InvalidRequest, error.to_string())
}

/// Bytes of a prompt, for the estimate before it is tokenized.
pub(crate) fn bytes(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Chat { messages, extra, .. } => {
            messages.iter().map(json_bytes).sum::<usize>() + extra.values().map(json_bytes).sum::<usize>()
        }
        Prompt::Text(text) => text.len(),
        // About as many as the text would have.
        Prompt::Tokens(tokens) => 4 * tokens.len(),
    }
}

fn json_bytes(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(json_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + json_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}
