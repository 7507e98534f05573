//! How likely tokens were, from logits as the model gave them.

use plimsoll_kernels::Isa;

/// The log-probabilities of one row of logits, before bias and penalties. Logits that are NaN or infinite count as
/// impossible.
#[derive(Debug, Clone, Copy)]
pub struct Logprobs<'a> {
    logits: &'a [f32],
    /// `ln(sum(exp(logit)))`.
    log_sum: f64,
}

impl<'a> Logprobs<'a> {
    /// Of a row of logits, as long as the vocabulary.
    pub fn of(logits: &'a [f32]) -> Self {
        let (_, highest) = super::highest(Isa::detect(), logits);
        // Taken against the highest, no exponential overflows and the largest term is 1.
        let finite = logits.iter().filter(|logit| **logit <= highest);
        let sum: f64 = finite.map(|logit| f64::from((logit - highest).exp())).sum();
        Self { logits, log_sum: f64::from(highest) + sum.ln() }
    }

    /// Natural log of a token's probability; minus infinity when it is impossible or outside the vocabulary.
    pub fn at(&self, token: u32) -> f32 {
        match self.logits.get(token as usize) {
            Some(logit) if logit.is_finite() => (f64::from(*logit) - self.log_sum) as f32,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Appends the `k` likeliest tokens and their log-probabilities, likeliest first, the lower id among equals.
    pub fn best(&self, k: usize, out: &mut Vec<(u32, f32)>) {
        let start = out.len();
        let mut least = f32::NEG_INFINITY;
        for (id, &logit) in (0u32..).zip(self.logits) {
            let full = out.len() - start >= k;
            if !logit.is_finite() || full && logit <= least || k == 0 {
                continue;
            }
            let place = start + out[start..].partition_point(|&(_, other)| other >= logit);
            if full {
                out.pop();
            }
            out.insert(place, (id, logit));
            least = out.last().map_or(least, |&(_, logit)| logit);
        }
        for (_, value) in &mut out[start..] {
            *value = (f64::from(*value) - self.log_sum) as f32;
        }
    }

    /// [`at`](Self::at), of a row that is asked once.
    pub fn logprob(logits: &[f32], token: u32) -> f32 {
        Logprobs::of(logits).at(token)
    }

    /// [`best`](Self::best), of a row that is asked once.
    pub fn top(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
        let mut out = Vec::with_capacity(k.min(logits.len()));
        Logprobs::of(logits).best(k, &mut out);
        out
    }
}
