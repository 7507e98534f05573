//! `pull` and `models`: the cache of models.

mod lines;

use crate::config;
use crate::progress::TerminalProgress;
use lines::Lines;
use plimsoll_hub::{CachedModel, Hub, HubConfig, Progress, Source, Stop, names};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What a signal says to pulls under way.
pub static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);

static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Whether a pull is under way.
pub fn is_under_way() -> bool {
    UNDER_WAY.load(SeqCst)
}

/// This program, wherever it lies, and though its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The path of a model, pulled if it is not here, with a progress bar on a terminal, and lines elsewhere. One at a time.
pub fn pull(source: &str) -> anyhow::Result<PathBuf> {
    let source = Source::parse(source)?;
    UNDER_WAY.store(true, SeqCst);
    let progress: &dyn Progress =
        if std::io::stderr().is_terminal() { &TerminalProgress::default() } else { &Lines::default() };
    let pulled = hub().and_then(|hub| Ok(hub.pull(&source, progress)?));
    UNDER_WAY.store(false, SeqCst);
    pulled
}

/// Lists the built-in names and what the cache holds.
pub fn list(out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "built-in names:")?;
    for name in names() {
        writeln!(out, "  {:<14} {}", name.name, name.about)?;
    }
    let cached = hub()?.list()?;
    writeln!(out, "\nin the cache:{}", if cached.is_empty() { " nothing" } else { "" })?;
    for model in &cached {
        writeln!(out, "  {}", row(model))?;
    }
    Ok(())
}

fn hub() -> anyhow::Result<Hub> {
    let mut config = HubConfig::from_env(config::env::lookup)?;
    config.limits.stop = STOP.clone();
    if Path::new(THIS_PROGRAM).exists() {
        config.launcher =
            [THIS_PROGRAM, "with-parent", &std::process::id().to_string()].map(str::to_owned).to_vec();
    }
    Ok(Hub::new(config)?)
}

fn row(model: &CachedModel) -> String {
    let size = config::units::Size(model.bytes);
    let name = model.name.unwrap_or(&model.source);
    let broken = if model.whole { "" } else { " (damaged: pull it again)" };
    format!("{name:<14} {size:>10}  {}{broken}", model.path.display())
}
