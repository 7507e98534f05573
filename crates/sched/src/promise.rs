//! What a model promises, what a request asks for, and what follows: deadlines.

use std::time::Duration;

/// How urgent a request is. A smaller one goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
    /// Somebody waits in front of a screen.
    Interactive,
    /// The usual.
    #[default]
    Standard,
    /// Nobody waits: no promise but the one the request itself asks for, and it makes way for the others.
    Batch,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All, the most urgent first.
    pub const ALL: [Self; Self::COUNT] = [Self::Interactive, Self::Standard, Self::Batch];

    /// Its place among all.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name on the wire and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Standard => "standard",
            Self::Batch => "batch",
        }
    }

    /// Share of the places in the batch and of the prefill time that the class keeps, however many of more urgent ones
    /// wait.
    pub const fn share(self) -> f64 {
        match self {
            Self::Interactive => 0.0,
            Self::Standard => 0.2,
            Self::Batch => 0.1,
        }
    }
}

/// The latency that a model keeps for the requests it accepts. Without any of the three it promises nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// From headers parsed to the first token.
    pub ttft: Option<Duration>,
    /// What each token of the prompt adds to that.
    pub ttft_per_token: Duration,
    /// The mean gap between a request's tokens.
    pub itl: Option<Duration>,
    /// From headers parsed to the last token.
    pub e2e: Option<Duration>,
    /// Share of the accepted requests that must meet all of them.
    pub quantile: f64,
}

impl Default for Promise {
    fn default() -> Self {
        Self { ttft: None, ttft_per_token: Duration::ZERO, itl: None, e2e: None, quantile: 0.99 }
    }
}

impl Promise {
    /// Whether it promises nothing.
    pub const fn is_empty(&self) -> bool {
        self.ttft.is_none() && self.itl.is_none() && self.e2e.is_none()
    }
}

/// What a request asks for instead of what its model promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// How urgent it is.
    pub class: Class,
    /// Time to the first token, whatever the prompt's length.
    pub ttft: Option<Duration>,
    /// Mean gap between tokens.
    pub itl: Option<Duration>,
    /// Time to the last token; the promise's holds as well.
    pub timeout: Option<Duration>,
}

/// What one request is promised, as times from the moment its headers were parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// How urgent it is.
    pub class: Class,
    /// To the first token.
    pub ttft: Option<Duration>,
    /// Mean gap between tokens.
    pub itl: Option<Duration>,
    /// To the last token.
    pub e2e: Option<Duration>,
}

impl Terms {
    /// The terms of a request that asks for `asked` of a model with `promise`, for a prompt of `prompt` tokens.
    pub fn new(promise: &Promise, asked: &Asked, prompt: usize) -> Self {
        let promise = if asked.class == Class::Batch { &Promise::default() } else { promise };
        let tokens = u32::try_from(prompt).unwrap_or(u32::MAX);
        let ttft =
            promise.ttft.map(|ttft| ttft.saturating_add(promise.ttft_per_token.saturating_mul(tokens)));
        let e2e = match (promise.e2e, asked.timeout) {
            (Some(promised), Some(timeout)) => Some(promised.min(timeout)),
            (promised, timeout) => promised.or(timeout),
        };
        Self { class: asked.class, ttft: asked.ttft.or(ttft), itl: asked.itl.or(promise.itl), e2e }
    }

    /// The same as points in time, for a request whose headers were parsed at `arrived`.
    pub fn from(self, arrived: Duration) -> Deadlines {
        Deadlines {
            class: self.class,
            arrived,
            first: self.ttft.map(|ttft| arrived + ttft),
            itl: self.itl,
            last: self.e2e.map(|e2e| arrived + e2e),
            expected: None,
        }
    }
}

/// When a request must have what. Points in time are counted from the lane's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadlines {
    /// How urgent it is.
    pub class: Class,
    /// When its headers were parsed.
    pub arrived: Duration,
    /// Its first token.
    pub first: Option<Duration>,
    /// The mean gap between its tokens.
    pub itl: Option<Duration>,
    /// Its last token.
    pub last: Option<Duration>,
    /// What the gate predicted, by which its predictions are corrected.
    pub expected: Option<Expected>,
}

impl Deadlines {
    /// Whether anything about its latency is promised.
    pub const fn is_promised(&self) -> bool {
        self.first.is_some() || self.itl.is_some() || self.last.is_some()
    }
}

/// A prediction of the gate's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// When it was made.
    pub at: Duration,
    /// When the first token is to come, without any margin.
    pub first: Duration,
    /// By when it comes in all but a few cases.
    pub at_most: Duration,
    /// Whether the last token is to be in time, if it has one: who comes alone is let in all the same.
    pub ends_in_time: bool,
}
