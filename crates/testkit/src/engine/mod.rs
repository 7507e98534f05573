//! A scripted engine: it computes no model, but the next token is a hash of the sequence's own tokens as it reads them
//! back from its fake KV blocks. A wrong block table, a row lost or doubled, a stale or shared block: each changes the
//! text, and most are counted as violations too.

mod gate;
mod kv;
mod script;

pub use gate::StepGate;
pub use script::Script;

use kv::FakeKv;
use plimsoll_model::engine::{Engine, Logits, Shape, Span, StepError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a scripted engine saw. Shared with the test.
#[derive(Debug, Default)]
pub struct Observed {
    /// Steps begun.
    pub steps: AtomicUsize,
    /// Rows computed.
    pub rows: AtomicUsize,
    /// Most spans in one step.
    pub widest: AtomicUsize,
    /// Reads of a position that its sequence never wrote there.
    pub violations: AtomicUsize,
    /// Calls of `recover`.
    pub recovered: AtomicUsize,
    /// Tokens that it was told of before their step.
    pub touched: AtomicUsize,
    /// Engines alive.
    pub engines: AtomicUsize,
}

/// An engine that follows a [`Script`].
pub struct ScriptedEngine {
    script: Script,
    kv: FakeKv,
    /// Rows of logits, `vocab` each.
    logits: Vec<f32>,
    /// Tokens of one sequence, read back.
    context: Vec<u32>,
    observed: Arc<Observed>,
}

impl ScriptedEngine {
    /// An engine with empty blocks.
    pub fn new(script: Script) -> Self {
        let observed = Arc::new(Observed::default());
        observed.engines.store(1, Relaxed);
        let kv = FakeKv::new(script.shape.blocks);
        Self { script, kv, logits: Vec::new(), context: Vec::new(), observed }
    }

    /// What it sees, also after it was given away.
    pub fn observed(&self) -> Arc<Observed> {
        Arc::clone(&self.observed)
    }

    fn check(&self, spans: &[Span<'_>]) -> Result<(), StepError> {
        let shape = &self.script.shape;
        let rows: usize = spans.iter().map(|span| span.tokens.len()).sum();
        let logits: usize = spans.iter().map(logit_rows).sum();
        if rows > shape.max_rows || logits > shape.max_logits {
            return Err(StepError(format!("{rows} rows, {logits} of logits: over the limits")));
        }
        for span in spans {
            let end = span.start + span.tokens.len();
            if span.tokens.is_empty() || end > shape.context || span.blocks.len() * kv::BLOCK < end {
                return Err(StepError(format!("span of {} from {}", span.tokens.len(), span.start)));
            }
            if let Some(token) = span.tokens.iter().find(|&&token| token as usize >= shape.vocab) {
                return Err(StepError(format!("token {token} is outside the vocabulary")));
            }
        }
        Ok(())
    }

    fn span(&mut self, span: &Span<'_>) {
        for (i, &token) in span.tokens.iter().enumerate() {
            let position = span.start + i;
            self.kv.write(span.blocks, position, token);
            let wanted = match span.logits {
                Logits::None => false,
                Logits::Last => i + 1 == span.tokens.len(),
                Logits::All => true,
            };
            if wanted {
                let stale = self.kv.read(span.blocks, position, &mut self.context);
                self.observed.violations.fetch_add(stale, Relaxed);
                self.script.logits(&self.context, &mut self.logits);
            }
        }
    }
}

fn logit_rows(span: &Span<'_>) -> usize {
    match span.logits {
        Logits::None => 0,
        Logits::Last => 1,
        Logits::All => span.tokens.len(),
    }
}

impl Engine for ScriptedEngine {
    fn shape(&self) -> &Shape {
        &self.script.shape
    }

    fn touch(&mut self, tokens: &[u32]) {
        self.observed.touched.fetch_add(tokens.len(), Relaxed);
    }

    fn step(&mut self, spans: &[Span<'_>]) -> Result<(), StepError> {
        if let Some(gate) = &self.script.gate {
            gate.pass();
        }
        self.observed.steps.fetch_add(1, Relaxed);
        self.observed.widest.fetch_max(spans.len(), Relaxed);
        self.check(spans)?;
        self.logits.clear();
        for span in spans {
            let has = |token: Option<u32>| token.is_some_and(|token| span.tokens.contains(&token));
            assert!(!has(self.script.panic_on), "the script says to panic here");
            if has(self.script.fail_on) {
                return Err(StepError("the script says to fail here".into()));
            }
            self.observed.rows.fetch_add(span.tokens.len(), Relaxed);
            self.span(span);
        }
        Ok(())
    }

    fn logits(&mut self, row: usize) -> &mut [f32] {
        let vocab = self.script.shape.vocab;
        &mut self.logits[row * vocab..(row + 1) * vocab]
    }

    fn recover(&mut self) {
        self.observed.recovered.fetch_add(1, Relaxed);
        self.logits.clear();
    }

    fn block_bytes(&self) -> usize {
        kv::BLOCK_BYTES
    }

    fn release_blocks(&mut self, blocks: &[u32]) -> usize {
        blocks.iter().for_each(|block| self.kv.forget(*block));
        blocks.len() * kv::BLOCK_BYTES
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        self.kv.copy(from, to);
    }

    fn save_block(&self, block: u32, to: &mut [u8]) {
        self.kv.save(block, to);
    }

    fn load_block(&mut self, block: u32, from: &[u8]) {
        self.kv.load(block, from);
    }
}

impl Drop for ScriptedEngine {
    fn drop(&mut self) {
        self.observed.engines.fetch_sub(1, Relaxed);
    }
}
