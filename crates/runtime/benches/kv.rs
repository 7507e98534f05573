//! What sharing prefixes, parking and reading ahead are worth: SmolLM2 on a lane.
//!
//! Arguments: the model file, and a folder on the disk to park on.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench is for its author")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{MODEL, next, read, request};
use plimsoll_api::service::{GenerateRequest, Prompt, Service};
use plimsoll_kernels::{Compute, Isa, KvType, Team};
use plimsoll_model::checkpoint;
use plimsoll_model::decoder::{Decoder, Options};
use plimsoll_model::tokenizer::Tokenizer;
use plimsoll_runtime::{LaneConfig, ModelParts, Parking, Runtime};
use plimsoll_telemetry::Metrics;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const MIB: usize = 1 << 20;

/// A lane of SmolLM2 with so many KV blocks.
fn lane(model: &Path, blocks: usize, config: LaneConfig) -> (Arc<Runtime>, Arc<Metrics>) {
    let checkpoint = checkpoint::open(model).unwrap();
    let compute = Compute::new(Isa::detect(), Team::new(2, |_| {}).unwrap());
    let options = Options { context: 2048, blocks, max_seqs: 16, max_rows: 256, kv: KvType::F16 };
    let engine =
        Decoder::load(&*checkpoint, Arc::new(Mutex::new(compute)), &options, &mut |_, _| {}).unwrap();
    let tokenizer = Arc::new(Tokenizer::new(checkpoint.tokenizer()).unwrap());
    let metrics = Metrics::new();
    let runtime = Runtime::new(metrics.clone());
    let (name, engine) = (MODEL.into(), Box::new(engine));
    runtime.add(ModelParts { name, engine, tokenizer, template: None, config }).unwrap();
    runtime.ready();
    (runtime, metrics)
}

/// A greedy request with a prompt of `len` tokens that begins with `common` ones that all have.
fn asked(i: u32, common: u32, len: u32, max_tokens: u32) -> GenerateRequest {
    let token = |at| if at < common { 1000 + at % 500 } else { 2000 + (i * 7919 + at) % 20_000 };
    let prompt = Prompt::Tokens((0..len).map(token).collect());
    GenerateRequest { prompt, ignore_eos: true, ..request("", max_tokens) }
}

fn counted(metrics: &Metrics, name: &str) -> f64 {
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Time to the first token.
async fn first_token(runtime: &Runtime, request: GenerateRequest) -> Duration {
    let begun = Instant::now();
    let mut generation = runtime.generate(request).await.unwrap();
    next(&mut generation).await;
    let took = begun.elapsed();
    read(generation).await;
    took
}

async fn prefixes(model: &Path) {
    let (runtime, metrics) = lane(model, 2048, LaneConfig::default());
    println!("\n1,000 common tokens and 20 of one's own, TTFT:");
    let mut times = Vec::new();
    for round in 0..5 {
        let salt = |i| GenerateRequest { cache_salt: round.to_string(), ..asked(i, 1000, 1020, 2) };
        let first = first_token(&runtime, salt(0)).await;
        times.push((first, first_token(&runtime, salt(1)).await));
    }
    times.sort();
    let (first, second) = times[times.len() / 2];
    println!("  first {first:?}, second {second:?}");
    let before = counted(&metrics, "plimsoll_prompt_tokens_total");
    let begun = Instant::now();
    let mut crowd = JoinSet::new();
    for i in 0..32 {
        let (runtime, request) = (runtime.clone(), asked(100 + i, 1000, 1020, 2));
        let request = GenerateRequest { cache_salt: "crowd".into(), ..request };
        crowd.spawn(async move { read(runtime.generate(request).await.unwrap()).await });
    }
    while crowd.join_next().await.is_some() {}
    let tokens = counted(&metrics, "plimsoll_prompt_tokens_total") - before;
    println!("  32 at once: {tokens} prompt tokens computed, {:?} for all", begun.elapsed());
}

/// Sixteen requests that want three times the blocks there are.
async fn crowd(model: &Path, name: &str, parking: Parking) {
    let config = LaneConfig { parking, prefix_cache: false, kv_overcommit: 100, ..LaneConfig::default() };
    let (runtime, metrics) = lane(model, 160, config);
    let begun = Instant::now();
    let mut crowd = JoinSet::new();
    for i in 0..16 {
        let (runtime, request) = (runtime.clone(), asked(i, 0, 300, 200));
        crowd.spawn(async move { read(runtime.generate(request).await.unwrap()).await });
    }
    while crowd.join_next().await.is_some() {}
    let took = begun.elapsed();
    let moved = counted(&metrics, "plimsoll_park_moves_total");
    let computed = counted(&metrics, "plimsoll_prompt_tokens_total");
    println!("  {name:<24} {took:>10.2?}, {computed} prompt tokens computed, {moved} blocks moved");
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let (Some(model), Some(folder)) = (arguments.next(), arguments.next()) else {
        println!("kv: name a model file and a folder to park in");
        return;
    };
    let (model, folder) = (PathBuf::from(model), PathBuf::from(folder));
    prefixes(&model).await;
    println!("\n16 requests of 300 + 200 tokens in 160 blocks, which are 2,560 tokens:");
    for _ in 0..3 {
        let with = |memory, ahead, folder| Parking { memory, folder, ahead, ..Parking::default() };
        crowd(&model, "computed again", with(0, 0, None)).await;
        crowd(&model, "parked in memory", with(512 * MIB, 2, None)).await;
        crowd(&model, "parked in a file", with(24 * MIB, 0, Some(folder.clone()))).await;
        crowd(&model, "and read back ahead", with(24 * MIB, 2, Some(folder.clone()))).await;
    }
}
