//! How fast an engine computes: prefill and decode rates by batch size, without a server or a sampler around it.

use crate::engine::{BLOCK_TOKENS, Engine, Logits, Span, StepError};
use std::time::{Duration, Instant};

/// The blocks of several sequences of one length.
struct Tables {
    tables: Vec<Vec<u32>>,
}

impl Tables {
    fn new(engine: &dyn Engine, sequences: usize, tokens: usize) -> Result<Self, StepError> {
        let (each, shape) = (tokens.div_ceil(BLOCK_TOKENS), engine.shape());
        if sequences * each > shape.blocks || tokens > shape.context {
            let (blocks, context) = (shape.blocks, shape.context);
            let what = format!("{sequences} x {tokens} tokens in {blocks} blocks and a context of {context}");
            return Err(StepError(what));
        }
        // Interleaved, as after a while of serving, so that nothing is gained by sequences lying in one piece.
        let table = |s: usize| (0..each).map(|b| (b * sequences + s) as u32).collect();
        Ok(Self { tables: (0..sequences).map(table).collect() })
    }
}

/// A token that no pattern repeats early, within the vocabulary.
fn token(engine: &dyn Engine, i: usize) -> u32 {
    (i.wrapping_mul(7919).wrapping_add(17) % engine.shape().vocab) as u32
}

/// Time to prefill a prompt of `tokens`, in steps as large as the engine takes, with the last row's logits.
///
/// # Errors
/// When the engine is too small, or a step fails.
pub fn prefill(engine: &mut dyn Engine, tokens: usize) -> Result<Duration, StepError> {
    let tables = Tables::new(engine, 1, tokens)?;
    let prompt: Vec<u32> = (0..tokens).map(|i| token(engine, i)).collect();
    let begin = Instant::now();
    prefill_one(engine, &prompt, &tables.tables[0])?;
    Ok(begin.elapsed())
}

fn prefill_one(engine: &mut dyn Engine, prompt: &[u32], blocks: &[u32]) -> Result<(), StepError> {
    let piece = engine.shape().max_rows;
    let mut start = 0;
    for tokens in prompt.chunks(piece) {
        let is_last = start + tokens.len() == prompt.len();
        let logits = if is_last { Logits::Last } else { Logits::None };
        engine.step(&[Span { tokens, start, blocks, logits }])?;
        start += tokens.len();
    }
    Ok(())
}

/// Time to decode `steps` tokens each of `batch` sequences that already hold `context` tokens, `runs` times: each run writes
/// over the tokens of the one before, so that the context is computed once.
///
/// # Errors
/// When the engine is too small, or a step fails.
pub fn decode(
    engine: &mut dyn Engine,
    batch: usize,
    context: usize,
    steps: usize,
    runs: usize,
) -> Result<Vec<Duration>, StepError> {
    let tables = Tables::new(engine, batch, context + steps)?;
    for (s, blocks) in tables.tables.iter().enumerate() {
        let prompt: Vec<u32> = (0..context).map(|i| token(engine, i + s)).collect();
        prefill_one(engine, &prompt, blocks)?;
    }
    (0..runs).map(|_| decode_once(engine, &tables, context, steps)).collect()
}

fn decode_once(
    engine: &mut dyn Engine,
    tables: &Tables,
    context: usize,
    steps: usize,
) -> Result<Duration, StepError> {
    let (tables, batch) = (&tables.tables, tables.tables.len());
    let begin = Instant::now();
    for step in 0..steps {
        let tokens: Vec<[u32; 1]> = (0..batch).map(|s| [token(engine, step + 31 * s)]).collect();
        let start = context + step;
        let span = |(tokens, blocks)| Span { tokens, start, blocks, logits: Logits::Last };
        let tokens = tokens.iter().map(|t| &t[..]);
        let spans: Vec<Span<'_>> = tokens.zip(tables.iter().map(|t| &t[..])).map(span).collect();
        engine.step(&spans)?;
    }
    Ok(begin.elapsed())
}
