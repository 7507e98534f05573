//! Where the last token of a nucleus should be, by a sample of the weights.

/// Bits of the least and the most weight of a range: bits of positive numbers have their order.
pub(super) type Range = (u32, u32);

/// Classes of weight that the sample is divided into.
const CLASSES: u32 = 1024;
/// How far around its middle the range reaches, in standard deviations.
const DEVIATIONS: f64 = 2.0;
/// A share of the sample with the very same weight that makes this one the first guess.
const SAME: usize = 50;

/// What a sample says of the last token's weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// The weight, when many have the same.
    pub(super) same: Option<u32>,
    /// Where it probably is.
    pub(super) range: Range,
}

/// The weight down from which all that is left out weighs `rest`, in a sample of weights that are all in `range`.
///
/// What is left out is the measure, since it is many light tokens, which a sample shows well, as it does not the few
/// heavy ones.
pub(super) fn estimate(sample: &[u32], rest: f64, range: Range) -> Estimate {
    let (Some(&least), Some(&most)) = (sample.iter().min(), sample.iter().max()) else {
        return Estimate { same: None, range };
    };
    let width = (most - least) / CLASSES + 1;
    let mut sums = [0.0; CLASSES as usize];
    for &bits in sample {
        sums[((bits - least) / width) as usize] += f64::from(f32::from_bits(bits));
    }
    let start = |class: usize| least + class as u32 * width;
    let reaching = |rest: f64| {
        let mut sum = 0.0;
        sums.iter().position(|&more| {
            sum += more;
            sum >= rest
        })
    };
    let middle = reaching(rest);
    let squares: f64 = (0..)
        .zip(&sums[..middle.map_or(sums.len(), |at| at + 1)])
        .map(|(class, sum)| sum * f64::from(f32::from_bits(start(class) + width / 2)))
        .sum();
    // That of the sum over a sample in which each weight is or is not.
    let margin = DEVIATIONS * squares.sqrt();
    let low = match reaching(rest - margin) {
        Some(0) => range.0,
        Some(class) => start(class),
        None => most,
    };
    let high = reaching(rest + margin).map_or(range.1, |class| (start(class) + width - 1).min(range.1));
    let same = middle.and_then(|class| {
        let inside = |bits: &u32| (*bits - least) / width == class as u32;
        let one = sample.iter().copied().find(inside)?;
        let count = sample.iter().filter(|bits| **bits == one).count();
        (count > sample.len() / SAME).then_some(one)
    });
    Estimate { same, range: (low, high.max(low)) }
}
