//! The fewest likeliest tokens that together have a given weight, found without putting thousands in order.
//!
//! A sample of the weights says between which two the last token's should be. One pass over all then adds up what is above
//! that range, which proves or refutes it, and marks the tokens in it; the last one is looked for among these alone. A range
//! that was wrong, or holds too many, is narrowed and passed again: the sample decides how long it takes, never the result.

use super::candidate::{Candidate, likelier};
use super::estimate::{Range, estimate};
use plimsoll_kernels::Isa;
use plimsoll_kernels::softmax::{PART, Part, Split, split};

/// Tokens that are listed to find the last one among them.
const LISTED: usize = 16_384;
/// Parts with a token that counts up to which no sample is taken.
const FEW_PARTS: usize = 64;
/// Weights looked at for a first guess.
const SAMPLE: usize = 2048;
/// Classes of weight that the listed ones are divided into, so that only those of one are sorted.
const CLASSES: u32 = 256;
/// The smallest weight that is not 0.
pub(super) const LEAST: f32 = f32::from_bits(1);

/// All weights, as `weigh` made them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) isa: Isa,
    pub(super) all: &'a [f32],
    pub(super) parts: &'a [Part],
}

/// The last token that stays: with it those of larger weight, and of the same weight those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    weight: f32,
    id: u32,
}

impl Cut {
    fn keeps(&self, id: u32, weight: f32) -> bool {
        weight > self.weight || weight == self.weight && id <= self.id
    }
}

/// The tokens that stay. Room for them is kept from token to token.
#[derive(Debug, Clone)]
pub(super) struct Nucleus {
    cut: Cut,
    /// What all that stay weigh.
    mass: f64,
    /// By part: `above` stays, of `members` what the cut keeps.
    splits: Vec<Split>,
    list: Vec<Candidate>,
    sample: Vec<u32>,
}

impl Nucleus {
    pub(super) fn with_vocab(vocab: usize) -> Self {
        Self {
            cut: Cut { weight: LEAST, id: u32::MAX },
            mass: 0.0,
            splits: Vec::with_capacity(vocab.div_ceil(PART)),
            list: Vec::with_capacity(vocab.next_multiple_of(PART).min(LISTED)),
            sample: Vec::with_capacity(SAMPLE),
        }
    }

    /// Keeps the tokens that weigh at least `least`, which is at least [`LEAST`], and says what they weigh together.
    pub(super) fn keep_from(&mut self, weights: Weights<'_>, least: f32) -> f64 {
        // None is in this range, all that count are above it.
        self.pass(weights, (least.to_bits(), least.to_bits() - 1));
        self.cut = Cut { weight: least, id: u32::MAX };
        self.mass = sum(&self.splits, |split| split.above);
        self.mass
    }

    /// Keeps the fewest likeliest of the tokens of at least `least` that together weigh `wanted`; all that there are when
    /// they weigh less. `total` is the weight of all of at least `least`.
    pub(super) fn keep_mass(&mut self, weights: Weights<'_>, least: f32, (wanted, total): (f64, f64)) {
        let rest = total - wanted;
        let wanted = wanted.max(f64::MIN_POSITIVE);
        // The last token's weight is in this range, bar rounding.
        let mut range = (least.to_bits(), f32::MAX.to_bits());
        let (mut guess, mut other) = self.guess(weights, range, rest);
        loop {
            self.pass(weights, guess);
            let above = sum(&self.splits, |split| split.above);
            let among = sum(&self.splits, |split| split.among);
            // What was added up before may be more by a rounding: neither end of the range is ever passed.
            let is_right = if above >= wanted && guess.1 < range.1 {
                range.0 = guess.1 + 1;
                false
            } else if above + among < wanted && guess.0 > range.0 {
                range.1 = guess.0 - 1;
                false
            } else {
                range = guess;
                true
            };
            let count: usize = self.splits.iter().map(|split| split.members.count_ones() as usize).sum();
            if is_right && guess.0 == guess.1 {
                return self.keep_equal(f32::from_bits(guess.0), above, wanted - above);
            }
            if is_right && count <= LISTED {
                return self.keep_listed(weights, guess, above, wanted - above);
            }
            guess = match other.take().map(|other| (other.0.max(range.0), other.1.min(range.1))) {
                Some(other) if !is_right && other.0 <= other.1 => other,
                _ if is_right => within(range, (wanted - above) / among, LISTED as f64 / 2.0 / count as f64),
                _ => (range.0 + (range.1 - range.0).div_ceil(2), range.1),
            };
        }
    }

    /// Draws one of the tokens that stay, in the order of their ids; `draw` is in `[0, 1)`.
    pub(super) fn draw(&self, weights: Weights<'_>, draw: f64) -> Option<u32> {
        let stays = |&(id, weight): &(u32, f32)| self.cut.keeps(id, weight);
        let mut left = draw * self.mass;
        let mut found = None;
        for (part, split) in self.splits.iter().enumerate() {
            let members = members(split, part, weights.all).filter(stays);
            let mass = members.fold(f64::from(split.above), |sum, (_, weight)| sum + f64::from(weight));
            if mass > 0.0 {
                found = Some(part * PART);
                if left < mass {
                    break;
                }
                left -= mass;
            }
        }
        let start = found?;
        let mut last = None;
        for (id, weight) in
            (start as u32..).zip(weights.all[start..start + PART].iter().copied()).filter(stays)
        {
            left -= f64::from(weight);
            last = Some(id);
            if left < 0.0 {
                break;
            }
        }
        // Rounding may have used up the last one's share.
        last
    }

    fn pass(&mut self, weights: Weights<'_>, (least, most): Range) {
        self.splits.resize(weights.parts.len(), Split::default());
        let range = (f32::from_bits(least - 1), f32::from_bits(most));
        split(weights.isa, (weights.all, weights.parts), range, &mut self.splits);
    }

    /// Where the last token's weight should be, and where else.
    fn guess(&mut self, weights: Weights<'_>, range: Range, rest: f64) -> (Range, Option<Range>) {
        let all = weights.all.len();
        // Tokens lighter than this could not make up the rest even if all were.
        let negligible = ((rest / all as f64) as f32).to_bits();
        let least = negligible.clamp(range.0, range.1);
        let likely = weights.parts.iter().filter(|part| part.largest.to_bits() >= least);
        if all <= LISTED || likely.count() <= FEW_PARTS {
            return ((least, range.1), None);
        }
        let every = weights.all.iter().step_by(all.div_ceil(SAMPLE) | 1).map(|weight| weight.to_bits());
        self.sample.clear();
        self.sample.extend(every);
        let rest = rest * self.sample.len() as f64 / all as f64;
        self.sample.retain(|&bits| bits >= range.0);
        let estimate = estimate(&self.sample, rest, (least, range.1));
        match estimate.same {
            Some(bits) => ((bits, bits), Some(estimate.range)),
            None => (estimate.range, None),
        }
    }

    /// Of the tokens in the range, keeps the fewest that weigh `wanted`.
    fn keep_listed(&mut self, weights: Weights<'_>, range: Range, above: f64, wanted: f64) {
        self.list.clear();
        for (part, split) in self.splits.iter().enumerate() {
            self.list.extend(members(split, part, weights.all).map(|(id, weight)| Candidate { id, weight }));
        }
        let (cut, among) = last_of(&mut self.list, range, wanted);
        (self.cut, self.mass) = (cut, above + among);
    }

    /// Of the tokens in the range, which are all of this weight, keeps the fewest that weigh `wanted`.
    fn keep_equal(&mut self, weight: f32, above: f64, wanted: f64) {
        let mut left = (wanted / f64::from(weight)).ceil().max(1.0) as u32;
        (self.cut, self.mass) = (Cut { weight, id: u32::MAX }, above);
        for (part, split) in self.splits.iter_mut().enumerate() {
            let stay = split.members.count_ones().min(left);
            let mut members = std::mem::take(&mut split.members);
            if stay > 0 {
                (1..stay).for_each(|_| members &= members - 1);
                self.cut.id = (part * PART) as u32 + members.trailing_zeros();
                let mass = stay as f32 * weight;
                split.above += mass;
                self.mass += f64::from(mass);
                left -= stay;
            }
        }
    }
}

/// The sum over all parts. Eight sums, for a single one would wait for each addition.
fn sum(splits: &[Split], of: impl Fn(&Split) -> f32) -> f64 {
    let mut sums = [0.0; 8];
    for some in splits.chunks(8) {
        for (sum, split) in sums.iter_mut().zip(some) {
            *sum += f64::from(of(split));
        }
    }
    sums.iter().sum()
}

/// A part of a range, so wide, around where a share of its weight is above.
fn within((least, most): Range, share: f64, wide: f64) -> Range {
    let whole = f64::from(most - least);
    let middle = f64::from(most) - whole * share;
    let half = whole * wide / 2.0;
    let (low, high) = ((middle - half) as u32, (middle + half) as u32);
    let low = low.clamp(least, most);
    // Never all of it again.
    if low > least || high < most { (low, high.clamp(low, most)) } else { (least + 1, most) }
}

/// The marked tokens of a part and their weights.
fn members(split: &Split, part: usize, weights: &[f32]) -> impl Iterator<Item = (u32, f32)> {
    let mut members = split.members;
    std::iter::from_fn(move || {
        if members == 0 {
            return None;
        }
        let at = part * PART + members.trailing_zeros() as usize;
        members &= members - 1;
        Some((at as u32, weights[at]))
    })
}

/// The last of the fewest likeliest in the list that together weigh `wanted`, and what they weigh; all weights are in the
/// range.
fn last_of(list: &mut [Candidate], (least, most): Range, wanted: f64) -> (Cut, f64) {
    // The likeliest of them in any case, though rounding has found enough above them.
    let wanted = wanted.max(f64::MIN_POSITIVE);
    let width = (most - least) / CLASSES + 1;
    let class = |candidate: &Candidate| ((most - candidate.weight.to_bits()) / width) as usize;
    let mut sums = [0.0; CLASSES as usize];
    for candidate in list.iter() {
        sums[class(candidate)] += f64::from(candidate.weight);
    }
    let mut reached = 0.0;
    let reaching = |&sum: &f64| {
        let is_reached = reached + sum >= wanted;
        reached += if is_reached { 0.0 } else { sum };
        is_reached
    };
    let all = Cut { weight: f32::from_bits(least), id: u32::MAX };
    let Some(last) = sums.iter().position(reaching) else { return (all, reached) };
    let mut ones = 0;
    for i in 0..list.len() {
        if class(&list[i]) == last {
            list.swap(i, ones);
            ones += 1;
        }
    }
    list[..ones].sort_unstable_by(likelier);
    let mut cut = all;
    for candidate in &list[..ones] {
        reached += f64::from(candidate.weight);
        cut = Cut { weight: candidate.weight, id: candidate.id };
        if reached >= wanted {
            break;
        }
    }
    (cut, reached)
}

#[cfg(test)]
mod tests;
