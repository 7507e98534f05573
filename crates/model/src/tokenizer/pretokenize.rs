//! Which regular expressions cut a text into words before BPE, by `tokenizer.ggml.pre`.
//!
//! The names and what they mean are llama.cpp's. Where it rewrites an expression for the limits of its own engine
//! (`tekken`, `gpt-4o`: letter case beyond ASCII), the one the vocabulary was trained with is used here, as a
//! `tokenizer.json` of the same model does.
//!
//! The `regex` crate takes time linear in the text whatever it holds, and knows no look-ahead. The one look-ahead in use,
//! `\s+(?!\S)|\s+`, is made up for in [`Rule::trim`].

use regex::Regex;

/// GPT-2's own. Its digits and letters take one space before them; a run of spaces leaves the last one to the next word.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DIGIT: &str = r"\p{N}";
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const BLOOM: &str = " ?[^(\\s|.,!?…。，、।۔،)]+";

/// A way to cut text, and what else llama.cpp hangs on its name.
struct Entry {
    names: &'static [&'static str],
    /// Each cuts what the ones before left; what one matches and what lies between both become pieces.
    rules: &'static [&'static str],
    /// A word that is a token is taken as it is, whatever the merges say.
    ignore_merges: bool,
    /// Prompts start with BOS unless the file says otherwise.
    add_bos: bool,
}

const fn entry(names: &'static [&'static str], rules: &'static [&'static str]) -> Entry {
    Entry { names, rules, ignore_merges: false, add_bos: false }
}

const TABLE: &[Entry] = &[
    entry(&["default", ""], &[r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    entry(&["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo", "jais", "trillion"], &[GPT2]),
    entry(&["granite-docling", "exaone4", "modern-bert"], &[GPT2]),
    entry(&["smollm", "starcoder", "refact", "command-r", "codeshell"], &[DIGIT, GPT2]),
    entry(&["exaone", "minerva-7b", "mellum2"], &[DIGIT, GPT2]),
    Entry {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        rules: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
    },
    entry(&["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], &[LLAMA3]),
    entry(&["qwen2", "deepseek-r1-qwen", "kormo", "megrez"], &[QWEN2]),
    entry(&["stablelm2", "hunyuan", "solar-open", "grok-2"], &[QWEN2]),
    entry(&["qwen35"], &[QWEN35]),
    entry(&["seed-coder"], &[SEED_CODER]),
    entry(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    entry(&["falcon"], &[r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"]),
    entry(
        &["deepseek-coder"],
        &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥\u{800}-一가-\u{D7FF}]+", DIGIT],
    ),
    entry(
        &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        &[r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", DEEPSEEK3],
    ),
    entry(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    entry(&["viking"], &[BLOOM, DIGIT]),
    Entry { names: &["tekken"], rules: &[TEKKEN], ignore_merges: true, add_bos: true },
    entry(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT4O]),
];

/// Cuts text into the words that BPE works on.
pub(super) struct PreTokenizer {
    rules: Vec<Rule>,
    /// A word that is a token is taken as it is.
    pub(super) ignore_merges: bool,
    /// Prompts start with BOS unless the file says otherwise.
    pub(super) add_bos: bool,
}

struct Rule {
    regex: Regex,
    whitespace: Whitespace,
}

/// What becomes of the last space in a run of spaces before a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whitespace {
    /// It stays in the run.
    Keep,
    /// It is left to the word.
    GiveBack,
    /// It is left to the word, unless the run ends a line.
    GiveBackWithinLine,
}

impl PreTokenizer {
    /// The one that `tokenizer.ggml.pre` names.
    ///
    /// # Errors
    /// When the name is unknown; the message lists those that are known.
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let Some(entry) = TABLE.iter().find(|entry| entry.names.contains(&name)) else {
            let known = TABLE.iter().flat_map(|entry| entry.names).filter(|name| !name.is_empty());
            let known = known.copied().collect::<Vec<_>>().join(", ");
            return Err(format!("tokenizer.ggml.pre is {name:?}; supported are {known}"));
        };
        let rules = entry.rules.iter().map(|rule| Rule::new(rule)).collect::<Result<_, _>>();
        let rules = rules.map_err(|error| format!("pre-tokenizer {name:?}: {error}"))?;
        Ok(Self { rules, ignore_merges: entry.ignore_merges, add_bos: entry.add_bos })
    }

    /// Calls `word` with each word of `text` in order; together they are the text.
    pub(super) fn split<'a>(&self, text: &'a str, word: &mut impl FnMut(&'a str)) {
        split(&self.rules, text, word);
    }
}

fn split<'a>(rules: &[Rule], text: &'a str, word: &mut impl FnMut(&'a str)) {
    let Some((rule, rest)) = rules.split_first() else {
        if !text.is_empty() {
            word(text);
        }
        return;
    };
    let mut at = 0;
    while let Some((start, end)) = rule.next(text, at) {
        if start > at {
            split(rest, &text[at..start], word);
        }
        split(rest, &text[start..end], word);
        at = end;
    }
    if at < text.len() {
        split(rest, &text[at..], word);
    }
}

impl Rule {
    fn new(pattern: &str) -> Result<Self, regex::Error> {
        let (pattern, whitespace) = match pattern.strip_suffix(r"|\s+(?!\S)|\s+") {
            None => (pattern.to_owned(), Whitespace::Keep),
            Some(rest) if rest.contains(r"\s*[\r\n]") => {
                (format!(r"{rest}|\s+"), Whitespace::GiveBackWithinLine)
            }
            Some(rest) => (format!(r"{rest}|\s+"), Whitespace::GiveBack),
        };
        Ok(Self { regex: Regex::new(&pattern)?, whitespace })
    }

    /// The next match at or after `at`, never empty.
    fn next(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let found = self.regex.find_at(text, at)?;
        let kept = self.trim(found.as_str(), found.end() == text.len());
        Some((found.start(), found.start() + kept))
    }

    /// How much of a match stays when `\s+` stood for `\s+(?!\S)|\s+`: only that alternative matches whitespace alone
    /// (but for the one that ends at a line break), and greedily, so a run that does not end the text ends before a word.
    fn trim(&self, found: &str, at_end: bool) -> usize {
        let last = found.chars().next_back().filter(|c| c.is_whitespace());
        let (Some(last), false) = (last, at_end || self.whitespace == Whitespace::Keep) else {
            return found.len();
        };
        let ends_line = matches!(last, '\r' | '\n') && self.whitespace == Whitespace::GiveBackWithinLine;
        let shorter = found.len() - last.len_utf8();
        if shorter == 0 || ends_line || found.chars().any(|c| !c.is_whitespace()) {
            return found.len();
        }
        shorter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, want: &[&str]) {
        let mut words = Vec::new();
        PreTokenizer::new(name).expect("known").split(text, &mut |word| words.push(word));
        assert_eq!(words, want, "{name}: {text:?}");
    }

    #[test]
    fn every_entry_compiles_and_names_are_unique() {
        let mut names: Vec<_> = TABLE.iter().flat_map(|entry| entry.names).collect();
        for name in &names {
            assert!(PreTokenizer::new(name).is_ok(), "{name}");
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = PreTokenizer::new("klingon").err().expect("unknown");
        assert!(error.contains("klingon") && error.contains("smollm, starcoder"), "{error}");
    }

    #[test]
    fn words() {
        check("gpt-2", "", &[]);
        check("gpt-2", "I'm  here", &["I", "'m", " ", " here"]);
        check("gpt-2", "a 1234 b   ", &["a", " 1234", " b", "   "]);
        check("gpt-2", "x\n\n y", &["x", "\n\n", " y"]);
        check("gpt-2", "x\n\ny", &["x", "\n", "\n", "y"]);
        check("gpt-2", "x \u{a0} y", &["x", " \u{a0}", " y"]);
        check("smollm", "a12 34", &["a", "1", "2", " ", "3", "4"]);
        check("smollm", "a  1", &["a", "  ", "1"]);
        check("llama-bpe", "I'M 12345", &["I", "'M", " ", "123", "45"]);
        check("llama-bpe", "a \n\n  b!\n\nc", &["a", " \n\n", " ", " b", "!\n\n", "c"]);
        check("llama-bpe", "a   (b", &["a", "  ", " (", "b"]);
        check("llama-bpe", "\tif", &["\tif"]);
        check("qwen2", "x123", &["x", "1", "2", "3"]);
        check("qwen2", "a\r\n\r\n  b", &["a", "\r\n\r\n", " ", " b"]);
        check("default", "a1234b, c", &["a", "123", "4", "b", ",", " c"]);
        check("deepseek-coder", "a\n if(x1)", &["a", "\n", " if", "(", "x", "1", ")"]);
        check("deepseek-v3", "x12345 日本a", &["x", "123", "45", " ", "日本", "a"]);
        check("tekken", "helloWorld 12", &["hello", "World", " ", "1", "2"]);
        check("gpt-4o", "we'Re HTTPServer", &["we'Re", " HTTPServer"]);
    }
}
