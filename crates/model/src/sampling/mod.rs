//! The next token from a row of logits, and how likely tokens were.
//!
//! The steps, in vLLM's order (llama.cpp applies the temperature last):
//!
//! 1. `logit_bias` is added.
//! 2. Repetition penalty on tokens of prompt and output, then frequency and presence penalty on tokens of the output.
//! 3. Temperature 0: the highest logit, the lowest id among equals. Otherwise logits are divided by the temperature.
//! 4. `min_p`: tokens less likely than `min_p` times the likeliest are out.
//! 5. `top_k`: the k likeliest stay, the lower id among equals.
//! 6. `top_p`: of what stayed, the fewest likeliest tokens that together reach `top_p` stay.
//! 7. One of them is drawn, in proportion to its probability.
//!
//! The number drawn is a place on a line on which each token has as much room as it is likely: in the order of their ids, or,
//! with `top_k`, the likeliest first.
//!
//! One number is drawn per token, from a generator that counts ([`Draws`]): the n-th token of a request depends on its
//! seed, n and its logits alone.
//!
//! No vocabulary is sorted: `nucleus` finds what `top_p` keeps by a guess (`estimate`) that is proved, `candidates` the rest.
//!
//! A logit that is NaN or infinite counts as impossible, so a step gone wrong yields a token, not a panic.

mod candidate;
mod candidates;
mod draws;
mod estimate;
mod logprobs;
mod nucleus;
mod penalties;

pub use candidates::Candidates;
pub use draws::{Draws, seed_of};
pub use logprobs::Logprobs;

use penalties::Penalties;
use plimsoll_kernels::{Isa, softmax};

/// How the next token is chosen. Ranges are the caller's to check.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// 0 is greedy.
    pub temperature: f32,
    /// 0 is off.
    pub top_k: u32,
    /// 1 is off.
    pub top_p: f32,
    /// 0 is off.
    pub min_p: f32,
    /// 1 is off; divides positive and multiplies negative logits of tokens in prompt and output.
    pub repetition_penalty: f32,
    /// 0 is off; subtracted once from the logits of tokens in the output.
    pub presence_penalty: f32,
    /// 0 is off; subtracted per occurrence in the output.
    pub frequency_penalty: f32,
    /// Token id and what is added to its logit. Ids outside the vocabulary are passed over.
    pub logit_bias: Vec<(u32, f32)>,
    /// Same seed, same output. [`seed_of`] makes one for each of several continuations.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// Chooses the tokens of one output.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: Params,
    draws: Draws,
    penalties: Penalties,
    is_penalized: bool,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new(Params::default())
    }
}

impl Sampler {
    /// A sampler that has seen nothing yet.
    pub fn new(params: Params) -> Self {
        let is_penalized = params.repetition_penalty != 1.0
            || params.presence_penalty != 0.0
            || params.frequency_penalty != 0.0;
        let (draws, penalties) = (Draws::new(params.seed), Penalties::default());
        Self { draws, penalties, is_penalized, params }
    }

    /// Begins another output, as a new sampler would, in the memory of the last one.
    pub fn restart(&mut self, params: Params) {
        let mut new = Self::new(params);
        std::mem::swap(&mut new.penalties, &mut self.penalties);
        new.penalties.clear();
        *self = new;
    }

    /// Tells the tokens of the prompt, for the repetition penalty.
    pub fn observe_prompt(&mut self, tokens: &[u32]) {
        if self.is_penalized {
            self.penalties.observe_prompt(tokens);
        }
    }

    /// Makes room for `tokens` of output out of `vocab`, so that sampling will not allocate.
    pub fn reserve(&mut self, vocab: usize, tokens: usize) {
        if self.is_penalized {
            self.penalties.reserve(tokens.min(vocab));
        }
    }

    /// The next token; remembers it. `logits` is one row, as long as the vocabulary, and is changed: bias and penalties
    /// are applied in place. An empty row gives 0, and so does one without a finite logit. Allocates only when
    /// `candidates` has not had room for so many logits before, or there was no [`Sampler::reserve`].
    pub fn sample(&mut self, logits: &mut [f32], candidates: &mut Candidates) -> u32 {
        for &(id, bias) in &self.params.logit_bias {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit += bias;
            }
        }
        if self.is_penalized {
            self.penalties.apply(&self.params, logits);
        }
        // Drawn even when greedy, so that the n-th draw belongs to the n-th token.
        let draw = self.draws.next_unit();
        let (best, highest) = highest(candidates.isa, logits);
        let token = if self.params.temperature > 0.0 && highest.is_finite() {
            candidates.sample(&self.params, logits, highest, draw).unwrap_or(best)
        } else {
            best
        };
        if self.is_penalized {
            self.penalties.observe_output(token);
        }
        token
    }
}

/// The highest finite logit, and the lowest id that has it; `(0, -inf)` without any.
fn highest(isa: Isa, logits: &[f32]) -> (u32, f32) {
    let (at, most) = softmax::highest(isa, logits);
    if !most.is_finite() {
        let finite = (0u32..).zip(logits.iter().copied()).filter(|(_, x)| x.is_finite());
        return finite.fold((0, f32::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best });
    }
    (at as u32, most)
}

#[cfg(test)]
mod tests;
