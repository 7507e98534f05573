//! From records to figures. docs/load.md defines each of them.

use crate::percentile::Spread;
use crate::record::{Outcome, Record};
use crate::run::Run;
use crate::slo::Slo;
use serde::Serialize;
use std::collections::BTreeMap;

/// How many requests ended how. Each is in one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Answered whole, and in the promise (or without one).
    pub in_promise: usize,
    /// Answered whole, but not in the promise.
    pub late: usize,
    /// 429.
    pub refused: usize,
    /// 429 that did not say when to come back; also among the refused.
    pub refused_without_time: usize,
    /// 504.
    pub expired: usize,
    /// Other statuses.
    pub http: BTreeMap<u16, usize>,
    /// An error event within a stream.
    pub error_event: usize,
    /// No connection, or one that broke.
    pub transport: usize,
    /// Given up by this side.
    pub aborted: usize,
}

impl Counts {
    fn add(&mut self, record: &Record, slo: Option<&Slo>) {
        match record.outcome {
            Outcome::Done if slo.is_none_or(|slo| slo.met_by(record)) => self.in_promise += 1,
            Outcome::Done => self.late += 1,
            Outcome::Refused { retry_after_ms } => {
                self.refused += 1;
                self.refused_without_time += usize::from(retry_after_ms.is_none());
            }
            Outcome::Expired => self.expired += 1,
            Outcome::Http { status } => *self.http.entry(status).or_default() += 1,
            Outcome::ErrorEvent => self.error_event += 1,
            Outcome::Transport => self.transport += 1,
            Outcome::HungUp | Outcome::Aborted => self.aborted += 1,
        }
    }

    /// Not accepted: 4xx (429 says when to come back, Plimsoll's 400 `never_in_time` that there is no such time) and 503.
    fn turned_away(&self) -> usize {
        let not_accepted = |status: &u16| (400..500).contains(status) || *status == 503;
        let others = self.http.iter().filter(|(status, _)| not_accepted(status));
        self.refused + others.map(|(_, count)| count).sum::<usize>()
    }

    /// Names and numbers for people, without what did not happen.
    pub fn named(&self) -> Vec<(String, usize)> {
        let fixed = [
            ("in promise", self.in_promise),
            ("late", self.late),
            ("refused (429)", self.refused),
            ("  of these without a time to come back", self.refused_without_time),
            ("expired (504)", self.expired),
            ("error event in a stream", self.error_event),
            ("connection failed", self.transport),
            ("aborted here", self.aborted),
        ];
        let statuses = self.http.iter().map(|(status, &count)| (format!("status {status}"), count));
        let named = fixed.into_iter().map(|(name, count)| (name.to_owned(), count)).chain(statuses);
        named.filter(|(_, count)| *count > 0).collect()
    }
}

/// Where the numbers of answered tokens are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokensBy {
    /// The server's usage, for every answer.
    Usage,
    /// Events with text, for every answer: the server gave no usage.
    Chunks,
    /// Some this, some that.
    Mixed,
}

/// The figures of the measured requests of one or several runs at one rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Requests offered.
    pub offered: usize,
    /// How they ended.
    pub outcomes: Counts,
    /// Requests per second that were offered.
    pub offered_rate: f64,
    /// Requests per second that were answered in the promise.
    pub goodput: f64,
    /// Share of the offered that were answered in the promise, from 0 to 1.
    pub attainment_offered: f64,
    /// Share of the accepted (all but 4xx and 503) that were.
    pub attainment_accepted: Option<f64>,
    /// From the intended arrival to the first text, of whole answers, in milliseconds.
    pub ttft_ms: Option<Spread>,
    /// Mean gap between an answer's tokens, in milliseconds.
    pub tpot_ms: Option<Spread>,
    /// Every gap between two texts, in milliseconds.
    pub itl_ms: Option<Spread>,
    /// From the intended arrival to the end, in milliseconds.
    pub e2e_ms: Option<Spread>,
    /// From sending to the end of a refusal, in milliseconds.
    pub refusal_ms: Option<Spread>,
    /// What refusals said about coming back, in milliseconds.
    pub retry_after_ms: Option<Spread>,
    /// How late this side sent, in milliseconds.
    pub lag_ms: Option<Spread>,
    /// Tokens of a prompt, by the server's usage.
    pub prompt_tokens: Option<Spread>,
    /// Tokens of an answer.
    pub output_tokens: Option<Spread>,
    /// How these were counted; `None` without answers.
    pub tokens_by: Option<TokensBy>,
    /// Answered tokens per second, over the time from the first arrival to the last answer.
    pub output_tokens_per_second: f64,
    /// Seconds over which was offered.
    pub window_seconds: f64,
}

impl Summary {
    /// The figures of runs, of one class or of all.
    pub fn of(runs: &[Run], class: Option<usize>, slo: Option<&Slo>) -> Self {
        let chosen = |record: &&Record| record.counts() && class.is_none_or(|class| record.class == class);
        let records: Vec<&Record> = runs.iter().flat_map(|run| &run.records).filter(chosen).collect();
        let window: f64 = runs.iter().map(|run| run.window).sum();
        let mut outcomes = Counts::default();
        records.iter().for_each(|record| outcomes.add(record, slo));
        let done: Vec<&Record> =
            records.iter().filter(|record| record.outcome == Outcome::Done).copied().collect();
        let refused = |record: &&&Record| matches!(record.outcome, Outcome::Refused { .. });
        let offered = records.len();
        let accepted = offered - outcomes.turned_away();
        let in_promise = outcomes.in_promise as f64;
        Self {
            offered,
            offered_rate: per(offered as f64, window),
            goodput: per(in_promise, window),
            attainment_offered: per(in_promise, offered as f64),
            attainment_accepted: (accepted > 0).then(|| in_promise / accepted as f64),
            ttft_ms: Spread::of(done.iter().filter_map(|record| record.ttft_ms())),
            tpot_ms: Spread::of(done.iter().filter_map(|record| record.tpot_ms())),
            itl_ms: Spread::of(done.iter().flat_map(|record| record.gaps_ms.iter().copied().map(f64::from))),
            e2e_ms: Spread::of(done.iter().map(|record| record.e2e_ms())),
            refusal_ms: Spread::of(records.iter().filter(refused).map(|record| record.service_ms())),
            retry_after_ms: Spread::of(records.iter().filter_map(|record| match record.outcome {
                Outcome::Refused { retry_after_ms } => retry_after_ms,
                _ => None,
            })),
            lag_ms: Spread::of(records.iter().map(|record| record.lag_ms())),
            prompt_tokens: Spread::of(done.iter().filter_map(|record| record.prompt_tokens).map(f64::from)),
            output_tokens: Spread::of(done.iter().map(|record| f64::from(record.tokens()))),
            tokens_by: tokens_by(&done),
            output_tokens_per_second: per(tokens(&done), busy(runs)),
            window_seconds: window,
            outcomes,
        }
    }
}

/// Seconds in which answers could come.
fn busy(runs: &[Run]) -> f64 {
    let of = |run: &Run| {
        let first = run.records.iter().filter(|record| record.counts()).map(|record| record.intended);
        let first = first.fold(f64::INFINITY, f64::min);
        if first.is_finite() { (run.wall - first).max(0.0) } else { 0.0 }
    };
    runs.iter().map(of).sum()
}

fn tokens(done: &[&Record]) -> f64 {
    done.iter().map(|record| u64::from(record.tokens())).sum::<u64>() as f64
}

fn tokens_by(done: &[&Record]) -> Option<TokensBy> {
    let counted = done.iter().filter(|record| record.completion_tokens.is_some()).count();
    match counted {
        _ if done.is_empty() => None,
        0 => Some(TokensBy::Chunks),
        n if n == done.len() => Some(TokensBy::Usage),
        _ => Some(TokensBy::Mixed),
    }
}

fn per(count: f64, of: f64) -> f64 {
    if of > 0.0 { count / of } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn record(outcome: Outcome, ttft: f64) -> Record {
        let times = (1.0 + ttft, 1.0 + ttft + 0.3);
        Record {
            measured: true,
            intended: 1.0,
            sent: 1.002,
            first: Some(times.0),
            last: Some(times.1),
            end: times.1,
            chunks: 3,
            gaps_ms: vec![100.0, 200.0],
            completion_tokens: Some(4),
            prompt_tokens: Some(100),
            outcome,
            ..Record::default()
        }
    }

    #[test]
    fn every_request_is_counted_once() {
        let refusal = |retry_after_ms| Outcome::Refused { retry_after_ms };
        let outcomes = [
            (Outcome::Done, 0.1),
            (Outcome::Done, 0.9),
            (refusal(Some(250.0)), 0.0),
            (refusal(None), 0.0),
            (Outcome::Expired, 0.0),
            (Outcome::Http { status: 503 }, 0.0),
            (Outcome::Http { status: 400 }, 0.0),
            (Outcome::Http { status: 500 }, 0.0),
            (Outcome::ErrorEvent, 0.0),
            (Outcome::Transport, 0.0),
            (Outcome::Aborted, 0.0),
        ];
        let mut records: Vec<Record> =
            outcomes.iter().map(|&(outcome, ttft)| record(outcome, ttft)).collect();
        records.push(Record { measured: false, ..record(Outcome::Done, 0.1) });
        let run = Run { records, window: 2.0, wall: 3.0, ..Run::default() };
        let slo = Slo { ttft: Some(Duration::from_millis(500)), itl: None, e2e: None, quantile: 0.99 };
        let summary = Summary::of(&[run], None, Some(&slo));
        let Counts { in_promise, late, refused, expired, ref http, error_event, transport, aborted, .. } =
            summary.outcomes;
        assert_eq!(
            (in_promise, late, refused, expired, error_event, transport, aborted),
            (1, 1, 2, 1, 1, 1, 1)
        );
        assert_eq!((http[&503], http[&400], http[&500], summary.outcomes.refused_without_time), (1, 1, 1, 1));
        assert_eq!((summary.offered, summary.offered_rate, summary.goodput), (11, 5.5, 0.5));
        // All but two 429, the 503 and the 400.
        assert_eq!(summary.attainment_accepted, Some(1.0 / 7.0));
        assert_eq!(summary.retry_after_ms.map(|spread| (spread.n, spread.p50)), Some((1, 250.0)));
        // Three gaps between four tokens share 300 ms; the events were two gaps apart.
        let near = |spread: Option<Spread>, wanted: f64| {
            spread.is_some_and(|spread| (spread.p99 - wanted).abs() < 1e-6)
        };
        assert!(near(summary.tpot_ms, 100.0) && near(summary.itl_ms, 200.0) && near(summary.ttft_ms, 900.0));
        assert!(near(summary.lag_ms, 2.0) && near(summary.e2e_ms, 1200.0));
        assert_eq!(summary.output_tokens_per_second, 4.0);
        assert_eq!(summary.tokens_by, Some(TokensBy::Usage));
    }

    #[test]
    fn without_usage_events_stand_for_tokens() {
        let record = Record { completion_tokens: None, ..record(Outcome::Done, 0.1) };
        let run = Run { records: vec![record], window: 1.0, wall: 2.0, ..Run::default() };
        let summary = Summary::of(&[run], None, None);
        assert_eq!(summary.tokens_by, Some(TokensBy::Chunks));
        assert_eq!(summary.output_tokens.map(|spread| spread.max), Some(3.0));
        assert!(summary.tpot_ms.is_some_and(|spread| (spread.max - 150.0).abs() < 1e-6));
    }

    #[test]
    fn nothing_offered() {
        let summary = Summary::of(&[], None, None);
        assert_eq!((summary.offered, summary.goodput, summary.attainment_accepted), (0, 0.0, None));
        assert!(summary.output_tokens_per_second.is_sign_positive());
    }
}
