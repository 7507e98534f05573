//! The fields that chat and text completions share, and their ranges.

use super::fields::{Seed, Stop, StreamOptions};
use super::{Caller, Limits, json};
use crate::error::Error;
use crate::service::{ModelCard, Priority, Sampling, Urgency};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most stop strings.
pub const MAX_STOPS: usize = 16;
/// Longest stop string, in bytes: as much as this is held back from a stream.
pub const MAX_STOP_BYTES: usize = 1024;
/// Most alternatives reported per token.
pub const MAX_TOP_LOGPROBS: u32 = 20;

/// The shared fields, as they are on the wire.
#[derive(Debug, Deserialize)]
pub(super) struct Common {
    pub model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    pub max_tokens: Option<u32>,
    stop: Option<Stop>,
    ignore_eos: Option<bool>,
    cache_salt: Option<String>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    logit_bias: Option<BTreeMap<String, f64>>,
    seed: Option<Seed>,
    priority: Option<i64>,
}

/// The shared fields, checked.
pub(super) struct Checked {
    pub n: u32,
    pub stop: Vec<String>,
    pub ignore_eos: bool,
    pub cache_salt: String,
    /// The caller's, and the body's `priority` if that says nothing.
    pub urgency: Urgency,
    pub sampling: Sampling,
    pub stream: bool,
    pub include_usage: bool,
}

impl Common {
    pub fn check(&mut self, card: &ModelCard, caller: Caller<'_>, limits: Limits) -> Result<Checked, Error> {
        let stream = self.stream.unwrap_or(false);
        Ok(Checked {
            n: self.check_n(limits.choices(card))?,
            stop: check_stop(self.stop.take().unwrap_or_default().0)?,
            ignore_eos: self.ignore_eos.unwrap_or(false),
            cache_salt: self.cache_salt.take().unwrap_or_default(),
            urgency: self.urgency(caller.urgency),
            sampling: self.check_sampling(card)?,
            stream,
            include_usage: self.check_stream_options(stream)?,
        })
    }

    fn check_n(&self, most: u32) -> Result<u32, Error> {
        match self.n.unwrap_or(1) {
            n if (1..=most).contains(&n) => Ok(n),
            n => Err(Error::invalid("n", format!("`n` must be from 1 to {most}, not {n}"))),
        }
    }

    /// As with vLLM, a lower `priority` goes first. 0 is what it is there without being set, and what its clients send
    /// who mean nothing by it: it says no more than no `priority` does, which an API key that is for `batch` alone may.
    fn urgency(&self, asked: Urgency) -> Urgency {
        let in_body = self.priority.and_then(|priority| match priority {
            ..0 => Some(Priority::Interactive),
            0 => None,
            1.. => Some(Priority::Batch),
        });
        Urgency { priority: asked.priority.or(in_body), ..asked }
    }

    fn check_stream_options(&self, stream: bool) -> Result<bool, Error> {
        let Some(options) = &self.stream_options else { return Ok(false) };
        if !stream {
            return Err(Error::invalid(
                "stream_options",
                "`stream_options` is only allowed with `stream`: true",
            ));
        }
        Ok(options.include_usage.unwrap_or(false))
    }

    fn check_sampling(&self, card: &ModelCard) -> Result<Sampling, Error> {
        let off = Sampling::default();
        Ok(Sampling {
            temperature: check("temperature", self.temperature, off.temperature, &FROM_0_TO_2)?,
            top_k: check_top_k(self.top_k)?,
            top_p: check("top_p", self.top_p, off.top_p, &ABOVE_0_TO_1)?,
            min_p: check("min_p", self.min_p, off.min_p, &FROM_0_TO_1)?,
            repetition_penalty: check(
                "repetition_penalty",
                self.repetition_penalty,
                off.repetition_penalty,
                &ABOVE_0_TO_2,
            )?,
            presence_penalty: check("presence_penalty", self.presence_penalty, 0.0, &WITHIN_2)?,
            frequency_penalty: check("frequency_penalty", self.frequency_penalty, 0.0, &WITHIN_2)?,
            logit_bias: check_logit_bias(self.logit_bias.as_ref(), card)?,
            seed: self.seed.map(|seed| seed.0),
        })
    }
}

/// A range of numbers and its name in words.
struct Range {
    words: &'static str,
    holds: fn(f64) -> bool,
}

const FROM_0_TO_1: Range = Range { words: "from 0 to 1", holds: |x| (0.0..=1.0).contains(&x) };
const FROM_0_TO_2: Range = Range { words: "from 0 to 2", holds: |x| (0.0..=2.0).contains(&x) };
const ABOVE_0_TO_1: Range = Range { words: "above 0 and at most 1", holds: |x| x > 0.0 && x <= 1.0 };
const ABOVE_0_TO_2: Range = Range { words: "above 0 and at most 2", holds: |x| x > 0.0 && x <= 2.0 };
const WITHIN_2: Range = Range { words: "from -2 to 2", holds: |x| (-2.0..=2.0).contains(&x) };
const WITHIN_100: Range = Range { words: "from -100 to 100", holds: |x| (-100.0..=100.0).contains(&x) };

fn check(name: &str, value: Option<f64>, default: f32, range: &Range) -> Result<f32, Error> {
    let Some(value) = value else { return Ok(default) };
    if !(range.holds)(value) {
        return Err(Error::invalid(name, format!("`{name}` must be {}, not {value}", range.words)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the ranges are small; sampling works in f32")]
    let value = value as f32;
    // A tiny number above 0 must not become the 0 that its range excludes.
    Ok(if value == 0.0 && !(range.holds)(0.0) { f32::MIN_POSITIVE } else { value })
}

fn check_top_k(value: Option<i64>) -> Result<u32, Error> {
    match value.unwrap_or(0) {
        -1 => Ok(0),
        k => u32::try_from(k).map_err(|_| {
            Error::invalid("top_k", format!("`top_k` must be a token count, or 0 or -1 for off, not {k}"))
        }),
    }
}

fn check_stop(stop: Vec<String>) -> Result<Vec<String>, Error> {
    if stop.len() > MAX_STOPS {
        let count = stop.len();
        return Err(Error::invalid("stop", format!("`stop` takes at most {MAX_STOPS} strings, not {count}")));
    }
    for (i, text) in stop.iter().enumerate() {
        if text.is_empty() || text.len() > MAX_STOP_BYTES {
            let size = text.len();
            return Err(Error::invalid(
                format!("stop[{i}]"),
                format!("a stop string has from 1 to {MAX_STOP_BYTES} bytes, not {size}"),
            ));
        }
    }
    Ok(stop)
}

fn check_logit_bias(
    bias: Option<&BTreeMap<String, f64>>,
    card: &ModelCard,
) -> Result<Vec<(u32, f32)>, Error> {
    let mut checked = Vec::with_capacity(bias.map_or(0, BTreeMap::len));
    for (key, value) in bias.into_iter().flatten() {
        let path = format!("logit_bias.{}", json::shorten(key));
        let digits = key.bytes().all(|byte| byte.is_ascii_digit());
        let id =
            key.parse().ok().filter(|&id: &u32| digits && (id as usize) < card.vocab).ok_or_else(|| {
                let most = card.vocab.saturating_sub(1);
                Error::invalid(path.clone(), format!("keys of `logit_bias` are token ids from 0 to {most}"))
            })?;
        checked.push((id, check(&path, Some(*value), 0.0, &WITHIN_100)?));
    }
    Ok(checked)
}

/// `max_tokens`, or what stands for it.
pub(super) fn check_max_tokens(name: &str, value: Option<u32>) -> Result<Option<u32>, Error> {
    match value {
        Some(0) => Err(Error::invalid(name, format!("`{name}` must be at least 1"))),
        value => Ok(value),
    }
}

/// How many alternatives per token.
pub(super) fn check_top_logprobs(name: &str, value: u32) -> Result<u32, Error> {
    if value > MAX_TOP_LOGPROBS {
        return Err(Error::invalid(
            name,
            format!("`{name}` must be from 0 to {MAX_TOP_LOGPROBS}, not {value}"),
        ));
    }
    Ok(value)
}
