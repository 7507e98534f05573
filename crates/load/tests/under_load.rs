//! Runs against a server that answers well, slowly, badly, or not at all.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod measured;
mod scripted;

use measured::{bench_options, by_id, measure, measure_with, workload};
use plimsoll_load::manner::{Manner, Manners};
use plimsoll_load::record::{Outcome, Record};
use plimsoll_load::workload::{Class, Sessions, Workload};
use plimsoll_load::{BenchOptions, Client, ClientOptions};
use scripted::{Act, Asked, STREAM, beside, done, event, options, plain, prompt_words, text, usage, whole};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn tokens_are_the_servers() {
    let report = beside(whole, async |target| measure(target, &bench_options(20, 200.0)).await);
    let summary = &report.runs[0].summary;
    assert_eq!((summary.offered, summary.outcomes.in_promise), (20, 20));
    // Two events of two tokens each; 20 words and the template's 10 tokens.
    assert_eq!(summary.output_tokens.map(|spread| (spread.p50, spread.max)), Some((4.0, 4.0)));
    assert_eq!(summary.prompt_tokens.map(|spread| (spread.p50, spread.max)), Some((30.0, 30.0)));
    for record in by_id(&report) {
        assert_eq!((record.chunks, record.gaps_ms.len()), (2, 1));
        let gap = f64::from(record.gaps_ms[0]);
        assert!((record.tpot_ms().unwrap() - gap / 3.0).abs() < 0.01, "three gaps between four tokens");
    }
}

/// Answers the first requests (of the client that gets to know it) well, and then by the list.
fn scripted(answers: Vec<Vec<Act>>) -> impl Fn(&Asked) -> Vec<Act> {
    let left = RefCell::new(VecDeque::from(answers));
    let probes = Cell::new(2);
    move |asked| {
        if probes.get() > 0 {
            probes.set(probes.get() - 1);
            return whole(asked);
        }
        left.borrow_mut().pop_front().unwrap_or_else(|| whole(asked))
    }
}

fn stream(acts: Vec<Act>) -> Vec<Act> {
    let mut all = vec![Act::Send(STREAM.to_owned()), text("a")];
    all.extend(acts);
    all
}

#[test]
fn every_way_to_fail_is_told_apart() {
    let finished = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let end = || Act::Send("0\r\n\r\n".to_owned());
    let refusal = |retry_after_ms| Outcome::Refused { retry_after_ms };
    let cases = vec![
        (plain("429 Too Many Requests", "retry-after: 2\r\n", "{}"), refusal(Some(2000.0))),
        (
            plain("429 Too Many Requests", "retry-after: 2\r\nretry-after-ms: 1500\r\n", "{}"),
            refusal(Some(1500.0)),
        ),
        (plain("429 Too Many Requests", "", "{}"), refusal(None)),
        (plain("504 Gateway Timeout", "", "{}"), Outcome::Expired),
        (plain("500 Internal Server Error", "", "oh"), Outcome::Http { status: 500 }),
        (stream(vec![event(r#"{"error":{"message":"deadline"}}"#), end()]), Outcome::ErrorEvent),
        (stream(vec![event("{not json"), end()]), Outcome::ErrorEvent),
        (stream(vec![Act::Cut]), Outcome::Transport),
        (vec![Act::Cut], Outcome::Transport),
        (stream(vec![end()]), Outcome::Transport),
        (stream(vec![event(finished), end()]), Outcome::Done),
        (stream(vec![Act::Stall]), Outcome::Aborted),
        (vec![Act::Stall], Outcome::Aborted),
        (stream(done()), Outcome::Done),
    ];
    let (answers, wanted): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let count = wanted.len();
    let report = beside(scripted(answers), async |target| {
        let options = ClientOptions { timeout: Duration::from_secs(2), ..options(target) };
        let client = Client::connect(options).await.unwrap();
        // One after the other, so that each gets the answer that is meant for it.
        measure_with(&client, &BenchOptions { max_in_flight: 1, ..bench_options(count, 1000.0) }).await
    });
    let got: Vec<Outcome> = by_id(&report).iter().map(|record| record.outcome).collect();
    assert_eq!(got, wanted);
}

#[test]
fn latency_counts_from_the_intended_arrival() {
    let service = Duration::from_millis(40);
    let slow = move |asked: &Asked| {
        let mut acts = vec![Act::Pause(service)];
        acts.extend(whole(asked));
        acts
    };
    let options = BenchOptions { max_in_flight: 1, ..bench_options(5, 1000.0) };
    let report = beside(slow, async |target| measure(target, &options).await);
    for (i, record) in by_id(&report).iter().enumerate() {
        // All came within 5 ms, and each waited for those before it: at this end, which must not hide it.
        let least = service.as_secs_f64() * 1e3 * (i + 1) as f64 - 6.0;
        assert!(record.ttft_ms().unwrap() >= least, "{i}: {:?} < {least}", record.ttft_ms());
        assert!(record.lag_ms() >= service.as_secs_f64() * 1e3 * i as f64 - 6.0);
    }
    assert!(report.to_string().contains("were sent more than"), "{report}");
}

#[test]
fn conversations_grow() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let server = {
        let seen = seen.clone();
        move |asked: &Asked| {
            seen.borrow_mut().push(asked.body["messages"].clone());
            whole(asked)
        }
    };
    let sessions = Some(Sessions { turns: 3, think: Duration::from_millis(1) });
    let options = BenchOptions { workload: Workload { sessions, ..workload() }, ..bench_options(6, 100.0) };
    let report = beside(server, async |target| measure(target, &options).await);
    let records = by_id(&report);
    let turns: Vec<(u64, u32)> = records.iter().map(|record| (record.id, record.turn)).collect();
    assert_eq!(turns, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    assert!(records.windows(2).all(|pair| pair[1].turn == 0 || pair[1].intended >= pair[0].end));
    let seen = seen.borrow();
    let longest = seen.iter().max_by_key(|messages| messages.as_array().unwrap().len()).unwrap();
    let roles: Vec<&str> =
        longest.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(longest[1]["content"], "Good day");
    let begins_alike = seen.iter().filter(|messages| messages[0] == longest[0]).count();
    assert_eq!(begins_alike, 3);
}

#[test]
fn classes_are_sent_and_told_apart() {
    let server = |asked: &Asked| {
        if asked.head.contains("x-priority: batch") {
            plain("429 Too Many Requests", "", "{}")
        } else {
            whole(asked)
        }
    };
    let class = |name: &str, share| Class { name: name.to_owned(), share };
    let mix = vec![class("interactive", 0.5), class("batch", 0.5)];
    let options = BenchOptions { workload: Workload { mix, ..workload() }, ..bench_options(60, 400.0) };
    let report = beside(server, async |target| measure(target, &options).await);
    let run = &report.runs[0];
    let [(first, interactive), (second, batch)] = &run.classes[..] else { panic!("not two classes") };
    assert_eq!((first.as_str(), second.as_str()), ("interactive", "batch"));
    assert_eq!(interactive.offered + batch.offered, 60);
    assert!(interactive.offered > 15 && batch.offered > 15);
    assert_eq!(
        (interactive.outcomes.in_promise, batch.outcomes.refused),
        (interactive.offered, batch.offered)
    );
    assert_eq!((interactive.attainment_offered, batch.attainment_accepted), (1.0, None));
}

#[test]
fn no_usage_is_said() {
    let server = |_: &Asked| stream(done());
    let report = beside(server, async |target| measure(target, &bench_options(3, 100.0)).await);
    let said = report.to_string();
    assert!(said.contains("events with text were counted as tokens"), "{said}");
    assert!(said.contains("a prompt's word was taken for a token"), "{said}");
}

#[test]
fn connections_are_used_again() {
    let ports = Rc::new(RefCell::new(std::collections::HashSet::new()));
    let server = {
        let ports = ports.clone();
        move |asked: &Asked| {
            ports.borrow_mut().insert(asked.from);
            whole(asked)
        }
    };
    let options = BenchOptions { max_in_flight: 1, ..bench_options(30, 1000.0) };
    let report = beside(server, async |target| measure(target, &options).await);
    assert_eq!(report.runs[0].summary.outcomes.in_promise, 30);
    assert!(ports.borrow().len() < 5, "{:?}", ports.borrow());
}

#[test]
fn a_slow_stream_has_its_gaps() {
    let pause = Duration::from_millis(30);
    let server = move |asked: &Asked| {
        let mut acts = vec![
            Act::Send(STREAM.to_owned()),
            text("a"),
            Act::Pause(pause),
            text("b"),
            Act::Pause(pause),
            text("c"),
        ];
        acts.push(usage(prompt_words(asked), 3));
        acts.extend(done());
        acts
    };
    let report = beside(server, async |target| measure(target, &bench_options(5, 100.0)).await);
    let summary = &report.runs[0].summary;
    assert!(summary.tpot_ms.unwrap().p50 >= 25.0, "{:?}", summary.tpot_ms);
    assert!(summary.itl_ms.unwrap().n == 10 && summary.e2e_ms.unwrap().p50 >= 55.0);
}

#[test]
fn those_who_misbehave_are_told_apart() {
    let manners = Manners { slow_readers: 0.2, hang_up: 0.2, bad: 0.2, short_timeouts: 0.2 };
    let seen = Rc::new(RefCell::new([0; 3]));
    let counted = seen.clone();
    let server = move |asked: &Asked| {
        let mut counted = counted.borrow_mut();
        if asked.head.contains("x-request-timeout-ms:") {
            counted[0] += 1;
            return plain("504 Gateway Timeout", "", "{}");
        }
        let is_request = asked.body["messages"].as_array().is_some_and(|list| !list.is_empty());
        if !is_request || !asked.body["max_tokens"].is_u64() {
            counted[1] += 1;
            return plain("400 Bad Request", "", "{}");
        }
        counted[2] += usize::from(asked.body["top_logprobs"] == 20);
        // In few pieces, since slow readers rest after each.
        let events = (0..4).map(|_| text("a")).chain([usage(prompt_words(asked) + 10, 4)]);
        let pieces = |acts: Vec<Act>| {
            acts.into_iter().map(|act| if let Act::Send(text) = act { text } else { String::new() })
        };
        let begin = STREAM.to_owned() + &pieces(events.collect()).collect::<String>();
        // Longer than anybody waits who leaves without having seen anything.
        let wait = Act::Pause(Duration::from_millis(310));
        vec![Act::Send(begin), wait, Act::Send(pieces(done()).collect())]
    };
    let mut options = bench_options(60, 400.0);
    options.workload.manners = manners;
    options.pid = Some(std::process::id());
    let report = beside(server, async |target| measure(target, &options).await);
    let run = &report.runs[0];
    let of = |manner| -> Vec<&Record> {
        by_id(&report).into_iter().filter(|record| record.manner == manner).collect()
    };
    for (manner, outcome) in [
        (Manner::Ordinary, Outcome::Done),
        (Manner::SlowReader, Outcome::Done),
        (Manner::HangUp, Outcome::HungUp),
        (Manner::Bad, Outcome::Http { status: 400 }),
        (Manner::ShortTimeout, Outcome::Expired),
    ] {
        let theirs = of(manner);
        assert!(
            !theirs.is_empty() && theirs.iter().all(|record| record.outcome == outcome),
            "{manner:?}: {theirs:?}"
        );
    }
    let ordinary = of(Manner::Ordinary).len();
    assert_eq!((run.summary.offered, run.summary.outcomes.in_promise), (ordinary, ordinary));
    let sent = [Manner::ShortTimeout, Manner::Bad, Manner::SlowReader].map(|manner| of(manner).len());
    assert_eq!(*seen.borrow(), sent);
    assert_eq!(run.misbehaved[&Manner::HangUp]["hung up"], of(Manner::HangUp).len());
    let windows = &run.over_time;
    assert_eq!(windows.iter().map(|window| window.offered).sum::<usize>(), ordinary);
    assert!(windows.iter().all(|window| window.rss_bytes.is_some_and(|bytes| bytes > 0)));
    assert!(report.to_string().contains("clients that hang up: hung up"), "{report}");
}
