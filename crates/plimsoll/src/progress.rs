//! The progress bar on standard error, for whatever takes long: pulls, loads, benches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A bar that appears with the first stretch of work, and not at all when standard error is no terminal.
#[derive(Debug, Default)]
pub struct TerminalProgress {
    bar: Mutex<Option<ProgressBar>>,
}

impl TerminalProgress {
    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows `bar` instead of the one before.
    fn show(&self, bar: ProgressBar, template: &str, tick: Duration) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(tick);
        if let Some(old) = self.bar().replace(bar) {
            old.finish_and_clear();
        }
    }

    fn clear(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    /// A stretch of so many things that are alike begins.
    pub fn count(&self, what: &str, total: usize) {
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_message(what.to_owned());
        self.show(bar, "{msg:28!} {wide_bar} {pos}/{len} {elapsed}", Duration::from_millis(500));
    }

    /// So many of them are done.
    pub fn counted(&self, done: usize) {
        if let Some(bar) = &*self.bar() {
            bar.set_position(done as u64);
        }
    }

    /// The stretch is over.
    pub fn done(&self) {
        self.clear();
    }

    /// A line above the bar; without a bar, a line.
    fn line(&self, text: &str) {
        match &*self.bar() {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }
}

/// Bytes, rate, time left. Its notes are for who waits at a terminal.
impl plimsoll_hub::Progress for TerminalProgress {
    fn begin(&self, what: &str, done: u64, total: Option<u64>) {
        let bar =
            ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_message(what.to_owned());
        let template = if total.is_some() {
            "{msg:28!} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"
        } else {
            "{msg:28!} {spinner} {bytes} {bytes_per_sec}"
        };
        bar.set_position(done);
        // The bytes of an earlier pull must not count as speed.
        bar.reset_eta();
        self.show(bar, template, Duration::from_millis(200));
    }

    fn at(&self, done: u64) {
        if let Some(bar) = &*self.bar() {
            bar.set_position(done);
        }
    }

    fn end(&self) {
        self.clear();
    }

    fn note(&self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.line(text);
        }
    }
}

/// Requests. Its notes are results, and written wherever standard error goes.
impl plimsoll_load::progress::Progress for TerminalProgress {
    fn begin(&self, what: &str, requests: usize) {
        // The bar draws at most a few times per second: drawing must not disturb what is measured.
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let bar = ProgressBar::with_draw_target(Some(requests as u64), target).with_prefix(what.to_owned());
        self.show(bar, "{prefix} {wide_bar} {pos}/{len} {msg} {elapsed}", Duration::from_secs(1));
    }

    fn at(&self, over: usize, in_flight: usize, missed: usize) {
        if let Some(bar) = &*self.bar() {
            bar.set_position(over as u64);
            bar.set_message(format!("{in_flight} under way, {missed} missed"));
        }
    }

    fn end(&self) {
        self.clear();
    }

    fn note(&self, text: &str) {
        self.line(text);
    }
}
