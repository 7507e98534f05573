//! From logits to tokens in the rings.

use super::roster::Roster;
use crate::link::Item;
use crate::request::Request;
use plimsoll_api::service::Finish;
use plimsoll_model::engine::Engine;
use plimsoll_model::sampling::{Candidates, Logprobs};
use plimsoll_sched::{Event, LogitRows, PlannedSpan, SeqId};
use plimsoll_telemetry::ModelMetrics;
use std::time::Instant;

/// Samples, and tells the readers.
pub(super) struct Delivery<'a> {
    pub(super) engine: &'a mut dyn Engine,
    pub(super) roster: &'a mut Roster,
    pub(super) metrics: &'a ModelMetrics,
    /// Tokens that end a text.
    pub(super) ends: &'a [u32],
    pub(super) scratch: &'a mut Scratch,
    pub(super) now: Instant,
}

/// Room for sampling, for all sequences of a lane and kept from step to step.
pub(super) struct Scratch {
    /// Logits before the sampler changes them.
    logits: Vec<f32>,
    candidates: Candidates,
    /// The most likely tokens and their log-probabilities.
    likely: Vec<(u32, f32)>,
}

impl Scratch {
    pub(super) fn new(vocab: usize) -> Self {
        let candidates = Candidates::with_vocab(vocab);
        Self { logits: Vec::with_capacity(vocab), candidates, likely: Vec::with_capacity(MOST_LIKELY) }
    }
}

/// As many of the most likely tokens as a request may ask for without its first score allocating.
const MOST_LIKELY: usize = 32;
/// As many tokens of a prompt's next chunk as the engine is told of: of more, the first would be far again when their turn comes.
const TOUCHED: usize = 32;

impl Delivery<'_> {
    /// Goes through the logits of a step, span by span. Returns how many tokens were generated.
    pub(super) fn deliver(&mut self, spans: &[PlannedSpan]) -> usize {
        let (mut row, mut generated) = (0, 0);
        for span in spans {
            if let Some((i, choice)) = self.roster.find(span.seq) {
                self.start(i);
                if span.logits == LogitRows::All {
                    self.score_prompt(span, row, (i, choice));
                }
                let is_last =
                    span.start + span.len == self.roster.requests()[i].sequences[choice].tokens.len();
                if is_last {
                    generated += self.next_token(row + span.logit_rows() - 1, span.seq, (i, choice));
                } else {
                    self.touch_chunk(span, (i, choice));
                }
            }
            row += span.logit_rows();
        }
        generated
    }

    /// The prompt's tokens after `span` are the next to be computed.
    fn touch_chunk(&mut self, span: &PlannedSpan, (i, choice): (usize, usize)) {
        let tokens = &self.roster.requests()[i].sequences[choice].tokens;
        let next = tokens.get(span.start + span.len..).unwrap_or_default();
        self.engine.touch(&next[..next.len().min(TOUCHED)]);
    }

    fn start(&mut self, i: usize) {
        let request = self.roster.get_mut(i);
        if !std::mem::replace(&mut request.has_started, true) {
            self.metrics.started(self.now.saturating_duration_since(request.arrived));
        }
    }

    /// The log-probabilities of the prompt's tokens that follow the rows of `span`, the first of which is `row`.
    fn score_prompt(&mut self, span: &PlannedSpan, row: usize, (i, choice): (usize, usize)) {
        let request = self.roster.get_mut(i);
        let k = request.scores.logprobs.unwrap_or(0);
        if span.start == 0 {
            let token = request.sequences[choice].tokens[0];
            request.push(Item::Scored { token, logprob: None });
        }
        for (row, position) in (row..).zip(span.start + 1..=span.start + span.len) {
            if position < request.sequences[choice].prompt {
                let token = request.sequences[choice].tokens[position];
                score(request, (token, k), self.engine.logits(row), &mut self.scratch.likely);
            }
        }
        request.push(Item::Prompt { choice: index(choice) });
    }

    /// Samples from `row` and reports the token, or the end. Returns how many tokens were generated: 1, or 0 when none
    /// was asked for.
    fn next_token(&mut self, row: usize, seq: SeqId, (i, choice): (usize, usize)) -> usize {
        let request = self.roster.get_mut(i);
        let sequence = &request.sequences[choice];
        if sequence.tokens.len() >= sequence.max_len {
            self.finish(seq, (i, choice), Finish::Length, false);
            return 0;
        }
        let logits = self.engine.logits(row);
        let token = sample(request, choice, logits, self.scratch);
        self.clock(i, choice);
        let request = self.roster.get_mut(i);
        let filled = request.sequences[choice].push(token);
        self.roster.events.extend(filled.map(|name| Event::Filled(seq, name)));
        let request = self.roster.get_mut(i);
        if self.ends.contains(&token) && !request.ignore_end {
            self.finish(seq, (i, choice), Finish::Stop, true);
            return 1;
        }
        request.push(Item::Token { choice: index(choice), token });
        if request.sequences[choice].tokens.len() == request.sequences[choice].max_len {
            self.finish(seq, (i, choice), Finish::Length, false);
        } else {
            self.engine.touch(&[token]);
        }
        1
    }

    fn clock(&mut self, i: usize, choice: usize) {
        let request = self.roster.get_mut(i);
        match request.sequences[choice].last_token.replace(self.now) {
            None => {
                request.sequences[choice].first_token = Some(self.now);
                let took = self.now.saturating_duration_since(request.arrived);
                self.metrics.first_token(took);
                let deadlines = &request.deadlines;
                let expected = deadlines.expected.filter(|_| choice == 0);
                let at_most = expected.map(|expected| expected.at_most.saturating_sub(deadlines.arrived));
                at_most.into_iter().for_each(|at_most| self.metrics.predicted(at_most, took));
            }
            Some(last) => self.metrics.token_gap(self.now.saturating_duration_since(last)),
        }
    }

    fn finish(&mut self, seq: SeqId, (i, choice): (usize, usize), finish: Finish, by_end_token: bool) {
        self.roster.events.push(Event::Finished(seq));
        let request = self.roster.get_mut(i);
        request.sequences[choice].is_done = true;
        request.push(Item::Finished { choice: index(choice), finish, by_end_token });
        if request.is_done() {
            request.answered(self.now);
            self.metrics.finished(self.now.saturating_duration_since(request.arrived));
        }
    }
}

/// The next token. Tells how likely it was before penalties and bias, if that is asked for.
fn sample(request: &mut Request, choice: usize, logits: &mut [f32], scratch: &mut Scratch) -> u32 {
    let Some(k) = request.scores.logprobs else {
        return request.sequences[choice].sampler.sample(logits, &mut scratch.candidates);
    };
    scratch.logits.clear();
    scratch.logits.extend_from_slice(logits);
    let token = request.sequences[choice].sampler.sample(logits, &mut scratch.candidates);
    score(request, (token, k), &scratch.logits, &mut scratch.likely);
    token
}

/// Tells how likely `token` was, and the `k` most likely ones.
fn score(request: &mut Request, (token, k): (u32, usize), logits: &[f32], likely: &mut Vec<(u32, f32)>) {
    let logprobs = Logprobs::of(logits);
    likely.clear();
    logprobs.best(k, likely);
    for &(token, logprob) in &*likely {
        request.push(Item::Likely { token, logprob });
    }
    request.push(Item::Scored { token, logprob: Some(logprobs.at(token)) });
}

/// A choice as it goes over the wire. There are at most 2^23 at the gate.
fn index(choice: usize) -> u32 {
    u32::try_from(choice).unwrap_or(u32::MAX)
}
