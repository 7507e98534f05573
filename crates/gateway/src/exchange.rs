//! One request and what became of it: its id, its line in the log, its place in `plimsoll_requests_total`.

use crate::app::App;
use crate::refusal::Refusal;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::Usage;
use plimsoll_telemetry::Metrics;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id taken from a client.
const LONGEST_ID: usize = 128;
/// How a request ends when nobody notes an end: its client left.
const CANCELLED: &str = "cancelled";

/// Noted for the log and the metrics when the last holder drops it: the handler, or the stream that answers.
pub struct Exchange {
    request_id: String,
    route: String,
    began: Instant,
    metrics: Arc<Metrics>,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    model: String,
    streaming: bool,
    outcome: Option<&'static str>,
    status: u16,
    usage: Usage,
}

impl Exchange {
    fn new(request: &Request, metrics: Arc<Metrics>) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
        Self {
            request_id: request_id(request),
            route,
            began: Instant::now(),
            metrics,
            notes: Mutex::default(),
        }
    }

    /// The client's id for this request, or one of ours.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// When its headers were parsed.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// A served model is concerned.
    pub fn concerns(&self, model: &str) {
        model.clone_into(&mut self.notes().model);
    }

    /// The answer has begun and ends later, with [`Self::ends`].
    pub fn streams(&self) {
        self.notes().streaming = true;
    }

    /// What the request took.
    pub fn took(&self, usage: Usage) {
        self.notes().usage = usage;
    }

    /// The first byte of an answer is about to be written; the engine had the request for `engine` of the time until now.
    pub fn handled(&self, engine: Duration) {
        self.metrics.handled(self.began.elapsed().saturating_sub(engine));
    }

    /// How it ended: `ok` or a code of the error table.
    pub fn ends(&self, outcome: &'static str) {
        self.notes().outcome = Some(outcome);
    }

    fn answered(&self, response: &Response) {
        let reason = response.extensions().get::<Reason>();
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            self.metrics.refused(self.began.elapsed());
        }
        let mut notes = self.notes();
        notes.status = response.status().as_u16();
        if !notes.streaming {
            notes.outcome = Some(reason.map_or("ok", |reason| reason.row().1));
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let notes = self.notes();
        let (request_id, route, model, status) = (&self.request_id, &self.route, &notes.model, notes.status);
        let outcome = notes.outcome.unwrap_or(CANCELLED);
        self.metrics.request(model, route, outcome);
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = notes.usage;
        if model.is_empty() && outcome == "ok" {
            // Probes and look-ups: too many to be news.
            tracing::debug!(request_id, route, status, ms, "answered");
        } else {
            tracing::info!(
                request_id,
                route,
                model,
                outcome,
                status,
                ms,
                prompt_tokens,
                cached_tokens,
                completion_tokens,
                "answered"
            );
        }
    }
}

/// The outermost layer but CORS: every request gets an exchange, every answer its id, and a panic becomes an answer.
pub async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let exchange = Arc::new(Exchange::new(&request, Arc::clone(&app.metrics)));
    request.extensions_mut().insert(Arc::clone(&exchange));
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| {
        tracing::error!(request_id = exchange.request_id(), "a handler panicked");
        Refusal(Error::new(Reason::Internal, "the server failed on this request")).into_response()
    });
    exchange.answered(&response);
    if let Ok(id) = HeaderValue::from_str(exchange.request_id()) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    response
}

fn request_id(request: &Request) -> String {
    let given = request.headers().get(X_REQUEST_ID).map(HeaderValue::as_bytes).unwrap_or_default();
    let fit = (1..=LONGEST_ID).contains(&given.len()) && given.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(given) {
        Ok(id) if fit => id.to_owned(),
        _ => new_id("req_"),
    }
}

/// A fresh id: `prefix` and 128 random bits.
pub fn new_id(prefix: &str) -> String {
    format!("{prefix}{:032x}", fastrand::u128(..))
}
