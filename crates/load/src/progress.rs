//! Who is told how far a bench is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Hears how far a bench is.
pub trait Progress {
    /// A run of so many requests begins.
    fn begin(&self, what: &str, requests: usize);
    /// So many are over, as many are under way, and as many of the former missed the promise.
    fn at(&self, over: usize, in_flight: usize, missed: usize);
    /// The run is over.
    fn end(&self);
    /// Something worth a line of its own.
    fn note(&self, text: &str);
}

/// Tells nobody.
impl Progress for () {
    fn begin(&self, _: &str, _: usize) {}
    fn at(&self, _: usize, _: usize, _: usize) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}

/// A progress bar on standard error. Where that is no terminal, only the notes are written.
#[derive(Debug, Default)]
pub struct TerminalProgress {
    bar: Mutex<Option<ProgressBar>>,
}

impl TerminalProgress {
    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for TerminalProgress {
    fn begin(&self, what: &str, requests: usize) {
        // The bar draws at most a few times per second: drawing must not disturb what is measured.
        let target = ProgressDrawTarget::stderr_with_hz(4);
        let bar = ProgressBar::with_draw_target(Some(requests as u64), target).with_prefix(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_secs(1));
        if let Some(old) = self.bar().replace(bar) {
            old.finish_and_clear();
        }
    }

    fn at(&self, over: usize, in_flight: usize, missed: usize) {
        if let Some(bar) = &*self.bar() {
            bar.set_position(over as u64);
            bar.set_message(format!("{in_flight} under way, {missed} missed"));
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    fn note(&self, text: &str) {
        match &*self.bar() {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }
}
