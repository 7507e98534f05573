//! The routes that generate nothing.

use crate::app::App;
use crate::auth::Tenant;
use crate::exchange::Exchange;
use crate::refusal::{Refusal, json};
use crate::{VERSION, body};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::openai::pick_model;
use plimsoll_api::openai::response::{ModelBody, ModelList};
use plimsoll_api::openai::tokenize::{Detokenized, Tokenized, read_detokenize, read_tokenize};
use plimsoll_api::service::Readiness;
use serde_json::json as object;
use std::sync::Arc;
use std::time::Duration;

/// When to ask again after "not ready".
const NOT_READY_RETRY: Duration = Duration::from_secs(1);

/// `GET /v1/models`.
pub async fn models(State(app): State<Arc<App>>, Extension(Tenant(tenant)): Extension<Tenant>) -> Response {
    json(&ModelList::from(app.service.models(tenant).as_slice()))
}

/// `GET /v1/models/{id}`; the id may have slashes.
pub async fn model(
    State(app): State<Arc<App>>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(id) =
        path.map_err(|error| Error::new(Reason::ModelNotFound, format!("no model's name: {error}")))?;
    let cards = app.service.models(tenant);
    let card = pick_model(&cards, Some(&id)).map_err(|error| still_loading(&app, error))?;
    Ok(json(&ModelBody::from(card)))
}

/// `POST /tokenize`.
pub async fn tokenize(
    State(app): State<Arc<App>>,
    Extension(exchange): Extension<Arc<Exchange>>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    request: Request,
) -> Result<Response, Refusal> {
    let body = body::read(request, &app.bodies).await?;
    let cards = app.service.models(tenant);
    let request = read_tokenize(&body, &cards).map_err(|error| still_loading(&app, error))?;
    let _share = body.becomes(request.text.len());
    exchange.concerns(&request.model);
    let max_model_len = pick_model(&cards, Some(&request.model))?.context;
    let tokens = app.service.tokenize(request).await?;
    Ok(json(&Tokenized { count: tokens.len(), max_model_len, tokens: &tokens }))
}

/// `POST /detokenize`.
pub async fn detokenize(
    State(app): State<Arc<App>>,
    Extension(exchange): Extension<Arc<Exchange>>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    request: Request,
) -> Result<Response, Refusal> {
    let body = body::read(request, &app.bodies).await?;
    let (model, tokens) =
        read_detokenize(&body, &app.service.models(tenant)).map_err(|error| still_loading(&app, error))?;
    let _share = body.becomes(size_of_val(&*tokens));
    exchange.concerns(&model);
    let text = app.service.detokenize(model, tokens).await?;
    Ok(json(&Detokenized { prompt: &text, content: &text }))
}

/// `GET /health`: readiness.
pub async fn health(State(app): State<Arc<App>>) -> Response {
    answer_readiness(app.readiness())
}

/// 200 when ready, 503 when not.
pub fn answer_readiness(readiness: Readiness) -> Response {
    match refuse_unready(readiness) {
        Ok(()) => json(&object!({"status": "ok"})),
        Err(error) => Refusal(error).into_response(),
    }
}

/// An error unless new work is taken.
pub fn refuse_unready(readiness: Readiness) -> Result<(), Error> {
    let (reason, message) = match readiness {
        Readiness::Ready => return Ok(()),
        Readiness::Loading => (Reason::Loading, "the server is loading its models"),
        Readiness::Draining => (Reason::Draining, "the server is going down and takes no new work"),
    };
    Err(Error::new(reason, message).retry_after(NOT_READY_RETRY))
}

/// A model that is not there yet may be there soon.
pub fn still_loading(app: &App, error: Error) -> Error {
    match app.readiness() {
        Readiness::Loading if error.reason == Reason::ModelNotFound => {
            refuse_unready(Readiness::Loading).err().unwrap_or(error)
        }
        _ => error,
    }
}

/// `GET /ping`: liveness.
pub async fn ping() -> Response {
    json(&object!({"status": "alive"}))
}

/// `GET /version`.
pub async fn version() -> Response {
    json(&object!({"name": "plimsoll", "version": VERSION}))
}
