//! A lane that fails between two steps, where no request is to blame: it goes on as it began, or says that it does not.

mod common;

use common::{Bench, config, read, request};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{Readiness, Service};
use plimsoll_model::engine::{Engine, Shape, Span, StepError};
use plimsoll_runtime::{LaneConfig, ModelParts, Runtime};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::engine::{Script, ScriptedEngine, StepGate};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Fails a step with `#` in it, and then panics so often where the lane recovers from that.
struct Fragile {
    inner: ScriptedEngine,
    panics: Arc<AtomicUsize>,
}

impl Engine for Fragile {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    fn step(&mut self, spans: &[Span<'_>]) -> Result<(), StepError> {
        self.inner.step(spans)
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        self.inner.logits(row)
    }

    fn recover(&mut self) {
        let left = self.panics.load(SeqCst);
        self.panics.store(left.saturating_sub(1), SeqCst);
        assert_eq!(left, 0, "the test says to panic here");
        self.inner.recover();
    }

    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn release_blocks(&mut self, blocks: &[u32]) -> usize {
        self.inner.release_blocks(blocks)
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        self.inner.copy_block(from, to);
    }

    fn save_block(&self, block: u32, to: &mut [u8]) {
        self.inner.save_block(block, to);
    }

    fn load_block(&mut self, block: u32, from: &[u8]) {
        self.inner.load_block(block, from);
    }
}

/// Its lane panics so often, one time after the other, when a prompt has `#` in it.
fn bench(panics: usize, gate: &StepGate, config: LaneConfig) -> Bench {
    let script = Script { fail_on: Some(u32::from(b'#')), gate: Some(gate.clone()), ..common::script() };
    let inner = ScriptedEngine::new(script.clone());
    let observed = inner.observed();
    let (metrics, tokenizer) = (Metrics::new(), common::tokenizer());
    let runtime = Runtime::new(metrics.clone());
    let engine = Box::new(Fragile { inner, panics: Arc::new(AtomicUsize::new(panics)) });
    let parts = ModelParts { name: common::MODEL.into(), engine, tokenizer, template: None, config };
    runtime.add(parts).unwrap_or_else(|error| panic!("{error}"));
    runtime.ready();
    Bench { runtime, metrics, script, observed }
}

#[tokio::test]
async fn a_lane_that_fails_between_steps_loses_what_it_has_and_goes_on() {
    let gate = StepGate::default();
    let bench = bench(1, &gate, LaneConfig { max_seqs: 3, ..config() });
    gate.open();
    let before = bench.run(request("the same beginning of some blocks, twice", 20)).await.unwrap();
    gate.close();
    // The first of them alone; the others are in the mailbox, and the lane has them all when it fails.
    let mut lost = vec![bench.start(request("one", 200)).await.unwrap()];
    gate.wait_until_blocked();
    for prompt in ["two", "poison #", "waits for a place"] {
        lost.push(bench.start(request(prompt, 200)).await.unwrap());
    }
    gate.open();
    for lost in lost {
        let failed = read(lost).await.failed.unwrap();
        assert_eq!(failed.reason, Reason::Engine, "{failed:?}");
    }
    // Blocks that were kept for their contents are not taken for what they were.
    let after = bench.run(request("the same beginning of some blocks, twice", 20)).await.unwrap();
    assert_eq!(after.texts, before.texts);
    let usage = after.usage.unwrap();
    assert_eq!(usage.cached_tokens, 0, "{usage:?}");
    let many: Vec<_> = (0..8).map(|i| format!("after it, number {i}")).collect();
    let mut running = Vec::new();
    for prompt in &many {
        running.push(bench.start(request(prompt, 100)).await.unwrap());
    }
    for (generation, prompt) in running.into_iter().zip(&many) {
        assert_eq!(read(generation).await.texts, [bench.alone(prompt, 100)]);
    }
    assert_eq!(bench.gauge("plimsoll_step_panics_total"), 1.0);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_lane_that_cannot_go_on_says_so() {
    let gate = StepGate::default();
    let bench = bench(usize::MAX, &gate, config());
    gate.open();
    let lost = bench.start(request("poison #", 20)).await.unwrap();
    assert_eq!(read(lost).await.failed.map(|error| error.reason), Some(Reason::Engine));
    // Its last word to its readers comes a moment before its end.
    let error: Error = loop {
        match bench.start(request("any", 3)).await {
            Err(error) if error.reason != Reason::Draining => break error,
            Err(_) => tokio::task::yield_now().await,
            Ok(generation) => drop(read(generation).await),
        }
    };
    assert_eq!(error.reason, Reason::Engine, "{error:?}");
    assert!(error.message.contains("restarted"), "{error:?}");
    assert_eq!(bench.runtime.readiness(), Readiness::Draining, "health checks fail");
    bench.assert_nothing_left();
}
