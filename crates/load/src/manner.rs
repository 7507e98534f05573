//! Clients that misbehave: which requests are theirs, and what each of them does.

use crate::openai::Endpoint;
use fastrand::Rng;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// How a client behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Asks properly, reads what comes.
    #[default]
    Ordinary,
    /// Reads slowly, over a connection that holds little, an answer that is large.
    SlowReader,
    /// Leaves before the answer is whole.
    HangUp,
    /// Sends what is no request.
    Bad,
    /// Asks for more than the time it gives allows.
    ShortTimeout,
}

impl Manner {
    /// All that misbehave.
    pub const ODD: [Self; 4] = [Self::SlowReader, Self::HangUp, Self::Bad, Self::ShortTimeout];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary clients",
            Self::SlowReader => "slow readers",
            Self::HangUp => "clients that hang up",
            Self::Bad => "bad requests",
            Self::ShortTimeout => "short timeouts",
        }
    }

    /// What one such client does; `seed` chooses where that is left open, `max_tokens` is the length of its answer.
    pub fn conduct(self, seed: u64, max_tokens: u32) -> Conduct {
        let mut rng = Rng::with_seed(seed);
        match self {
            Self::Ordinary => Conduct::Ordinary,
            Self::SlowReader => Conduct::SlowReader { pause: SLOW },
            // Some leave while they wait, whatever the server is doing with them then.
            Self::HangUp if rng.u8(..) < u8::MAX / 4 => {
                Conduct::LeavesAfter { time: Duration::from_micros(rng.u64(..WAITS_MICROS)) }
            }
            Self::HangUp => Conduct::LeavesAt { text: rng.u32(1..=max_tokens.max(1)) },
            Self::Bad => Conduct::Bad { flaw: rng.usize(..) },
            Self::ShortTimeout => Conduct::ShortTimeout { ms: rng.u32(1..=LONGEST_SHORT_MS) },
        }
    }
}

/// A slow reader's pause between two readings of at most [`SLOW_BUFFER`].
const SLOW: Duration = Duration::from_millis(500);
/// Bytes that a slow reader's connection holds here; this side's kernel is asked to hold half of that.
pub const SLOW_BUFFER: u32 = 8 << 10;
/// Longest that one waits who leaves without having seen anything.
const WAITS_MICROS: u64 = 300_000;
/// Longest of the times too short, in milliseconds.
const LONGEST_SHORT_MS: u32 = 300;

/// What one client does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conduct {
    /// Asks properly, reads what comes.
    #[default]
    Ordinary,
    /// Waits between two readings.
    SlowReader {
        /// How long.
        pause: Duration,
    },
    /// Hangs up, whatever has come by then.
    LeavesAfter {
        /// Since sending.
        time: Duration,
    },
    /// Hangs up at an event with text.
    LeavesAt {
        /// Which, from 1.
        text: u32,
    },
    /// Spoils the body.
    Bad {
        /// In which of many ways.
        flaw: usize,
    },
    /// Sends `x-request-timeout-ms`.
    ShortTimeout {
        /// Its value.
        ms: u32,
    },
}

impl Conduct {
    /// The body that is sent in place of `good`.
    pub fn body(self, good: Vec<u8>, endpoint: Endpoint) -> Vec<u8> {
        match self {
            Self::Bad { flaw } => spoiled(&good, flaw),
            Self::SlowReader { .. } => large(good, endpoint),
            _ => good,
        }
    }
}

/// A body that no server should take.
fn spoiled(good: &[u8], flaw: usize) -> Vec<u8> {
    const FLAWS: usize = 8;
    let text = |text: &str| text.as_bytes().to_vec();
    let half = &good[..good.len() / 2];
    match flaw % FLAWS {
        0 => half.to_vec(),
        1 => Vec::new(),
        2 => text("[]"),
        3 => text(r#"{"messages": 5, "prompt": {"a": 1}}"#),
        4 => text(r#"{"model": ["m"], "messages": [], "prompt": null}"#),
        5 => [half, &[0xff, 0xfe]].concat(),
        6 => "[".repeat(10_000).into_bytes(),
        _ => text(r#"{"messages": [{"role": "user", "content": "a"}], "prompt": "a", "max_tokens": -1}"#),
    }
}

/// The same request with an answer many times as large, so that buffers on the way do not hide who reads it slowly: every
/// token comes with the most likely ones.
fn large(good: Vec<u8>, endpoint: Endpoint) -> Vec<u8> {
    let Ok(Value::Object(mut body)) = serde_json::from_slice(&good) else { return good };
    match endpoint {
        Endpoint::Chat => {
            body.insert("logprobs".to_owned(), json!(true));
            body.insert("top_logprobs".to_owned(), json!(20));
        }
        Endpoint::Completions => {
            body.insert("logprobs".to_owned(), json!(5));
        }
    }
    Value::Object(body).to_string().into_bytes()
}

/// How many of the requests are whose: shares from 0 to 1, together at most 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Manners {
    /// [`Manner::SlowReader`]
    pub slow_readers: f64,
    /// [`Manner::HangUp`]
    pub hang_up: f64,
    /// [`Manner::Bad`]
    pub bad: f64,
    /// [`Manner::ShortTimeout`]
    pub short_timeouts: f64,
}

impl Manners {
    fn shares(&self) -> [f64; 4] {
        [self.slow_readers, self.hang_up, self.bad, self.short_timeouts]
    }

    /// Whether these can be shares of one whole.
    pub fn are_sound(&self) -> bool {
        let shares = self.shares();
        shares.iter().all(|share| (0.0..=1.0).contains(share)) && shares.iter().sum::<f64>() <= 1.0
    }

    /// The manner of one request.
    pub fn choose(&self, rng: &mut Rng) -> Manner {
        let mut left = rng.f64();
        let odd = Manner::ODD.into_iter().zip(self.shares()).find(|(_, share)| {
            left -= share;
            left < 0.0
        });
        odd.map_or(Manner::Ordinary, |(manner, _)| manner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        let manners = Manners { slow_readers: 0.1, hang_up: 0.2, bad: 0.3, short_timeouts: 0.0 };
        let mut rng = Rng::with_seed(1);
        let chosen: Vec<Manner> = (0..10_000).map(|_| manners.choose(&mut rng)).collect();
        let share = |of| chosen.iter().filter(|&&manner| manner == of).count() / 100;
        assert!((8..=12).contains(&share(Manner::SlowReader)) && (18..=22).contains(&share(Manner::HangUp)));
        assert!((28..=32).contains(&share(Manner::Bad)) && (38..=42).contains(&share(Manner::Ordinary)));
        assert_eq!(share(Manner::ShortTimeout), 0);
    }

    #[test]
    fn sound_shares() {
        let of = |bad, hang_up| Manners { bad, hang_up, ..Manners::default() }.are_sound();
        assert!(of(0.0, 0.0) && of(1.0, 0.0) && of(0.5, 0.5));
        assert!(!of(-0.1, 0.2) && !of(0.6, 0.5) && !of(f64::NAN, 0.0));
    }

    #[test]
    fn no_flaw_leaves_a_good_request() {
        let good = br#"{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":4}"#;
        for flaw in 0..8 {
            let spoiled: Option<Value> = serde_json::from_slice(&spoiled(good, flaw)).ok();
            let is_good = spoiled.is_some_and(|body| {
                body["messages"].as_array().is_some_and(|list| !list.is_empty())
                    && body["max_tokens"].is_u64()
            });
            assert!(!is_good, "{flaw}");
        }
    }
}
