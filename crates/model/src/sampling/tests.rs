use super::*;
use proptest::prelude::*;

/// Probabilities of every token by the documented steps, in f64 and with full sorts.
fn reference(params: &Params, logits: &[f32], prompt: &[u32], output: &[u32]) -> Vec<f64> {
    let mut logits: Vec<f64> = logits.iter().map(|&l| f64::from(l)).collect();
    let prompt: std::collections::HashSet<u32> = prompt.iter().copied().collect();
    for &(id, bias) in &params.logit_bias {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit += f64::from(bias);
        }
    }
    for (id, logit) in (0u32..).zip(&mut logits) {
        let count = output.iter().filter(|&&token| token == id).count();
        if count > 0 || prompt.contains(&id) {
            let penalty = f64::from(params.repetition_penalty);
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
        if count > 0 {
            *logit -= f64::from(params.frequency_penalty) * count as f64 + f64::from(params.presence_penalty);
        }
    }
    let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |logit: f64| ((logit - highest) / f64::from(params.temperature)).exp();
    let mut order: Vec<(usize, f64)> = logits.iter().map(|&logit| weight(logit)).enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    order.retain(|&(_, weight)| weight >= f64::from(params.min_p));
    if params.top_k > 0 {
        order.truncate(params.top_k as usize);
    }
    let total: f64 = order.iter().map(|&(_, weight)| weight).sum();
    let mut reached = 0.0;
    let kept = order.iter().position(|&(_, weight)| {
        reached += weight;
        reached >= f64::from(params.top_p) * total
    });
    order.truncate(kept.map_or(order.len(), |last| last + 1));
    let total: f64 = order.iter().map(|&(_, weight)| weight).sum();
    let mut probabilities = vec![0.0; logits.len()];
    for (id, weight) in order {
        probabilities[id] = weight / total;
    }
    probabilities
}

fn greedy() -> Params {
    Params { temperature: 0.0, ..Params::default() }
}

#[test]
fn greedy_takes_the_highest_and_the_lowest_id_among_equals() {
    let check = |logits: &[f32], want| {
        assert_eq!(
            Sampler::new(greedy()).sample(&mut logits.to_vec(), &mut Candidates::default()),
            want,
            "{logits:?}"
        );
    };
    check(&[1.0, 3.0, 3.0, 2.0], 1);
    check(&[-5.0, -3.0], 1);
    check(&[f32::NAN, 1.0, f32::NAN], 1);
    check(&[f32::INFINITY, 1.0, 2.0], 2);
    check(&[f32::NEG_INFINITY, -1.0], 1);
    check(&[f32::NAN, f32::NAN], 0);
    check(&[f32::NAN, f32::NEG_INFINITY], 0);
    check(&[f32::NEG_INFINITY], 0);
    check(&[], 0);
}

#[test]
fn logits_gone_wrong_never_panic() {
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0];
    for params in [
        Params::default(),
        Params { top_k: 2, top_p: 0.5, min_p: 0.1, ..Params::default() },
        Params { top_p: 0.0, repetition_penalty: 2.0, ..Params::default() },
        Params { temperature: 1e-30, ..Params::default() },
        Params { temperature: f32::MAX, ..Params::default() },
    ] {
        let mut sampler = Sampler::new(params.clone());
        for at in 0..bad.len() {
            for length in 0..=bad.len() {
                let mut row: Vec<f32> = bad.iter().cycle().skip(at).take(length).copied().collect();
                let token = sampler.sample(&mut row, &mut Candidates::default()) as usize;
                assert!(token < length.max(1), "{params:?} {row:?}");
            }
        }
        assert_eq!(
            sampler.sample(&mut [f32::NAN, 1.0, f32::NAN], &mut Candidates::default()),
            1,
            "{params:?}"
        );
    }
}

#[test]
fn penalties_and_bias() {
    let check = |params: Params, prompt: &[u32], rows: &[&[f32]], want: &[u32]| {
        let mut sampler = Sampler::new(Params { temperature: 0.0, ..params });
        sampler.observe_prompt(prompt);
        let got: Vec<u32> =
            rows.iter().map(|row| sampler.sample(&mut row.to_vec(), &mut Candidates::default())).collect();
        assert_eq!(got, want);
    };
    let row: &[f32] = &[2.0, 1.8, 0.5];
    check(Params { presence_penalty: 0.3, ..greedy() }, &[0], &[row, row, row], &[0, 1, 0]);
    check(Params { frequency_penalty: 0.15, ..greedy() }, &[], &[row, row, row, row], &[0, 0, 1, 0]);
    check(Params { repetition_penalty: 1.5, ..greedy() }, &[0], &[row], &[1]);
    check(Params { repetition_penalty: 1.5, ..greedy() }, &[0, 9], &[&[-1.0, -1.4]], &[1]);
    check(Params { logit_bias: vec![(2, 5.0), (7, 1.0)], ..greedy() }, &[], &[row], &[2]);
    check(Params { logit_bias: vec![(0, f32::NEG_INFINITY)], ..greedy() }, &[], &[row], &[1]);
}

#[test]
fn same_seed_same_tokens() {
    let run = |seed| {
        let mut sampler = Sampler::new(Params { seed, ..Params::default() });
        (0..50).map(|_| sampler.sample(&mut [0.0; 100], &mut Candidates::default())).collect::<Vec<_>>()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
    // The algorithm is documented: the same seed gives the same text in every release.
    assert_eq!(run(42)[..8], FIRST_OF_42);
}

const FIRST_OF_42: [u32; 8] = [34, 95, 48, 6, 67, 6, 19, 73];

#[test]
fn greedy_tokens_use_up_a_draw() {
    let mut a = Sampler::new(Params::default());
    let mut b = a.clone();
    assert_eq!(
        a.sample(&mut [0.0], &mut Candidates::default()),
        b.sample(&mut [f32::NAN], &mut Candidates::default())
    );
    assert_eq!(
        a.sample(&mut [0.0; 1000], &mut Candidates::default()),
        b.sample(&mut [0.0; 1000], &mut Candidates::default())
    );
}

/// Draws `n` tokens from the same logits and compares counts with the reference, at six standard deviations and three
/// more, for rare tokens do not spread as a normal distribution does.
fn check_counts(params: &Params, logits: &[f32], n: u32) {
    let want = reference(params, logits, &[], &[]);
    let mut sampler = Sampler::new(params.clone());
    let mut counts = vec![0u32; logits.len()];
    for _ in 0..n {
        counts[sampler.sample(&mut logits.to_vec(), &mut Candidates::default()) as usize] += 1;
    }
    for (id, (&count, p)) in counts.iter().zip(want).enumerate() {
        let (mean, deviation) = (p * f64::from(n), (p * (1.0 - p) * f64::from(n)).sqrt());
        assert!(
            (f64::from(count) - mean).abs() <= 6.0 * deviation + 3.0,
            "{params:?} {id}: {count}, not {mean}"
        );
    }
}

#[test]
fn counts_follow_the_probabilities() {
    let logits: Vec<f32> = (0..80).map(|i| ((i * 37 % 101) as f32) / 15.0).collect();
    let base = Params { seed: 11, ..Params::default() };
    for params in [
        base.clone(),
        Params { temperature: 0.5, ..base.clone() },
        Params { temperature: 2.0, ..base.clone() },
        Params { top_k: 5, ..base.clone() },
        Params { top_p: 0.9, ..base.clone() },
        Params { top_p: 0.999, temperature: 3.0, ..base.clone() },
        Params { min_p: 0.2, ..base.clone() },
        Params { top_k: 20, top_p: 0.7, min_p: 0.05, temperature: 1.3, ..base },
    ] {
        check_counts(&params, &logits, 10_000);
    }
}

/// More tokens than are ever listed, many of them likely.
#[test]
fn a_large_vocabulary() {
    let n = 20_000u32;
    let row: Vec<f32> =
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 22) as f32).collect();
    let base = Params { temperature: 0.9, seed: 5, repetition_penalty: 1.1, ..Params::default() };
    for params in [
        Params { top_p: 0.7, ..base.clone() },
        Params { min_p: 0.1, ..base.clone() },
        Params { top_p: 0.7, min_p: 0.3, presence_penalty: 0.4, logit_bias: vec![(7, 9.0)], ..base.clone() },
        Params { top_p: 0.7, top_k: 3000, ..base },
    ] {
        let prompt: Vec<u32> = (0..n).step_by(3).collect();
        let mut sampler = Sampler::new(params.clone());
        sampler.observe_prompt(&prompt);
        let relaxed = Params { top_p: params.top_p + 1e-5, min_p: params.min_p - 1e-5, ..params.clone() };
        let possible = reference(&relaxed, &row, &prompt, &[]);
        for _ in 0..20 {
            let token = sampler.clone().sample(&mut row.clone(), &mut Candidates::default());
            assert!(possible[token as usize] > 0.0, "{params:?}: {token}");
            sampler.draws.next_bits();
        }
    }
}

fn params() -> impl Strategy<Value = Params> {
    let floats = (0.1f32..3.0, 0.05f32..=1.0, 0.0f32..0.5, 0.5f32..2.0, -2.0f32..2.0, -2.0f32..2.0);
    (floats, 0u32..12, proptest::collection::vec((0u32..30, -5.0f32..5.0), 0..3), any::<u64>()).prop_map(
        |(
            (temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty),
            top_k,
            bias,
            seed,
        )| {
            Params {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                presence_penalty,
                frequency_penalty,
                logit_bias: bias,
                seed,
            }
        },
    )
}

proptest! {
    #[test]
    fn tokens_are_where_the_reference_puts_the_draw(
        params in params(),
        rows in proptest::collection::vec(proptest::collection::vec(-8.0f32..8.0, 25), 1..8),
        prompt in proptest::collection::vec(0u32..25, 0..6),
    ) {
        let mut sampler = Sampler::new(params.clone());
        sampler.observe_prompt(&prompt);
        let mut output = Vec::new();
        for row in rows {
            let want = reference(&params, &row, &prompt, &output);
            let token = sampler.sample(&mut row.clone(), &mut Candidates::default());
            // A boundary may fall to either side in f32, but only for a token next to it.
            let relaxed = Params { top_p: params.top_p + 1e-5, min_p: params.min_p - 1e-5, ..params.clone() };
            let possible = want[token as usize] > 0.0 || reference(&relaxed, &row, &prompt, &output)[token as usize] > 0.0;
            prop_assert!(possible, "{token} has no probability");
            output.push(token);
        }
    }

    #[test]
    fn logprobs_as_in_f64(row in proptest::collection::vec(-80.0f32..80.0, 1..200), k in 0usize..30) {
        let highest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = row.iter().map(|&l| (f64::from(l) - highest).exp()).sum();
        let want: Vec<f64> = row.iter().map(|&l| f64::from(l) - highest - sum.ln()).collect();
        let mut order: Vec<u32> = (0..row.len() as u32).collect();
        order.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b)));
        let top = Logprobs::top(&row, k);
        prop_assert_eq!(top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), &order[..k.min(row.len())]);
        for (id, logprob) in top {
            prop_assert!((f64::from(logprob) - want[id as usize]).abs() < 1e-4);
            prop_assert_eq!(logprob, Logprobs::logprob(&row, id));
        }
    }
}

#[test]
fn logprobs_of_rows_gone_wrong() {
    assert_eq!(Logprobs::logprob(&[f32::NAN, 0.0, f32::INFINITY], 1), 0.0);
    assert_eq!(Logprobs::logprob(&[f32::NAN, 0.0], 0), f32::NEG_INFINITY);
    assert_eq!(Logprobs::logprob(&[0.0], 1), f32::NEG_INFINITY);
    assert_eq!(Logprobs::top(&[f32::NAN, 0.0, f32::NEG_INFINITY], 3), [(1, 0.0)]);
    assert_eq!(Logprobs::top(&[], 3), []);
    assert!(Logprobs::logprob(&[1000.0, 0.0], 1) < -900.0);
}
