//! Strings that end an output.
//!
//! Each string is matched by its own Knuth-Morris-Pratt automaton: a step per byte and string, whatever the text, and
//! what is held back is exactly the longest end of the text that may still become a stop string.

/// Passes text on until a stop string is complete in it, however the text was cut.
///
/// The string that is completed first ends the text, the longest of those that are completed by the same byte; it is
/// never part of the output, and nothing after it is.
#[derive(Debug, Clone)]
pub struct StopStrings {
    strings: Vec<Automaton>,
    /// Text that may be the beginning of a stop string.
    held: String,
    met: bool,
}

#[derive(Debug, Clone)]
struct Automaton {
    bytes: Vec<u8>,
    /// By number of bytes matched: the next shorter number that is matched as well.
    fall_back: Vec<usize>,
    matched: usize,
}

impl StopStrings {
    /// Empty strings are left out: they would end every text before it began.
    pub fn new(strings: Vec<String>) -> Self {
        let strings: Vec<_> =
            strings.into_iter().filter(|s| !s.is_empty()).map(|s| Automaton::new(s.into_bytes())).collect();
        let longest = strings.iter().map(|string| string.bytes.len()).max().unwrap_or(0);
        Self { strings, held: String::with_capacity(2 * longest), met: false }
    }

    /// Begins another text, with other strings.
    pub fn restart(&mut self, strings: &[String]) {
        if !strings.is_empty() || !self.strings.is_empty() {
            *self = Self::new(strings.to_vec());
        }
        self.held.clear();
        self.met = false;
    }

    /// Appends to `out` what is now certain not to be part of a stop string. True: a stop string was met, in this call
    /// or before; `out` ends before it.
    pub fn push(&mut self, text: &str, out: &mut String) -> bool {
        if self.met || self.strings.is_empty() {
            if !self.met {
                out.push_str(text);
            }
            return self.met;
        }
        let before = self.held.len();
        self.held.push_str(text);
        let mut keep = 0;
        for (at, byte) in self.held.bytes().enumerate().skip(before) {
            let mut complete = 0;
            keep = 0;
            for string in &mut self.strings {
                if string.step(byte) {
                    complete = complete.max(string.bytes.len());
                }
                keep = keep.max(string.matched);
            }
            if complete > 0 {
                out.push_str(&self.held[..at + 1 - complete]);
                self.held.clear();
                self.met = true;
                return true;
            }
        }
        if before < self.held.len() {
            // What is kept begins as a stop string does, so it begins with a whole character.
            out.extend(self.held.drain(..self.held.len() - keep));
        }
        false
    }

    /// Ends the text: what was held back is text after all.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
        for string in &mut self.strings {
            string.matched = 0;
        }
    }
}

impl Automaton {
    fn new(bytes: Vec<u8>) -> Self {
        let mut fall_back = vec![0; bytes.len() + 1];
        let mut matched = 0;
        for at in 1..bytes.len() {
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = fall_back[matched];
            }
            matched += usize::from(bytes[at] == bytes[matched]);
            fall_back[at + 1] = matched;
        }
        Self { bytes, fall_back, matched: 0 }
    }

    /// Takes the next byte; true when the whole string is matched.
    fn step(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.fall_back[self.matched];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
        self.matched == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is left of `text`, and whether a stop string was met.
    fn naive<'a>(text: &'a str, stops: &[String]) -> (&'a str, bool) {
        for end in text.char_indices().map(|(at, c)| at + c.len_utf8()) {
            let ends_here =
                stops.iter().filter(|stop| !stop.is_empty() && text[..end].ends_with(stop.as_str()));
            if let Some(longest) = ends_here.map(String::len).max() {
                return (&text[..end - longest], true);
            }
        }
        (text, false)
    }

    fn check(stops: &[&str], pushes: &[&str], want: &[&str], met: bool) {
        let mut filter = StopStrings::new(stops.iter().map(ToString::to_string).collect());
        let mut was_met = false;
        for (text, want) in pushes.iter().zip(want) {
            let mut out = String::new();
            was_met = filter.push(text, &mut out);
            assert_eq!(&out, want, "{stops:?} {pushes:?} at {text:?}");
        }
        assert_eq!(was_met, met, "{stops:?} {pushes:?}");
        let mut rest = String::new();
        filter.finish(&mut rest);
        assert_eq!(rest, *want.get(pushes.len()).unwrap_or(&""), "{stops:?} {pushes:?}: the end");
    }

    #[test]
    fn across_borders() {
        check(&[], &["a", "b"], &["a", "b"], false);
        check(&[""], &["a"], &["a"], false);
        check(&["END"], &["abE", "N", "Dxx", "more"], &["ab", "", "", ""], true);
        check(&["END"], &["abE", "NE", "ND"], &["ab", "EN", ""], true);
        check(&["END"], &["abE", "N"], &["ab", "", "EN"], false);
        check(&["\n\n"], &["a\n", "b\n", "\n"], &["a", "\nb", ""], true);
        check(&["ab", "xabyz"], &["1xa", "b"], &["1", "x"], true);
        check(&["bc", "abc"], &["ab", "c"], &["", ""], true);
        check(&["é!"], &["caf", "é", "?"], &["caf", "", "é?"], false);
        check(&["aab"], &["aaa", "ab"], &["a", "a"], true);
    }

    proptest! {
        #[test]
        fn as_naive_find_however_cut(
            text in "[abé]{0,40}",
            stops in proptest::collection::vec("[abé]{0,4}", 0..4),
            cuts in proptest::collection::vec(1usize..6, 0..40),
        ) {
            let mut filter = StopStrings::new(stops.clone());
            let (mut out, mut met) = (String::new(), false);
            let mut chars = text.chars();
            for size in cuts.into_iter().chain([usize::MAX]) {
                let piece: String = chars.by_ref().take(size).collect();
                met = filter.push(&piece, &mut out);
                prop_assert!(naive(&text, &stops).0.starts_with(out.as_str()), "{out:?} leaks");
            }
            filter.finish(&mut out);
            prop_assert_eq!((out.as_str(), met), naive(&text, &stops));
        }
    }
}
