//! Sequences that are set aside and taken up again say the same, whatever becomes of what was set aside.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{Bench, Outcome, config, next, read, request};
use plimsoll_api::error::Reason;
use plimsoll_api::service::{GenerateRequest, Priority, Sampling, Urgency};
use plimsoll_model::engine::Engine;
use plimsoll_runtime::{LaneConfig, Parking};
use plimsoll_testkit::engine::{Script, ScriptedEngine, StepGate};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const OUT: &str = "plimsoll_park_moves_total{direction=\"out\",model=\"scripted\"}";
const IN: &str = "plimsoll_park_moves_total{direction=\"in\",model=\"scripted\"}";

/// Too few KV blocks for a crowd.
fn cramped() -> Script {
    let mut script = common::script();
    script.shape.blocks = 14;
    script
}

fn block_bytes() -> usize {
    ScriptedEngine::new(cramped()).block_bytes()
}

/// Room for so many blocks in memory and in a file in `folder`.
fn parking(memory: usize, file: usize, folder: Option<&std::path::Path>) -> LaneConfig {
    let parking = Parking {
        memory: memory * block_bytes(),
        folder: folder.map(Into::into),
        file: (file * block_bytes()) as u64,
        ahead: memory % 3,
    };
    LaneConfig { parking, kv_overcommit: 1000, ..config() }
}

fn asked(i: u32) -> GenerateRequest {
    let sampling = Sampling { temperature: 3.0, seed: Some(u64::from(i)), ..Sampling::default() };
    // Some have a beginning in common, some have two continuations, some are scored.
    let prompt = if i.is_multiple_of(2) { "common ".repeat(6) } else { format!("{i} ").repeat(10) };
    let (n, logprobs) = (1 + i % 3 / 2, (i % 4 == 1).then_some(1));
    GenerateRequest {
        n,
        sampling,
        ignore_eos: true,
        logprobs,
        echo: i % 4 == 1,
        ..request(&(prompt + &i.to_string()), 60)
    }
}

const CROWD: u32 = 12;

/// A crowd says what each of it says on a lane with room for all.
async fn check(config: LaneConfig) -> Arc<Bench> {
    let roomy =
        Bench::new(common::script(), LaneConfig { max_seqs: 1, prefix_cache: false, ..common::config() });
    // All are there before the first step ends.
    let gate = StepGate::default();
    let bench = Arc::new(Bench::new(Script { gate: Some(gate.clone()), ..cramped() }, config));
    let mut crowd = JoinSet::new();
    for i in 0..CROWD {
        let generation = bench.start(asked(i)).await.unwrap();
        crowd.spawn(async move { (i, read(generation).await) });
    }
    gate.open();
    while let Some(client) = crowd.join_next().await {
        let (i, Outcome { texts, tokens, .. }) = client.unwrap();
        let alone = roomy.run(asked(i)).await.unwrap();
        assert_eq!((texts, tokens), (alone.texts, alone.tokens), "request {i}");
    }
    roomy.assert_nothing_left();
    bench.assert_nothing_left();
    bench
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_is_parked_in_memory_says_the_same() {
    for prefix_cache in [true, false] {
        let bench = check(LaneConfig { prefix_cache, ..parking(500, 0, None) }).await;
        assert!(bench.gauge(OUT) > 0.0 && bench.gauge(IN) > 0.0, "nobody was parked");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn also_when_most_of_it_goes_through_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for memory in [9, 16] {
        let bench = check(parking(memory, 500, Some(folder.path()))).await;
        assert!(bench.gauge(OUT) > 0.0, "nobody was parked");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn also_when_the_store_is_far_too_small_or_off() {
    for memory in [0, 1, 5] {
        check(parking(memory, 0, None)).await;
    }
}

#[tokio::test]
async fn a_slow_reader_is_parked_when_its_blocks_are_wanted() {
    let bench = Bench::new(cramped(), LaneConfig { token_ring: 16, ..parking(500, 0, None) });
    let mut slow = bench.start(request(&"slow ".repeat(10), 100)).await.unwrap();
    let first = next(&mut slow).await;
    assert!(first.is_some());
    for i in 0..3 {
        let prompt = format!("{i} quick ").repeat(15);
        assert_eq!(bench.run(request(&prompt, 50)).await.unwrap().texts, [bench.alone(&prompt, 50)]);
    }
    assert!(bench.gauge(OUT) > 0.0, "it kept its blocks");
    let before = bench.observed.rows.load(std::sync::atomic::Ordering::SeqCst);
    let rest = read(slow).await.texts.remove(0);
    assert!(bench.alone(&"slow ".repeat(10), 100).ends_with(&rest) && rest.len() >= 99);
    let rows = bench.observed.rows.load(std::sync::atomic::Ordering::SeqCst) - before;
    assert!(rows <= 100, "{rows} rows: it was computed again");
    bench.assert_nothing_left();
}

fn of_class(priority: Priority, request: GenerateRequest) -> GenerateRequest {
    GenerateRequest { urgency: Urgency { priority: Some(priority), ..Urgency::default() }, ..request }
}

/// Lets the step at the gate run after so long that the planner looks again who has what it was promised.
fn long_step(gate: &StepGate) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(110) {
        std::thread::yield_now();
    }
    gate.allow(1);
    gate.wait_until_blocked();
}

/// There are places and blocks for all: only that a more urgent class has not what it was promised makes it stand back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_makes_way_for_a_class_off_its_target_says_the_same() {
    let gate = StepGate::default();
    gate.open();
    let script = Script { gate: Some(gate.clone()), ..common::script() };
    let config = LaneConfig { token_ring: 16, ..parking(500, 0, None) };
    let bench = Arc::new(Bench::new(script, LaneConfig { max_seqs: 16, ..config }));

    // Nobody reads what these generate, until their time is up.
    let late = Urgency {
        priority: Some(Priority::Interactive),
        timeout: Some(Duration::from_millis(60)),
        ttft: Some(Duration::from_secs(10)),
        ..Urgency::default()
    };
    for i in 0..12 {
        let asked = GenerateRequest { urgency: late, ..request(&format!("late {i}"), 60) };
        let generation = bench.start(asked).await.unwrap();
        while bench.gauge("plimsoll_expired_total") < f64::from(i + 1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(read(generation).await.failed.map(|error| error.reason), Some(Reason::Expired));
    }
    assert_eq!(bench.gauge("plimsoll_slo_attainment{class=\"interactive\""), 0.0);
    assert_eq!(bench.gauge(OUT), 0.0, "nobody was in the way of those");

    gate.close();
    let classes = [Priority::Batch, Priority::Batch, Priority::Batch, Priority::Interactive];
    let mut crowd = JoinSet::new();
    for (i, class) in classes.into_iter().enumerate() {
        let asked = of_class(class, asked(2 * i as u32));
        let generation = bench.start(asked).await.unwrap();
        crowd.spawn(async move { (i, read(generation).await) });
    }
    gate.wait_until_blocked();
    for _ in 0..10 {
        if bench.gauge(OUT) == 0.0 {
            long_step(&gate);
        }
    }
    let parked = bench.gauge(OUT);
    gate.open();
    assert!(parked > 0.0, "nobody made way");
    while let Some(client) = crowd.join_next().await {
        let (i, Outcome { texts, failed, .. }) = client.unwrap();
        assert!(failed.is_none(), "{failed:?}");
        let roomy =
            Bench::new(common::script(), LaneConfig { max_seqs: 1, prefix_cache: false, ..common::config() });
        assert_eq!(texts, roomy.run(asked(2 * i as u32)).await.unwrap().texts, "request {i}");
        roomy.assert_nothing_left();
    }
    assert!(bench.gauge(IN) > 0.0, "what was set aside came back");
    bench.assert_nothing_left();
}
