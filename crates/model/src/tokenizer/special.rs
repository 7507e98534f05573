//! Finds special tokens in a text.

use aho_corasick::{AhoCorasick, FindIter, MatchKind};

/// A stretch of text between special tokens, or one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

/// The tokens that are looked for in a text before it is cut; leftmost first, longest first among those.
#[derive(Default)]
pub(super) struct Specials {
    always: Option<Finder>,
    parsed: Option<Finder>,
}

struct Finder {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Specials {
    /// `always` are found in every text, `on_request` only where special tokens are parsed.
    ///
    /// # Errors
    /// When there are too many to build an automaton of.
    pub(super) fn new(always: Vec<(u32, &str)>, on_request: Vec<(u32, &str)>) -> Result<Self, String> {
        let both = always.iter().chain(&on_request).copied().collect();
        Ok(Self { always: Finder::new(always)?, parsed: Finder::new(both)? })
    }

    pub(super) fn parts<'a>(&'a self, text: &'a str, parse_special: bool) -> Parts<'a> {
        let finder = if parse_special { &self.parsed } else { &self.always };
        let matches = finder.as_ref().map(|finder| (finder.automaton.find_iter(text), finder.ids.as_slice()));
        Parts { text, at: 0, matches, token: None }
    }
}

impl Finder {
    fn new(mut tokens: Vec<(u32, &str)>) -> Result<Option<Self>, String> {
        tokens.retain(|(_, text)| !text.is_empty());
        if tokens.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|(_, text)| text))
            .map_err(|error| format!("special tokens: {error}"))?;
        Ok(Some(Self { automaton, ids: tokens.iter().map(|&(id, _)| id).collect() }))
    }
}

/// The parts of one text in order; no part is empty.
pub(super) struct Parts<'a> {
    text: &'a str,
    at: usize,
    matches: Option<(FindIter<'a, 'a>, &'a [u32])>,
    /// Found already, after the text that was handed out last.
    token: Option<u32>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if let Some(id) = self.token.take() {
            return Some(Part::Token(id));
        }
        let found = self.matches.as_mut().and_then(|(matches, ids)| {
            matches.next().map(|found| (found.start(), found.end(), ids[found.pattern().as_usize()]))
        });
        let (start, end, id) = match found {
            Some((start, end, id)) => (start, end, Some(id)),
            None => (self.text.len(), self.text.len(), None),
        };
        let before = &self.text[self.at..start];
        self.at = end;
        if before.is_empty() {
            return id.map(Part::Token);
        }
        self.token = id;
        Some(Part::Text(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let specials =
            Specials::new(vec![(7, "<u>")], vec![(1, "<s>"), (2, "<s><s>"), (3, "")]).expect("builds");
        let check = |text, parse, want: &[Part<'_>]| {
            assert_eq!(specials.parts(text, parse).collect::<Vec<_>>(), want, "{text:?} {parse}");
        };
        use Part::{Text, Token};
        check("", true, &[]);
        check("a", true, &[Text("a")]);
        check("a<s>b", true, &[Text("a"), Token(1), Text("b")]);
        check("a<s>b", false, &[Text("a<s>b")]);
        check("<s><s><s>", true, &[Token(2), Token(1)]);
        check("<u>é<u><s>", false, &[Token(7), Text("é"), Token(7), Text("<s>")]);
        check("<u>é<u><s>", true, &[Token(7), Text("é"), Token(7), Token(1)]);
    }
}
