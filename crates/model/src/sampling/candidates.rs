//! Which tokens may be drawn, without sorting the vocabulary.

use super::Params;
use super::candidate::{Candidate, likelier};
use super::nucleus::{LEAST, Nucleus, Weights};
use plimsoll_kernels::Isa;
use plimsoll_kernels::softmax::{PART, Part, weigh};

/// Room for the tokens that may be drawn, kept from token to token: one for all samplers of a thread, because none of
/// them leaves anything in it.
#[derive(Debug, Clone)]
pub struct Candidates {
    pub(super) isa: Isa,
    /// Of all tokens, and of [`PART`] each together.
    weights: Vec<f32>,
    parts: Vec<Part>,
    list: Vec<Candidate>,
    nucleus: Nucleus,
}

impl Default for Candidates {
    fn default() -> Self {
        Self::with_vocab(0)
    }
}

impl Candidates {
    /// Room for a vocabulary of this size, so that sampling will not allocate.
    pub fn with_vocab(vocab: usize) -> Self {
        let parts = vocab.div_ceil(PART);
        Self {
            isa: Isa::detect(),
            weights: Vec::with_capacity(parts * PART),
            parts: Vec::with_capacity(parts),
            list: Vec::with_capacity(vocab),
            nucleus: Nucleus::with_vocab(vocab),
        }
    }

    /// Draws a token; `draw` is in `[0, 1)`, `highest` the highest logit, finite.
    pub(super) fn sample(&mut self, params: &Params, logits: &[f32], highest: f32, draw: f64) -> Option<u32> {
        let parts = logits.len().div_ceil(PART);
        self.parts.resize(parts, Part::default());
        self.weights.resize(parts * PART, 0.0);
        let scale = 1.0 / params.temperature;
        weigh(self.isa, logits, (highest, scale), &mut self.weights, &mut self.parts);
        self.drop_infinite();
        if params.top_k > 0 {
            self.list_likeliest(params.top_k as usize, params.min_p);
            if params.top_p < 1.0 {
                self.keep_mass(f64::from(params.top_p) * self.total());
            }
            return self.draw(draw);
        }
        if params.top_p >= 1.0 && params.min_p <= 0.0 {
            return self.draw_any(draw);
        }
        let weights = Weights { isa: self.isa, all: &self.weights, parts: &self.parts };
        let least = params.min_p.max(LEAST);
        let total = if params.min_p > 0.0 { self.nucleus.keep_from(weights, least) } else { self.sum() };
        if params.top_p < 1.0 {
            self.nucleus.keep_mass(weights, least, (f64::from(params.top_p) * total, total));
        }
        self.nucleus.draw(weights, draw)
    }

    /// No weight of a finite logit is over 1, or by a rounding: what is, is impossible.
    fn drop_infinite(&mut self) {
        for (part, weights) in self.parts.iter_mut().zip(self.weights.chunks_exact_mut(PART)) {
            if part.largest > 2.0 {
                weights.iter_mut().filter(|weight| **weight > 2.0).for_each(|weight| *weight = 0.0);
                let largest = weights.iter().fold(0.0, |most: f32, &weight| most.max(weight));
                *part = Part { sum: weights.iter().sum(), largest };
            }
        }
    }

    /// The sum of all weights.
    fn sum(&self) -> f64 {
        self.parts.iter().map(|part| f64::from(part.sum)).sum()
    }

    /// Draws from all tokens.
    fn draw_any(&self, draw: f64) -> Option<u32> {
        let mut left = draw * self.sum();
        let mut last = None;
        for (part, weights) in
            self.parts.iter().zip(self.weights.chunks_exact(PART)).enumerate().map(numbered)
        {
            if part.1.sum <= 0.0 {
                continue;
            }
            // The part's sum is rounded otherwise than its weights one by one: look inside when it is near.
            let sum = f64::from(part.1.sum);
            if left > sum * (1.0 + 1e-5) {
                left -= sum;
                continue;
            }
            for (i, &weight) in (0u32..).zip(weights).filter(|(_, weight)| **weight > 0.0) {
                left -= f64::from(weight);
                last = Some(part.0 + i);
                if left < 0.0 {
                    return last;
                }
            }
        }
        // Rounding used up the last one's share.
        last
    }

    /// Lists the `k` likeliest of at least this weight, sorted. Once there are `k`, only what is likelier than the last of
    /// them is looked at, a part at a time.
    fn list_likeliest(&mut self, k: usize, least: f32) {
        let most = k.saturating_mul(2).max(256);
        let mut least = least;
        self.list.clear();
        for (part, weights) in
            self.parts.iter().zip(self.weights.chunks_exact(PART)).enumerate().map(numbered)
        {
            if part.1.largest < least {
                continue;
            }
            let chosen = (part.0..).zip(weights).filter(|(_, weight)| **weight >= least && **weight > 0.0);
            self.list.extend(chosen.map(|(id, &weight)| Candidate { id, weight }));
            if self.list.len() >= most {
                let (_, last, _) = self.list.select_nth_unstable_by(k - 1, likelier);
                least = last.weight;
                self.list.truncate(k);
            }
        }
        self.keep_likeliest(k);
    }

    /// Leaves the `k` likeliest, sorted.
    fn keep_likeliest(&mut self, k: usize) {
        if k < self.list.len() {
            self.list.select_nth_unstable_by(k, likelier);
            self.list.truncate(k);
        }
        self.list.sort_unstable_by(likelier);
    }

    /// Leaves the fewest likeliest of the sorted list that together have this weight.
    fn keep_mass(&mut self, wanted: f64) {
        let mut reached = 0.0;
        let last = self.list.iter().position(|candidate| {
            reached += f64::from(candidate.weight);
            reached >= wanted
        });
        self.list.truncate(last.map_or(self.list.len(), |last| last + 1));
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

/// A part with the id of its first token, and its weights.
fn numbered<'a>((i, (part, weights)): (usize, (&'a Part, &'a [f32]))) -> ((u32, &'a Part), &'a [f32]) {
    (((i * PART) as u32, part), weights)
}
