//! `bench engine`: how fast an engine computes, by itself: no scheduler, no sampling, no HTTP.

use crate::cli::BenchEngine;
use crate::load::{Compute, MAX_ROWS};
use crate::{config, load, pull};
use anyhow::{Context, ensure};
use plimsoll_model::checkpoint;
use plimsoll_model::decoder::Options;
use plimsoll_model::engine::{BLOCK_TOKENS, Engine, Logits, Span};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Prompt lengths whose prefill is measured.
const PROMPTS: [usize; 2] = [128, 512];
/// Batch sizes whose decode is measured.
const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// A prefill is measured again until this much time is spent, and at least [`LEAST_RUNS`] times.
const PREFILL_TIME: Duration = Duration::from_secs(1);
const LEAST_RUNS: usize = 3;

/// Runs `bench engine`.
pub fn engine(command: &BenchEngine) -> anyhow::Result<()> {
    ensure!(command.steps > 0 && command.depth > 0, "--steps and --depth must be at least 1");
    let how = Decode { depth: command.depth, steps: command.steps };
    let (compute, model) = config::single(&command.wanted())?;
    let compute = Compute::new(compute)?;
    let checkpoint = checkpoint::open(&pull::pull(&model.source)?)?;
    let limits = limits(how);
    ensure!(
        limits.context <= checkpoint.spec().context,
        "--steps and --depth need {} tokens, more than the model's context of {}",
        limits.context,
        checkpoint.spec().context
    );
    let mut engine = load::decoder(checkpoint.as_ref(), &compute, &limits)?;
    let report = Report {
        model: model.name,
        kernel: compute.isa.name().to_owned(),
        threads: compute.threads,
        prefill: prefill(&mut engine)?,
        decode: decode(&mut engine, how)?,
    };
    let mut out = std::io::stdout();
    if command.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?
    } else {
        write!(out, "{report}")?
    }
    Ok(())
}

/// How decode is measured.
#[derive(Debug, Clone, Copy)]
struct Decode {
    /// Tokens that every sequence holds before.
    depth: usize,
    /// Steps that are measured.
    steps: usize,
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
    /// The median step.
    pub step_ms: f64,
}

/// The sizes an engine needs to be measured so.
fn limits(decode: Decode) -> Options {
    let context = PROMPTS[PROMPTS.len() - 1].max(decode.depth + decode.steps);
    let max_seqs = BATCHES[BATCHES.len() - 1];
    let blocks = (blocks_for(decode.depth + decode.steps) * max_seqs).max(blocks_for(context));
    Options { context, blocks, max_seqs, max_rows: MAX_ROWS }
}

fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_TOKENS)
}

/// Measures prefill at every prompt length.
fn prefill(engine: &mut dyn Engine) -> anyhow::Result<Vec<PrefillRate>> {
    PROMPTS.iter().map(|&tokens| prefill_rate(engine, tokens)).collect()
}

fn prefill_rate(engine: &mut dyn Engine, tokens: usize) -> anyhow::Result<PrefillRate> {
    let sequence = Sequence::new(engine, 0, tokens, tokens)?;
    sequence.prefill(engine)?;
    let mut runs = Vec::new();
    while runs.len() < LEAST_RUNS || runs.iter().sum::<Duration>() < PREFILL_TIME {
        let begun = Instant::now();
        sequence.prefill(engine)?;
        runs.push(begun.elapsed());
    }
    Ok(PrefillRate { tokens, tokens_per_second: rate(tokens, median(&mut runs)) })
}

/// Measures decode at every batch size.
fn decode(engine: &mut dyn Engine, how: Decode) -> anyhow::Result<Vec<DecodeRate>> {
    BATCHES.iter().map(|&batch| decode_rate(engine, batch, how)).collect()
}

fn decode_rate(engine: &mut dyn Engine, batch: usize, how: Decode) -> anyhow::Result<DecodeRate> {
    let each = how.depth + how.steps;
    let sequences: Vec<Sequence> = (0..batch)
        .map(|index| Sequence::new(engine, index * blocks_for(each), how.depth, each))
        .collect::<Result<_, _>>()?;
    for sequence in &sequences {
        sequence.prefill(engine)?;
    }
    let mut steps = Vec::with_capacity(how.steps);
    for step in 0..how.steps {
        let spans: Vec<Span<'_>> = sequences.iter().map(|sequence| sequence.next(step)).collect();
        let begun = Instant::now();
        engine.step(&spans)?;
        steps.push(begun.elapsed());
    }
    let step = median(&mut steps);
    Ok(DecodeRate {
        batch,
        depth: how.depth,
        tokens_per_second: rate(batch, step),
        step_ms: step.as_secs_f64() * 1e3,
    })
}

/// A sequence of made-up tokens in blocks of its own.
struct Sequence {
    tokens: Vec<u32>,
    blocks: Vec<u32>,
    max_rows: usize,
}

impl Sequence {
    /// `tokens` tokens, and blocks from `first_block` for `room` of them.
    fn new(engine: &dyn Engine, first_block: usize, tokens: usize, room: usize) -> anyhow::Result<Self> {
        let shape = engine.shape();
        ensure!(
            room <= shape.context,
            "{room} tokens do not fit the context of {}; measure fewer",
            shape.context
        );
        let last_block = first_block + blocks_for(room);
        ensure!(
            last_block <= shape.blocks,
            "{last_block} KV blocks are needed and there are {}",
            shape.blocks
        );
        let blocks = (first_block..last_block)
            .map(u32::try_from)
            .collect::<Result<_, _>>()
            .context("too many KV blocks")?;
        // Numbers far apart, so that no row of the embedding is read twice in a row.
        let tokens = (0..tokens).map(|at| u32::try_from(at * 7919 % shape.vocab).unwrap_or(0)).collect();
        Ok(Self { tokens, blocks, max_rows: shape.max_rows })
    }

    /// Computes all tokens, in chunks as large as the engine takes.
    fn prefill(&self, engine: &mut dyn Engine) -> anyhow::Result<()> {
        let chunks = self.tokens.chunks(self.max_rows);
        let last = chunks.len() - 1;
        for (index, tokens) in chunks.enumerate() {
            let logits = if index == last { Logits::Last } else { Logits::None };
            let span = Span { tokens, start: index * self.max_rows, blocks: &self.blocks, logits };
            engine.step(&[span])?;
        }
        Ok(())
    }

    /// The `step`-th token after the prompt.
    fn next(&self, step: usize) -> Span<'_> {
        let at = step % self.tokens.len();
        Span {
            tokens: &self.tokens[at..=at],
            start: self.tokens.len() + step,
            blocks: &self.blocks,
            logits: Logits::Last,
        }
    }
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
