//! `bench engine`: how fast an engine computes, by itself: no scheduler, no sampling, no HTTP. [`serve`] is `bench serve`.

pub mod serve;

use crate::cli::BenchEngine;
use crate::compute::Compute;
use crate::file_size::bytes_of;
use crate::load::MAX_ROWS;
use crate::{config, load, pull};
use anyhow::{anyhow, ensure};
use plimsoll_kernels::KvType;
use plimsoll_model::decoder::{LoadError, Options};
use plimsoll_model::engine::{BLOCK_TOKENS, Engine};
use plimsoll_model::{checkpoint, rates};
use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// Prompt lengths whose prefill is measured.
const PROMPTS: [usize; 2] = [128, 512];
/// Decodes at each batch size; the median counts.
const DECODE_RUNS: usize = 3;
/// A prefill is measured again until this much time is spent, and at least [`LEAST_RUNS`] times.
const PREFILL_TIME: Duration = Duration::from_secs(1);
const LEAST_RUNS: usize = 3;

/// Runs `bench engine`.
pub fn engine(command: &BenchEngine) -> anyhow::Result<()> {
    ensure!(command.steps > 0 && command.depth > 0, "--steps and --depth must be at least 1");
    ensure!(!command.batch.contains(&0), "--batch sizes must be at least 1");
    let how = Decode { depth: command.depth, steps: command.steps, batches: command.batch.clone() };
    let (compute, model) = config::single(&command.wanted())?;
    let compute = Compute::new(compute)?;
    let path = pull::pull(&model.source)?;
    let checkpoint = checkpoint::open(&path)?;
    let limits = limits(&how, model.kv_type);
    ensure!(
        limits.context <= checkpoint.spec().context,
        "--steps and --depth need {} tokens, more than the model's context of {}",
        limits.context,
        checkpoint.spec().context
    );
    let mut engine =
        load::decoder(checkpoint.as_ref(), bytes_of(&path), &compute, &limits).map_err(smaller)?;
    let report = Report {
        model: model.name,
        kernel: compute.isa.name().to_owned(),
        threads: compute.threads,
        prefill: prefill(&mut engine)?,
        decode: decode(&mut engine, &how)?,
    };
    let mut out = std::io::stdout();
    if command.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?
    } else {
        write!(out, "{report}")?
    }
    Ok(())
}

/// The cache here is as large as what is measured, whatever its flags say where a model is served.
fn smaller(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(LoadError::Memory { bytes }) => {
            anyhow!("no memory for {bytes} bytes of KV cache: lower --batch, --depth or --steps")
        }
        _ => error,
    }
}

/// How decode is measured.
struct Decode {
    /// Tokens that every sequence holds before.
    depth: usize,
    /// Steps that are measured.
    steps: usize,
    /// Sequences side by side.
    batches: Vec<usize>,
}

/// What was measured, on what.
#[derive(Debug, Serialize)]
struct Report {
    pub model: String,
    pub kernel: String,
    pub threads: usize,
    pub prefill: Vec<PrefillRate>,
    pub decode: Vec<DecodeRate>,
}

#[derive(Debug, Serialize)]
struct PrefillRate {
    pub tokens: usize,
    pub tokens_per_second: f64,
}

#[derive(Debug, Serialize)]
struct DecodeRate {
    pub batch: usize,
    pub depth: usize,
    /// Of all sequences together.
    pub tokens_per_second: f64,
    /// A step of the median run.
    pub step_ms: f64,
}

/// The sizes an engine needs to be measured so.
fn limits(decode: &Decode, kv: KvType) -> Options {
    let context = PROMPTS[PROMPTS.len() - 1].max(decode.depth + decode.steps);
    let max_seqs = decode.batches.iter().copied().max().unwrap_or(1);
    let blocks = (blocks_for(decode.depth + decode.steps) * max_seqs).max(blocks_for(context));
    Options { context, blocks, max_seqs, max_rows: MAX_ROWS, kv }
}

fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS)
}

/// Measures prefill at every prompt length.
fn prefill(engine: &mut dyn Engine) -> anyhow::Result<Vec<PrefillRate>> {
    let rate = |tokens| {
        let mut runs = Vec::new();
        while runs.len() < LEAST_RUNS || runs.iter().sum::<Duration>() < PREFILL_TIME {
            runs.push(rates::prefill(engine, tokens)?);
        }
        Ok(PrefillRate { tokens, tokens_per_second: rate(tokens, median(&mut runs)) })
    };
    PROMPTS.map(rate).into_iter().collect()
}

/// Measures decode at every batch size.
fn decode(engine: &mut dyn Engine, how: &Decode) -> anyhow::Result<Vec<DecodeRate>> {
    let Decode { depth, steps, .. } = *how;
    let rate = |&batch: &usize| {
        let run = median(&mut rates::decode(engine, batch, depth, steps, DECODE_RUNS)?);
        let step_ms = run.as_secs_f64() * 1e3 / steps as f64;
        Ok(DecodeRate { batch, depth, tokens_per_second: rate(batch * steps, run), step_ms })
    };
    how.batches.iter().map(rate).collect()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn rate(tokens: usize, time: Duration) -> f64 {
    tokens as f64 / time.as_secs_f64().max(1e-9)
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {} kernel, {} threads", self.model, self.kernel, self.threads)?;
        writeln!(f, "\nprefill   tokens/s")?;
        for row in &self.prefill {
            writeln!(f, "{:>7} {:>10.0}", row.tokens, row.tokens_per_second)?;
        }
        writeln!(
            f,
            "\ndecode    tokens/s    step ms   (after {} tokens)",
            self.decode.first().map_or(0, |row| row.depth)
        )?;
        for row in &self.decode {
            writeln!(f, "{:>7} {:>10.0} {:>10.2}", row.batch, row.tokens_per_second, row.step_ms)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::engine::Shape;
    use plimsoll_testkit::engine::{Script, ScriptedEngine};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn too_large_a_cache_is_answered_with_what_makes_it_smaller() {
        let said = smaller(LoadError::Memory { bytes: 7 }.into()).to_string();
        assert_eq!(said, "no memory for 7 bytes of KV cache: lower --batch, --depth or --steps");
        let other = smaller(LoadError::Weights { bytes: 7 }.into()).to_string();
        assert!(other.contains("packed weights"), "{other}");
    }

    /// The scripted engine counts every read of a position that its sequence did not write: a wrong block table shows.
    #[test]
    fn every_batch_runs_in_the_limits_it_asks_for() {
        let how = Decode { depth: 20, steps: 5, batches: vec![1, 4, 3] };
        let Options { context, blocks, max_seqs, .. } = limits(&how, KvType::F16);
        let shape = Shape { vocab: 97, context, blocks, max_rows: 64, max_logits: max_seqs };
        let mut engine = ScriptedEngine::new(Script { shape, ..Script::new(97, blocks, 0..97) });
        let observed = engine.observed();

        let decode = decode(&mut engine, &how).unwrap();
        assert_eq!(decode.iter().map(|row| row.batch).collect::<Vec<_>>(), how.batches);
        assert_eq!(observed.widest.load(Relaxed), max_seqs);
        assert_eq!(observed.violations.load(Relaxed), 0);
    }
}
