//! From logits to tokens in the rings.

use super::roster::Roster;
use crate::request::{Item, Request, Scored};
use plimsoll_api::service::Finish;
use plimsoll_model::engine::Engine;
use plimsoll_model::sampling::Logprobs;
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
    /// Logits before the sampler changes them; kept from step to step.
    pub(super) scratch: &'a mut Vec<f32>,
    pub(super) now: Instant,
}

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
                }
            }
            row += span.logit_rows();
        }
        generated
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
        let k = request.logprobs.unwrap_or(0);
        let sequence = &request.sequences[choice];
        let first =
            (span.start == 0).then(|| Scored { token: sequence.tokens[0], logprob: None, top: Vec::new() });
        let mut tokens = Vec::with_capacity(span.len + 1);
        tokens.extend(first);
        for (row, position) in (row..).zip(span.start + 1..=span.start + span.len) {
            if position < sequence.prompt {
                tokens.push(score(self.engine.logits(row), sequence.tokens[position], k));
            }
        }
        request.push(Item::Prompt { choice: index(choice), tokens });
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
        let (token, scored) = sample(request, choice, logits, self.scratch);
        self.clock(i, choice);
        let request = self.roster.get_mut(i);
        let filled = request.sequences[choice].push(token);
        self.roster.events.extend(filled.map(|name| Event::Filled(seq, name)));
        let request = self.roster.get_mut(i);
        if self.ends.contains(&token) && !request.ignore_end {
            self.finish(seq, (i, choice), Finish::Stop, true);
            return 1;
        }
        request.push(Item::Token { choice: index(choice), token, scored });
        if request.sequences[choice].tokens.len() == request.sequences[choice].max_len {
            self.finish(seq, (i, choice), Finish::Length, false);
        }
        1
    }

    fn clock(&mut self, i: usize, choice: usize) {
        let request = self.roster.get_mut(i);
        match request.sequences[choice].last_token.replace(self.now) {
            None => self.metrics.first_token(self.now.saturating_duration_since(request.arrived)),
            Some(last) => self.metrics.token_gap(self.now.saturating_duration_since(last)),
        }
    }

    fn finish(&mut self, seq: SeqId, (i, choice): (usize, usize), finish: Finish, by_end_token: bool) {
        self.roster.events.push(Event::Finished(seq));
        let request = self.roster.get_mut(i);
        request.sequences[choice].is_done = true;
        request.push(Item::Finished { choice: index(choice), finish, by_end_token });
        if request.is_done() {
            self.metrics.finished(self.now.saturating_duration_since(request.arrived));
        }
    }
}

/// The next token, and how likely it was before penalties and bias, if that is asked for.
fn sample(
    request: &mut Request,
    choice: usize,
    logits: &mut [f32],
    scratch: &mut Vec<f32>,
) -> (u32, Option<Box<Scored>>) {
    let sampler = &mut request.sequences[choice].sampler;
    let Some(k) = request.logprobs else { return (sampler.sample(logits), None) };
    scratch.clear();
    scratch.extend_from_slice(logits);
    let token = sampler.sample(logits);
    (token, Some(Box::new(score(scratch, token, k))))
}

fn score(logits: &[f32], token: u32, k: usize) -> Scored {
    let logprobs = Logprobs::of(logits);
    let mut top = Vec::with_capacity(k);
    logprobs.best(k, &mut top);
    Scored { token, logprob: Some(logprobs.at(token)), top }
}

/// A choice as it goes over the wire. There are at most 2^23 at the gate.
fn index(choice: usize) -> u32 {
    u32::try_from(choice).unwrap_or(u32::MAX)
}
