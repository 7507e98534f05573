//! What choosing a token costs with a vocabulary of 150,000, in microseconds.
//!
//!     cargo bench -p plimsoll-model --bench sampling

use plimsoll_model::sampling::{Candidates, Params, Sampler};
use std::time::Instant;

const VOCAB: usize = 150_000;
const ROUNDS: usize = 301;

/// Logits as a model's: bell-shaped, `spread` times as wide, with thirty far above the rest, by so much.
fn logits(spread: f32, above: f32) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut logits: Vec<f32> =
        (0..VOCAB).map(|_| ((0..6).map(|_| uniform()).sum::<f32>() * 4.0 - 12.0) * spread).collect();
    for i in 0..30 {
        logits[i * 4999] += above + i as f32 / 10.0;
    }
    logits
}

fn main() {
    let rows = [logits(1.0, 16.0), logits(1.0, 8.0), logits(0.3, 0.0)];
    let mut row = rows[0].clone();
    let mut candidates = Candidates::with_vocab(VOCAB);
    println!("| sampling | as in text, us | where thousands are likely, us | where most are, us |");
    println!("| --- | ---: | ---: | ---: |");
    let with = |change: fn(&mut Params)| {
        let mut params = Params::default();
        change(&mut params);
        params
    };
    for (name, params) in [
        ("greedy", with(|p| p.temperature = 0.0)),
        ("temperature 1", with(|_| {})),
        ("top_k 40", with(|p| p.top_k = 40)),
        ("top_p 0.9", with(|p| p.top_p = 0.9)),
        ("top_p 0.5", with(|p| p.top_p = 0.5)),
        ("top_k 40, top_p 0.9", with(|p| (p.top_k, p.top_p) = (40, 0.9))),
        ("min_p 0.05", with(|p| p.min_p = 0.05)),
        ("min_p 0.05, top_p 0.9", with(|p| (p.min_p, p.top_p) = (0.05, 0.9))),
    ] {
        let cells = rows.each_ref().map(|logits| {
            let mut sampler = Sampler::new(params.clone());
            let mut times: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    row.copy_from_slice(logits);
                    let start = Instant::now();
                    std::hint::black_box(sampler.sample(&mut row, &mut candidates));
                    start.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            times.sort_by(f64::total_cmp);
            format!("{:.0}", times[ROUNDS / 2])
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
}
