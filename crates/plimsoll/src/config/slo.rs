//! Latency promises: `--slo smollm2:ttft=500ms,itl=60ms`, or `slo = { ttft = "500ms", itl = "60ms" }` in a `[[model]]`.

use super::units::Period;
use anyhow::ensure;
use plimsoll_runtime::Promise;
use serde::Deserialize;
use std::str::FromStr;
use std::time::Duration;

/// A promise as it is written. What is left out is not promised.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slo {
    /// To the first token.
    pub ttft: Option<Period>,
    /// What each token of the prompt adds to that.
    pub ttft_per_token: Option<Period>,
    /// Mean gap between tokens.
    pub itl: Option<Period>,
    /// To the last token.
    pub e2e: Option<Period>,
    /// Share of the requests that have all of them.
    pub quantile: Option<f64>,
}

/// A promise of one model, or of all.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct NamedSlo {
    /// `None`: all models that have none of their own.
    pub model: Option<String>,
    pub slo: Slo,
}

const LONGEST: Duration = Duration::from_secs(86_400);

impl Slo {
    /// The promise, every value in range.
    pub fn check(&self) -> anyhow::Result<Promise> {
        let none = Promise::default();
        let times = [
            ("ttft", self.ttft),
            ("itl", self.itl),
            ("e2e", self.e2e),
            ("ttft_per_token", self.ttft_per_token),
        ];
        for (name, time) in times {
            let is_right = time.is_none_or(|time| !time.0.is_zero() && time.0 <= LONGEST);
            ensure!(is_right, "slo: {name} must be more than 0 and at most a day");
        }
        ensure!(
            self.ttft.is_some() || self.ttft_per_token.is_none(),
            "slo: ttft_per_token adds to ttft, which is not given"
        );
        let quantile = self.quantile.unwrap_or(none.quantile);
        ensure!(
            (0.5..=0.9999).contains(&quantile),
            "slo: quantile = {quantile} is out of range; it must be from 0.5 to 0.9999"
        );
        let promise = Promise {
            ttft: self.ttft.map(|time| time.0),
            ttft_per_token: self.ttft_per_token.map_or(Duration::ZERO, |time| time.0),
            itl: self.itl.map(|time| time.0),
            e2e: self.e2e.map(|time| time.0),
            quantile,
        };
        ensure!(!promise.is_empty(), "slo: it promises nothing; give at least one of ttft, itl and e2e");
        Ok(promise)
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(terms: &str) -> Result<Self, String> {
        let mut slo = Self::default();
        let mut said = Vec::new();
        for term in terms.split(',') {
            let (name, value) = term.split_once('=').ok_or_else(|| {
                format!("`{term}` is no term of a promise; write them as ttft=500ms,itl=60ms,quantile=0.99")
            })?;
            if said.contains(&name.trim()) {
                return Err(format!("`{}` is promised twice; leave one out", name.trim()));
            }
            said.push(name.trim());
            let period = || value.trim().parse::<Period>().map(Some);
            match name.trim() {
                "ttft" => slo.ttft = period()?,
                "ttft_per_token" => slo.ttft_per_token = period()?,
                "itl" => slo.itl = period()?,
                "e2e" => slo.e2e = period()?,
                "quantile" => {
                    let number =
                        value.trim().parse().map_err(|_| format!("`{value}` is no number; write 0.99"))?;
                    slo.quantile = Some(number);
                }
                other => {
                    return Err(format!(
                        "nobody promises `{other}`; there are ttft, ttft_per_token, itl, e2e, quantile"
                    ));
                }
            }
        }
        Ok(slo)
    }
}

impl FromStr for NamedSlo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A model's name may have a colon in it; what follows the last one has an equals sign.
        let (model, terms) = match text.rsplit_once(':') {
            Some((model, terms)) => (Some(model.to_owned()), terms),
            None => (None, text),
        };
        Ok(Self { model, slo: terms.parse()? })
    }
}

impl TryFrom<String> for NamedSlo {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_read() {
        let named: NamedSlo =
            "a:b:ttft=500ms, itl=60ms,ttft_per_token=0.5ms,e2e=3s,quantile=0.95".parse().unwrap();
        assert_eq!(named.model.as_deref(), Some("a:b"));
        let promise = named.slo.check().unwrap();
        let ms = Duration::from_millis;
        assert_eq!((promise.ttft, promise.itl, promise.e2e), (Some(ms(500)), Some(ms(60)), Some(ms(3000))));
        assert_eq!((promise.ttft_per_token, promise.quantile), (Duration::from_micros(500), 0.95));
        assert_eq!("ttft=1s".parse::<NamedSlo>().unwrap().model, None);
    }

    #[test]
    fn what_cannot_be_promised_is_refused() {
        let check = |text: &str| {
            let named: NamedSlo = text.parse()?;
            named.slo.check().map_err(|error| error.to_string())
        };
        for (text, message) in [
            ("fast", "`fast` is no term of a promise"),
            ("m:tpot=3ms", "nobody promises `tpot`"),
            ("m:ttft=3", "`3` is no duration"),
            ("m:ttft=0ms", "slo: ttft must be more than 0"),
            ("m:itl=2000h", "slo: itl must be more than 0 and at most a day"),
            ("m:ttft=1s,quantile=1", "slo: quantile = 1 is out of range"),
            ("m:ttft=1s, ttft=2s", "`ttft` is promised twice"),
            ("m:quantile=0.9", "slo: it promises nothing"),
            ("m:ttft_per_token=1ms,itl=1s", "slo: ttft_per_token adds to ttft"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
