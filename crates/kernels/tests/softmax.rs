//! What sampling asks of a row of logits, in every instruction set of this machine, against plain loops.

use plimsoll_kernels::Isa;
use plimsoll_kernels::softmax::{PART, Part, Split, highest, split, weigh};

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Numbers from -8 to 8, many of them equal.
fn logits(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 22) as f32 / 64.0 - 8.0).collect()
}

const LENGTHS: [usize; 8] = [0, 1, 63, 64, 65, 512, 1000, 5000];

#[test]
fn the_highest_is_the_first_of_its_equals() {
    let check = |logits: &[f32]| {
        let want = logits
            .iter()
            .enumerate()
            .fold((0, f32::NEG_INFINITY), |best, (i, &x)| if x > best.1 { (i, x) } else { best });
        for isa in isas() {
            assert_eq!(highest(isa, logits), want, "{isa}, {} logits", logits.len());
        }
    };
    for n in LENGTHS {
        check(&logits(n));
        let mut gone_wrong = logits(n);
        gone_wrong.iter_mut().step_by(3).for_each(|x| *x = f32::NAN);
        check(&gone_wrong);
        gone_wrong.iter_mut().skip(n / 2).step_by(5).for_each(|x| *x = f32::INFINITY);
        check(&gone_wrong);
        check(&vec![f32::NAN; n]);
        check(&vec![f32::NEG_INFINITY; n]);
    }
}

#[test]
fn a_range_splits_the_weights() {
    for (isa, n) in isas().flat_map(|isa| LENGTHS.map(|n| (isa, n))) {
        let logits = logits(n);
        let mut parts = vec![Part::default(); n.div_ceil(PART)];
        let mut weights = vec![0.0; parts.len() * PART];
        weigh(isa, &logits, (8.0, 1.0), &mut weights, &mut parts);
        let some = weights.get(n / 3).copied().unwrap_or(0.5);
        for (low, high) in [(0.0, 0.0), (0.0, 2.0), (1e-3, 1e-2), (some, some), (0.0, some), (some, 2.0)] {
            let mut splits = vec![Split { above: 7.0, among: 7.0, members: 7 }; parts.len()];
            split(isa, (&weights, &parts), (low, high), &mut splits);
            for (part, got) in weights.chunks_exact(PART).zip(splits) {
                let sum = |range: &dyn Fn(f32) -> bool| -> f64 {
                    part.iter().filter(|weight| range(**weight)).map(|&weight| f64::from(weight)).sum()
                };
                let near = |a: f32, b: f64| (f64::from(a) - b).abs() <= 1e-6 * b;
                let is_member = |weight: f32| weight > low && weight <= high;
                let members =
                    part.iter().rev().fold(0, |bits, &weight| bits << 1 | u64::from(is_member(weight)));
                assert_eq!(got.members, members, "{isa}: {low} to {high} of {n}");
                assert!(near(got.above, sum(&|weight| weight > high)), "{isa}: {low} to {high} of {n}");
                assert!(near(got.among, sum(&is_member)), "{isa}: {low} to {high} of {n}");
            }
        }
    }
}
