//! `/v1/chat/completions` and `/v1/completions`.
//!
//! - `happenings`: the events of all prompts of a request, as one stream.
//! - `dialect`: how chat and completions differ in what they write.
//! - `frames`: server-sent events, written into one reused buffer.
//! - `sse`, `whole`: the two ways to answer.

mod dialect;
mod happenings;
mod sse;
mod whole;

use crate::app::App;
use crate::auth::Tenant;
use crate::body;
use crate::exchange::{Exchange, new_id};
use crate::frames::Head;
use crate::info::{refuse_unready, still_loading};
use crate::refusal::Refusal;
use crate::urgency;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use dialect::{Chat, Dialect, Text};
use happenings::Happenings;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::openai::{self, Caller, Job, Limits};
use plimsoll_api::service::{GenerateRequest, ModelCard, Readiness};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a body is read in one dialect.
type Read = fn(&[u8], &[ModelCard], Caller<'_>, Limits) -> Result<Job, Error>;

/// `POST /v1/chat/completions`.
pub async fn chat(
    State(app): State<Arc<App>>,
    Extension(exchange): Extension<Arc<Exchange>>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    request: Request,
) -> Result<Response, Refusal> {
    answer::<Chat>(app, exchange, tenant, request, openai::chat::read).await
}

/// `POST /v1/completions`.
pub async fn completion(
    State(app): State<Arc<App>>,
    Extension(exchange): Extension<Arc<Exchange>>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    request: Request,
) -> Result<Response, Refusal> {
    answer::<Text>(app, exchange, tenant, request, openai::completion::read).await
}

async fn answer<D: Dialect>(
    app: Arc<App>,
    exchange: Arc<Exchange>,
    tenant: u32,
    request: Request,
    read: Read,
) -> Result<Response, Refusal> {
    if app.readiness() == Readiness::Draining {
        refuse_unready(Readiness::Draining)?;
    }
    let urgency = urgency::read(request.headers(), exchange.began())?;
    let body = body::read(request, &app.bodies).await?;
    let caller = Caller { request_id: exchange.request_id(), tenant, urgency };
    let limits = Limits { max_choices: app.config.max_choices };
    let job = read(&body, &app.service.models(tenant), caller, limits)
        .map_err(|error| still_loading(&app, error))?;
    let share = body.becomes(job.bytes());
    exchange.concerns(&job.model);
    let reply = Reply::<D>::new(&job);
    let closing = app.closing.clone();
    let respond = async {
        let Job { requests, n, stream, .. } = job;
        let mut happenings = admit(&app, requests, n).await?;
        drop(share);
        if stream {
            begin(&mut happenings, &app).await?;
            exchange.streams();
            Ok(sse::response(happenings, reply, &app, Arc::clone(&exchange)))
        } else {
            whole::response(happenings, reply, &exchange).await
        }
    };
    tokio::select! {
        answer = respond => Ok(answer?),
        () = closing.cancelled() => Err(Refusal(cut_short())),
    }
}

/// What a request is told that ran when the time to drain was over.
fn cut_short() -> Error {
    Error::new(Reason::Draining, "the server went down before this answer was complete")
}

/// Starts every prompt, or none: an early return drops, and so cancels, those that were admitted before the one refused.
async fn admit(app: &App, requests: Vec<GenerateRequest>, n: u32) -> Result<Happenings, Error> {
    let mut admitted = Vec::with_capacity(requests.len());
    for request in requests {
        admitted.push(app.service.generate(request).await?);
    }
    Ok(Happenings::new(admitted, n))
}

/// Waits until something happens, so that a request that fails before can still be told by a status. Not longer than a
/// client hears nothing.
async fn begin(happenings: &mut Happenings, app: &App) -> Result<(), Error> {
    let first = poll_fn(|context| happenings.poll_first(context));
    match app.config.keep_alive {
        Some(wait) => tokio::time::timeout(wait, first).await.unwrap_or(Ok(())),
        None => first.await,
    }
}

/// What is needed to write an answer.
struct Reply<D> {
    head: Head,
    dialect: D,
    choices: usize,
    include_usage: bool,
}

impl<D: Dialect> Reply<D> {
    fn new(job: &Job) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let choices = job.requests.len() * job.n as usize;
        let head = Head { id: new_id(D::ID_PREFIX), created, model: job.model.clone() };
        Self { head, dialect: D::new(choices, job.logprobs), choices, include_usage: job.include_usage }
    }
}
