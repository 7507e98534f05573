//! Many requests at once: nobody's text depends on the others, and everything comes back.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{Bench, MODEL, Outcome, add, config, encode, next, read, request};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Event, Finish, GenerateRequest, Readiness, Sampling, Service};
use plimsoll_runtime::{LaneConfig, Runtime};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::engine::{Script, StepGate};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::task::JoinSet;

/// A number that looks random, the same every time.
fn noise(i: u32) -> u32 {
    (i.wrapping_mul(2_654_435_761) >> 7) % 1009
}

fn gated() -> (StepGate, Script) {
    let gate = StepGate::default();
    (gate.clone(), Script { gate: Some(gate), ..common::script() })
}

/// Waits until `gauge` reads `value`: other threads are to bring it about.
async fn until(bench: &Bench, gauge: &str, value: f64) {
    while bench.gauge(gauge) != value {
        tokio::task::yield_now().await;
    }
}

const USED: &str = "plimsoll_kv_blocks{model=\"scripted\",state=\"used\"}";

/// A hundred requests, a tenth of whose clients leave after some events. The others' texts.
async fn crowd(bench: Arc<Bench>) {
    let mut clients = JoinSet::new();
    for i in 0..100 {
        let bench = bench.clone();
        clients.spawn(async move {
            let prompt = "x".repeat(1 + noise(i) as usize % 60) + &i.to_string();
            let count = 1 + noise(i + 1000) % 60;
            let mut generation = bench.start(request(&prompt, count)).await.unwrap();
            if i % 10 == 3 {
                for _ in 0..noise(i) % 20 {
                    next(&mut generation).await;
                }
                return;
            }
            let outcome = read(generation).await;
            assert_eq!(outcome.texts, [bench.alone(&prompt, count as usize)], "request {i}");
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenth_of_a_hundred_leaves_and_the_others_say_what_they_say_alone() {
    let bench = Arc::new(Bench::new(common::script(), config()));
    crowd(bench.clone()).await;
    assert!(bench.observed.widest.load(SeqCst) > 4, "they were to run together");
    bench.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn also_when_the_kv_cache_is_far_too_small_and_the_rings_are() {
    let mut script = common::script();
    (script.shape.blocks, script.shape.max_rows) = (11, 24);
    let bench = Arc::new(Bench::new(script, LaneConfig { token_ring: 1, kv_overcommit: 1000, ..config() }));
    crowd(bench.clone()).await;
    bench.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampling_is_repeatable_in_a_crowd_that_is_preempted() {
    let mut script = common::script();
    script.shape.blocks = 14;
    let bench = Arc::new(Bench::new(script, config()));
    let asked = |i: u32| {
        let sampling = Sampling {
            temperature: 3.0,
            seed: Some(u64::from(i)),
            presence_penalty: 0.5,
            ..Sampling::default()
        };
        GenerateRequest {
            n: 2,
            sampling,
            ignore_eos: true,
            logprobs: Some(1),
            echo: true,
            ..request(&"y".repeat(30), 70)
        }
    };
    let mut alone = Vec::new();
    for i in 0..6 {
        alone.push(bench.run(asked(i)).await.unwrap());
    }
    let mut crowd = JoinSet::new();
    for i in 0..6 {
        let bench = bench.clone();
        crowd.spawn(async move { (i, bench.run(asked(i)).await.unwrap()) });
    }
    while let Some(client) = crowd.join_next().await {
        let (i, outcome) = client.unwrap();
        let (Outcome { texts, tokens, .. }, expected) = (outcome, &alone[i as usize]);
        assert_eq!((&texts, &tokens), (&expected.texts, &expected.tokens), "request {i}");
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_slow_reader_holds_nobody_up_and_loses_nothing() {
    let bench = Bench::new(common::script(), LaneConfig { token_ring: 16, ..config() });
    let slow = bench.start(request("slow", 200)).await.unwrap();
    for i in 0..10 {
        let prompt = format!("quick {i}");
        assert_eq!(bench.run(request(&prompt, 50)).await.unwrap().texts, [bench.alone(&prompt, 50)]);
    }
    let rows = bench.observed.rows.load(SeqCst);
    let quick: usize = (0..10).map(|i| encode(&format!("quick {i}")).len() + 49).sum();
    assert!(
        rows <= quick + encode("slow").len() + 16,
        "the slow one was computed ahead of its reader: {rows}"
    );
    assert_eq!(read(slow).await.texts, [bench.alone("slow", 200)]);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_reader_that_leaves_frees_everything_within_a_step() {
    let (gate, script) = gated();
    let bench = Bench::new(script, LaneConfig { max_seqs: 1, token_ring: 16, ..config() });
    // In the middle of a prefill of several chunks, one behind it in the queue, one behind that.
    let first = bench.start(request(&"long ".repeat(100), 50)).await.unwrap();
    gate.wait_until_blocked();
    let second = bench.start(request("second", 50)).await.unwrap();
    let third = bench.start(request("third", 5)).await.unwrap();
    assert!(bench.gauge(USED) > 0.0);
    drop((first, second));
    let before = gate.passed();
    gate.allow(1);
    gate.wait_until_blocked();
    assert_eq!(gate.passed(), before + 1);
    assert_eq!(bench.gauge(USED), 1.0, "the third has a block, the others none");
    assert_eq!((bench.gauge("plimsoll_running"), bench.gauge("plimsoll_queue_depth")), (1.0, 0.0));
    gate.open();
    assert_eq!(read(third).await.texts, [bench.alone("third", 5)]);
    // One that has filled its ring and is paused.
    let paused = bench.start(request("paused", 300)).await.unwrap();
    let quick = bench.run(request("quick", 40)).await.unwrap();
    assert_eq!(quick.texts, [bench.alone("quick", 40)]);
    drop(paused);
    until(&bench, USED, 0.0).await;
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_stop_string_of_one_continuation_leaves_the_others() {
    let bench = Bench::new(common::script(), config());
    let sampling = Sampling { temperature: 5.0, seed: Some(3), ..Sampling::default() };
    let asked = GenerateRequest { n: 3, sampling, ignore_eos: true, ..request("some", 60) };
    let whole = bench.run(asked.clone()).await.unwrap().texts;
    let stop: String = whole[1].chars().skip(8).take(3).collect();
    let outcome = bench.run(GenerateRequest { stop: vec![stop.clone()], ..asked }).await.unwrap();
    for (whole, text) in whole.iter().zip(&outcome.texts) {
        assert_eq!(text, whole.split(&stop).next().unwrap());
    }
    assert_eq!(outcome.finishes[1], Some(Finish::Stop));
    bench.assert_nothing_left();
}

/// What is refused when places are taken, and what it says.
#[tokio::test]
async fn a_full_queue_refuses_and_says_when_to_come_back() {
    let cases: [(LaneConfig, u32, Reason, &str); 2] = [
        (
            LaneConfig { max_seqs: 2, queue: 3, ..config() },
            5,
            Reason::QueueFull,
            "full: 5 sequences are running",
        ),
        (LaneConfig { kv_overcommit: 1, ..config() }, 6, Reason::KvFull, "the KV cache is spoken for"),
    ];
    for (config, fit, reason, says) in cases {
        let (gate, script) = gated();
        let bench = Bench::new(script, config);
        let mut held = Vec::new();
        for i in 0..fit {
            held.push(bench.start(request("taken", 100)).await.unwrap_or_else(|e| panic!("{i}: {e}")));
        }
        let error: Error = bench.start(request("one more", 100)).await.err().unwrap();
        assert_eq!(error.reason, reason);
        assert!(error.message.contains(says), "{error:?}");
        assert!(error.retry_after.is_some_and(|wait| wait > Duration::ZERO), "{error:?}");
        gate.open();
        for generation in held {
            assert_eq!(read(generation).await.texts, [bench.alone("taken", 100)]);
        }
        assert_eq!(bench.run(request("one more", 10)).await.unwrap().texts, [bench.alone("one more", 10)]);
        bench.assert_nothing_left();
    }
}

/// `poison` is a request whose step goes wrong, `beside` runs with it, `queued` waits.
async fn check_failure(script: Script, panics: f64) {
    let gate = StepGate::default();
    let bench =
        Bench::new(Script { gate: Some(gate.clone()), ..script }, LaneConfig { max_seqs: 2, ..config() });
    let beside = bench.start(request("beside", 100)).await.unwrap();
    gate.wait_until_blocked();
    let poison = bench.start(GenerateRequest { n: 1, ..request("poison #", 20) }).await.unwrap();
    let queued = bench.start(request("queued", 30)).await.unwrap();
    gate.open();
    for lost in [poison, beside] {
        let outcome = read(lost).await;
        assert_eq!(outcome.failed.map(|error| error.reason), Some(Reason::Engine));
        let text = outcome.texts.first().cloned().unwrap_or_default();
        assert!(bench.alone("beside", 100).starts_with(&text));
    }
    assert_eq!(read(queued).await.texts, [bench.alone("queued", 30)]);
    assert_eq!(bench.observed.recovered.load(SeqCst), 1);
    assert_eq!(bench.gauge("plimsoll_step_panics_total"), panics);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_step_that_fails_loses_its_requests_and_no_others() {
    let token = Some(u32::from(b'#'));
    check_failure(Script { panic_on: token, ..common::script() }, 1.0).await;
    check_failure(Script { fail_on: token, ..common::script() }, 0.0).await;
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_and_refuses_what_comes() {
    let (gate, script) = gated();
    let bench = Bench::new(script, config());
    let running = bench.start(request("running", 30)).await.unwrap();
    gate.wait_until_blocked();
    let runtime = bench.runtime.clone();
    let drain = std::thread::spawn(move || runtime.drain(Duration::from_secs(60)));
    while bench.runtime.readiness() != Readiness::Draining {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.start(request("late", 3)).await.err().unwrap().reason, Reason::Draining);
    gate.open();
    assert_eq!(read(running).await.texts, [bench.alone("running", 30)]);
    assert_eq!(drain.join().unwrap().dropped, 0);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_drain_that_is_out_of_time_drops_what_is_left() {
    let bench = Bench::new(common::script(), LaneConfig { token_ring: 16, ..config() });
    // Its ring is full and nobody reads: it would never end by itself.
    let stuck = bench.start(request("stuck", 500)).await.unwrap();
    let queued = bench.start(GenerateRequest { n: 2, ..request("too", 400) }).await.unwrap();
    assert_eq!(bench.runtime.drain(Duration::ZERO).dropped, 3);
    for generation in [stuck, queued] {
        assert_eq!(read(generation).await.failed.map(|error| error.reason), Some(Reason::Draining));
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn nothing_runs_before_the_models_are_there() {
    let runtime = Runtime::new(Metrics::new());
    let early = runtime.generate(request("early", 1)).await.err().unwrap();
    assert_eq!((early.reason, runtime.readiness()), (Reason::Loading, Readiness::Loading));
    add(&runtime, MODEL, common::script(), config());
    assert_eq!(runtime.generate(request("early", 1)).await.err().unwrap().reason, Reason::Loading);
    runtime.ready();
    assert!(read(runtime.generate(request("now", 1)).await.unwrap()).await.failed.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_do_not_mix() {
    let bench = Bench::new(common::script(), config());
    let other = Script { outputs: 65..91, ..common::script() };
    let observed = add(&bench.runtime, "other", other.clone(), config());
    let mut clients = JoinSet::new();
    for i in 0..40 {
        let (runtime, script) = (bench.runtime.clone(), [bench.script.clone(), other.clone()][i % 2].clone());
        clients.spawn(async move {
            let model = [MODEL, "other"][i % 2].to_owned();
            let outcome =
                read(runtime.generate(GenerateRequest { model, ..request("both", 40) }).await.unwrap()).await;
            let expected = script.alone(&encode("both"), 40);
            assert!(outcome.texts[0].bytes().map(u32::from).eq(expected), "request {i}");
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    assert_eq!(bench.runtime.models(0).iter().map(|card| &*card.id).collect::<Vec<_>>(), [MODEL, "other"]);
    bench.assert_nothing_left();
    assert_eq!(observed.violations.load(SeqCst), 0);
}

#[tokio::test]
async fn tokens_arrive_while_the_text_is_still_being_made() {
    let (gate, script) = gated();
    let bench = Bench::new(script, config());
    let mut generation = bench.start(request("stream", 10)).await.unwrap();
    let expected = bench.alone("stream", 10);
    for i in 0..10 {
        gate.allow(1);
        match next(&mut generation).await {
            Some(Event::Delta(delta)) => assert_eq!(delta.text, expected[i..=i]),
            other => panic!("{other:?}"),
        }
    }
    assert!(read(generation).await.usage.is_some());
    bench.assert_nothing_left();
}
