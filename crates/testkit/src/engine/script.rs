//! What a scripted engine does.

use super::gate::StepGate;
use plimsoll_model::engine::Shape;
use std::ops::Range;

/// What a scripted engine does.
#[derive(Debug, Clone)]
pub struct Script {
    /// The sizes it claims.
    pub shape: Shape,
    /// Tokens it generates.
    pub outputs: Range<u32>,
    /// A token it generates now and then, once in so many times, to end a text.
    pub end: Option<(u32, u64)>,
    /// Panics in a step with this token in it.
    pub panic_on: Option<u32>,
    /// Fails a step with this token in it.
    pub fail_on: Option<u32>,
    /// Lets the test say when a step runs.
    pub gate: Option<StepGate>,
}

impl Script {
    /// Generates tokens of `outputs` for ever, with room for `blocks` KV blocks.
    pub const fn new(vocab: usize, blocks: usize, outputs: Range<u32>) -> Self {
        let shape = Shape { vocab, context: 4096, blocks, max_rows: 256, max_logits: 64 };
        Self { shape, outputs, end: None, panic_on: None, fail_on: None, gate: None }
    }

    /// The token that is most likely after `context`.
    pub fn next(&self, context: &[u32]) -> u32 {
        let hash = hash(context);
        match self.end {
            Some((token, every)) if hash.is_multiple_of(every) => token,
            _ => {
                let width = u64::from(self.outputs.end - self.outputs.start);
                self.outputs.start + u32::try_from((hash >> 8) % width).unwrap_or(0)
            }
        }
    }

    /// What a sequence alone would generate greedily after `prompt`: at most `count` tokens, none after an end.
    pub fn alone(&self, prompt: &[u32], count: usize) -> Vec<u32> {
        let mut context = prompt.to_vec();
        for _ in 0..count {
            let next = self.next(&context);
            context.push(next);
            if self.end.is_some_and(|(end, _)| end == next) {
                break;
            }
        }
        context.split_off(prompt.len())
    }

    /// Appends a row of logits: [`Script::next`] clearly first, the others in an order that the hash decides.
    pub(super) fn logits(&self, context: &[u32], out: &mut Vec<f32>) {
        let hash = hash(context);
        let start = out.len();
        let others = (0..self.shape.vocab as u64).map(|id| (mix(hash ^ id) % 1000) as f32 / 500.0);
        out.extend(others);
        out[start + self.next(context) as usize] = 5.0;
    }
}

fn hash(tokens: &[u32]) -> u64 {
    tokens.iter().fold(0x5EED, |hash, &token| mix(hash ^ u64::from(token)))
}

/// The finalizer of SplitMix64 (Steele et al., 2014).
const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
