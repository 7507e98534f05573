//! An error of the table as an HTTP answer, in OpenAI's shape.

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::openai::response::ErrorBody;
use serde::Serialize;
use std::time::Duration;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const X_PLIMSOLL_REASON: HeaderName = HeaderName::from_static("x-plimsoll-reason");

/// An error on its way to the client.
#[derive(Debug)]
pub struct Refusal(pub Error);

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let (status, code, _) = error.reason.row();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, json(&ErrorBody::from(&error))).into_response();
        response.extensions_mut().insert(error.reason);
        let headers = response.headers_mut();
        headers.insert(X_PLIMSOLL_REASON, HeaderValue::from_static(code));
        if error.reason == Reason::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if error.reason == Reason::BodyEncoding {
            // RFC 7694, section 3: what would be taken.
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Some(wait) = error.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
            headers.insert(
                RETRY_AFTER_MS,
                HeaderValue::from(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            );
        }
        response
    }
}

/// Rounded up: a client that knows only seconds must not come back too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// A JSON answer with status 200.
pub fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => ([(CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response(),
        Err(error) => {
            // Our shapes always serialize; if one ever did not, the client is to see a fault of ours.
            tracing::error!(%error, "an answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
