//! `/v1/completions`.

use super::common::{Checked, Common, check_top_logprobs};
use super::fields::Prompts;
use super::{Caller, Job, Limits, json, pick_model};
use crate::error::Error;
use crate::service::{GenerateRequest, ModelCard, Prompt};
use serde::Deserialize;

/// What `max_tokens` is when absent, here as with OpenAI and vLLM. (Chat has no such limit.)
pub const DEFAULT_MAX_TOKENS: u32 = 16;

/// Most JSON values of a body, nearly all of them token ids.
pub const MAX_VALUES: usize = 1 << 20;

/// The fields that only completions have.
#[derive(Debug, Deserialize)]
struct Fields {
    prompt: Option<Prompts>,
    logprobs: Option<u32>,
    echo: Option<bool>,
    best_of: Option<u32>,
    suffix: Option<String>,
}

/// Reads a completion request. OpenAI allows up to 5 `logprobs`, this server up to 20.
///
/// # Errors
/// See [`crate::openai`].
pub fn read(body: &[u8], models: &[ModelCard], caller: Caller<'_>, limits: Limits) -> Result<Job, Error> {
    json::check_values(body, MAX_VALUES)?;
    let mut common: Common = json::parse(body)?;
    let fields: Fields = json::parse(body)?;
    let card = pick_model(models, common.model.as_deref())?;
    let checked = common.check(card, caller, limits)?;
    fields.refuse_unsupported(checked.n)?;
    // 0 is right here, as with OpenAI: with `echo` and `logprobs` it scores a text.
    let max_tokens = common.max_tokens.or(Some(DEFAULT_MAX_TOKENS));
    let logprobs = fields.logprobs.map(|top| check_top_logprobs("logprobs", top)).transpose()?;
    let prompts = check_prompts(fields.prompt, card)?;
    check_choices(prompts.len(), checked.n, limits.choices(card))?;
    let Checked { n, stop, ignore_eos, cache_salt, urgency, sampling, stream, include_usage } = checked;
    let request = |prompt| GenerateRequest {
        model: card.id.clone(),
        request_id: caller.request_id.to_owned(),
        tenant: caller.tenant,
        urgency,
        cache_salt: cache_salt.clone(),
        prompt,
        n,
        max_tokens,
        stop: stop.clone(),
        ignore_eos,
        echo: fields.echo.unwrap_or(false),
        logprobs,
        sampling: sampling.clone(),
    };
    let requests = prompts.into_iter().map(request).collect();
    Ok(Job { model: card.id.clone(), requests, n, stream, include_usage, logprobs: logprobs.is_some() })
}

impl Fields {
    fn refuse_unsupported(&self, n: u32) -> Result<(), Error> {
        if let Some(best_of) = self.best_of.filter(|&best_of| best_of != n) {
            let message = format!("`best_of` is {best_of}; only `best_of` equal to `n` ({n}) is supported");
            return Err(Error::invalid("best_of", message));
        }
        if self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty()) {
            return Err(Error::invalid("suffix", "`suffix` is not supported: text is only continued"));
        }
        Ok(())
    }
}

fn check_prompts(prompts: Option<Prompts>, card: &ModelCard) -> Result<Vec<Prompt>, Error> {
    let prompts = match prompts {
        None => return Err(Error::invalid("prompt", "`prompt` is missing; it is a string or token ids")),
        Some(Prompts::Texts(texts)) => texts.into_iter().map(Prompt::Text).collect(),
        Some(Prompts::Tokens(tokens)) => vec![check_tokens("prompt", tokens, card)?],
        Some(Prompts::TokenLists(lists)) => {
            let checked = |(i, tokens)| check_tokens(&format!("prompt[{i}]"), tokens, card);
            lists.into_iter().enumerate().map(checked).collect::<Result<_, _>>()?
        }
    };
    if prompts.is_empty() {
        return Err(Error::invalid(
            "prompt",
            "`prompt` is an empty array; there must be at least one prompt",
        ));
    }
    Ok(prompts)
}

fn check_tokens(path: &str, tokens: Vec<u32>, card: &ModelCard) -> Result<Prompt, Error> {
    if tokens.is_empty() {
        return Err(Error::invalid(path, format!("`{path}` has no tokens; there must be at least one")));
    }
    super::tokenize::check_ids(path, &tokens, card)?;
    Ok(Prompt::Tokens(tokens))
}

fn check_choices(prompts: usize, n: u32, most: u32) -> Result<(), Error> {
    if prompts.saturating_mul(n as usize) > most as usize {
        return Err(Error::invalid(
            "prompt",
            format!("{prompts} prompts times `n` = {n} is more than {most} choices, the most in one request"),
        ));
    }
    Ok(())
}
