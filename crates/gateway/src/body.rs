//! Reads a body under a limit of size and one of time.

use crate::config::GatewayConfig;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use plimsoll_api::error::{Error, Reason};
use std::time::Duration;

/// How much of a body that is too large is still read and thrown away, as a multiple of the limit: a client that is cut
/// off while it sends often does not see the answer.
const LINGER_TIMES: usize = 4;
/// How long that may take.
const LINGER: Duration = Duration::from_secs(2);

/// The whole body.
///
/// # Errors
/// [`Reason::BodyTooLarge`], [`Reason::BodyTimeout`], or [`Reason::InvalidRequest`] when it breaks off.
pub async fn read(body: Body, config: &GatewayConfig) -> Result<Bytes, Error> {
    let limit = config.body_limit;
    let mut body = body;
    let wait = config.body_timeout;
    match tokio::time::timeout(wait, read_within(&mut body, limit)).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            // Whether this ends well or not, the answer is the same.
            let _ =
                tokio::time::timeout(LINGER, discard(&mut body, limit.saturating_mul(LINGER_TIMES))).await;
            Err(Error::new(
                Reason::BodyTooLarge,
                format!("the body is larger than the limit of {limit} bytes"),
            ))
        }
        Ok(Err(error)) => Err(Error::new(Reason::InvalidRequest, format!("the body broke off: {error}"))),
        Err(_) => {
            let message = format!("the body did not arrive within {} s", wait.as_secs_f32());
            Err(Error::new(Reason::BodyTimeout, message))
        }
    }
}

/// `None`: it is larger than `limit`.
async fn read_within(body: &mut Body, limit: usize) -> Result<Option<Bytes>, axum::Error> {
    if body.size_hint().lower() > limit as u64 {
        return Ok(None);
    }
    let Some(first) = next(body).await? else { return Ok(Some(Bytes::new())) };
    let Some(second) = next(body).await? else { return Ok((first.len() <= limit).then_some(first)) };
    let mut all = BytesMut::with_capacity(first.len() + second.len());
    all.extend_from_slice(&first);
    all.extend_from_slice(&second);
    while all.len() <= limit {
        let Some(more) = next(body).await? else { return Ok(Some(all.freeze())) };
        all.extend_from_slice(&more);
    }
    Ok(None)
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
