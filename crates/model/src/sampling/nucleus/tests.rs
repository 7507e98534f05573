use super::*;
use plimsoll_kernels::softmax::weigh;
use proptest::prelude::*;

/// Kept tokens in the order of their ids, by sorting them all.
fn toy(weights: &[f32], least: f32, wanted: f64) -> Vec<u32> {
    let all = (0u32..).zip(weights.iter().copied()).filter(|(_, weight)| *weight >= least);
    let mut all: Vec<(u32, f32)> = all.collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut reached = 0.0;
    let last = all.iter().position(|(_, weight)| {
        reached += f64::from(*weight);
        reached >= wanted
    });
    all.truncate(last.map_or(all.len(), |last| last + 1));
    let mut ids: Vec<u32> = all.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids
}

/// The token that the toy draws.
fn toy_draw(weights: &[f32], kept: &[u32], draw: f64) -> Option<u32> {
    let weight = |id: &u32| f64::from(weights[*id as usize]);
    let mut left = draw * kept.iter().map(weight).sum::<f64>();
    let drawn = kept.iter().find(|id| {
        left -= weight(id);
        left < 0.0
    });
    drawn.or(kept.last()).copied()
}

fn kept(nucleus: &Nucleus, weights: &[f32]) -> Vec<u32> {
    let stays = |&(id, weight): &(u32, f32)| nucleus.cut.keeps(id, weight);
    (0u32..).zip(weights.iter().copied()).filter(stays).map(|(id, _)| id).collect()
}

/// As many numbers below `distinct`.
fn numbers(n: usize, distinct: u32, seed: u64) -> impl Iterator<Item = u32> {
    let mut draws = super::super::Draws::new(seed);
    (0..n).map(move |_| (((draws.next_bits() >> 32) * u64::from(distinct)) >> 32) as u32)
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Weights of which any sum is exact, so that the sets must be the same to the token.
fn check(n: usize, weight: impl Fn(u32) -> f32, distinct: u32, [seed, share, draw]: [u64; 3], least: f32) {
    let mut all: Vec<f32> = numbers(n, distinct, seed).map(weight).collect();
    all.resize(n.next_multiple_of(PART), 0.0);
    let part =
        |some: &[f32]| Part { sum: some.iter().sum(), largest: some.iter().copied().fold(0.0, f32::max) };
    let parts: Vec<Part> = all.chunks(PART).map(part).collect();
    let draw = draw as f64 / 256.0;
    for isa in isas() {
        let weights = Weights { isa, all: &all, parts: &parts };
        let mut nucleus = Nucleus::with_vocab(n);
        let total = nucleus.keep_from(weights, least);
        let want = toy(&all, least, f64::INFINITY);
        assert_eq!(kept(&nucleus, &all), want, "from {least}");
        assert_eq!(nucleus.draw(weights, draw), toy_draw(&all, &want, draw), "from {least}");

        let wanted = total * share as f64 / 64.0;
        nucleus.keep_mass(weights, least, (wanted, total));
        let want = toy(&all, least, wanted);
        assert_eq!(kept(&nucleus, &all), want, "{wanted} of {total}");
        let mass: f64 = want.iter().map(|&id| f64::from(all[id as usize])).sum();
        assert_eq!(nucleus.mass, mass);
        assert_eq!(nucleus.draw(weights, draw), toy_draw(&all, &want, draw), "{wanted} of {total}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_fewest_likeliest_by_sorting_them_all(
        n in prop_oneof![1usize..200, 16_000usize..60_000],
        distinct in prop_oneof![1u32..4, 1u32..5000],
        shape in 0..4,
        seeds in [0..u64::MAX, 0..64, 0..256],
        least in prop_oneof![Just(LEAST), Just(0.25f32), 0.0f32..1.0],
    ) {
        let weight: fn(u32) -> f32 = match shape {
            // Even; a few heavy ones above many light; steps of a factor of 2; all but nothing.
            0 => |i| (i + 1) as f32 / 8192.0,
            1 => |i| if i == 0 { 1.0 } else { (i + 1) as f32 / 1_048_576.0 },
            2 => |i| 0.5f32.powi((i % 12) as i32),
            _ => |i| if i == 1 { 1.0 } else { 0.0 },
        };
        check(n, weight, distinct, seeds, least.max(LEAST));
    }
}

/// As a model's, where sums are rounded: the last token may be one that is next to the toy's.
#[test]
fn of_bell_shaped_logits() {
    let bell = |i: u64, spread: f32| {
        (numbers(6, 1 << 20, i).map(|x| x as f32 / (1 << 20) as f32).sum::<f32>() - 3.0) * spread
    };
    for (spread, above) in [(4.0, 16.0), (4.0, 8.0), (1.5, 0.0), (0.02, 0.0), (1e-7, 0.0)] {
        let n = 17_000usize;
        let mut logits: Vec<f32> = (0..n as u64).map(|i| bell(i, spread)).collect();
        logits.iter_mut().step_by(997).for_each(|logit| *logit += above);
        let highest = logits.iter().copied().fold(f32::MIN, f32::max);
        for isa in isas() {
            let mut parts = vec![Part::default(); n.div_ceil(PART)];
            let mut all = vec![0.0; parts.len() * PART];
            weigh(isa, &logits, (highest, 1.0), &mut all, &mut parts);
            let weights = Weights { isa, all: &all, parts: &parts };
            let total: f64 = all.iter().map(|&weight| f64::from(weight)).sum();
            let mut nucleus = Nucleus::with_vocab(n);
            for top_p in [0.0, 0.1, 0.5, 0.9, 0.9999] {
                nucleus.keep_mass(weights, LEAST, (top_p * total, total));
                let got = kept(&nucleus, &all).len();
                let [fewest, most] = [-1e-6, 1e-6].map(|off| toy(&all, LEAST, (top_p + off) * total).len());
                assert!((fewest..=most).contains(&got), "{spread} {top_p}: {got} of {fewest} to {most}");
            }
        }
    }
}

#[test]
fn of_a_list_that_is_not_wanted_the_likeliest_stays() {
    let weights = [0.2, 0.4, 0.3];
    let range = (0.1f32.to_bits(), 0.9f32.to_bits());
    for (wanted, id, kept) in [(-1e-9, 1, 0.4), (0.0, 1, 0.4), (0.5, 2, 0.7), (9.0, u32::MAX, 0.9)] {
        let mut list = weights.map(|weight| Candidate { id: 0, weight });
        (0..).zip(&mut list).for_each(|(id, candidate)| candidate.id = id);
        let (cut, mass) = last_of(&mut list, range, wanted);
        assert_eq!(cut.id, id, "{wanted}");
        assert!((mass - kept).abs() < 1e-6, "{wanted}: {mass}");
    }
}
