//! Penalties on tokens that were there before.

use super::Params;
use hashbrown::HashMap;

/// Tokens whose room is kept from output to output.
const KEPT: usize = 8192;

/// Which tokens were there, and how often in the output. The prompt counts for the repetition penalty alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Penalties {
    /// By token: occurrences in the output; 0 for one that is in the prompt only.
    counts: HashMap<u32, u32>,
}

impl Penalties {
    pub(super) fn clear(&mut self) {
        if self.counts.capacity() > KEPT {
            self.counts = HashMap::new();
        }
        self.counts.clear();
    }

    pub(super) fn reserve(&mut self, tokens: usize) {
        self.counts.reserve(tokens);
    }

    pub(super) fn observe_prompt(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.counts.entry(token).or_insert(0);
        }
    }

    pub(super) fn observe_output(&mut self, token: u32) {
        let count = self.counts.entry(token).or_insert(0);
        *count = count.saturating_add(1);
    }

    pub(super) fn apply(&self, params: &Params, logits: &mut [f32]) {
        for (&token, &count) in &self.counts {
            let Some(logit) = logits.get_mut(token as usize) else { continue };
            if *logit > 0.0 {
                *logit /= params.repetition_penalty;
            } else {
                *logit *= params.repetition_penalty;
            }
            if count > 0 {
                *logit -= params.frequency_penalty * count as f32 + params.presence_penalty;
            }
        }
    }
}
