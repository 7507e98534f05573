//! The promise that answers are held against.

use crate::record::{Outcome, Record};
use serde::Serialize;
use std::time::Duration;

/// Bounds that an answer must keep, all of them; a bound that is not stated always holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slo {
    /// Most time from the intended arrival to the first token.
    #[serde(rename = "ttft_ms", serialize_with = "millis")]
    pub ttft: Option<Duration>,
    /// Most mean gap between an answer's tokens.
    #[serde(rename = "itl_ms", serialize_with = "millis")]
    pub itl: Option<Duration>,
    /// Most time from the intended arrival to the end of the answer.
    #[serde(rename = "e2e_ms", serialize_with = "millis")]
    pub e2e: Option<Duration>,
    /// Share of requests that must keep the bounds, from 0 to below 1.
    pub quantile: f64,
}

impl Slo {
    /// Whether this request was answered, whole and in time.
    pub fn met_by(&self, record: &Record) -> bool {
        let within = |bound: Option<Duration>, ms: Option<f64>| match (bound, ms) {
            (Some(bound), Some(ms)) => ms <= bound.as_secs_f64() * 1e3,
            _ => true,
        };
        record.outcome == Outcome::Done
            && within(self.ttft, record.ttft_ms())
            && within(self.itl, record.tpot_ms())
            && within(self.e2e, Some(record.e2e_ms()))
    }

    /// How many of `offered` requests may miss the bounds.
    pub fn misses_allowed(&self, offered: usize) -> usize {
        // 1 - 0.99 is a little less than 0.01: of 100 requests one may miss.
        ((1.0 - self.quantile) * offered as f64 + 1e-9) as usize
    }
}

impl std::fmt::Display for Slo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, bound) in [("TTFT", self.ttft), ("mean ITL", self.itl), ("E2E", self.e2e)] {
            if let Some(bound) = bound {
                write!(f, "{name} {} ms, ", bound.as_secs_f64() * 1e3)?;
            }
        }
        write!(f, "for {} %", plimsoll_charts::short(self.quantile * 100.0))
    }
}

#[expect(clippy::ref_option, reason = "serde passes fields so")]
fn millis<S: serde::Serializer>(bound: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    bound.map(|bound| bound.as_secs_f64() * 1e3).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_miss() {
        let slo = |quantile| Slo { ttft: None, itl: None, e2e: None, quantile };
        let cases =
            [(0.99, 100, 1), (0.99, 199, 1), (0.99, 1000, 10), (0.9, 10, 1), (0.999, 100, 0), (0.5, 0, 0)];
        for (quantile, offered, allowed) in cases {
            assert_eq!(slo(quantile).misses_allowed(offered), allowed, "{quantile} of {offered}");
        }
    }

    #[test]
    fn every_bound_counts() {
        let ms = |ms| Some(Duration::from_millis(ms));
        // First token after 400 ms, four more within 200 ms: a mean gap of 50 ms; done after 650 ms.
        let record = Record {
            sent: 10.0,
            intended: 10.0,
            first: Some(10.4),
            last: Some(10.6),
            end: 10.65,
            completion_tokens: Some(5),
            outcome: Outcome::Done,
            ..Record::default()
        };
        let cases = [
            (ms(401), ms(51), ms(651), true),
            (None, None, None, true),
            (ms(399), ms(51), ms(651), false),
            (ms(401), ms(49), ms(651), false),
            (ms(401), ms(51), ms(649), false),
        ];
        for (ttft, itl, e2e, met) in cases {
            let slo = Slo { ttft, itl, e2e, quantile: 0.99 };
            assert_eq!(slo.met_by(&record), met, "{slo}");
            assert!(!slo.met_by(&Record { outcome: Outcome::Transport, ..record.clone() }));
        }
    }
}
