//! From the token ring to what a client reads: text, stop strings, usage.

use crate::lent::Lent;
use crate::link::{FromLane, Item};
use crate::text::Text;
use futures_core::Stream;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Delta, EngineTimes, Event, EventStream, Finish, TokenInfo, Usage};
use plimsoll_model::detokenizer::Detokenizer;
use plimsoll_model::stop::StopStrings;
use plimsoll_pool::Reset;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The events of one request. Dropping it cancels what has not finished.
pub(crate) struct Events {
    items: FromLane,
    text: Arc<Text>,
    reading: Lent<Reading>,
    /// Continuations that have not finished.
    running: usize,
    usage: Usage,
    /// An event was read.
    has_begun: bool,
    is_over: bool,
}

/// What the reader of a request holds.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) choices: Vec<Lent<Choice>>,
    /// The likeliest at the place that is scored next.
    likely: Vec<(u32, f32)>,
    /// Scored, and not yet said whose they are.
    scored: Vec<TokenInfo>,
    /// Made and not read yet.
    ready: VecDeque<Event>,
    spare: Spare,
}

impl Reset for Reading {
    fn reset(&mut self) {
        self.choices.clear();
        self.likely.clear();
        self.scored.clear();
        self.ready.clear();
        self.spare.trim();
    }

    fn poison(&mut self) {
        self.likely.push((u32::MAX, 0.0));
        self.scored.push(TokenInfo::default());
        self.ready.push_back(Event::Done(Usage::default()));
    }

    fn is_clean(&self) -> bool {
        let is_empty = self.choices.is_empty() && self.likely.is_empty();
        is_empty && self.scored.is_empty() && self.ready.is_empty()
    }

    fn shrink(&mut self) {
        *self = Self::default();
    }
}

/// What readers gave back, so that a token allocates nothing.
#[derive(Default)]
struct Spare {
    deltas: Vec<Delta>,
    infos: Vec<TokenInfo>,
    /// The text of a token before stop strings are looked for.
    text: String,
}

impl Spare {
    /// An empty delta of a continuation.
    fn delta(&mut self, choice: u32) -> Delta {
        Delta { choice, ..self.deltas.pop().unwrap_or_default() }
    }

    /// Keeps what the next request is likely to use.
    fn trim(&mut self) {
        self.deltas.truncate(4);
        self.infos.truncate(16);
    }

    fn give_back(&mut self, mut delta: Delta) {
        delta.text.clear();
        delta.finish = None;
        self.infos.append(&mut delta.tokens);
        self.deltas.push(delta);
    }
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
    pub(crate) fn new(text: &Text) -> Self {
        let detokenizer = Detokenizer::new(text.tokenizer.clone());
        let stop = StopStrings::new(Vec::new());
        let held = VecDeque::new();
        Self { detokenizer, stop, held, written: 0, sent: 0, is_done: false }
    }

    /// Begins a text that these strings end.
    pub(crate) fn begin(&mut self, stop: &[String]) {
        self.stop.restart(stop);
    }

    /// Adds a token. Appends the text that is certain now to `certain`, and returns whether a stop string was met.
    fn push(&mut self, token: u32, text: &mut String, certain: &mut String) -> bool {
        text.clear();
        self.detokenizer.push(token, text);
        self.written += text.len();
        let is_met = self.stop.push(text, certain);
        self.sent += certain.len();
        is_met
    }

    /// Moves the tokens that go with the text sent by now to `tokens`: a token is told of with the first of its text.
    fn tell(&mut self, tokens: &mut Vec<TokenInfo>) {
        let told = self.held.partition_point(|&(begins, _)| begins < self.sent);
        tokens.extend(self.held.drain(..told).map(|(_, info)| info));
    }

    /// As [`Choice::push`], of what was held back, at the end. A stop string may be met even here, when the last bytes
    /// come out.
    fn finish(&mut self, text: &mut String, certain: &mut String) -> bool {
        text.clear();
        self.detokenizer.finish(text);
        let is_met = self.stop.push(text, certain);
        if !is_met {
            self.stop.finish(certain);
        }
        self.sent += certain.len();
        is_met
    }
}

impl Reset for Choice {
    fn reset(&mut self) {
        self.detokenizer.restart();
        self.stop.restart(&[]);
        self.held.clear();
        (self.written, self.sent, self.is_done) = Default::default();
    }

    fn poison(&mut self) {
        self.held.push_back((usize::MAX, TokenInfo::default()));
        (self.written, self.sent, self.is_done) = (usize::MAX, usize::MAX, true);
    }

    fn is_clean(&self) -> bool {
        self.held.is_empty() && (self.written, self.sent, self.is_done) == (0, 0, false)
    }
}

impl Events {
    pub(crate) fn new(items: FromLane, text: Arc<Text>, reading: Lent<Reading>) -> Self {
        let running = reading.choices.len();
        Self { items, text, reading, running, usage: Usage::default(), has_begun: false, is_over: false }
    }

    /// Says what precedes the first token: the echoed prompt, if any, for each continuation.
    pub(crate) fn beginning(mut self, echo: String, prompt_tokens: u32) -> Self {
        self.usage.prompt_tokens = prompt_tokens;
        if !echo.is_empty() {
            let choices = 0..u32::try_from(self.reading.choices.len()).unwrap_or(u32::MAX);
            let deltas = choices.map(|choice| Delta { choice, text: echo.clone(), ..Delta::default() });
            self.reading.ready.extend(deltas.map(Event::Delta));
        }
        self
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Likely { token, logprob } => self.reading.likely.push((token, logprob)),
            Item::Scored { token, logprob } => {
                let Reading { likely, scored, spare, .. } = &mut *self.reading;
                let mut info = spare.infos.pop().unwrap_or_default();
                self.text.inform(&mut info, (token, logprob), likely);
                likely.clear();
                scored.push(info);
            }
            Item::Prompt { choice } => {
                let Reading { scored, ready, spare, .. } = &mut *self.reading;
                let mut delta = spare.delta(choice);
                delta.tokens.append(scored);
                ready.push_back(Event::Delta(delta));
            }
            Item::Token { choice, token } => self.token(choice, token),
            Item::Finished { choice, finish, by_end_token } => self.finished(choice, finish, by_end_token),
            Item::Failed(error) => self.fail(*error),
        }
    }

    fn token(&mut self, index: u32, token: u32) {
        let Reading { choices, spare, scored, ready, .. } = &mut *self.reading;
        let choice = &mut choices[index as usize];
        if choice.is_done {
            return spare.infos.append(scored);
        }
        self.usage.completion_tokens += 1;
        let begins = choice.written;
        choice.held.extend(scored.drain(..).map(|info| (begins, info)));
        let mut delta = spare.delta(index);
        let is_met = choice.push(token, &mut spare.text, &mut delta.text);
        if !is_met && delta.text.is_empty() {
            return spare.give_back(delta);
        }
        choice.tell(&mut delta.tokens);
        if is_met {
            self.items.control().enough(index as usize);
            self.last(delta, Finish::Stop);
        } else {
            ready.push_back(Event::Delta(delta));
        }
    }

    fn finished(&mut self, index: u32, finish: Finish, by_end_token: bool) {
        // Of the end token, which is not part of the text.
        let Reading { choices, spare, scored, .. } = &mut *self.reading;
        spare.infos.append(scored);
        let choice = &mut choices[index as usize];
        if choice.is_done {
            return;
        }
        self.usage.completion_tokens += u32::from(by_end_token);
        let mut delta = spare.delta(index);
        let is_met = choice.finish(&mut spare.text, &mut delta.text);
        // All text was sent, unless a stop string took the rest; so tokens without text are told of, too.
        if is_met {
            choice.tell(&mut delta.tokens);
        } else {
            delta.tokens.extend(choice.held.drain(..).map(|(_, info)| info));
        }
        self.last(delta, if is_met { Finish::Stop } else { finish });
    }

    /// The last delta of a continuation; after the last of all, the end.
    fn last(&mut self, mut delta: Delta, finish: Finish) {
        self.reading.choices[delta.choice as usize].is_done = true;
        delta.finish = Some(finish);
        self.reading.ready.push_back(Event::Delta(delta));
        self.running -= 1;
        if self.running == 0 {
            self.usage.cached_tokens = self.items.control().cached_tokens();
            self.reading.ready.push_back(Event::Done(self.usage));
            self.is_over = true;
        }
    }

    fn fail(&mut self, error: Error) {
        self.reading.ready.push_back(Event::Failed(error));
        self.is_over = true;
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.reading.ready.pop_front() {
                self.has_begun = true;
                return Poll::Ready(Some(event));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            let popped = self.items.poll_pop(context);
            if popped.is_pending() && !self.has_begun {
                self.items.control().nothing_yet();
            }
            match ready!(popped) {
                Some(item) => self.take(item),
                None => self.fail(Error::new(Reason::Engine, "the lane ended before this request did")),
            }
        }
    }
}

impl EventStream for Events {
    fn give_back(mut self: Pin<&mut Self>, delta: Delta) {
        self.reading.spare.give_back(delta);
    }

    fn engine_times(&self) -> EngineTimes {
        self.items.control().told()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if !self.is_over {
            self.items.control().cancel();
        }
    }
}
