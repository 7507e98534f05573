//! Who is told how far a pull is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Hears how far a pull is. Called from the pulling thread, a few times per megabyte.
pub trait Progress {
    /// A stretch of work begins ("download model.safetensors"), of `total` bytes if known, `done` of them done before.
    fn begin(&self, what: &str, done: u64, total: Option<u64>);
    /// Bytes done so far in this stretch.
    fn at(&self, done: u64);
    /// The stretch is over, well or not.
    fn end(&self);
    /// Something worth a line of its own ("waiting for process 12").
    fn note(&self, text: &str);
}

/// Tells nobody.
impl Progress for () {
    fn begin(&self, _: &str, _: u64, _: Option<u64>) {}
    fn at(&self, _: u64) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}

/// A progress bar on standard error: bytes, rate, time left. Silent when standard error is no terminal.
#[derive(Debug, Default)]
pub struct TerminalProgress {
    bar: Mutex<Option<ProgressBar>>,
}

impl TerminalProgress {
    /// A bar that appears with the first stretch of work.
    pub fn new() -> Self {
        Self::default()
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for TerminalProgress {
    fn begin(&self, what: &str, done: u64, total: Option<u64>) {
        let bar =
            ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_message(what.to_owned());
        let template = if total.is_some() {
            "{msg:28!} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"
        } else {
            "{msg:28!} {spinner} {bytes} {bytes_per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.set_position(done);
        // The bytes of an earlier pull must not count as speed.
        bar.reset_eta();
        if let Some(old) = self.bar().replace(bar) {
            old.finish_and_clear();
        }
    }

    fn at(&self, done: u64) {
        if let Some(bar) = &*self.bar() {
            bar.set_position(done);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    fn note(&self, text: &str) {
        use std::io::IsTerminal;
        match &*self.bar() {
            Some(bar) => bar.println(text),
            None if std::io::stderr().is_terminal() => eprintln!("{text}"),
            None => {}
        }
    }
}
