//! A runtime over a scripted engine, and a client of it.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part, and all of it is test")]

use futures_core::Stream;
use plimsoll_api::error::Error;
use plimsoll_api::service::{
    Event, Finish, GenerateRequest, Generation, Prompt, Sampling, Service, TokenInfo, Urgency, Usage,
};
use plimsoll_model::tokenizer::Tokenizer;
use plimsoll_runtime::{LaneConfig, ModelParts, Runtime};
use plimsoll_telemetry::Metrics;
use plimsoll_testkit::engine::{Observed, Script, ScriptedEngine};
use plimsoll_testkit::tiny::vocab;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

pub const MODEL: &str = "scripted";
/// The token that ends a text.
pub const END: u32 = vocab::FIRST_SPECIAL;
/// Generated texts are made of these bytes: small letters.
pub const LETTERS: std::ops::Range<u32> = 97..123;

/// Byte `n` is token `n`; see `vocab`.
pub fn tokenizer() -> Arc<Tokenizer> {
    Arc::new(vocab::tokenizer())
}

/// Room for 40 blocks, no end.
pub fn script() -> Script {
    Script::new(vocab::tokens().len(), 40, LETTERS)
}

/// A lane that starts at once.
pub fn config() -> LaneConfig {
    LaneConfig { warm_up: false, ..LaneConfig::default() }
}

/// A runtime under test.
pub struct Bench {
    pub runtime: Arc<Runtime>,
    pub metrics: Arc<Metrics>,
    pub script: Script,
    pub observed: Arc<Observed>,
}

impl Bench {
    pub fn new(script: Script, config: LaneConfig) -> Self {
        let metrics = Metrics::new();
        let runtime = Runtime::new(metrics.clone());
        let observed = add(&runtime, MODEL, script.clone(), config);
        runtime.ready();
        Self { runtime, metrics, script, observed }
    }

    pub async fn start(&self, request: GenerateRequest) -> Result<Generation, Error> {
        self.runtime.generate(request).await
    }

    /// Runs a request to its end.
    pub async fn run(&self, request: GenerateRequest) -> Result<Outcome, Error> {
        Ok(read(self.start(request).await?).await)
    }

    /// What a request alone would say, its end token cut off.
    pub fn alone(&self, prompt: &str, count: usize) -> String {
        let prompt = encode(prompt);
        let tokens = self.script.alone(&prompt, count);
        tokens.into_iter().filter(|&token| token != END).map(|token| char::from(token as u8)).collect()
    }

    /// The value of a gauge.
    pub fn gauge(&self, name: &str) -> f64 {
        let text = self.metrics.render();
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until nothing is taken any more, by asking the runtime for its end.
    pub fn assert_nothing_left(&self) {
        let drained = self.runtime.drain(std::time::Duration::from_secs(60));
        assert_eq!(drained.dropped, 0);
        assert_eq!(self.gauge("plimsoll_queue_depth"), 0.0);
        assert_eq!(self.gauge("plimsoll_running"), 0.0);
        for state in ["used", "shared"] {
            let gauge = format!("plimsoll_kv_blocks{{model=\"scripted\",state=\"{state}\"}}");
            assert_eq!(self.gauge(&gauge), 0.0, "{state}");
        }
        let count =
            |counter: &std::sync::atomic::AtomicUsize| counter.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(count(&self.observed.violations), 0, "stale or mixed-up KV");
        assert_eq!(count(&self.observed.engines), 0, "the engine outlives its lane");
    }
}

/// Adds a scripted model to a runtime.
pub fn add(runtime: &Runtime, name: &str, script: Script, config: LaneConfig) -> Arc<Observed> {
    let engine = ScriptedEngine::new(script);
    let observed = engine.observed();
    let engine = Box::new(engine);
    runtime
        .add(ModelParts { name: name.into(), engine, tokenizer: tokenizer(), template: None, config })
        .unwrap();
    observed
}

/// Tokens of a text without merges or special tokens in it.
pub fn encode(text: &str) -> Vec<u32> {
    use plimsoll_model::tokenizer::Encode;
    tokenizer().encode(text, Encode { add_special: true, parse_special: true }).unwrap()
}

/// A greedy request for `max_tokens` after `prompt`.
pub fn request(prompt: &str, max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        model: MODEL.into(),
        request_id: String::new(),
        tenant: 0,
        urgency: Urgency::default(),
        cache_salt: String::new(),
        prompt: Prompt::Text(prompt.into()),
        n: 1,
        max_tokens: Some(max_tokens),
        stop: Vec::new(),
        ignore_eos: false,
        echo: false,
        logprobs: None,
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
    }
}

/// What a client has when a request is over.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Per continuation.
    pub texts: Vec<String>,
    pub tokens: Vec<Vec<TokenInfo>>,
    pub finishes: Vec<Option<Finish>>,
    pub usage: Option<Usage>,
    pub failed: Option<Error>,
}

pub async fn next(generation: &mut Generation) -> Option<Event> {
    poll_fn(|context| Pin::new(&mut generation.events).as_mut().poll_next(context)).await
}

pub async fn read(mut generation: Generation) -> Outcome {
    let mut outcome = Outcome::default();
    while let Some(event) = next(&mut generation).await {
        assert!(outcome.usage.is_none() && outcome.failed.is_none(), "{event:?} after the end");
        match event {
            Event::Delta(delta) => {
                let i = delta.choice as usize;
                let len = outcome.texts.len().max(i + 1);
                outcome.texts.resize_with(len, String::new);
                outcome.tokens.resize_with(len, Vec::new);
                outcome.finishes.resize(len, None);
                assert_eq!(outcome.finishes[i], None, "more after the finish");
                outcome.texts[i] += &delta.text;
                outcome.tokens[i].extend(delta.tokens);
                outcome.finishes[i] = delta.finish;
            }
            Event::Done(usage) => outcome.usage = Some(usage),
            Event::Failed(error) => outcome.failed = Some(error),
        }
    }
    assert!(outcome.usage.is_some() || outcome.failed.is_some(), "no end");
    outcome
}
