//! Answers as server-sent events.

use super::dialect::Dialect;
use super::happenings::{Happening, Happenings};
use super::{Reply, cut_short};
use crate::app::App;
use crate::exchange::Exchange;
use crate::frames::{Buffer, Frames};
use axum::body::Body;
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use plimsoll_api::error::Error;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// Frames go out when this much has been written, at the latest; before, when nothing more is ready.
const FRAMES_AT_ONCE: usize = 16 << 10;
/// Asks proxies of nginx's kind not to hold the stream back.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A response that streams what happens.
pub fn response<D: Dialect>(
    happenings: Happenings,
    reply: Reply<D>,
    app: &App,
    exchange: Arc<Exchange>,
) -> Response {
    let Reply { head, dialect, include_usage, .. } = reply;
    let stream = Sse {
        happenings: Some(happenings),
        dialect,
        frames: Frames::new(head, D::CHUNK, include_usage, Buffer::of(&app.frames)),
        quiet: app.config.keep_alive.map(Quiet::new),
        engine: Duration::ZERO,
        has_begun: false,
        closing: Box::pin(app.closing.clone().cancelled_owned()),
        exchange,
    };
    let headers =
        [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache"), (X_ACCEL_BUFFERING, "no")];
    (headers, Body::from_stream(stream)).into_response()
}

struct Sse<D> {
    /// `None` after the end; dropped at once, so that whatever still runs is cancelled.
    happenings: Option<Happenings>,
    dialect: D,
    frames: Frames,
    quiet: Option<Quiet>,
    /// What the engine took until there was something to write.
    engine: Duration,
    has_begun: bool,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    exchange: Arc<Exchange>,
}

impl<D: Dialect> Stream for Sse<D> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.happenings.is_none() {
            return Poll::Ready(None);
        }
        this.write_what_happened(context);
        if let Some(bytes) = this.frames.take() {
            if !std::mem::replace(&mut this.has_begun, true) {
                this.exchange.handled(this.engine);
            }
            if let Some(quiet) = &mut this.quiet {
                quiet.broken = true;
            }
            return Poll::Ready(Some(Ok(bytes)));
        }
        match this.quiet.as_mut().map(|quiet| quiet.poll_too_long(context)) {
            Some(Poll::Ready(())) => {
                this.frames.comment();
                Poll::Ready(this.frames.take().map(Ok))
            }
            _ => Poll::Pending,
        }
    }
}

impl<D: Dialect> Sse<D> {
    fn write_what_happened(&mut self, context: &mut Context<'_>) {
        while self.frames.len() < FRAMES_AT_ONCE {
            let Some(happenings) = &mut self.happenings else { return };
            let polled = happenings.poll_next(context);
            self.engine = happenings.engine_times().to_first;
            match polled {
                Poll::Ready(Happening::Delta(delta)) => {
                    self.dialect.chunk(&delta, &mut self.frames);
                    happenings.give_back(delta);
                }
                Poll::Ready(Happening::Done(usage)) => {
                    self.exchange.took(usage);
                    self.frames.usage(usage.into());
                    self.end("ok");
                }
                Poll::Ready(Happening::Failed(error)) => self.fail(&error),
                Poll::Pending if self.closing.as_mut().poll(context).is_ready() => self.fail(&cut_short()),
                Poll::Pending => return,
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        self.frames.error(error);
        self.end(error.reason.row().1);
    }

    fn end(&mut self, outcome: &'static str) {
        self.frames.done();
        self.exchange.ends(outcome);
        self.happenings = None;
    }
}

/// Notices when nothing was sent for a while. Sending only sets a flag, so that a token does not move a timer.
struct Quiet {
    interval: Interval,
    /// Whether something was sent since the last tick.
    broken: bool,
}

impl Quiet {
    fn new(period: std::time::Duration) -> Self {
        let period = period.max(std::time::Duration::from_millis(1));
        let mut interval = interval_at(tokio::time::Instant::now() + period, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { interval, broken: false }
    }

    fn poll_too_long(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.interval.poll_tick(context).is_ready() {
            if !std::mem::replace(&mut self.broken, false) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}
