//! What steps cost, measured before serving.

use crate::probe::{Chooser, Probe};
use plimsoll_model::engine::{BLOCK_TOKENS, Engine};
use plimsoll_sched::{CostModel, Limits};
use std::time::{Duration, Instant};

/// No shape larger than what was measured by then, so that a slow model does not keep its clients waiting.
const ENOUGH: Duration = Duration::from_secs(1);

/// Runs prefills and decodes of growing size, in blocks that nobody has yet, and fits a model to their times.
///
/// # Errors
/// When the engine fails: why.
pub(super) fn measure(engine: &mut dyn Engine, limits: &Limits) -> Result<CostModel, String> {
    let begun = Instant::now();
    let (mut chooser, mut samples) = (Chooser::new(engine), Vec::new());
    for probe in shapes(limits) {
        // The first run touches memory and wakes threads; the second is like any other.
        probe.run(engine, &mut chooser)?;
        let started = Instant::now();
        probe.run(engine, &mut chooser)?;
        samples.push((probe.load(), started.elapsed()));
        if begun.elapsed() > ENOUGH {
            break;
        }
    }
    give_back(engine, limits);
    Ok(CostModel::seeded(&samples))
}

/// Runs the largest of the shapes, for an engine whose costs are known: the first requests are not to find it cold.
///
/// # Errors
/// When the engine fails: why.
pub(super) fn touch(engine: &mut dyn Engine, limits: &Limits) -> Result<(), String> {
    let mut chooser = Chooser::new(engine);
    for probe in shapes(limits).filter(|probe| probe.sequences() == 1) {
        probe.run(engine, &mut chooser)?;
    }
    give_back(engine, limits);
    Ok(())
}

/// The planner takes all blocks for untouched, and so would never give back what these hold.
fn give_back(engine: &mut dyn Engine, limits: &Limits) {
    engine.release_blocks(&(0..).take(touched(limits)).collect::<Vec<_>>());
}

fn shapes(limits: &Limits) -> impl Iterator<Item = Probe> {
    let widest = limits.max_seqs.min(limits.blocks);
    let decodes = [1, 2, 4, 8, 16, 32].into_iter().filter(move |&n| n <= widest).map(Probe::decode);
    let longest = limits.max_rows.min(limits.context).min(limits.blocks * BLOCK_TOKENS);
    let prefills = [8, 16, 32, 64, 128, 256].into_iter().filter(move |&n| n <= longest).map(Probe::prefill);
    decodes.chain(prefills)
}

/// Blocks that the largest of the shapes writes to; they all begin at block 0.
fn touched(limits: &Limits) -> usize {
    shapes(limits).map(Probe::blocks).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testkit::engine::{Script, ScriptedEngine};

    #[test]
    fn nothing_is_left_of_it() {
        for measures in [true, false] {
            let mut engine = ScriptedEngine::new(Script::new(300, 40, 97..123));
            let (limits, _) = crate::LaneConfig::default().sizes(engine.shape(), engine.block_bytes());
            if measures {
                measure(&mut engine, &limits).unwrap();
            } else {
                touch(&mut engine, &limits).unwrap();
            }
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
}
