//! How far a pull is where nobody could see a bar: a line at its beginning, some while it lasts, and one at its end.

use crate::config::units::Size;
use plimsoll_hub::Progress;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines are so far apart at least, and so far at most while bytes come.
const APART: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));
/// What is worth a line between these, as a share of the whole.
const STEP: f64 = 0.1;
/// What took less is not said to have ended: the next line says as much.
const SHORT: Duration = Duration::from_secs(1);

/// Says how far a pull is, in lines.
#[derive(Debug, Default)]
pub struct Lines {
    stretch: Mutex<Option<Stretch>>,
}

impl Lines {
    fn with(&self, line: impl FnOnce(&mut Option<Stretch>) -> Option<String>) {
        let line = line(&mut self.stretch.lock().unwrap_or_else(PoisonError::into_inner));
        line.iter().for_each(|line| say(line));
    }
}

/// In the log, where there is one: it may be read by a machine.
fn say(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::info!("{line}");
    } else {
        // A pull goes on though nobody reads that.
        writeln!(std::io::stderr(), "plimsoll: {line}").ok();
    }
}

impl Progress for Lines {
    fn begin(&self, what: &str, done: u64, total: Option<u64>) {
        self.with(|stretch| Stretch::begin(stretch, what, (done, total), Instant::now()));
    }

    fn at(&self, done: u64) {
        self.with(|stretch| stretch.as_mut()?.at(done, Instant::now()));
    }

    fn end(&self) {
        self.with(|stretch| stretch.take()?.end(Instant::now()));
    }

    fn note(&self, text: &str) {
        say(text);
    }
}

/// A stretch of work under way.
#[derive(Debug)]
struct Stretch {
    what: String,
    begun: Instant,
    done: u64,
    total: Option<u64>,
    /// When a line was said last, and how many bytes were done then.
    said: (Instant, u64),
}

impl Stretch {
    /// Begins, or goes on with one of the same name of which more is known now.
    fn begin(
        stretch: &mut Option<Self>,
        what: &str,
        (done, total): (u64, Option<u64>),
        now: Instant,
    ) -> Option<String> {
        if let Some(same) = stretch.as_mut().filter(|stretch| stretch.what == what) {
            (same.done, same.total) = (done, total);
            return None;
        }
        let begun = Self { what: what.to_owned(), begun: now, done, total, said: (now, done) };
        let line = match total {
            Some(total) if done == 0 => format!("{what}, {}", Size(total)),
            None if done == 0 => what.to_owned(),
            _ => begun.line(),
        };
        *stretch = Some(begun);
        Some(line)
    }

    fn at(&mut self, done: u64, now: Instant) -> Option<String> {
        self.done = done;
        let (since, bytes) = (now - self.said.0, done.saturating_sub(self.said.1));
        let is_step = self.total.is_some_and(|total| bytes as f64 >= total as f64 * STEP);
        if bytes == 0 || since < APART.0 || (since < APART.1 && !is_step) {
            return None;
        }
        self.said = (now, done);
        Some(self.line())
    }

    fn end(self, now: Instant) -> Option<String> {
        let took = now - self.begun;
        (took >= SHORT).then(|| format!("{} after {} s", self.line(), took.as_secs()))
    }

    fn line(&self) -> String {
        let done = Size(self.done);
        match self.total {
            Some(total) => format!("{}: {done} of {}", self.what, Size(total)),
            None => format!("{}: {done}", self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_long_pull_says_how_far_it_is() {
        let zero = Instant::now();
        let after = |seconds: u64| zero + Duration::from_secs(seconds);
        let mut stretch = None;
        let begun = Stretch::begin(&mut stretch, "download m", (0, None), zero);
        assert_eq!(begun.as_deref(), Some("download m"));
        assert_eq!(
            Stretch::begin(&mut stretch, "download m", (MIB, Some(100 * MIB)), after(1)),
            None,
            "the same"
        );
        let mut stretch = stretch.unwrap();
        let seen: Vec<_> = [
            (2, 30),
            (9, 40),
            (10, 41),
            (11, 42),
            (20, 45),
            (25, 60),
            (84, 61),
            (85, 61),
            (200, 61),
            (260, 62),
        ]
        .into_iter()
        .filter_map(|(seconds, mib)| stretch.at(mib * MIB, after(seconds)).map(|line| (seconds, line)))
        .collect();
        let line = |mib: u64| format!("download m: {} of {}", Size(mib * MIB), Size(100 * MIB));
        assert_eq!(seen, [(10, line(41)), (25, line(60)), (85, line(61)), (260, line(62))]);
        assert_eq!(stretch.end(after(300)), Some(format!("{} after 300 s", line(62))));
    }

    #[test]
    fn a_short_one_says_that_it_began() {
        let zero = Instant::now();
        let mut stretch = None;
        let begun = Stretch::begin(&mut stretch, "resume m", (MIB, Some(2 * MIB)), zero);
        assert_eq!(begun, Some(format!("resume m: {} of {}", Size(MIB), Size(2 * MIB))));
        let mut stretch = stretch.unwrap();
        assert_eq!(stretch.at(2 * MIB, zero), None);
        assert_eq!(stretch.end(zero), None);
        let begun = Stretch::begin(&mut None, "verify m", (0, Some(2 * MIB)), zero);
        assert_eq!(begun, Some(format!("verify m, {}", Size(2 * MIB))));
    }
}
