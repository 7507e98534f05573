//! What is answered where.

use crate::app::App;
use crate::auth::authorize;
use crate::exchange::observe;
use crate::refusal::Refusal;
use crate::{generate, info};
use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use plimsoll_api::error::{Error, Reason};
use std::sync::Arc;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// The API's routes, with the layers that all of them have.
pub fn router(app: &Arc<App>) -> Router {
    let router = Router::new()
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completion))
        .route("/v1/models", get(info::models))
        .route("/v1/models/{*id}", get(info::model))
        .route("/tokenize", post(info::tokenize))
        .route("/detokenize", post(info::detokenize))
        .route("/health", get(info::health))
        .route("/ping", get(info::ping))
        .route("/version", get(info::version))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(app), authorize))
        .layer(from_fn_with_state(Arc::clone(app), observe))
        .with_state(Arc::clone(app));
    match cors(&app.config.cors_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

pub async fn not_found(uri: axum::http::Uri) -> Response {
    let message = format!("there is nothing at `{}`", shown(&uri));
    Refusal(Error::new(Reason::NotFound, message)).into_response()
}

/// As much of a path as an answer repeats.
fn shown(uri: &axum::http::Uri) -> String {
    uri.path().chars().take(100).collect()
}

pub async fn method_not_allowed(method: Method, uri: axum::http::Uri) -> Response {
    let message = format!("`{}` does not take {method}; the `allow` header says what it takes", shown(&uri));
    Refusal(Error::new(Reason::MethodNotAllowed, message)).into_response()
}

/// No layer at all without origins.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origins = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let shown =
        ["x-request-id", "retry-after", "retry-after-ms", "x-plimsoll-reason"].map(HeaderName::from_static);
    let methods = [Method::GET, Method::POST];
    let cors = CorsLayer::new().allow_origin(origins).allow_methods(methods).expose_headers(shown);
    Some(cors.allow_headers(AllowHeaders::mirror_request()))
}
