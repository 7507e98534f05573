//! Steady state: a lane and its computing threads allocate nothing, and its readers nothing per token.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{next, read, request};
use plimsoll_api::service::{Event, GenerateRequest, Generation, Sampling, Service};
use plimsoll_kernels::{Compute, Isa, KvType, Team};
use plimsoll_model::checkpoint;
use plimsoll_model::decoder::{Decoder, Options};
use plimsoll_model::tokenizer::Tokenizer;
use plimsoll_pool::counting::{self, Counting};
use plimsoll_runtime::{LaneConfig, ModelParts, Runtime};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::steady::Threads;
use plimsoll_testkit::tiny::{Gguf, Sizes};
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One at a time: the threads of the other have the same names.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const CONTEXT: usize = 1024;

/// A tiny decoder behind a real lane.
fn tiny() -> (Arc<Runtime>, Arc<Metrics>) {
    let folder = tempfile::tempdir().unwrap();
    let (layers, width, heads, kv_heads, ffn) = (1, 32, 2, 1, 32);
    let sizes = Sizes { layers, width, heads, kv_heads, ffn, context: CONTEXT, ..Sizes::default() };
    let path = Gguf { sizes, ..Gguf::default() }.write(folder.path()).unwrap();
    let checkpoint = checkpoint::open(&path).unwrap();
    let compute = Compute::new(Isa::detect(), Team::new(2, |_| {}).unwrap());
    let options = Options { context: CONTEXT, blocks: 300, max_seqs: 8, max_rows: 64, kv: KvType::F16 };
    let engine =
        Decoder::load(&*checkpoint, Arc::new(Mutex::new(compute)), &options, &mut |_, _| {}).unwrap();
    let tokenizer = Arc::new(Tokenizer::new(checkpoint.tokenizer()).unwrap());
    let metrics = Metrics::new();
    let runtime = Runtime::new(metrics.clone());
    let config = LaneConfig { max_seqs: 8, queue: 64, kv_overcommit: 1000, ..LaneConfig::default() };
    let (name, engine) = (common::MODEL.into(), Box::new(engine));
    runtime.add(ModelParts { name, engine, tokenizer, template: None, config }).unwrap();
    runtime.ready();
    (runtime, metrics)
}

/// Requests of all kinds, by number: long and short ones, some with a beginning in common, forks, penalties, scores.
fn asked(i: u32) -> GenerateRequest {
    let prompt = if i.is_multiple_of(3) { "the same beginning ".repeat(8) } else { String::new() };
    let prompt = prompt + &format!("{i} ").repeat((3 + 11 * i % 40) as usize);
    let sampling = match i % 6 {
        0 => Sampling { temperature: 0.0, ..Sampling::default() },
        1 => Sampling { top_k: 20, top_p: 0.9, ..Sampling::default() },
        2 => Sampling { repetition_penalty: 1.2, presence_penalty: 0.5, ..Sampling::default() },
        3 => Sampling { min_p: 0.05, frequency_penalty: 0.5, ..Sampling::default() },
        4 => Sampling { top_p: 0.95, logit_bias: vec![(70, 2.0), (71, -3.0)], ..Sampling::default() },
        _ => Sampling { temperature: 1.5, ..Sampling::default() },
    };
    GenerateRequest {
        n: if i.is_multiple_of(5) { 3 } else { 1 },
        sampling: Sampling { seed: Some(i.into()), ..sampling },
        logprobs: [None, None, Some(0), Some(20)][i as usize % 4],
        echo: i % 8 == 3,
        stop: if i % 7 == 1 { vec!["zz".into()] } else { Vec::new() },
        ..request(&prompt, 20 + 17 * (i % 5))
    }
}

/// Runs so many requests, up to twelve at once, each begun when another is over. Some leave half-way.
async fn crowd(runtime: &Arc<Runtime>, requests: std::ops::Range<u32>) {
    let mut clients = tokio::task::JoinSet::new();
    for i in requests {
        while clients.len() >= 12 {
            clients.join_next().await.unwrap().unwrap();
        }
        let runtime = runtime.clone();
        clients.spawn(async move {
            let mut generation = runtime.generate(asked(i)).await.unwrap();
            if i % 10 == 9 {
                for _ in 0..5 {
                    next(&mut generation).await;
                }
                return;
            }
            assert!(read(generation).await.failed.is_none());
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

fn steps(metrics: &Metrics) -> f64 {
    let text = metrics.render();
    let line = text.lines().find(|line| line.starts_with("plimsoll_step_seconds_count")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_thousand_steps_allocate_nothing() {
    let _alone = ALONE.lock().await;
    let (runtime, metrics) = tiny();
    crowd(&runtime, 0..24).await;
    let (threads, before) = (Threads::named(&["lane", "compute"]), steps(&metrics));
    threads.watch();
    let (mut done, mut first) = (0.0, 24);
    while done < 1000.0 {
        crowd(&runtime, first..first + 40).await;
        (done, first) = (steps(&metrics) - before, first + 40);
    }
    for (name, counts) in threads.since() {
        assert_eq!(counts.allocations, 0, "{name} allocates, in {done} steps");
    }
}

/// Reads to the end as a gateway does, giving back what it read. Returns the tokens.
async fn drink(mut generation: Generation) -> u32 {
    loop {
        match next(&mut generation).await {
            Some(Event::Delta(delta)) => generation.events.as_mut().give_back(delta),
            Some(Event::Done(usage)) => return usage.completion_tokens,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_reader_allocates_nothing_per_token() {
    let _alone = ALONE.lock().await;
    let (runtime, _) = tiny();
    for (name, logprobs, stop) in [("plain", None, ""), ("scored", Some(5), ""), ("stopped", None, "zq!")] {
        let mut allocations = Vec::new();
        for max_tokens in [500, 500, 50, 500] {
            let (ignore_eos, stop) = (true, vec![stop.to_owned()]);
            let asked = GenerateRequest { ignore_eos, logprobs, stop, ..request("tell me", max_tokens) };
            let before = counting::of_this_thread();
            let generation = runtime.generate(asked).await.unwrap();
            assert_eq!(drink(generation).await, max_tokens, "{name}");
            allocations.push(counting::of_this_thread().since(before).allocations);
        }
        assert_eq!(allocations[2], allocations[3], "{name}: 450 tokens more");
    }
}
