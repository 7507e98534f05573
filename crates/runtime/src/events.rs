//! From the token ring to what a client reads: text, stop strings, usage.

use crate::request::{Control, Item, Scored};
use crate::text::Text;
use futures_core::Stream;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Delta, Event, Finish, GenerateRequest, TokenInfo, Usage};
use plimsoll_model::detokenizer::Detokenizer;
use plimsoll_model::stop::StopStrings;
use plimsoll_ring::spsc::Consumer;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The events of one request. Dropping it cancels what has not finished.
pub(crate) struct Events {
    items: Consumer<Item>,
    control: Arc<Control>,
    text: Arc<Text>,
    choices: Vec<Choice>,
    /// Continuations that have not finished.
    running: usize,
    /// Made and not read yet.
    ready: VecDeque<Event>,
    usage: Usage,
    is_over: bool,
}

/// One continuation on its way to text.
pub(crate) struct Choice {
    detokenizer: Detokenizer,
    stop: StopStrings,
    /// Tokens of whose text nothing was sent yet, and where that begins in all of the text. Empty without
    /// log-probabilities.
    held: VecDeque<(usize, TokenInfo)>,
    /// Bytes of text so far, sent or not.
    written: usize,
    /// Of these, sent.
    sent: usize,
    is_done: bool,
}

impl Choice {
    pub(crate) fn new(text: &Text, request: &GenerateRequest) -> Self {
        let detokenizer = Detokenizer::new(text.tokenizer.clone());
        let stop = StopStrings::new(request.stop.clone());
        let held = VecDeque::new();
        Self { detokenizer, stop, held, written: 0, sent: 0, is_done: false }
    }

    /// Adds a token. Returns the text that is certain now, and whether a stop string was met.
    fn push(&mut self, token: u32, info: Option<TokenInfo>) -> (String, bool) {
        let (mut text, mut certain) = (String::new(), String::new());
        self.held.extend(info.map(|info| (self.written, info)));
        self.detokenizer.push(token, &mut text);
        self.written += text.len();
        let is_met = self.stop.push(&text, &mut certain);
        self.sent += certain.len();
        (certain, is_met)
    }

    /// The tokens that go with the text sent by now: a token is told of with the first of its text.
    fn told(&mut self) -> Vec<TokenInfo> {
        let told = self.held.partition_point(|&(begins, _)| begins < self.sent);
        self.held.drain(..told).map(|(_, info)| info).collect()
    }

    /// What was held back, at the end. A stop string may be met even here, when the last bytes come out.
    fn finish(&mut self) -> (String, bool) {
        let (mut text, mut certain) = (String::new(), String::new());
        self.detokenizer.finish(&mut text);
        let is_met = self.stop.push(&text, &mut certain);
        if !is_met {
            self.stop.finish(&mut certain);
        }
        self.sent += certain.len();
        (certain, is_met)
    }
}

impl Events {
    pub(crate) fn new(
        items: Consumer<Item>,
        control: Arc<Control>,
        text: Arc<Text>,
        choices: Vec<Choice>,
    ) -> Self {
        let running = choices.len();
        let (ready, usage) = Default::default();
        Self { items, control, text, choices, running, ready, usage, is_over: false }
    }

    /// Says what precedes the first token: the echoed prompt, if any, for each continuation.
    pub(crate) fn beginning(mut self, echo: String, prompt_tokens: u32) -> Self {
        self.usage.prompt_tokens = prompt_tokens;
        if !echo.is_empty() {
            let choices = 0..u32::try_from(self.choices.len()).unwrap_or(u32::MAX);
            let deltas = choices.map(|choice| Delta { choice, text: echo.clone(), ..Delta::default() });
            self.ready.extend(deltas.map(Event::Delta));
        }
        self
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Prompt { choice, tokens } => {
                let tokens = tokens.iter().map(|scored| self.info(scored)).collect();
                self.ready.push_back(Event::Delta(Delta { choice, tokens, ..Delta::default() }));
            }
            Item::Token { choice, token, scored } => self.token(choice, token, scored.as_deref()),
            Item::Finished { choice, finish, by_end_token } => self.finished(choice, finish, by_end_token),
            Item::Failed(error) => self.fail(*error),
        }
    }

    fn info(&self, scored: &Scored) -> TokenInfo {
        self.text.info(scored.token, scored.logprob, &scored.top)
    }

    fn token(&mut self, index: u32, token: u32, scored: Option<&Scored>) {
        let info = scored.map(|scored| self.info(scored));
        let choice = &mut self.choices[index as usize];
        if choice.is_done {
            return;
        }
        self.usage.completion_tokens += 1;
        let (text, is_met) = choice.push(token, info);
        if is_met {
            self.control.enough(index as usize);
            let tokens = choice.told();
            self.last(Delta { choice: index, text, tokens, finish: Some(Finish::Stop) });
        } else if !text.is_empty() {
            let tokens = choice.told();
            self.ready.push_back(Event::Delta(Delta { choice: index, text, tokens, finish: None }));
        }
    }

    fn finished(&mut self, index: u32, finish: Finish, by_end_token: bool) {
        let choice = &mut self.choices[index as usize];
        if choice.is_done {
            return;
        }
        self.usage.completion_tokens += u32::from(by_end_token);
        let (text, is_met) = choice.finish();
        // All text was sent, unless a stop string took the rest; so tokens without text are told of, too.
        let (tokens, finish) = if is_met {
            (choice.told(), Finish::Stop)
        } else {
            (choice.held.drain(..).map(|(_, info)| info).collect(), finish)
        };
        self.last(Delta { choice: index, text, tokens, finish: Some(finish) });
    }

    /// The last delta of a continuation; after the last of all, the end.
    fn last(&mut self, delta: Delta) {
        self.choices[delta.choice as usize].is_done = true;
        self.ready.push_back(Event::Delta(delta));
        self.running -= 1;
        if self.running == 0 {
            self.usage.cached_tokens = self.control.cached_tokens();
            self.ready.push_back(Event::Done(self.usage));
            self.is_over = true;
        }
    }

    fn fail(&mut self, error: Error) {
        self.ready.push_back(Event::Failed(error));
        self.is_over = true;
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match ready!(self.items.poll_pop(context)) {
                Some(item) => {
                    self.control.made_room(self.items.capacity() - self.items.len());
                    self.take(item);
                }
                None => self.fail(Error::new(Reason::Engine, "the lane ended before this request did")),
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if !self.is_over {
            self.control.cancel();
        }
    }
}
