//! What is said: prompts, and conversations that grow with every turn.

use crate::openai::{Message, Role};
use crate::prompts::{Calibration, derived, words};
use crate::workload::Offer;

/// Streams of random numbers.
const PROMPTS: u64 = 5;
const PREFIX: u64 = 6;

/// Makes the words of a run.
#[derive(Debug, Clone, Copy)]
pub struct Writer {
    /// How words become tokens.
    pub calibration: Calibration,
    /// Tokens that all prompts begin with alike.
    pub shared_prefix: u32,
    /// The run's seed and its round: two runs share the prefix alone.
    pub seed: (u64, u64),
}

impl Writer {
    /// The first message of a request.
    pub fn first(&self, offer: &Offer) -> Message {
        let whole = self.calibration.words(offer.prompt_tokens);
        let shared = self.calibration.more_words(self.shared_prefix).min(whole);
        let mut text = words(shared, derived(self.seed.0, PREFIX, 0));
        let own = words(whole - shared, self.own_seed(offer, 0));
        if !text.is_empty() && !own.is_empty() {
            text.push(' ');
        }
        text.push_str(&own);
        Message { role: Role::User, content: text }
    }

    /// The next message of a conversation; its prompt grows by this.
    pub fn next(&self, offer: &Offer, turn: u32) -> Message {
        let own = self.calibration.more_words(offer.prompt_tokens).max(1);
        Message { role: Role::User, content: words(own, self.own_seed(offer, turn)) }
    }

    fn own_seed(&self, offer: &Offer, turn: u32) -> u64 {
        derived(derived(self.seed.0, PROMPTS, self.seed.1), offer.id, u64::from(turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(id: u64) -> Offer {
        Offer { at: 0.0, id, prompt_tokens: 20, output_tokens: 5, class: 0, manner: Default::default() }
    }

    #[test]
    fn prompts_have_nothing_in_common_but_the_prefix() {
        let writer = Writer { calibration: Calibration::ASSUMED, shared_prefix: 12, seed: (1, 0) };
        let said = |writer: &Writer, id| writer.first(&offer(id)).content;
        let split = |text: &str| -> (String, String) {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(words.len(), 20);
            (words[..12].join(" "), words[12..].join(" "))
        };
        let (a, b) = (split(&said(&writer, 1)), split(&said(&writer, 2)));
        assert_eq!(a.0, b.0);
        assert_ne!(a.1, b.1);
        let later = split(&said(&Writer { seed: (1, 1), ..writer }, 1));
        assert_eq!(later.0, a.0);
        assert_ne!(later.1, a.1);
        assert_eq!(said(&writer, 1), said(&writer, 1));
        assert_ne!(writer.next(&offer(1), 1), writer.next(&offer(1), 2));
    }
}
