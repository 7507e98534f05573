//! Reads a body under limits: of its size, of its time, and of the memory that all bodies take.

use crate::config::GatewayConfig;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use plimsoll_api::error::{Error, Reason};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How much of a body that is too large is still read and thrown away, as a multiple of the limit: a client that is cut
/// off while it sends often does not see the answer.
const LINGER_TIMES: usize = 4;
/// How long that may take.
const LINGER: Duration = Duration::from_secs(2);
/// When to come back if too many bodies were being read.
const CROWDED_RETRY: Duration = Duration::from_secs(1);

/// The bytes of all bodies being read, and of what was read from them until somebody else keeps count of it; and the limits
/// of each.
pub struct Bodies {
    bytes: Arc<AtomicUsize>,
    most: usize,
    limit: usize,
    wait: Duration,
}

impl Bodies {
    pub fn new(config: &GatewayConfig) -> Self {
        let GatewayConfig { body_memory: most, body_limit: limit, body_timeout: wait, .. } = *config;
        Self { bytes: Arc::default(), most, limit, wait }
    }

    fn share(&self) -> Share {
        Share { all: Arc::clone(&self.bytes), most: self.most, own: 0 }
    }
}

/// One body's part of them, given back when dropped.
pub struct Share {
    all: Arc<AtomicUsize>,
    most: usize,
    own: usize,
}

impl Share {
    fn grow(&mut self, bytes: usize) -> Result<(), Flaw> {
        self.own += bytes;
        let before = self.all.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.most { Err(Flaw::Crowded) } else { Ok(()) }
    }
}

impl Share {
    /// The body is gone, and what was read from it takes `bytes`. Never refused: the work is done.
    fn becomes(&mut self, bytes: usize) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_sub(std::mem::replace(&mut self.own, bytes), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

/// A body that was read.
pub struct Whole {
    bytes: Bytes,
    share: Share,
}

impl Whole {
    /// Drops the body, of which something was kept that takes `bytes`; they count until the share is dropped.
    pub fn becomes(self, bytes: usize) -> Share {
        let Self { bytes: body, mut share } = self;
        drop(body);
        share.becomes(bytes);
        share
    }
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why a body is not taken.
enum Flaw {
    TooLarge,
    Crowded,
    BrokeOff(axum::Error),
}

/// The whole body of a request.
///
/// # Errors
/// [`Reason::BodyEncoding`], [`Reason::BodyTooLarge`], [`Reason::BodyTimeout`], [`Reason::QueueFull`] when too many are being read at once, or
/// [`Reason::InvalidRequest`] when it breaks off.
pub async fn read(request: Request, bodies: &Bodies) -> Result<Whole, Error> {
    let (head, mut body) = request.into_parts();
    check_encoding(&head.headers)?;
    let Bodies { limit, wait, .. } = *bodies;
    let mut share = bodies.share();
    let flaw = match tokio::time::timeout(wait, read_within(&mut body, limit, &mut share)).await {
        Ok(Ok(bytes)) => return Ok(Whole { bytes, share }),
        Ok(Err(flaw)) => flaw,
        Err(_) => {
            let message = format!("the body did not arrive within {} s", wait.as_secs_f32());
            return Err(Error::new(Reason::BodyTimeout, message));
        }
    };
    drop(share);
    if !matches!(flaw, Flaw::BrokeOff(_)) {
        // Whether this ends well or not, the answer is the same.
        let _ = tokio::time::timeout(LINGER, discard(&mut body, limit.saturating_mul(LINGER_TIMES))).await;
    }
    Err(match flaw {
        Flaw::TooLarge => {
            Error::new(Reason::BodyTooLarge, format!("the body is larger than the limit of {limit} bytes"))
        }
        Flaw::Crowded => Error::new(Reason::QueueFull, "too many large bodies are arriving at once")
            .retry_after(CROWDED_RETRY),
        Flaw::BrokeOff(error) => Error::new(Reason::InvalidRequest, format!("the body broke off: {error}")),
    })
}

/// What is compressed would only be told apart from text by its bytes.
fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    let encodings = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.as_bytes().trim_ascii());
    match encodings.into_iter().find(|name| !name.eq_ignore_ascii_case(b"identity")) {
        None => Ok(()),
        Some(name) => {
            let name: String = String::from_utf8_lossy(name).chars().take(40).collect();
            let message = format!("the body's content-encoding is `{name}`; send it as it is, without one");
            Err(Error { param: Some("content-encoding".into()), ..Error::new(Reason::BodyEncoding, message) })
        }
    }
}

async fn read_within(body: &mut Body, limit: usize, share: &mut Share) -> Result<Bytes, Flaw> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Flaw::TooLarge);
    }
    let mut all = Pieces::default();
    while let Some(piece) = next(body).await.map_err(Flaw::BrokeOff)? {
        if all.len() + piece.len() > limit {
            return Err(Flaw::TooLarge);
        }
        share.grow(piece.len())?;
        all.push(piece);
    }
    Ok(all.join())
}

/// The pieces so far. A body in one piece, the usual case, is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    rest: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&piece);
    }

    fn join(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
    while let Some(frame) = body.frame().await.transpose()? {
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn discard(body: &mut Body, most: usize) -> Result<(), axum::Error> {
    let mut left = most;
    while let Some(data) = next(body).await? {
        left = left.saturating_sub(data.len());
        if left == 0 {
            break;
        }
    }
    Ok(())
}
