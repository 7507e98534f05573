//! Which tokens may be drawn, without sorting the vocabulary.

use super::Params;
use std::cmp::Ordering;

/// How many of the likeliest are sorted first when looking for those that reach `top_p`; if they do not, eight times as
/// many, and so on. Text rarely needs more than the first.
const FIRST_SORTED: usize = 64;

/// A token and its weight, `exp((logit - highest) / temperature)`: between 0 and 1, 1 for the likeliest.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: u32,
    weight: f32,
}

/// Room for the tokens that may be drawn, kept from token to token: one for all samplers of a thread, because none of
/// them leaves anything in it.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    list: Vec<Candidate>,
}

impl Candidates {
    /// Room for a vocabulary of this size, so that sampling will not allocate.
    pub fn with_vocab(vocab: usize) -> Self {
        Self { list: Vec::with_capacity(vocab) }
    }

    /// Draws a token; `draw` is in `[0, 1)`. `None` only when no logit is finite.
    pub(super) fn sample(&mut self, params: &Params, logits: &[f32], highest: f32, draw: f64) -> Option<u32> {
        self.weigh(params, logits, highest);
        if params.top_k > 0 {
            self.keep_likeliest(params.top_k as usize);
        }
        if params.top_p < 1.0 {
            self.keep_mass(f64::from(params.top_p));
        }
        self.draw(draw)
    }

    /// Lists the tokens that `min_p` leaves, in the order of their ids.
    fn weigh(&mut self, params: &Params, logits: &[f32], highest: f32) {
        let scale = 1.0 / params.temperature;
        self.list.clear();
        self.list.extend((0u32..).zip(logits).filter_map(|(id, &logit)| {
            // Past this a weight is 0 anyway. Infinite logits and NaN have no place here.
            let distance = if logit <= highest { (logit - highest) * scale } else { return None };
            let weight = if distance > -104.0 { distance.exp() } else { return None };
            (weight >= params.min_p && weight > 0.0).then_some(Candidate { id, weight })
        }));
    }

    /// Leaves the `k` likeliest, sorted.
    fn keep_likeliest(&mut self, k: usize) {
        if k < self.list.len() {
            self.list.select_nth_unstable_by(k, likelier);
            self.list.truncate(k);
        }
        self.list.sort_unstable_by(likelier);
    }

    /// Leaves the fewest likeliest that reach `share` of the weight, sorted.
    fn keep_mass(&mut self, share: f64) {
        let total = self.total();
        // Tokens lighter than this could not make up the rest even if all were.
        let negligible = (1.0 - share) * total / self.list.len().max(1) as f64;
        self.list.retain(|candidate| f64::from(candidate.weight) >= negligible);
        let (mut sorted, mut reached, mut step) = (0, 0.0, FIRST_SORTED);
        while sorted < self.list.len() {
            let unsorted = &mut self.list[sorted..];
            let part = step.min(unsorted.len());
            if part < unsorted.len() {
                unsorted.select_nth_unstable_by(part, likelier);
            }
            unsorted[..part].sort_unstable_by(likelier);
            for at in sorted..sorted + part {
                reached += f64::from(self.list[at].weight);
                if reached >= share * total {
                    self.list.truncate(at + 1);
                    return;
                }
            }
            sorted += part;
            step *= 8;
        }
    }

    fn draw(&self, draw: f64) -> Option<u32> {
        let mut left = draw * self.total();
        for candidate in &self.list {
            left -= f64::from(candidate.weight);
            if left < 0.0 {
                return Some(candidate.id);
            }
        }
        // Rounding used up the last one's share.
        self.list.last().map(|candidate| candidate.id)
    }

    fn total(&self) -> f64 {
        self.list.iter().map(|candidate| f64::from(candidate.weight)).sum()
    }
}

/// The likelier first, the lower id among equals.
fn likelier(a: &Candidate, b: &Candidate) -> Ordering {
    b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id))
}
