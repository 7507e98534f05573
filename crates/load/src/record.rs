//! What became of one request.

use crate::manner::Manner;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// How a request ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// Answered to the end; whether in time is the promise's to say.
    Done,
    /// 429, and the time after which the server wants to see it again.
    Refused {
        /// `retry-after-ms`, or `retry-after` in milliseconds.
        retry_after_ms: Option<f64>,
    },
    /// 504: accepted, and its time ran out before a token.
    Expired,
    /// Any other status that is not 200.
    Http {
        /// The status.
        status: u16,
    },
    /// An error event in a stream that began well, or an event nobody can read.
    ErrorEvent,
    /// No connection, or one that broke before the answer was whole.
    Transport,
    /// Left by its client, as that had in mind.
    HungUp,
    /// Given up by this side: its time limit, or the end of the run.
    #[default]
    Aborted,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("answered"),
            Self::Refused { .. } => f.write_str("refused (429)"),
            Self::Expired => f.write_str("expired (504)"),
            Self::Http { status } => write!(f, "status {status}"),
            Self::ErrorEvent => f.write_str("error event"),
            Self::Transport => f.write_str("connection failed"),
            Self::HungUp => f.write_str("hung up"),
            Self::Aborted => f.write_str("aborted here"),
        }
    }
}

/// One request, with times in seconds since the start of its run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Record {
    /// Its number in the run.
    pub id: u64,
    /// Its class, as an index into the mix.
    pub class: usize,
    /// How its client behaved.
    pub manner: Manner,
    /// Its turn in a conversation, from 0.
    pub turn: u32,
    /// Offered after the warm-up.
    pub measured: bool,
    /// When it should have been sent.
    pub intended: f64,
    /// When it was.
    pub sent: f64,
    /// When the first text came.
    pub first: Option<f64>,
    /// When the last text came.
    pub last: Option<f64>,
    /// When the answer was whole, or the request over.
    pub end: f64,
    /// Events with text in them.
    pub chunks: u32,
    /// Times between them, in milliseconds.
    #[serde(skip)]
    pub gaps_ms: Vec<f32>,
    /// Tokens of the prompt, by the server's usage.
    pub prompt_tokens: Option<u32>,
    /// Of which the server had in a cache.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer, by the server's usage.
    pub completion_tokens: Option<u32>,
    /// How it ended.
    pub outcome: Outcome,
    /// What the server, or the system, said about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Record {
    /// Whether the figures rest on it: measured, and of a client that behaves.
    pub fn counts(&self) -> bool {
        self.measured && self.manner == Manner::Ordinary
    }

    /// Time to the first token, from the intended arrival. An answer without text has it at its end.
    pub fn ttft_ms(&self) -> Option<f64> {
        match (self.first, self.outcome) {
            (Some(first), _) => Some((first - self.intended) * 1e3),
            (None, Outcome::Done) => Some(self.e2e_ms()),
            (None, _) => None,
        }
    }

    /// Mean gap between tokens: from the first text to the last, over the tokens after the first. `None` below two tokens.
    pub fn tpot_ms(&self) -> Option<f64> {
        let gaps = self.tokens().checked_sub(1).filter(|&gaps| gaps > 0)?;
        let (first, last) = self.first.zip(self.last)?;
        Some((last - first) * 1e3 / f64::from(gaps))
    }

    /// From the intended arrival to the end.
    pub fn e2e_ms(&self) -> f64 {
        (self.end - self.intended) * 1e3
    }

    /// How late this side sent it.
    pub fn lag_ms(&self) -> f64 {
        (self.sent - self.intended) * 1e3
    }

    /// From sending to the end: what a refusal took.
    pub fn service_ms(&self) -> f64 {
        (self.end - self.sent) * 1e3
    }

    /// Tokens of the answer: the server's count, or the number of events when it gave none.
    pub fn tokens(&self) -> u32 {
        self.completion_tokens.unwrap_or(self.chunks)
    }
}
