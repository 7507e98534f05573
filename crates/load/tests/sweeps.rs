//! The search for the highest rate in the promise, and measurements that are stopped.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod measured;
mod scripted;

use measured::{bench_options, measure};
use plimsoll_load::arrivals::Arrivals;
use plimsoll_load::lengths::Lengths;
use plimsoll_load::slo::Slo;
use plimsoll_load::sweep::SweepOptions;
use plimsoll_load::target::Target;
use plimsoll_load::workload::Source;
use plimsoll_load::{BenchOptions, LoadError, Report, Stop, bench};
use scripted::{Act, Asked, beside, connect, plain, whole};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const SLO: Slo = Slo { ttft: Some(Duration::from_secs(20)), itl: None, e2e: None, quantile: 0.8 };

/// Takes about `most` requests per second, by the time between the last 30, and refuses the others.
fn with_knee(most: f64) -> impl Fn(&Asked) -> Vec<Act> {
    let taken = RefCell::new(VecDeque::new());
    move |asked| {
        let mut taken = taken.borrow_mut();
        let now = Instant::now();
        if taken.len() == 30 {
            let oldest: Instant = taken[0];
            if 30.0 / now.duration_since(oldest).as_secs_f64() > most {
                return plain("429 Too Many Requests", "retry-after-ms: 10\r\n", "{}");
            }
            taken.pop_front();
        }
        taken.push_back(now);
        whole(asked)
    }
}

#[test]
fn a_sweep_finds_the_knee_and_runs_at_its_multiples() {
    let sweep = SweepOptions { start: 40.0, least: 1.0, most: 10_000.0, requests: 150, precision: 0.2 };
    let options = BenchOptions {
        slo: Some(SLO),
        sweep: Some(sweep),
        multiples: vec![0.5, 4.0],
        rates: Vec::new(),
        ..bench_options(150, 0.0)
    };
    let report = beside(with_knee(200.0), async |target| measure(target, &options).await);
    let found = report.sweep.as_ref().unwrap().highest.unwrap();
    // A busy machine sends in bunches, which this server takes for a higher rate.
    assert!((40.0..=400.0).contains(&found), "{found}");
    assert_eq!(report.runs[0].rate, Some(found * 0.5));
    assert_eq!(report.runs[1].summary.outcomes.refused + report.runs[1].summary.outcomes.in_promise, 150);
    assert!(report.runs[1].summary.outcomes.refused > 30);
    assert!(report.trials.iter().any(|trial| trial.cut_short), "what missed too often is not run to its end");
    check_page(&report);
}

/// Answers `before` requests, tells the bench to stop at each later one, and answers that with `then`.
fn stopping(before: usize, stop: Stop, then: fn(&Asked) -> Vec<Act>) -> impl Fn(&Asked) -> Vec<Act> {
    // Two more ask the server what it is.
    let left = Cell::new(before + 2);
    move |asked| {
        let Some(fewer) = left.get().checked_sub(1) else {
            stop.stop();
            return then(asked);
        };
        left.set(fewer);
        whole(asked)
    }
}

async fn stopped(target: Target, options: &BenchOptions, stop: &Stop) -> Report {
    let client = connect(target).await.unwrap();
    let mut report = Report::new(&client, options);
    let ended = bench(&client, options, &(), stop, &mut report).await;
    assert!(matches!(ended, Err(LoadError::Stopped)), "{ended:?}");
    report
}

#[test]
fn what_is_under_way_at_a_stop_is_waited_for() {
    let late = |asked: &Asked| {
        let mut acts = vec![Act::Pause(Duration::from_millis(100))];
        acts.extend(whole(asked));
        acts
    };
    let stop = Stop::default();
    let options = BenchOptions { rates: vec![Some(20.0), Some(1000.0)], ..bench_options(100_000, 0.0) };
    let report =
        beside(stopping(10, stop.clone(), late), async |target| stopped(target, &options, &stop).await);
    assert_eq!(report.runs.len(), 1, "no run follows");
    let run = &report.runs[0];
    assert!(
        run.cut_short && run.line().contains("(cut short)") && report.to_string().contains("(cut short)")
    );
    assert_eq!(run.summary.outcomes.in_promise, run.summary.offered);
    assert!((11..1000).contains(&run.summary.offered), "{}", run.summary.offered);
    let last = run.records.iter().map(|record| record.intended).fold(0.0, f64::max);
    assert!(run.summary.window_seconds >= last && run.summary.window_seconds < run.generator.wall_seconds);
}

#[test]
fn a_second_stop_waits_for_nothing() {
    let stop = Stop::default();
    let silent = |_: &Asked| vec![Act::Stall];
    // Two at once: the eleventh and the twelfth each say stop.
    let mut options = bench_options(100, 1000.0);
    options.workload.source = Source::Process {
        arrivals: Arrivals::Burst { size: 12 },
        prompt: Lengths::Fixed { tokens: 30 },
        output: Lengths::Fixed { tokens: 4 },
    };
    let report =
        beside(stopping(10, stop.clone(), silent), async |target| stopped(target, &options, &stop).await);
    let run = &report.runs[0];
    assert!(run.cut_short && run.summary.outcomes.in_promise <= 10);
    assert_eq!(run.summary.outcomes.aborted, 0, "those without an answer were waited for");
}

#[test]
fn a_stopped_sweep_keeps_the_trial_it_was_in() {
    let sweep = SweepOptions { start: 500.0, least: 1.0, most: 10_000.0, requests: 1000, precision: 0.2 };
    let options =
        BenchOptions { slo: Some(SLO), sweep: Some(sweep), rates: Vec::new(), ..bench_options(1000, 0.0) };
    let stop = Stop::default();
    let report =
        beside(stopping(250, stop.clone(), whole), async |target| stopped(target, &options, &stop).await);
    assert_eq!((report.sweep, report.runs.len(), report.trials.len()), (None, 0, 2));
    assert!(!report.trials[0].cut_short && report.trials[1].cut_short);
    // How many of the fifty were answered before the second of those that say stop came is the machine's affair.
    assert!(report.trials[1].summary.outcomes.in_promise > 0);
}

/// The page stands by itself, and hostile words stay words.
fn check_page(report: &Report) {
    let mut report = report.clone();
    report.setting.model = "<script>alert(1)</script>".to_owned();
    let page = report.html();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; under load"));
    for words in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(words), "{words}");
    }
    assert!(page.matches("<svg").count() >= 8, "{}", page.matches("<svg").count());
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["sweep"]["highest"].as_f64().is_some());
    assert_eq!(json["runs"][1]["records"].as_array().unwrap().len(), 150);
}
