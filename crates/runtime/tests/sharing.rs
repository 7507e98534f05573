//! What requests share: the same text, and less to compute.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{Bench, config, encode, next, read, request};
use plimsoll_api::service::{GenerateRequest, Sampling};
use plimsoll_runtime::LaneConfig;
use plimsoll_testkit::engine::{Script, StepGate};
use std::sync::atomic::Ordering::SeqCst;

const HIT: &str = "plimsoll_prefix_tokens_total{model=\"scripted\",result=\"hit\"}";
const COMPUTED: &str = "plimsoll_prefix_tokens_total{model=\"scripted\",result=\"computed\"}";

fn roomy() -> Script {
    let mut script = common::script();
    script.shape.blocks = 400;
    script
}

/// A long beginning that all have, and an end of one's own.
fn asked(own: &str) -> GenerateRequest {
    request(&("system ".repeat(60) + own), 20)
}

#[tokio::test]
async fn a_second_request_computes_only_what_is_new_and_is_told_so() {
    let bench = Bench::new(roomy(), config());
    let prompt = |own: &str| "system ".repeat(60) + own;
    for (own, cached) in [("first", 0), ("second", 416), ("first", 416), ("", 416)] {
        let before = bench.observed.rows.load(SeqCst);
        let outcome = bench.run(asked(own)).await.unwrap();
        assert_eq!(outcome.texts, [bench.alone(&prompt(own), 20)], "{own}");
        assert_eq!(outcome.usage.unwrap().cached_tokens, cached, "{own}");
        let rows = bench.observed.rows.load(SeqCst) - before;
        assert_eq!(rows, encode(&prompt(own)).len() - cached as usize + 19, "{own}");
    }
    assert_eq!(bench.gauge(HIT), 3.0 * 416.0);
    // A conversation goes on: the answer is part of the next prompt.
    let answer = bench.alone(&prompt("first"), 20);
    let outcome = bench.run(asked(&format!("first{answer} and then?"))).await.unwrap();
    assert_eq!(outcome.usage.unwrap().cached_tokens, (420 + 5 + 19) / 16 * 16);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn other_tenants_and_salts_find_nothing_and_neither_does_a_cache_that_is_off() {
    let bench = Bench::new(roomy(), config());
    let salted = |salt: &str| GenerateRequest { cache_salt: salt.into(), ..asked("") };
    let cases = [
        (asked(""), 0),
        (GenerateRequest { tenant: 1, ..asked("") }, 0),
        (salted("a"), 0),
        (salted("b"), 0),
        (salted("a"), 416),
    ];
    for (asked, cached) in cases {
        assert_eq!(bench.run(asked).await.unwrap().usage.unwrap().cached_tokens, cached);
    }
    bench.assert_nothing_left();
    let bench = Bench::new(roomy(), LaneConfig { prefix_cache: false, ..config() });
    for _ in 0..2 {
        assert_eq!(bench.run(asked("")).await.unwrap().usage.unwrap().cached_tokens, 0);
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn thirty_two_at_once_compute_their_beginning_once() {
    let gate = StepGate::default();
    let script = Script { gate: Some(gate.clone()), ..roomy() };
    let bench = Bench::new(script, LaneConfig { queue: 32, kv_overcommit: 100, ..config() });
    let mut all = Vec::new();
    for i in 0..32 {
        all.push((i, bench.start(asked(&format!("{i:04}"))).await.unwrap()));
    }
    gate.open();
    for (i, generation) in all {
        let prompt = "system ".repeat(60) + &format!("{i:04}");
        assert_eq!(read(generation).await.texts, [bench.alone(&prompt, 20)], "{i}");
    }
    assert!(bench.gauge(COMPUTED) <= f64::from(420 + 32 * (15 + 4)), "{}", bench.gauge(COMPUTED));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_leader_that_leaves_hands_over_to_who_waited() {
    let gate = StepGate::default();
    let mut script = Script { gate: Some(gate.clone()), ..roomy() };
    script.shape.max_rows = 64;
    let bench = Bench::new(script, config());
    let leader = bench.start(asked("leader")).await.unwrap();
    let mut followers = Vec::new();
    for i in 0..3 {
        followers.push(bench.start(asked(&i.to_string())).await.unwrap());
    }
    gate.allow(2);
    gate.wait_until_blocked();
    drop(leader);
    gate.open();
    for (i, follower) in followers.into_iter().enumerate() {
        let prompt = "system ".repeat(60) + &i.to_string();
        assert_eq!(read(follower).await.texts, [bench.alone(&prompt, 20)], "{i}");
    }
    assert!(bench.gauge(COMPUTED) <= f64::from(420 + 16 + 4 * (15 + 6)), "{}", bench.gauge(COMPUTED));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn continuations_of_a_prompt_compute_it_once() {
    for prefix_cache in [true, false] {
        let bench = Bench::new(roomy(), LaneConfig { prefix_cache, ..config() });
        let sampling = Sampling { temperature: 5.0, seed: Some(7), ..Sampling::default() };
        let asked = GenerateRequest { n: 5, sampling, ..asked("") };
        let outcome = bench.run(asked.clone()).await.unwrap();
        let len = encode(&"system ".repeat(60)).len();
        assert_eq!(bench.gauge(COMPUTED), (len + 4) as f64);
        // Each is what it is when nothing is shared, and one by one.
        let alone = Bench::new(roomy(), LaneConfig { prefix_cache: false, max_seqs: 1, ..config() });
        assert_eq!(alone.run(asked).await.unwrap().texts, outcome.texts);
        alone.assert_nothing_left();
        bench.assert_nothing_left();
    }
}

#[tokio::test]
async fn a_continuation_outlives_the_one_it_came_from() {
    let bench = Bench::new(roomy(), LaneConfig { token_ring: 8, ..config() });
    let sampling = Sampling { temperature: 5.0, seed: Some(9), ..Sampling::default() };
    let asked = GenerateRequest { n: 2, sampling, ignore_eos: true, ..asked("fork") };
    let whole = bench.run(asked.clone()).await.unwrap().texts;
    let stop: String = whole[0].chars().find(char::is_ascii_alphanumeric).into_iter().collect();
    let outcome = bench.run(GenerateRequest { stop: vec![stop.clone()], ..asked.clone() }).await.unwrap();
    for (whole, text) in whole.iter().zip(&outcome.texts) {
        assert_eq!(text, whole.split(&stop).next().unwrap());
    }
    let mut left = bench.start(asked).await.unwrap();
    next(&mut left).await;
    drop(left);
    bench.assert_nothing_left();
}
