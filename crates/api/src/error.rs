//! The error table: every refusal and failure a client can see, in one place.
//!
//! A gateway renders an [`Error`] in the shape its protocol wants (OpenAI's on `/v1`); nothing else decides statuses.

use std::time::Duration;

/// Why a request was refused or failed. The names are what `x-plimsoll-reason` and `error.code` say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A field is missing, of the wrong type, or out of range.
    InvalidRequest,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body is compressed, or encoded in another way.
    BodyEncoding,
    /// No or an unknown API key.
    Unauthorized,
    /// No such route.
    NotFound,
    /// No such model.
    ModelNotFound,
    /// The route exists, the method does not.
    MethodNotAllowed,
    /// Prompt and `max_tokens` can never fit the context or the KV cache.
    ContextLength,
    /// The chat template failed on these messages.
    Template,
    /// The queue is full: come back.
    QueueFull,
    /// The KV cache is full: come back.
    KvFull,
    /// The machine is short of memory: come back.
    Memory,
    /// The API key has as many requests in flight as one may: come back.
    TenantFull,
    /// It would come later than promised: come back.
    Deadline,
    /// It would come later than wanted even if nobody else were served.
    NeverInTime,
    /// Its time was up before it was complete.
    Expired,
    /// The server is loading its model.
    Loading,
    /// The server is going down and takes no new work.
    Draining,
    /// A step panicked or the engine failed; the lane was rebuilt.
    Engine,
    /// A fault of the server that is none of the above.
    Internal,
}

impl Reason {
    /// `(HTTP status, code, OpenAI error type)` of this reason.
    pub const fn row(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::InvalidRequest => (400, "invalid_request", "invalid_request_error"),
            Self::BodyTooLarge => (413, "body_too_large", "invalid_request_error"),
            Self::BodyTimeout => (408, "body_timeout", "invalid_request_error"),
            Self::BodyEncoding => (415, "unsupported_encoding", "invalid_request_error"),
            Self::Unauthorized => (401, "invalid_api_key", "invalid_request_error"),
            Self::NotFound => (404, "not_found", "invalid_request_error"),
            Self::ModelNotFound => (404, "model_not_found", "invalid_request_error"),
            Self::MethodNotAllowed => (405, "method_not_supported", "invalid_request_error"),
            Self::ContextLength => (400, "context_length_exceeded", "invalid_request_error"),
            Self::Template => (400, "template_failed", "invalid_request_error"),
            Self::QueueFull => (429, "queue_full", "rate_limit_error"),
            Self::KvFull => (429, "kv_full", "rate_limit_error"),
            Self::Memory => (429, "memory", "rate_limit_error"),
            Self::TenantFull => (429, "tenant_full", "rate_limit_error"),
            Self::Deadline => (429, "deadline", "rate_limit_error"),
            Self::NeverInTime => (400, "never_in_time", "invalid_request_error"),
            Self::Expired => (504, "expired", "timeout_error"),
            Self::Loading => (503, "loading", "service_unavailable_error"),
            Self::Draining => (503, "draining", "service_unavailable_error"),
            Self::Engine => (500, "engine_failed", "server_error"),
            Self::Internal => (500, "internal", "server_error"),
        }
    }
}

/// One failure, as the client is to read it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The row of the table.
    pub reason: Reason,
    /// What was wrong, the value, and what would be right.
    pub message: String,
    /// The path of the field at fault, such as `messages[0].content`.
    pub param: Option<String>,
    /// When trying again makes sense; `None`: the same request will fail again.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// An error that trying again will not mend.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), param: None, retry_after: None }
    }

    /// [`Reason::InvalidRequest`] at the field `param`.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(Reason::InvalidRequest, message) }
    }

    /// The same error, worth another try after `wait`.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}
