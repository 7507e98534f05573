//! From the token ring to what a client reads: text, stop strings, usage.

use crate::request::{Control, Item};
use crate::text::Text;
use futures_core::Stream;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Delta, Event, EventStream, Finish, GenerateRequest, TokenInfo, Usage};
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
    /// The likeliest at the place that is scored next.
    likely: Vec<(u32, f32)>,
    /// Scored, and not yet said whose they are.
    scored: Vec<TokenInfo>,
    /// Made and not read yet.
    ready: VecDeque<Event>,
    spare: Spare,
    usage: Usage,
    is_over: bool,
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
    pub(crate) fn new(text: &Text, request: &GenerateRequest) -> Self {
        let detokenizer = Detokenizer::new(text.tokenizer.clone());
        let stop = StopStrings::new(request.stop.clone());
        let held = VecDeque::new();
        Self { detokenizer, stop, held, written: 0, sent: 0, is_done: false }
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

impl Events {
    pub(crate) fn new(
        items: Consumer<Item>,
        control: Arc<Control>,
        text: Arc<Text>,
        choices: Vec<Choice>,
    ) -> Self {
        let running = choices.len();
        let (likely, scored, ready, spare, usage) = Default::default();
        Self { items, control, text, choices, running, likely, scored, ready, spare, usage, is_over: false }
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
            Item::Likely { token, logprob } => self.likely.push((token, logprob)),
            Item::Scored { token, logprob } => {
                let mut info = self.spare.infos.pop().unwrap_or_default();
                self.text.inform(&mut info, (token, logprob), &self.likely);
                self.likely.clear();
                self.scored.push(info);
            }
            Item::Prompt { choice } => {
                let mut delta = self.spare.delta(choice);
                delta.tokens.append(&mut self.scored);
                self.ready.push_back(Event::Delta(delta));
            }
            Item::Token { choice, token } => self.token(choice, token),
            Item::Finished { choice, finish, by_end_token } => self.finished(choice, finish, by_end_token),
            Item::Failed(error) => self.fail(*error),
        }
    }

    fn token(&mut self, index: u32, token: u32) {
        let choice = &mut self.choices[index as usize];
        if choice.is_done {
            return self.spare.infos.append(&mut self.scored);
        }
        self.usage.completion_tokens += 1;
        let begins = choice.written;
        choice.held.extend(self.scored.drain(..).map(|info| (begins, info)));
        let mut delta = self.spare.delta(index);
        let is_met = choice.push(token, &mut self.spare.text, &mut delta.text);
        if !is_met && delta.text.is_empty() {
            return self.spare.give_back(delta);
        }
        choice.tell(&mut delta.tokens);
        if is_met {
            self.control.enough(index as usize);
            self.last(delta, Finish::Stop);
        } else {
            self.ready.push_back(Event::Delta(delta));
        }
    }

    fn finished(&mut self, index: u32, finish: Finish, by_end_token: bool) {
        // Of the end token, which is not part of the text.
        self.spare.infos.append(&mut self.scored);
        let choice = &mut self.choices[index as usize];
        if choice.is_done {
            return;
        }
        self.usage.completion_tokens += u32::from(by_end_token);
        let mut delta = self.spare.delta(index);
        let is_met = choice.finish(&mut self.spare.text, &mut delta.text);
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
        self.choices[delta.choice as usize].is_done = true;
        delta.finish = Some(finish);
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

impl EventStream for Events {
    fn give_back(mut self: Pin<&mut Self>, delta: Delta) {
        self.spare.give_back(delta);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if !self.is_over {
            self.control.cancel();
        }
    }
}
