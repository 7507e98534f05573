//! What a request is made of comes from pools and goes back, however the request ends.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{Bench, config, next, read, request};
use plimsoll_api::service::{GenerateRequest, Sampling};
use plimsoll_runtime::{LaneConfig, ModelParts, Runtime};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::engine::ScriptedEngine;
use std::sync::Arc;
use tokio::task::JoinSet;

const POOLS: [&str; 5] = ["sequences", "lists", "links", "readings", "choices"];

fn gauge(bench: &Bench, name: &str, pool: &str) -> f64 {
    bench.gauge(&format!("plimsoll_pool_{name}{{model=\"scripted\",pool=\"{pool}\"}}"))
}

fn asked(i: u32) -> GenerateRequest {
    let sampling =
        Sampling { repetition_penalty: 1.1, temperature: 2.0, seed: Some(i.into()), ..Sampling::default() };
    let (n, logprobs) = (1 + i % 3, (i % 4 == 1).then_some(2));
    let stop = if i % 5 == 2 { vec!["q".into(), "xy".into()] } else { Vec::new() };
    GenerateRequest { n, sampling, logprobs, stop, ..request(&format!("{i} and so on"), 10 + i % 30) }
}

/// A hundred requests, twenty at once; every tenth client vanishes, some before the first token, some after.
async fn a_hundred(bench: &Arc<Bench>) {
    let mut clients = JoinSet::new();
    for i in 0..100 {
        if clients.len() == 20 {
            clients.join_next().await.unwrap().unwrap();
        }
        let bench = bench.clone();
        clients.spawn(async move {
            let mut generation = bench.start(asked(i)).await.unwrap();
            if i % 10 == 3 {
                for _ in 0..i / 20 {
                    next(&mut generation).await;
                }
                return;
            }
            assert!(read(generation).await.failed.is_none(), "request {i}");
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_comes_back_after_a_hundred_streams_of_which_a_tenth_vanish() {
    let bench = Arc::new(Bench::new(common::script(), config()));
    a_hundred(&bench).await;
    a_hundred(&bench).await;
    for pool in POOLS {
        assert!(gauge(&bench, "high_water", pool) >= 2.0, "{pool}: nobody took any");
        assert_eq!(gauge(&bench, "misses", pool), 0.0, "{pool}");
    }
    // The lane lets go of the last one when it looks again, at the latest when it ends.
    bench.assert_nothing_left();
    for pool in POOLS {
        assert_eq!(gauge(&bench, "outstanding", pool), 0.0, "{pool}");
    }
}

#[tokio::test]
async fn what_no_pool_has_is_made_and_counted() {
    // One reader may lag; here are three.
    let small = LaneConfig { max_seqs: 1, queue: 1, unread: 1, ..config() };
    let bench = Bench::new(common::script(), small);
    let mut unread = Vec::new();
    for i in 0..5 {
        // The gate lets the next ones in when the lane is through with those before, read or not.
        unread.push(loop {
            match bench.start(request("lag", 5 + i)).await {
                Ok(generation) => break generation,
                Err(_) => tokio::task::yield_now().await,
            }
        });
    }
    for (i, generation) in (5..).zip(unread) {
        assert_eq!(read(generation).await.texts, [bench.alone("lag", i)]);
    }
    assert!(gauge(&bench, "misses", "links") > 0.0);
    bench.assert_nothing_left();
    for pool in POOLS {
        assert_eq!(gauge(&bench, "outstanding", pool), 0.0, "{pool}");
    }
}

#[tokio::test]
async fn more_continuations_and_scores_than_a_ring_holds_are_served_all_the_same() {
    let bench = Bench::new(common::script(), LaneConfig { token_ring: 16, queue: 300, ..config() });
    let many = GenerateRequest { n: 130, ..request("many", 3) };
    assert_eq!(bench.run(many).await.unwrap().texts, vec![bench.alone("many", 3); 130]);
    let scored = GenerateRequest { echo: true, logprobs: Some(20), ..request(&"long ".repeat(30), 10) };
    let outcome = bench.run(scored).await.unwrap();
    assert_eq!(outcome.tokens[0].len(), 150 + 10);
    bench.assert_nothing_left();
}

#[test]
fn more_than_a_pool_can_hold_is_refused_at_the_start() {
    let runtime = Runtime::new(Metrics::new());
    let engine = Box::new(ScriptedEngine::new(common::script()));
    let (tokenizer, config) = (common::tokenizer(), LaneConfig { queue: 65_536, ..config() });
    let parts = ModelParts { name: "wide".into(), engine, tokenizer, template: None, config };
    let error = runtime.add(parts).unwrap_err().to_string();
    assert!(error.contains("at most 65535") && error.contains("lower `queue` or `max_seqs`"), "{error}");
}
