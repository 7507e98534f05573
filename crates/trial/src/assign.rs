//! The arm of a request, by a stable hash.

use crate::design::Design;
use crate::random::scale;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The arm of the request with this id: its place among the design's.
///
/// The same experiment (name, seed and weights) gives the same id the same arm, on every machine and in every version;
/// different experiments give independent ones.
pub fn arm_of(design: &Design, id: &str) -> usize {
    let mut hasher = SipHasher13::new_with_keys(design.seed, 0);
    hasher.write(design.name.as_bytes());
    // A byte that is in no name, so that name and id do not run into each other.
    hasher.write(&[0xff]);
    hasher.write(id.as_bytes());
    let all = design.arms.iter().map(|arm| u64::from(arm.weight)).sum();
    let at = scale(hasher.finish(), all);
    let mut below = 0;
    let found = design.arms.iter().position(|arm| {
        below += u64::from(arm.weight);
        at < below
    });
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Unit, tests::design};

    #[test]
    fn the_same_for_ever() {
        let design = design(Unit::Request, &[1, 1]);
        let arms: String = (0..24).map(|i| arm_of(&design, &format!("req-{i}")).to_string()).collect();
        // A changed hash would move everybody to another arm at an upgrade.
        assert_eq!(arms, "001111100001100100000110");
    }

    #[test]
    fn in_proportion() {
        for weights in [vec![1, 1], vec![1, 9], vec![2, 3, 5], vec![100, 1]] {
            let design = design(Unit::Request, &weights);
            let mut counts = vec![0_u32; weights.len()];
            (0..20_000).for_each(|i| counts[arm_of(&design, &format!("{i}"))] += 1);
            let all: u32 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(&weights) {
                let share = f64::from(*weight) / f64::from(all);
                let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
                assert!(
                    (f64::from(*count) - 20_000.0 * share).abs() < 4.0 * deviation,
                    "{weights:?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn experiments_are_independent() {
        let one = design(Unit::Request, &[1, 1]);
        for other in [Design { seed: 8, ..one.clone() }, Design { name: "other".into(), ..one.clone() }] {
            let ids = (0..10_000).map(|i| i.to_string());
            let same = ids.filter(|id| arm_of(&one, id) == arm_of(&other, id)).count();
            assert!((4_800..5_200).contains(&same), "{same}");
        }
    }
}
