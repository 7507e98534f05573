//! `/tokenize` and `/detokenize`, in vLLM's and llama-server's dialects.

use super::{json, pick_model};
use crate::error::Error;
use crate::service::{ModelCard, TokenizeRequest};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
struct TokenizeFields {
    model: Option<String>,
    prompt: Option<String>,
    content: Option<String>,
    add_special_tokens: Option<bool>,
    add_special: Option<bool>,
    parse_special: Option<bool>,
    messages: Option<serde::de::IgnoredAny>,
}

/// Reads a body of `/tokenize`: `prompt` (vLLM's name; special tokens are added unless `add_special_tokens` is false) or
/// `content` (llama-server's name; they are not added unless `add_special` is true). `parse_special` is true when absent.
///
/// # Errors
/// See [`crate::openai`].
pub fn read_tokenize(body: &[u8], models: &[ModelCard]) -> Result<TokenizeRequest, Error> {
    let fields: TokenizeFields = json::parse(body)?;
    let card = pick_model(models, fields.model.as_deref())?;
    if fields.messages.is_some() {
        return Err(Error::invalid("messages", "`messages` is not supported here; give `prompt`, a string"));
    }
    let (text, add_by_default) = match (fields.prompt, fields.content) {
        (Some(prompt), None) => (prompt, true),
        (None, Some(content)) => (content, false),
        (None, None) => {
            return Err(Error::invalid("prompt", "`prompt` (or `content`) is missing; it is a string"));
        }
        (Some(_), Some(_)) => return Err(Error::invalid("content", "give `prompt` or `content`, not both")),
    };
    Ok(TokenizeRequest {
        model: card.id.clone(),
        text,
        add_special_tokens: fields.add_special_tokens.or(fields.add_special).unwrap_or(add_by_default),
        parse_special: fields.parse_special.unwrap_or(true),
    })
}

#[derive(Debug, Deserialize)]
struct DetokenizeFields {
    model: Option<String>,
    tokens: Option<Vec<u32>>,
}

/// Reads a body of `/detokenize`: the model's name and the tokens.
///
/// # Errors
/// See [`crate::openai`]; ids outside the vocabulary are refused.
pub fn read_detokenize(body: &[u8], models: &[ModelCard]) -> Result<(String, Vec<u32>), Error> {
    let fields: DetokenizeFields = json::parse(body)?;
    let card = pick_model(models, fields.model.as_deref())?;
    let tokens = fields
        .tokens
        .ok_or_else(|| Error::invalid("tokens", "`tokens` is missing; it is an array of token ids"))?;
    check_ids("tokens", &tokens, card)?;
    Ok((card.id.clone(), tokens))
}

/// Refuses ids outside the vocabulary.
pub(super) fn check_ids(path: &str, tokens: &[u32], card: &ModelCard) -> Result<(), Error> {
    match tokens.iter().enumerate().find(|&(_, &id)| id as usize >= card.vocab) {
        None => Ok(()),
        Some((i, id)) => {
            let most = card.vocab.saturating_sub(1);
            let path = format!("{path}[{i}]");
            let message = format!("`{path}` is {id}; token ids of `{}` are from 0 to {most}", card.id);
            Err(Error::invalid(path, message))
        }
    }
}

/// The answer of `/tokenize`.
#[derive(Debug, Serialize)]
pub struct Tokenized<'a> {
    /// How many tokens.
    pub count: usize,
    /// Longest prompt plus output of the model, in tokens.
    pub max_model_len: usize,
    /// Their ids.
    pub tokens: &'a [u32],
}

/// The answer of `/detokenize`.
#[derive(Debug, Serialize)]
pub struct Detokenized<'a> {
    /// The text, as vLLM calls it.
    pub prompt: &'a str,
    /// The text, as llama-server calls it.
    pub content: &'a str,
}
