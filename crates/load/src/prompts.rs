//! Prompts of a wanted length: random words, which no server has cached and every tokenizer knows.

use fastrand::Rng;
use serde::Serialize;

/// Common short words. A byte-pair tokenizer of English has nearly all of them, with the space before, as one token.
const WORDS: &str = "time year people way day man thing woman life child world school state family student group country \
problem hand part place case week company system program question work government number night point home water room \
mother area money story fact month lot right study book eye job word business issue side kind head house service friend \
father power hour game line end member law car city community name president team minute idea body information back \
parent face others level office door health person art war history party result change morning reason research girl guy \
moment air teacher force education good new first last long great little own other old big high different small large \
next early young important few public bad same able be have do say get make go know take see come think look want give \
use find tell ask seem feel try leave call north south east west green blue red white black river mountain sea road \
bridge ship sail wind rain snow summer winter spring autumn stone tree leaf fire light sound music paper letter table";

/// How many tokens a prompt has: `overhead + per_word * words`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Calibration {
    /// Tokens of an empty prompt: the chat template's.
    pub overhead: f64,
    /// Tokens of a word.
    pub per_word: f64,
    /// Where that is known from.
    pub by: CalibratedBy,
}

/// Where a calibration is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CalibratedBy {
    /// The usage of two requests.
    Usage,
    /// `/tokenize`.
    Tokenize,
    /// Nothing: a word is taken for a token.
    Assumed,
}

impl Calibration {
    /// One token per word.
    pub const ASSUMED: Self = Self { overhead: 0.0, per_word: 1.0, by: CalibratedBy::Assumed };

    /// The line through two measurements, each of words and tokens; `None` if no sensible one runs through them.
    pub fn through(few: (usize, u32), many: (usize, u32), by: CalibratedBy) -> Option<Self> {
        let words = many.0.checked_sub(few.0).filter(|&words| words > 0)?;
        let per_word = (f64::from(many.1) - f64::from(few.1)) / words as f64;
        let overhead = f64::from(few.1) - per_word * few.0 as f64;
        (0.2..=20.0).contains(&per_word).then_some(Self { overhead: overhead.max(0.0), per_word, by })
    }

    /// How many words make a prompt of about so many tokens; at least one.
    pub fn words(&self, tokens: u32) -> usize {
        (((f64::from(tokens) - self.overhead) / self.per_word).round()).max(1.0) as usize
    }

    /// How many words add about so many tokens to a prompt.
    pub fn more_words(&self, tokens: u32) -> usize {
        (f64::from(tokens) / self.per_word).round() as usize
    }
}

/// `count` random words. The same seed gives the same words.
pub fn words(count: usize, seed: u64) -> String {
    let known: Vec<&str> = WORDS.split_ascii_whitespace().collect();
    let mut rng = Rng::with_seed(seed);
    let mut text = String::with_capacity(count * 6);
    for i in 0..count {
        if i > 0 {
            text.push(' ');
        }
        text.push_str(rng.choice(&known).copied().unwrap_or_default());
    }
    text
}

/// A seed for one thing out of many, from the run's.
pub fn derived(seed: u64, stream: u64, i: u64) -> u64 {
    // Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
    let mut z = seed ^ stream.rotate_left(32) ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_from_the_seed() {
        assert_eq!(words(3, 1), words(3, 1));
        assert_ne!(words(8, 1), words(8, 2));
        assert_eq!(words(100, 3).split(' ').count(), 100);
        assert_eq!(words(0, 3), "");
    }

    #[test]
    fn a_line_through_two_points() {
        let by = CalibratedBy::Usage;
        // 10 tokens of template, 1.5 of each word.
        let line = Calibration::through((16, 34), (64, 106), by).unwrap();
        assert_eq!((line.overhead, line.per_word), (10.0, 1.5));
        assert_eq!((line.words(100), line.words(3), line.more_words(15)), (60, 1, 10));
        for (few, many) in [((16, 34), (16, 34)), ((16, 34), (64, 34)), ((64, 1), (16, 2))] {
            assert_eq!(Calibration::through(few, many, by), None);
        }
    }
}
