//! A lane with a real model: SmolLM2 says the same alone and in a crowd that fights for the KV cache.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{Outcome, read};
use plimsoll_api::service::{GenerateRequest, Prompt, Sampling, Service};
use plimsoll_kernels::{Compute, Isa, KvType, Team};
use plimsoll_model::checkpoint;
use plimsoll_model::decoder::{Decoder, Options};
use plimsoll_model::template::ChatTemplate;
use plimsoll_model::tokenizer::Tokenizer;
use plimsoll_runtime::{LaneConfig, ModelParts, Parking, Runtime};
use plimsoll_telemetry::Metrics;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// A runtime that serves SmolLM2 with so many KV blocks, and so many bytes to park them in.
fn smollm2(kv: KvType, blocks: usize, parking: usize) -> (Arc<Runtime>, Arc<Metrics>) {
    #[expect(clippy::disallowed_methods, reason = "a test is told where the model lies by ./test")]
    let path = std::env::var("PLIMSOLL_TEST_SMOLLM2")
        .expect("PLIMSOLL_TEST_SMOLLM2 must name SmolLM2-135M-Instruct.Q4_1.gguf; ./test sets it");
    let checkpoint = checkpoint::open(Path::new(&path)).unwrap();
    let compute = Compute::new(Isa::detect(), Team::new(2, |_| {}).unwrap());
    let options = Options { context: 512, blocks, max_seqs: 16, max_rows: 256, kv };
    let engine =
        Decoder::load(&*checkpoint, Arc::new(Mutex::new(compute)), &options, &mut |_, _| {}).unwrap();
    let tokenizer = Arc::new(Tokenizer::new(checkpoint.tokenizer()).unwrap());
    let template = checkpoint.chat_template().unwrap();
    let template = ChatTemplate::new(template, "<|im_start|>", "<|im_end|>").unwrap();
    let metrics = Metrics::new();
    let runtime = Runtime::new(metrics.clone());
    let parking = Parking { memory: parking, ..Parking::default() };
    let config = LaneConfig { parking, ..LaneConfig::default() };
    let (name, template, config) = (common::MODEL.into(), Some(template), config);
    runtime.add(ModelParts { name, engine: Box::new(engine), tokenizer, template, config }).unwrap();
    runtime.ready();
    (runtime, metrics)
}

fn asked(i: usize) -> GenerateRequest {
    let topics =
        ["the sea", "a loaded ship", "bread", "prime numbers", "winter", "an old clock", "trains", "honey"];
    let content = format!("Tell me {} things about {}.", 2 + i / 8, topics[i % 8]).repeat(1 + i % 3);
    let messages = vec![serde_json::json!({ "role": "user", "content": content })];
    let prompt = Prompt::Chat { messages, extra: serde_json::Map::default(), add_generation_prompt: true };
    // Greedy and sampled ones, side by side.
    let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.8 };
    let sampling = Sampling { temperature, seed: Some(i as u64), ..Sampling::default() };
    GenerateRequest { prompt, sampling, ..common::request("", 64) }
}

async fn run(runtime: Arc<Runtime>, request: GenerateRequest) -> Outcome {
    read(runtime.generate(request).await.unwrap()).await
}

/// The sum of the counters whose lines begin so.
fn counted(metrics: &Metrics, name: &str) -> f64 {
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Sixteen requests at once say what each says alone, where they fight for 24 blocks and want some 110.
async fn check_sixteen(kv: KvType, parking: usize) -> Arc<Metrics> {
    let (runtime, metrics) = smollm2(kv, 24, parking);
    let mut alone = Vec::new();
    for i in 0..16 {
        alone.push(run(runtime.clone(), asked(i)).await.texts);
    }
    let mut crowd = JoinSet::new();
    for i in 0..16 {
        let runtime = runtime.clone();
        crowd.spawn(async move { (i, run(runtime, asked(i)).await.texts) });
    }
    while let Some(client) = crowd.join_next().await {
        let (i, texts) = client.unwrap();
        assert_eq!(texts, alone[i], "request {i}");
    }
    assert_eq!(runtime.drain(Duration::from_secs(60)).dropped, 0);
    assert!(metrics.render().contains("plimsoll_kv_blocks{model=\"scripted\",state=\"used\"} 0"));
    metrics
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_say_what_each_says_alone_and_after_being_computed_again() {
    let metrics = check_sixteen(KvType::F16, 0).await;
    // Each prompt twice, computed or found; whoever was preempted, once more each time.
    let tokens = counted(&metrics, "plimsoll_prefix_tokens_total");
    let (runtime, roomy) = smollm2(KvType::F16, 256, 0);
    for i in 0..16 {
        run(runtime.clone(), asked(i)).await;
    }
    let once = counted(&roomy, "plimsoll_prefix_tokens_total");
    assert!(tokens > 2.0 * once, "nobody was preempted: {tokens} tokens, {once} in the prompts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_say_what_each_says_alone_and_after_being_parked() {
    for kv in [KvType::F16, KvType::Q8] {
        let metrics = check_sixteen(kv, 256 << 20).await;
        let parked = counted(&metrics, "plimsoll_park_moves_total{direction=\"in\"");
        assert!(parked > 0.0, "nobody was parked with {kv:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_that_was_found_says_what_it_says_when_computed() {
    let (runtime, _) = smollm2(KvType::F16, 256, 0);
    for i in 0..6 {
        let first = run(runtime.clone(), asked(i)).await;
        let again = run(runtime.clone(), asked(i)).await;
        assert_eq!(again.texts, first.texts, "request {i}");
        assert!(again.usage.unwrap().cached_tokens >= 16, "request {i}");
    }
    // Four continuations, the prompt computed once for all; each as if it were computed for it alone.
    let many = GenerateRequest { n: 4, ..asked(1) };
    let shared = run(runtime.clone(), many.clone()).await;
    let salted = GenerateRequest { cache_salt: "another".into(), ..many };
    assert_eq!(run(runtime.clone(), salted).await.texts, shared.texts);
    assert_eq!(shared.texts[0], run(runtime.clone(), asked(1)).await.texts[0]);
    assert_eq!(runtime.drain(Duration::from_secs(60)).dropped, 0);
}
