//! The cost model finds the machine's figures.

use plimsoll_sched::{CostModel, Load, Measured, Rates};
use proptest::prelude::*;
use std::time::Duration;

fn truth(weights: [f64; 4], load: Load) -> Duration {
    let features = [1.0, load.prefill as f64, load.decodes as f64, load.kv as f64];
    Duration::from_secs_f64(weights.iter().zip(features).map(|(w, f)| w * f).sum())
}

fn loads() -> Vec<Load> {
    let decodes = [1, 4, 16].map(|n| (0..n).fold(Load::default(), |load, _| load.with_decode(0)));
    let prefill = [1, 16, 64, 128].map(|n| Load::default().with_prefill(0, n));
    decodes.into_iter().chain(prefill).chain([decodes[1].with_prefill(100, 32)]).collect()
}

proptest! {
    #[test]
    fn a_warm_up_seeds_it(
        base in 1e-4..1e-1f64, prefill in 1e-5..2e-2f64, decode in 1e-5..5e-2f64, kv in 1e-9..1e-6f64,
    ) {
        let samples: Vec<_> =
            loads().into_iter().map(|load| (load, truth([base, prefill, decode, kv], load))).collect();
        let model = CostModel::seeded(&samples);
        for (load, elapsed) in samples {
            let ratio = model.predict(load).as_secs_f64() / elapsed.as_secs_f64();
            prop_assert!((0.6..1.6).contains(&ratio), "{:?}: {}", load, ratio);
        }
    }

    #[test]
    fn the_longest_prefill_fits_and_one_more_does_not(start in 0..500usize, most in 0..600usize, budget in 0..80u64) {
        let (model, load) = (CostModel::default(), Load::default().with_decode(70));
        let budget = Duration::from_millis(budget);
        let longest = model.longest_prefill(load, start, most, budget);
        let fits = |len| model.predict(load.with_prefill(start, len)) <= budget;
        prop_assert!(longest <= most && (longest == 0 || fits(longest)));
        prop_assert!(longest == most || !fits(longest + 1));
    }
}

#[test]
fn one_freak_step_changes_little() {
    let mut model = CostModel::default();
    let load = Load::default().with_decode(10).with_prefill(0, 20);
    let before = model.predict(load);
    model.correct(load, Duration::from_secs(600));
    assert!(model.predict(load) < before * 5 / 4);
}

#[test]
fn a_model_begins_with_what_was_measured() {
    let rates = Rates { base: 4e-3, prefill: 6e-4, decode: 1e-3, kv: 0.0 };
    let residuals = [0.85, 0.9, 0.92, 0.96, 1.0, 1.05, 1.1, 1.15, 1.25, 1.4, 2.0];
    let mut model = CostModel::measured(&Measured { rates, residuals });
    let load = Load::default().with_prefill(0, 40).with_decode(100);
    let fitted = rates.seconds(load);
    let off = |seconds: f64| (seconds / fitted - 1.0).abs();
    assert!(off(model.predict(load).as_secs_f64()) < 1e-3);
    // What was found to cost nothing is learned all the same.
    let truth = Rates { kv: 1e-6, ..rates };
    for depth in (0..20_000).map(|i| i * 37 % 4000) {
        let load = (0..8).fold(Load::default(), |load, _| load.with_decode(depth));
        model.correct(load, Duration::from_secs_f64(truth.seconds(load)));
    }
    let deep = (0..8).fold(Load::default(), |load, _| load.with_decode(4000));
    let off = model.predict(deep).as_secs_f64() / truth.seconds(deep);
    assert!((0.8..1.25).contains(&off), "{off}");
}
