//! Whoever is refused is refused before its prompt is looked at: it is not tokenized, and waits for nobody who tokenizes.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;

use common::{Bench, config, request, script};
use plimsoll_api::error::Reason;
use plimsoll_api::service::{GenerateRequest, Generation, Prompt, Urgency};
use plimsoll_runtime::{LaneConfig, Promise, QueuePolicy};
use plimsoll_testkit::engine::{Script, StepGate};
use serde_json::{Map, json};
use std::time::Duration;
use tokio::sync::oneshot;

/// Prompts that cannot be tokenized, and what is said of each by who tries: of the first two where they arrive, of the last
/// on a stager. All of them are guessed to be some hundred tokens.
fn unreadable() -> [(&'static str, Prompt, Reason); 3] {
    let messages = vec![json!({"role": "user", "content": "x".repeat(1100)})];
    let chat = Prompt::Chat { messages, extra: Map::new(), add_generation_prompt: true };
    [
        ("tokens", Prompt::Tokens(vec![u32::MAX; 260]), Reason::InvalidRequest),
        ("chat", chat, Reason::InvalidRequest),
        ("text", Prompt::Text("x".repeat(2100)), Reason::ContextLength),
    ]
}

fn ask(prompt: Prompt) -> GenerateRequest {
    GenerateRequest { prompt, ..request("", 16) }
}

/// Why it is refused, if it is; `None`: it waits.
async fn answer_at_once(bench: &Bench, request: GenerateRequest) -> Option<Option<Reason>> {
    tokio::select! {
        biased;
        answer = bench.start(request) => Some(answer.err().map(|error| error.reason)),
        () = tokio::task::yield_now() => None,
    }
}

/// A lane whose engine never gets through its first step.
struct Stuck {
    bench: Bench,
    gate: StepGate,
    held: Vec<Generation>,
}

impl Stuck {
    /// Let in `filling` until one is refused.
    async fn new(config: LaneConfig, filling: GenerateRequest) -> Self {
        let gate = StepGate::default();
        let bench = Bench::new(Script { gate: Some(gate.clone()), ..script() }, config);
        let mut held = Vec::new();
        while let Ok(generation) = bench.start(filling.clone()).await {
            held.push(generation);
        }
        assert!(!held.is_empty());
        Self { bench, gate, held }
    }

    fn end(mut self) {
        self.held.clear();
        self.gate.open();
        self.bench.assert_nothing_left();
    }
}

/// A test that fails ends: a lane whose step does not waits for it.
impl Drop for Stuck {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// Runs `test` where one thread may tokenize long prompts, and that never comes to it before the test is over.
fn with_a_stager_that_is_busy(test: impl AsyncFnOnce()) {
    let tokio = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    tokio.block_on(async {
        let (_open, is_open) = oneshot::channel::<()>();
        tokio::task::spawn_blocking(move || is_open.blocking_recv().ok());
        test().await;
    });
}

#[test]
fn who_is_let_in_is_tokenized() {
    with_a_stager_that_is_busy(async || {
        let bench = Bench::new(script(), config());
        for (name, prompt, reason) in unreadable() {
            let is_staged = matches!(&prompt, Prompt::Text(_));
            assert_eq!(
                answer_at_once(&bench, ask(prompt)).await,
                (!is_staged).then_some(Some(reason)),
                "{name}"
            );
        }
        bench.assert_nothing_left();
    });
}

/// By a guess it could never be in time, which only its tokens can tell for certain: they are not counted for more requests
/// than may be in flight.
#[test]
fn who_may_never_be_in_time_needs_a_place_to_be_looked_at() {
    let config = LaneConfig { max_seqs: 1, queue: 1, queue_policy: QueuePolicy::Fixed, ..config() };
    with_a_stager_that_is_busy(async || {
        let stuck = Stuck::new(config, request(&"x".repeat(250), 16)).await;
        for (name, prompt, _) in unreadable() {
            let urgency = Urgency { ttft: Some(Duration::from_millis(1)), ..Urgency::default() };
            let asked = GenerateRequest { urgency, ..ask(prompt) };
            assert_eq!(answer_at_once(&stuck.bench, asked).await, Some(Some(Reason::QueueFull)), "{name}");
        }
        stuck.end();
    });
}

#[test]
fn who_is_refused_is_not() {
    let promise = Promise { ttft: Some(Duration::from_secs(2)), ..Promise::default() };
    let fixed = LaneConfig { queue_policy: QueuePolicy::Fixed, ..config() };
    let cases = [
        (LaneConfig { max_seqs: 1, queue: 1, ..fixed.clone() }, Reason::QueueFull),
        (LaneConfig { per_tenant: 2, ..fixed.clone() }, Reason::TenantFull),
        (LaneConfig { kv_overcommit: 1, ..fixed.clone() }, Reason::KvFull),
        (LaneConfig { promise, kv_overcommit: 1000, ..fixed }, Reason::Deadline),
    ];
    for (config, reason) in cases {
        with_a_stager_that_is_busy(async || {
            let stuck = Stuck::new(config, request(&"x".repeat(250), 16)).await;
            for (name, prompt, _) in unreadable() {
                assert_eq!(answer_at_once(&stuck.bench, ask(prompt)).await, Some(Some(reason)), "{name}");
            }
            stuck.end();
        });
    }
}
