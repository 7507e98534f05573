//! One request and its answer, and when each part of it came.

use crate::connection::{Answer, Buffers, Connections, words};
use crate::manner::Conduct;
use crate::openai::{self, Usage};
use crate::record::Outcome;
use crate::sse::Events;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// As much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How long an answer that is whole may keep its connection before that is given up.
const TRAILING: Duration = Duration::from_millis(200);

/// What came of a request, and when.
#[derive(Debug)]
pub struct Exchange {
    /// When it was sent.
    pub sent: Instant,
    /// When the first text came.
    pub first: Option<Instant>,
    /// When the last text came.
    pub last: Option<Instant>,
    /// When the answer was whole, or had failed.
    pub end: Instant,
    /// Times between texts, in milliseconds.
    pub gaps_ms: Vec<f32>,
    /// Events with text.
    pub chunks: u32,
    /// The last usage the server gave.
    pub usage: Option<Usage>,
    /// The answer, if it was to be kept.
    pub text: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was said about a failure.
    pub message: Option<String>,
    keep_text: bool,
    finished: bool,
    done: bool,
}

impl Exchange {
    fn new(keep_text: bool) -> Self {
        let now = Instant::now();
        Self {
            sent: now,
            first: None,
            last: None,
            end: now,
            gaps_ms: Vec::new(),
            chunks: 0,
            usage: None,
            text: String::new(),
            outcome: Outcome::Aborted,
            message: None,
            keep_text,
            finished: false,
            done: false,
        }
    }

    fn over(&mut self, outcome: Outcome, message: Option<String>) {
        self.end = Instant::now();
        self.outcome = outcome;
        self.message = message;
    }

    /// Takes one event that came at `now`.
    ///
    /// # Errors
    /// In words: the event is an error, or cannot be read.
    fn take(&mut self, data: &[u8], now: Instant) -> Result<(), String> {
        if self.done {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
            self.end = now;
            return Ok(());
        }
        let event = openai::event(data)?;
        if let Some(error) = event.error {
            return Err(error);
        }
        self.usage = event.usage.or(self.usage);
        self.finished |= event.finished;
        if !event.text.is_empty() {
            self.take_text(&event.text, now);
        }
        Ok(())
    }

    fn take_text(&mut self, text: &str, now: Instant) {
        if let Some(last) = self.last {
            self.gaps_ms.push((now - last).as_secs_f32() * 1e3);
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.chunks += 1;
        if self.keep_text {
            self.text.push_str(text);
        }
    }
}

/// How requests are sent.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Longest that a request may take from sending to its end.
    pub whole: Duration,
    /// Whether the answer's text is kept.
    pub keep_text: bool,
    /// What the client does.
    pub conduct: Conduct,
}

/// Sends a request and follows its answer to the end. Dropping the future hangs up.
pub async fn exchange(
    connections: &Connections,
    request: Request<Full<Bytes>>,
    patience: Patience,
) -> Exchange {
    let mut seen = Exchange::new(patience.keep_text);
    let leaves_after = match patience.conduct {
        Conduct::LeavesAfter { time } => Some(time.min(patience.whole)),
        _ => None,
    };
    let following = follow(connections, request, &mut seen, patience.conduct);
    let followed = timeout(leaves_after.unwrap_or(patience.whole), following).await;
    // An answer that was whole stays so, if only its connection was waited for.
    if followed.is_err() && seen.outcome == Outcome::Aborted {
        let gave_up = || format!("gave up after {} s", patience.whole.as_secs_f64());
        match leaves_after {
            Some(_) => seen.over(Outcome::HungUp, None),
            None => seen.over(Outcome::Aborted, Some(gave_up())),
        }
    }
    seen
}

async fn follow(
    connections: &Connections,
    request: Request<Full<Bytes>>,
    seen: &mut Exchange,
    conduct: Conduct,
) {
    let is_slow = matches!(conduct, Conduct::SlowReader { .. });
    let buffers = if is_slow { Buffers::Small } else { Buffers::Usual };
    let mut answer = match connections.send(request, buffers).await {
        Ok(answer) => answer,
        Err(message) => return seen.over(Outcome::Transport, Some(message)),
    };
    if answer.response.status() == StatusCode::OK {
        stream(&mut answer, seen, conduct).await;
        // Dropping the answer of one who hung up closes the connection.
        if seen.outcome != Outcome::HungUp {
            finish(connections, answer).await;
        }
    } else {
        refusal(connections, answer, seen).await;
    }
}

/// Reads a stream to `[DONE]`, or to its end.
async fn stream(answer: &mut Answer, seen: &mut Exchange, conduct: Conduct) {
    let mut events = Events::default();
    while !seen.done {
        let bytes = match answer.response.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return seen.over(Outcome::Transport, Some(words(&error))),
            None => break,
        };
        let now = Instant::now();
        let mut wrong = None;
        let read = events.push(&bytes, |data| {
            if wrong.is_none() {
                wrong = seen.take(data, now).err();
            }
        });
        if let Some(message) = wrong.or_else(|| read.err().map(|error| error.to_string())) {
            return seen.over(Outcome::ErrorEvent, Some(message));
        }
        match conduct {
            Conduct::LeavesAt { text } if seen.chunks >= text => return seen.over(Outcome::HungUp, None),
            Conduct::SlowReader { pause } => sleep(pause).await,
            _ => {}
        }
    }
    if seen.done {
        seen.outcome = Outcome::Done;
    } else if seen.finished {
        seen.over(Outcome::Done, None);
    } else {
        seen.over(Outcome::Transport, Some("the stream ended before the answer was whole".to_owned()));
    }
}

/// Keeps the connection of an answer that is whole. Its time has been taken, so the body's end may come a little later.
async fn finish(connections: &Connections, mut answer: Answer) {
    let rest = async {
        while let Some(frame) = answer.response.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    };
    if timeout(TRAILING, rest).await == Ok(true) {
        connections.keep(answer);
    }
}

/// Reads an answer that is no stream.
async fn refusal(connections: &Connections, mut answer: Answer, seen: &mut Exchange) {
    let status = answer.response.status();
    let outcome = match status {
        StatusCode::TOO_MANY_REQUESTS => {
            Outcome::Refused { retry_after_ms: retry_after_ms(answer.response.headers()) }
        }
        StatusCode::GATEWAY_TIMEOUT => Outcome::Expired,
        status => Outcome::Http { status: status.as_u16() },
    };
    let body = error_body(&mut answer.response).await;
    seen.over(outcome, Some(openai::error_message(body.as_deref().unwrap_or_default())));
    if body.is_some() {
        connections.keep(answer);
    }
}

/// An error's body; `None` if it is broken or too long.
async fn error_body(response: &mut hyper::Response<Incoming>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(frame) = response.frame().await {
        body.extend_from_slice(&frame.ok()?.into_data().unwrap_or_default());
        if body.len() > MAX_ERROR_BODY {
            return None;
        }
    }
    Some(body)
}

fn retry_after_ms(headers: &HeaderMap) -> Option<f64> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let ms = number("retry-after-ms").or_else(|| number("retry-after").map(|seconds| seconds * 1e3));
    ms.filter(|ms| ms.is_finite() && *ms >= 0.0)
}
