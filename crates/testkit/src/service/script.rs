//! What a scripted service does with one request.

use super::Ticket;
use futures_util::{Stream, stream};
use plimsoll_api::error::Error;
use plimsoll_api::service::{Delta, Event, EventStream, Finish, GenerateRequest, TokenInfo, Usage};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;

/// One thing a scripted service does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Says something happened.
    Emit(Event),
    /// Waits at a gate.
    Wait(Gate),
    /// Does nothing more, for ever.
    Hang,
    /// Panics.
    Panic,
}

/// A gate that a test opens for one passer at a time.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets `passers` more pass.
    pub fn open(&self, passers: usize) {
        self.0.add_permits(passers);
    }

    pub(super) async fn pass(&self) {
        self.0.acquire().await.expect("the semaphore is never closed").forget();
    }
}

/// What happens to one admitted request.
#[derive(Debug, Clone)]
pub struct Script {
    /// What [`Generation::prompt_tokens`](plimsoll_api::service::Generation) says.
    pub prompt_tokens: u32,
    /// Where `generate` waits before it answers.
    pub admission: Option<Gate>,
    /// What happens then.
    pub acts: Vec<Act>,
}

impl Script {
    /// A script of 5 prompt tokens and these acts.
    #[must_use]
    pub const fn new(acts: Vec<Act>) -> Self {
        Self { prompt_tokens: 5, admission: None, acts }
    }

    /// Each of the `n` choices says the pieces, one token each, in turn; log-probabilities as asked for.
    #[must_use]
    pub fn saying(request: &GenerateRequest, pieces: &[&str]) -> Self {
        let mut acts = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            for choice in 0..request.n {
                let tokens = request.logprobs.map(|top| vec![token(i, piece, top)]).unwrap_or_default();
                let finish = (i + 1 == pieces.len()).then_some(Finish::Stop);
                let delta = Delta { choice, text: (*piece).to_owned(), tokens, finish };
                acts.push(Act::Emit(Event::Delta(delta)));
            }
        }
        let completion_tokens = request.n * u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        acts.push(Act::Emit(Event::Done(Usage { prompt_tokens: 5, cached_tokens: 0, completion_tokens })));
        Self::new(acts)
    }

    /// The pieces, then a failure instead of the end.
    #[must_use]
    pub fn failing(request: &GenerateRequest, pieces: &[&str], error: Error) -> Self {
        let mut script = Self::saying(request, pieces);
        script.acts.pop();
        script.acts.push(Act::Emit(Event::Failed(error)));
        script
    }

    pub(super) fn play(self, ticket: Ticket) -> Pin<Box<dyn EventStream>> {
        Box::pin(Play(Box::pin(stream::unfold(
            (self.acts.into_iter(), ticket),
            |(mut acts, mut ticket)| async move {
                loop {
                    match acts.next()? {
                        Act::Emit(event) => {
                            ticket.saw(&event);
                            return Some((event, (acts, ticket)));
                        }
                        Act::Wait(gate) => gate.pass().await,
                        Act::Hang => std::future::pending().await,
                        Act::Panic => panic!("as scripted"),
                    }
                }
            },
        ))))
    }
}

/// A script being played.
struct Play(Pin<Box<dyn Stream<Item = Event> + Send>>);

impl Stream for Play {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.as_mut().poll_next(context)
    }
}

impl EventStream for Play {}

fn token(i: usize, piece: &str, top: u32) -> TokenInfo {
    let id = u32::try_from(i).unwrap_or(u32::MAX);
    let bytes = piece.as_bytes().to_vec();
    let mut alternatives = vec![
        (id, piece.to_owned(), bytes.clone(), -0.25),
        (id + 100, "other".to_owned(), b"other".to_vec(), f32::NEG_INFINITY),
    ];
    alternatives.truncate(top as usize);
    TokenInfo { id, text: piece.to_owned(), bytes, logprob: Some(-0.25), top: alternatives }
}
