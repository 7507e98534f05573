//! How a run went over time: the same figures, window by window.

use crate::percentile::Spread;
use crate::record::{Outcome, Record};
use crate::run::Run;
use crate::slo::Slo;
use serde::Serialize;
use std::time::Duration;

/// One window of a run: the ordinary, measured requests that were intended in it, and the tokens of those that ended in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Window {
    /// Its beginning, in seconds since the start of the run.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Requests offered.
    pub offered: usize,
    /// Of these, answered in the promise.
    pub in_promise: usize,
    /// Of these, refused.
    pub refused: usize,
    /// Tokens of answers that became whole in it, per second.
    pub tokens_per_second: f64,
    /// P99 of the time to the first token, in milliseconds.
    pub ttft_p99_ms: Option<f64>,
    /// P99 of the mean gap, in milliseconds.
    pub tpot_p99_ms: Option<f64>,
    /// P99 of the time to the end, in milliseconds.
    pub e2e_p99_ms: Option<f64>,
    /// Resident memory of the server's process at its end, in bytes, if that is watched.
    pub rss_bytes: Option<u64>,
}

/// A run in windows of `length`, from its start to the end of its last request. The last window is as long as is left.
pub fn windows(run: &Run, length: Duration, slo: Option<&Slo>) -> Vec<Window> {
    let length = length.as_secs_f64().max(1e-3);
    let count = (run.wall / length).ceil() as usize;
    (0..count).map(|i| window(run, i as f64 * length, ((i + 1) as f64 * length).min(run.wall), slo)).collect()
}

fn window(run: &Run, from: f64, to: f64, slo: Option<&Slo>) -> Window {
    let is_done = |record: &Record| record.outcome == Outcome::Done;
    let ordinary = || run.records.iter().filter(|record| record.counts());
    let offered: Vec<&Record> = ordinary().filter(|record| (from..to).contains(&record.intended)).collect();
    let count = |of: &dyn Fn(&Record) -> bool| offered.iter().filter(|record| of(record)).count();
    let done = || offered.iter().filter(|record| is_done(record));
    let p99 = |spread: Option<Spread>| spread.map(|spread| spread.p99);
    // The end of the last one is the end of the last window.
    let ended = ordinary().filter(|record| from < record.end && record.end <= to);
    let tokens: u64 = ended.filter(|record| is_done(record)).map(|record| u64::from(record.tokens())).sum();
    Window {
        from,
        to,
        offered: offered.len(),
        in_promise: count(&|record| slo.map_or_else(|| is_done(record), |slo| slo.met_by(record))),
        refused: count(&|record| matches!(record.outcome, Outcome::Refused { .. })),
        tokens_per_second: tokens as f64 / (to - from).max(1e-3),
        ttft_p99_ms: p99(Spread::of(done().filter_map(|record| record.ttft_ms()))),
        tpot_p99_ms: p99(Spread::of(done().filter_map(|record| record.tpot_ms()))),
        e2e_p99_ms: p99(Spread::of(done().map(|record| record.e2e_ms()))),
        rss_bytes: run.rss.iter().rfind(|&&(at, _)| from < at && at <= to).map(|&(_, bytes)| bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manner::Manner;

    fn record(intended: f64, outcome: Outcome) -> Record {
        Record {
            measured: true,
            intended,
            first: Some(intended + 0.1),
            last: Some(intended + 0.4),
            end: intended + 0.5,
            completion_tokens: Some(4),
            outcome,
            ..Record::default()
        }
    }

    #[test]
    fn every_request_is_in_one_window() {
        let mut records: Vec<Record> = (0..10).map(|i| record(f64::from(i) + 0.25, Outcome::Done)).collect();
        records.push(record(3.0, Outcome::Refused { retry_after_ms: None }));
        records.push(Record { manner: Manner::HangUp, ..record(3.0, Outcome::HungUp) });
        let rss = vec![(4.0, 400), (8.0, 800), (9.75, 975)];
        let run = Run { records, wall: 9.75, rss, ..Run::default() };
        let windows = windows(&run, Duration::from_secs(4), None);
        let figures: Vec<_> =
            windows.iter().map(|w| (w.from, w.to, w.offered, w.in_promise, w.refused)).collect();
        assert_eq!(figures, [(0.0, 4.0, 5, 4, 1), (4.0, 8.0, 4, 4, 0), (8.0, 9.75, 2, 2, 0)]);
        let memory: Vec<_> = windows.iter().map(|w| w.rss_bytes).collect();
        assert_eq!(memory, [Some(400), Some(800), Some(975)]);
        assert_eq!((windows[0].tokens_per_second, windows[1].tokens_per_second), (4.0, 4.0));
        let near = |ms: Option<f64>, wanted: f64| ms.is_some_and(|ms| (ms - wanted).abs() < 1e-6);
        assert!(near(windows[0].ttft_p99_ms, 100.0) && near(windows[0].tpot_p99_ms, 100.0));
        assert!(near(windows[0].e2e_p99_ms, 500.0));
    }
}
