//! What choosing a token costs with a vocabulary of 150,000, in microseconds.
//!
//!     cargo bench -p plimsoll-model --bench sampling

use plimsoll_model::sampling::{Candidates, Params, Sampler};
use std::time::Instant;

const VOCAB: usize = 150_000;
const ROUNDS: usize = 301;

/// Logits as a model's: bell-shaped, a few far above the rest.
fn logits() -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut logits: Vec<f32> =
        (0..VOCAB).map(|_| (0..6).map(|_| uniform()).sum::<f32>() * 4.0 - 12.0).collect();
    for i in 0..30 {
        logits[i * 4999] += 8.0 + i as f32 / 10.0;
    }
    logits
}

fn main() {
    let logits = logits();
    let mut row = logits.clone();
    let mut candidates = Candidates::with_vocab(VOCAB);
    println!("| sampling | us |\n| --- | ---: |");
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
        ("top_k 40, top_p 0.9", with(|p| (p.top_k, p.top_p) = (40, 0.9))),
        ("min_p 0.05", with(|p| p.min_p = 0.05)),
    ] {
        let mut sampler = Sampler::new(params);
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                row.copy_from_slice(&logits);
                let start = Instant::now();
                std::hint::black_box(sampler.sample(&mut row, &mut candidates));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("| {name} | {:.0} |", times[ROUNDS / 2]);
    }
}
