//! What an engine's steps cost, measured at length: `plimsoll tune`.
//!
//! Steps of many shapes run one after the other, each several times: decodes by batch and depth, prefill chunks by length and
//! position, and both together. Their times are fitted (`plimsoll_sched::measured`), and how far single steps are off that fit
//! is kept with it.

use crate::probe::{Chooser, Probe};
use plimsoll_model::engine::{BLOCK_TOKENS, Engine, Logits, Shape, Span};
use plimsoll_sched::{Load, Measured};
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// Most sequences that decode side by side.
    pub max_seqs: usize,
    /// After this much time no further shape is begun, once there are enough for a fit; the deep and the large ones come last.
    pub time: Duration,
}

/// One shape and how long it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// The shape.
    pub probe: Probe,
    /// The median of its runs.
    pub took: Duration,
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// The fit, and how far single steps are off it.
    pub measured: Measured,
    /// Every shape, as measured.
    pub timed: Vec<Timed>,
    /// Where throughput stops growing.
    pub knee: Knee,
    /// Shapes that there was no time for.
    pub skipped: usize,
}

/// The smallest batch of decodes above which none brings [`GROWTH`] more tokens per second for each doubling, at a depth of
/// [`KNEE_DEPTH`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// Sequences that decode side by side.
    pub batch: usize,
    /// Tokens per second of all of them together.
    pub tokens_per_second: f64,
    /// Whether a larger batch was measured at all. If not, throughput may go on growing.
    pub is_reached: bool,
}

/// What a doubling of the batch must bring at least for throughput to grow.
pub const GROWTH: f64 = 0.1;
/// Tokens that every sequence holds where the knee is looked for, or as many as fit.
pub const KNEE_DEPTH: usize = 128;

/// Runs of one shape: at least, and at most.
const RUNS: (usize, usize) = (5, 60);
/// Time for one shape at most; at least the fewest runs are done.
const EACH: Duration = Duration::from_millis(450);

/// Measures `engine`, which nobody else uses. `progress` hears how many shapes are done, and of how many.
///
/// # Errors
/// When the engine fails, or is too small to be measured: why.
pub fn tune(
    engine: &mut dyn Engine,
    scan: &Scan,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Tuned, String> {
    let begun = Instant::now();
    let shapes = shapes(engine.shape(), scan.max_seqs);
    let (mut samples, mut timed) = (Vec::new(), Vec::new());
    let (mut filled, mut chooser) = ((0, 0), Chooser::new(engine));
    let each = EACH.min(scan.time / shapes.len().max(1) as u32);
    for (i, &probe) in shapes.iter().enumerate() {
        progress(i, shapes.len());
        if begun.elapsed() > scan.time && is_enough(&timed) {
            break;
        }
        fill(engine, probe, &mut filled)?;
        let mut runs = time(engine, (probe, each), &mut chooser)?;
        samples.extend(runs.iter().map(|took| (probe.load(), *took)));
        runs.sort_unstable();
        timed.push(Timed { probe, took: runs[runs.len() / 2] });
    }
    progress(timed.len(), shapes.len());
    let measured = Measured::fit(&even(&samples))
        .ok_or("too few shapes of steps fit its context and its KV cache for a fit")?;
    let knee = knee(&timed).ok_or("no batch of decodes fits its context and its KV cache")?;
    let skipped = shapes.len() - timed.len();
    Ok(Tuned { measured, timed, knee, skipped })
}

/// The shapes: those at the beginning of a sequence first, and the small ones first.
fn shapes(shape: &Shape, max_seqs: usize) -> Vec<Probe> {
    let tokens = shape.context.min(shape.blocks * BLOCK_TOKENS);
    let fits = |probe: &Probe| {
        let rows = probe.decodes + probe.prefill;
        probe.decodes <= max_seqs
            && rows <= shape.max_rows
            && probe.sequences() <= shape.max_logits
            && probe.blocks() <= shape.blocks
            && (probe.depth + 1).max(probe.start + probe.prefill) <= tokens
    };
    let mut batches: Vec<usize> = (0..).map(|i| 1 << i).take_while(|&n| n < max_seqs).collect();
    batches.push(max_seqs);
    let depths = [KNEE_DEPTH.min(tokens - 1), 512, 2048];
    let mut all = Vec::new();
    for depth in depths {
        all.extend(batches.iter().map(|&decodes| Probe { decodes, depth, ..Probe::default() }));
        let start = if depth == depths[0] { 0 } else { depth };
        all.extend([8, 16, 32, 64, 128, 256, 512].map(|prefill| Probe {
            prefill,
            start,
            ..Probe::default()
        }));
    }
    for decodes in [2, 4, 8, 16] {
        let mixed = [16, 32, 64].map(|prefill| Probe { decodes, prefill, depth: depths[0], start: 0 });
        all.extend(mixed);
    }
    all.retain(fits);
    all.dedup();
    // Where there is not time for all, what is deep is what can be missed: the knee cannot.
    all.sort_by_key(|probe| (probe.depth > depths[0] || probe.start > 0, probe.blocks()));
    all
}

/// Whether what a decode costs can be told from what a step costs, and from what a prompt does: two batches, and the prompts of
/// one block that come before.
fn is_enough(timed: &[Timed]) -> bool {
    let batches = timed.iter().filter(|timed| timed.probe.prefill == 0);
    batches.count() >= 2 && timed.len() >= 4
}

/// Computes the tokens that the sequences of `probe` hold before, once for the first of them, and copies the blocks to the
/// others: memory that was never written to would be read faster than any sequence's. `filled`: the blocks of each sequence,
/// and of how many, that were filled last.
fn fill(engine: &mut dyn Engine, probe: Probe, filled: &mut (usize, usize)) -> Result<(), String> {
    let (each, sequences) = (probe.blocks_each(), probe.sequences());
    if filled.0 == each && filled.1 >= sequences {
        return Ok(());
    }
    *filled = (each, sequences);
    let blocks: Vec<u32> = (0..).take(each).collect();
    let (vocab, most) = (engine.shape().vocab, engine.shape().max_rows);
    let len = (each * BLOCK_TOKENS).min(engine.shape().context);
    // No pattern that repeats early.
    let tokens: Vec<u32> = (0..len).map(|i| (i.wrapping_mul(7919).wrapping_add(17) % vocab) as u32).collect();
    for (i, tokens) in tokens.chunks(most).enumerate() {
        let span = Span { tokens, start: i * most, blocks: &blocks, logits: Logits::None };
        engine.step(&[span]).map_err(|error| error.to_string())?;
    }
    let (each, sequences) = (blocks.len() as u32, sequences as u32);
    for other in 1..sequences {
        blocks.iter().for_each(|&block| engine.copy_block(block, other * each + block));
    }
    Ok(())
}

/// The runs of a shape, in about so much time.
fn time(
    engine: &mut dyn Engine,
    (probe, each): (Probe, Duration),
    chooser: &mut Chooser,
) -> Result<Vec<Duration>, String> {
    // The first run touches memory and wakes threads; the others are like any.
    probe.run(engine, chooser)?;
    let begun = Instant::now();
    let mut runs = Vec::new();
    while runs.len() < RUNS.0 || (begun.elapsed() < each && runs.len() < RUNS.1) {
        let started = Instant::now();
        probe.run(engine, chooser)?;
        runs.push(started.elapsed());
    }
    Ok(runs)
}

/// As many runs of each shape, the first ones: short steps would otherwise decide the residuals by their number.
fn even(samples: &[(Load, Duration)]) -> Vec<(Load, Duration)> {
    let of_one = |runs: &[(Load, Duration)]| runs.to_vec();
    let groups: Vec<_> = samples.chunk_by(|a, b| a.0 == b.0).map(of_one).collect();
    let least = groups.iter().map(Vec::len).min().unwrap_or(0);
    groups.into_iter().flat_map(|runs| runs.into_iter().take(least)).collect()
}

fn knee(timed: &[Timed]) -> Option<Knee> {
    let alone = |timed: &&Timed| timed.probe.prefill == 0 && timed.probe.decodes > 0;
    let depth = timed.iter().filter(alone).map(|timed| timed.probe.depth).min()?;
    let mut rates: Vec<(usize, f64)> = timed
        .iter()
        .filter(alone)
        .filter(|timed| timed.probe.depth == depth)
        .map(|timed| (timed.probe.decodes, timed.probe.decodes as f64 / timed.took.as_secs_f64().max(1e-9)))
        .collect();
    rates.sort_unstable_by_key(|(batch, _)| *batch);
    // What a doubling would have brought, where the next one measured is not twice as large.
    let growth = |a: (usize, f64), b: (usize, f64)| {
        (b.1 / a.1).powf(std::f64::consts::LN_2 / (b.0 as f64 / a.0 as f64).ln()) - 1.0
    };
    let (mut grown, mut best) = (0, *rates.first()?);
    // Any later growth counts, not the first step that brings little: two sequences may be no faster than one, and eight be. It is
    // growth over the best so far: what one slow measurement lost is not won by the next.
    for (i, &rate) in rates.iter().enumerate().skip(1) {
        if growth(best, rate) >= GROWTH {
            (grown, best) = (i, rate);
        }
    }
    let (batch, tokens_per_second) = best;
    Some(Knee { batch, tokens_per_second, is_reached: grown + 1 < rates.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testkit::engine::{Script, ScriptedEngine};
    use std::sync::atomic::Ordering::Relaxed;

    fn at(decodes: usize, milliseconds: f64) -> Timed {
        let probe = Probe { decodes, depth: 128, ..Probe::default() };
        Timed { probe, took: Duration::from_secs_f64(milliseconds * 1e-3) }
    }

    #[test]
    fn the_knee_is_where_doubling_brings_little() {
        let knee = |steps: &[(usize, f64)]| {
            let timed: Vec<_> = steps.iter().map(|&(decodes, ms)| at(decodes, ms)).collect();
            super::knee(&timed).map(|knee| (knee.batch, knee.is_reached))
        };
        // 100, 190, 360, 370 tokens a second.
        assert_eq!(knee(&[(1, 10.0), (2, 10.5), (4, 11.1), (8, 21.6)]), Some((4, true)));
        assert_eq!(knee(&[(1, 10.0), (2, 10.5), (4, 11.1)]), Some((4, false)));
        // 400, 400, 645, 889 tokens a second.
        assert_eq!(knee(&[(1, 2.5), (2, 5.0), (4, 6.2), (8, 9.0)]), Some((8, false)));
        // 100, 190, 100, 120 tokens a second.
        assert_eq!(knee(&[(1, 10.0), (2, 10.53), (4, 40.0), (8, 66.7)]), Some((2, true)));
        // Half again as many, and 6 % more: a doubling would bring 10.5 %.
        assert_eq!(knee(&[(4, 10.0), (6, 14.15)]), Some((6, false)));
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn without_time_there_is_enough_for_a_fit() {
        let mut engine = ScriptedEngine::new(Script::new(97, 2048, 0..97));
        let scan = Scan { max_seqs: 16, time: Duration::ZERO };
        let Tuned { measured, timed, knee, skipped } = tune(&mut engine, &scan, &mut |_, _| ()).unwrap();
        assert!(measured.is_sound(), "{measured:?}");
        assert!(
            knee.batch <= 2 && timed.len() <= 12 && skipped > timed.len(),
            "{knee:?}, {skipped} skipped: {timed:?}"
        );
    }

    #[test]
    fn shapes_fit_the_engine() {
        for (blocks, rows, logits, max_seqs) in
            [(2048, 512, 64, 16), (10, 64, 4, 4), (1, 8, 1, 1), (40, 32, 40, 33)]
        {
            let shape = Shape { vocab: 97, context: 8192, blocks, max_rows: rows, max_logits: logits };
            let mut engine = ScriptedEngine::new(Script { shape, ..Script::new(97, blocks, 0..97) });
            let scan = Scan { max_seqs, time: Duration::from_secs(60) };
            let mut steps = Vec::new();
            let tuned = tune(&mut engine, &scan, &mut |done, of| steps.push((done, of)));
            assert!(steps.is_sorted() && steps.last().is_some_and(|(done, of)| done == of), "{steps:?}");
            assert_eq!(engine.observed().violations.load(Relaxed), 0, "{blocks} blocks");
            // The smallest is too small to tell what costs what, and says so.
            if blocks > 1 {
                let tuned = tuned.unwrap();
                assert!(tuned.measured.is_sound(), "{tuned:?}");
                assert_eq!(tuned.skipped, 0);
            }
        }
    }
}
