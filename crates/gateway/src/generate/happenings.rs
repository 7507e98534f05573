//! The events of all prompts of a request, as one stream.

use futures_util::stream::{SelectAll, Stream, StreamExt};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Delta, Event, Generation, Usage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

type Events<E> = Pin<Box<dyn Stream<Item = E> + Send>>;

/// What can happen to a request of several prompts.
pub enum Happening {
    /// More of a choice; choices are numbered through all prompts.
    Delta(Delta),
    /// All is done.
    Done(Usage),
    /// The request has failed.
    Failed(Error),
}

/// The running generations of one request. Dropping it cancels them.
pub struct Happenings {
    source: Source,
    /// Continuations per prompt.
    n: u32,
    unfinished: usize,
    usage: Usage,
}

enum Source {
    /// The usual case, which takes no allocation per event.
    One(Events<Event>),
    /// Prompt number and event.
    Many(SelectAll<Events<(u32, Event)>>),
}

impl Happenings {
    /// `admitted` in the order of the prompts, each with `n` choices.
    pub fn new(mut admitted: Vec<Generation>, n: u32) -> Self {
        let unfinished = admitted.len();
        let source = match (admitted.pop(), admitted.is_empty()) {
            (Some(only), true) => Source::One(only.events),
            (last, _) => {
                let all = (0..).zip(admitted.into_iter().chain(last));
                let numbered = |(prompt, generation): (u32, Generation)| {
                    generation.events.map(move |event| (prompt, event)).boxed()
                };
                Source::Many(all.map(numbered).collect())
            }
        };
        Self { source, n, unfinished, usage: Usage::default() }
    }

    /// The next happening. Nothing follows [`Happening::Done`] or [`Happening::Failed`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll_source(context)));
        polled.unwrap_or_else(|_| {
            Poll::Ready(Happening::Failed(Error::new(Reason::Internal, "the server failed on this request")))
        })
    }

    fn poll_source(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        loop {
            let next = match &mut self.source {
                Source::One(events) => ready!(events.poll_next_unpin(context)).map(|event| (0, event)),
                Source::Many(all) => ready!(all.poll_next_unpin(context)),
            };
            if let Some(happening) = self.take(next) {
                return Poll::Ready(happening);
            }
        }
    }

    fn take(&mut self, next: Option<(u32, Event)>) -> Option<Happening> {
        match next {
            Some((prompt, Event::Delta(delta))) => {
                Some(Happening::Delta(Delta { choice: prompt * self.n + delta.choice, ..delta }))
            }
            Some((_, Event::Done(usage))) => {
                self.usage.prompt_tokens = self.usage.prompt_tokens.saturating_add(usage.prompt_tokens);
                self.usage.cached_tokens = self.usage.cached_tokens.saturating_add(usage.cached_tokens);
                self.usage.completion_tokens =
                    self.usage.completion_tokens.saturating_add(usage.completion_tokens);
                self.unfinished = self.unfinished.saturating_sub(1);
                (self.unfinished == 0).then_some(Happening::Done(self.usage))
            }
            Some((_, Event::Failed(error))) => Some(Happening::Failed(error)),
            None => {
                Some(Happening::Failed(Error::new(Reason::Internal, "the answer broke off without an end")))
            }
        }
    }
}
