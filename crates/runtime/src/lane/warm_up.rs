//! What steps cost, measured before serving.

use plimsoll_model::engine::{BLOCK_TOKENS, Engine, Logits, Span};
use plimsoll_sched::{CostModel, Limits, Load};
use std::time::{Duration, Instant};

/// No shape larger than what was measured by then, so that a slow model does not keep its clients waiting.
const ENOUGH: Duration = Duration::from_secs(1);

/// Runs prefills and decodes of growing size, in blocks that nobody has yet, and fits a model to their times.
///
/// # Errors
/// When the engine fails: why.
pub(super) fn measure(engine: &mut dyn Engine, limits: &Limits) -> Result<CostModel, String> {
    let begun = Instant::now();
    let mut samples = Vec::new();
    for load in shapes(limits) {
        // The first run touches memory and wakes threads; the second is like any other.
        run(engine, load)?;
        let started = Instant::now();
        run(engine, load)?;
        samples.push((load.load(), started.elapsed()));
        if begun.elapsed() > ENOUGH {
            break;
        }
    }
    // The planner takes all blocks for untouched, and so would never give back what these hold.
    engine.release_blocks(&(0..).take(touched(limits)).collect::<Vec<_>>());
    Ok(CostModel::seeded(&samples))
}

#[derive(Clone, Copy)]
enum Probe {
    /// One chunk of so many rows.
    Prefill(usize),
    /// So many sequences, each at position 0.
    Decode(usize),
}

impl Probe {
    /// Blocks it writes to.
    fn blocks(self) -> usize {
        match self {
            Self::Prefill(rows) => rows.div_ceil(BLOCK_TOKENS),
            Self::Decode(sequences) => sequences,
        }
    }

    fn load(self) -> Load {
        match self {
            Self::Prefill(rows) => Load::default().with_prefill(0, rows),
            Self::Decode(sequences) => (0..sequences).fold(Load::default(), |load, _| load.with_decode(0)),
        }
    }
}

fn shapes(limits: &Limits) -> impl Iterator<Item = Probe> {
    let widest = limits.max_seqs.min(limits.blocks);
    let decodes = [1, 2, 4, 8, 16, 32].into_iter().filter(move |&n| n <= widest).map(Probe::Decode);
    let longest = limits.max_rows.min(limits.context).min(limits.blocks * BLOCK_TOKENS);
    let prefills = [8, 16, 32, 64, 128, 256].into_iter().filter(move |&n| n <= longest).map(Probe::Prefill);
    decodes.chain(prefills)
}

/// Blocks that the largest of the shapes writes to; they all begin at block 0.
fn touched(limits: &Limits) -> usize {
    shapes(limits).map(Probe::blocks).max().unwrap_or(0)
}

fn run(engine: &mut dyn Engine, probe: Probe) -> Result<(), String> {
    let (sequences, rows) = match probe {
        Probe::Prefill(rows) => (1, rows),
        Probe::Decode(sequences) => (sequences, 1),
    };
    let tokens = vec![0; rows];
    let per_sequence = rows.div_ceil(BLOCK_TOKENS);
    let blocks: Vec<u32> = (0..).take(sequences * per_sequence).collect();
    let spans: Vec<_> = blocks
        .chunks(per_sequence)
        .map(|blocks| Span { tokens: &tokens, start: 0, blocks, logits: Logits::Last })
        .collect();
    engine.step(&spans).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testkit::engine::{Script, ScriptedEngine};

    #[test]
    fn nothing_is_left_of_it() {
        let mut engine = ScriptedEngine::new(Script::new(300, 40, 97..123));
        let limits = super::super::limits(&engine, &crate::LaneConfig::default());
        measure(&mut engine, &limits).unwrap();
        assert!(engine.observed().steps.load(std::sync::atomic::Ordering::SeqCst) > 2);
        let mut saved = vec![0; engine.block_bytes()];
        for block in 0..40 {
            engine.save_block(block, &mut saved);
            assert!(
                saved.iter().all(|&byte| byte == u8::MAX),
                "block {block} was written to and not given back"
            );
        }
    }
}
