//! Traces of real services, in the layouts they are published in.
//!
//! - Azure (Patel et al., Splitwise, ISCA 2024): `TIMESTAMP,ContextTokens,GeneratedTokens`, a date and time per line.
//! - BurstGPT (Wang et al. 2024): `Timestamp` in seconds, maybe `Session ID` and `Elapsed time`, then `Model`, `Request tokens`,
//!   `Response tokens`, `Total tokens`, `Log Type`. A request that failed there has 0 response tokens and is left out.

mod time;

use crate::error::LoadError;
use serde::Serialize;
use std::path::Path;

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Seconds from the first request.
    pub at: f64,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

/// A trace, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Its requests.
    pub entries: Vec<Entry>,
    /// Requests that failed when it was recorded, and are not among them.
    pub failed: usize,
}

/// How a trace is fitted to what a server can carry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Scaling {
    /// Time runs so many times as fast.
    pub speedup: f64,
    /// Each request is kept with this chance.
    pub keep: f64,
    /// Lengths of prompts and answers are multiplied by this.
    pub tokens: f64,
}

/// Where the columns of a layout are.
#[derive(Debug, Clone, Copy)]
struct Columns {
    time: usize,
    prompt: usize,
    output: usize,
    /// How a time is written.
    seconds: fn(&str) -> Option<f64>,
    /// An answer of no tokens is a failure.
    failures: bool,
}

impl Trace {
    /// Reads a trace file of either layout.
    ///
    /// # Errors
    /// A file that cannot be read, a header of no known layout, or a bad line, with its number.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LoadError::File { path: path.to_owned(), source })?;
        Self::parse(&text)
            .map_err(|(line, what)| LoadError::Trace { place: format!("{}:{line}", path.display()), what })
    }

    /// Reads a trace; an error is a line's number, from 1, and what is wrong there.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let (header, number) = lines.next().ok_or_else(|| (1, "the file is empty".to_owned()))?;
        let columns = Columns::of(header).map_err(|what| (number, what))?;
        let mut trace = Self { entries: Vec::new(), failed: 0 };
        for (line, number) in lines {
            let entry = columns.entry(line).map_err(|what| (number, what))?;
            if columns.failures && entry.output_tokens == 0 {
                trace.failed += 1;
            } else {
                trace.entries.push(entry);
            }
        }
        trace.entries.sort_by(|a, b| a.at.total_cmp(&b.at));
        let Some(first) = trace.entries.first().map(|entry| entry.at) else {
            return Err((number, "no requests follow the header".to_owned()));
        };
        trace.entries.iter_mut().for_each(|entry| entry.at -= first);
        Ok(trace)
    }

    /// The trace, scaled. Which requests are kept, the seed decides.
    #[must_use]
    pub fn scaled(&self, scaling: &Scaling, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let tokens = |n: u32| (f64::from(n) * scaling.tokens).round().clamp(1.0, 1e6) as u32;
        let scaled = |entry: &Entry| Entry {
            at: entry.at / scaling.speedup,
            prompt_tokens: tokens(entry.prompt_tokens),
            output_tokens: tokens(entry.output_tokens),
        };
        let entries = self.entries.iter().filter(|_| rng.f64() < scaling.keep).map(scaled).collect();
        Self { entries, failed: self.failed }
    }

    /// Mean requests per second, from the first to the last.
    pub fn rate(&self) -> f64 {
        let span = self.entries.last().map_or(0.0, |entry| entry.at);
        if span > 0.0 { (self.entries.len() - 1) as f64 / span } else { 0.0 }
    }
}

impl Columns {
    fn of(header: &str) -> Result<Self, String> {
        let names: Vec<&str> = fields(header.trim_start_matches('\u{feff}'));
        let at = |wanted: &str| names.iter().position(|name| name.eq_ignore_ascii_case(wanted));
        if let (Some(time), Some(prompt), Some(output)) =
            (at("TIMESTAMP"), at("ContextTokens"), at("GeneratedTokens"))
        {
            return Ok(Self { time, prompt, output, seconds: time::date_and_time, failures: false });
        }
        if let (Some(time), Some(prompt), Some(output)) =
            (at("Timestamp"), at("Request tokens"), at("Response tokens"))
        {
            return Ok(Self { time, prompt, output, seconds: time::seconds, failures: true });
        }
        Err(format!(
            "the header `{header}` is of no known layout; known are `TIMESTAMP,ContextTokens,GeneratedTokens` (Azure) and \
             `Timestamp,…,Request tokens,Response tokens,…` (BurstGPT)"
        ))
    }

    fn entry(&self, line: &str) -> Result<Entry, String> {
        let fields = fields(line);
        let field = |i: usize, what| fields.get(i).copied().ok_or_else(|| format!("the {what} is missing"));
        let tokens = |i, what| {
            let text = field(i, what)?;
            // Some published files carry counts as `374.0`.
            let whole = text.strip_suffix(".0").unwrap_or(text);
            whole.parse().map_err(|_| format!("the {what} is `{text}`; it must be a whole number"))
        };
        let time = field(self.time, "time")?;
        let at = (self.seconds)(time).ok_or_else(|| format!("the time `{time}` cannot be read"))?;
        let prompt_tokens = tokens(self.prompt, "number of prompt tokens")?;
        Ok(Entry { at, prompt_tokens, output_tokens: tokens(self.output, "number of answered tokens")? })
    }
}

/// The fields of a line. None of the layouts has a comma inside one.
fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(|field| field.trim().trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    const BURST: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

    fn entries(text: &str) -> Vec<(f64, u32, u32)> {
        let trace = Trace::parse(text).unwrap();
        trace.entries.iter().map(|entry| (entry.at, entry.prompt_tokens, entry.output_tokens)).collect()
    }

    #[test]
    fn layouts() {
        let azure =
            format!("{AZURE}2023-11-16 23:59:59.5000000,374,44\r\n2023-11-17 00:00:01.2500000,396,109\n\n");
        assert_eq!(entries(&azure), [(0.0, 374, 44), (1.75, 396, 109)]);
        let burst = format!("{BURST}5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n");
        assert_eq!(entries(&burst), [(0.0, 472, 18), (40.0, 1087, 230)]);
        let sessions = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                        7.5,3,1.25,GPT-4,10,2,12,Conversation log\n7,,0.5,GPT-4,9,0,9,API log\n";
        assert_eq!(entries(sessions), [(0.0, 10, 2)]);
        assert_eq!(Trace::parse(sessions).unwrap().failed, 1);
    }

    #[test]
    fn bad_lines_are_named() {
        let cases = [
            ("", 1, "empty"),
            ("a,b,c\n1,2,3\n", 1, "no known layout"),
            (AZURE, 1, "no requests"),
            (
                &format!("{AZURE}2023-11-16 18:15:46,1,2\n2023-11-16 18:15:46,x,2\n"),
                3,
                "prompt tokens is `x`",
            ),
            (&format!("{AZURE}\n2023-11-16 18:15:46,1\n"), 3, "answered tokens is missing"),
            (&format!("{AZURE}2023-13-16 18:15:46,1,2\n"), 2, "time `2023-13-16 18:15:46`"),
            (&format!("{BURST}-1,m,1,2,3,l\n"), 2, "time `-1`"),
            (&format!("{BURST}1,m,1,-2,3,l\n"), 2, "`-2`"),
        ];
        for (text, line, says) in cases {
            let (number, what) = Trace::parse(text).unwrap_err();
            assert_eq!(number, line, "{what}");
            assert!(what.contains(says), "{what}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{BURST}1,m,1,2,3,l\n2,m\n")).unwrap();
        let error = Trace::read(file.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:3: ", file.path().display())), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_said_once() {
        let error = Trace::read(Path::new("/nowhere/t.csv")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/t.csv");
        assert!(std::error::Error::source(&error).is_some(), "{error:?}");
    }

    #[test]
    fn scaling() {
        let lines: String = (0..1000).map(|i| format!("{i},m,100,10,110,l\n")).collect();
        let trace = Trace::parse(&format!("{BURST}{lines}")).unwrap();
        assert!((trace.rate() - 1.0).abs() < 1e-9);
        let fast = trace.scaled(&Scaling { speedup: 10.0, keep: 1.0, tokens: 0.01 }, 1);
        assert!((fast.rate() - 10.0).abs() < 1e-9);
        assert_eq!(fast.entries[1], Entry { at: 0.1, prompt_tokens: 1, output_tokens: 1 });
        let some = trace.scaled(&Scaling { speedup: 1.0, keep: 0.3, tokens: 1.0 }, 1);
        assert!((250..350).contains(&some.entries.len()), "{}", some.entries.len());
        assert_eq!(some, trace.scaled(&Scaling { speedup: 1.0, keep: 0.3, tokens: 1.0 }, 1));
    }
}
