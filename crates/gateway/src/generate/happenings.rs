//! The events of all prompts of a request, as one stream.

use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Delta, EngineTimes, Event, EventStream, Generation, Usage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
    /// In the order of the prompts; `None` when it has ended.
    sources: Vec<Option<Pin<Box<dyn EventStream>>>>,
    /// The one that is asked first, the next time: each in turn, so that none waits for another that is never silent.
    first: usize,
    /// Continuations per prompt.
    n: u32,
    unfinished: usize,
    usage: Usage,
    /// What was looked at already.
    peeked: Option<Happening>,
    times: EngineTimes,
}

impl Happenings {
    /// `admitted` in the order of the prompts, each with `n` choices.
    pub fn new(admitted: Vec<Generation>, n: u32) -> Self {
        let unfinished = admitted.len();
        let sources = admitted.into_iter().map(|generation| Some(generation.events)).collect();
        Self {
            sources,
            first: 0,
            n,
            unfinished,
            usage: Usage::default(),
            peeked: None,
            times: EngineTimes::default(),
        }
    }

    /// Looks at the next happening, which still follows, unless it is a failure.
    ///
    /// # Errors
    /// The failure.
    pub fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.peeked.is_none() {
            match ready!(self.poll_next(context)) {
                Happening::Failed(error) => return Poll::Ready(Err(error)),
                happening => self.peeked = Some(happening),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next happening. Nothing follows [`Happening::Done`] or [`Happening::Failed`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        if let Some(peeked) = self.peeked.take() {
            return Poll::Ready(peeked);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll_sources(context)));
        polled.unwrap_or_else(|_| {
            Poll::Ready(Happening::Failed(Error::new(Reason::Internal, "the server failed on this request")))
        })
    }

    fn poll_sources(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        let count = self.sources.len();
        if self.unfinished == 0 {
            return Poll::Ready(Happening::Done(self.usage));
        }
        // Those that are silent leave their waker; all are asked again when one of them speaks.
        for prompt in (self.first..count).chain(0..self.first) {
            while let Some(source) = &mut self.sources[prompt] {
                let Poll::Ready(event) = source.as_mut().poll_next(context) else { break };
                let source_times = source.engine_times();
                self.note(source_times);
                if let Some(happening) = self.take(prompt, event) {
                    self.first = (prompt + 1) % count;
                    return Poll::Ready(happening);
                }
            }
        }
        Poll::Pending
    }

    /// The first of all prompts that has something ends the wait for the first byte.
    fn note(&mut self, of_prompt: EngineTimes) {
        let EngineTimes { to_first, to_last } = &mut self.times;
        if to_first.is_zero() {
            *to_first = of_prompt.to_first;
        }
        *to_last = of_prompt.to_last.max(*to_last);
    }

    fn take(&mut self, prompt: usize, event: Option<Event>) -> Option<Happening> {
        match event {
            Some(Event::Delta(delta)) => {
                let choice = u32::try_from(prompt).unwrap_or(u32::MAX) * self.n + delta.choice;
                Some(Happening::Delta(Delta { choice, ..delta }))
            }
            Some(Event::Done(usage)) => {
                self.sources[prompt] = None;
                self.usage.prompt_tokens = self.usage.prompt_tokens.saturating_add(usage.prompt_tokens);
                self.usage.cached_tokens = self.usage.cached_tokens.saturating_add(usage.cached_tokens);
                self.usage.completion_tokens =
                    self.usage.completion_tokens.saturating_add(usage.completion_tokens);
                self.unfinished = self.unfinished.saturating_sub(1);
                (self.unfinished == 0).then_some(Happening::Done(self.usage))
            }
            Some(Event::Failed(error)) => Some(Happening::Failed(error)),
            None => {
                Some(Happening::Failed(Error::new(Reason::Internal, "the answer broke off without an end")))
            }
        }
    }

    /// When the engine had the request, all its prompts together.
    pub fn engine_times(&self) -> EngineTimes {
        self.times
    }

    /// Takes a delta back that was read: see [`EventStream::give_back`].
    pub fn give_back(&mut self, mut delta: Delta) {
        let n = self.n.max(1);
        let prompt = (delta.choice / n) as usize;
        delta.choice %= n;
        if let Some(source) = self.sources.get_mut(prompt).and_then(Option::as_mut) {
            source.as_mut().give_back(delta);
        }
    }
}
