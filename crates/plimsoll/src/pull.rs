//! `pull` and `models`: the cache of models.

use crate::config;
use crate::progress::TerminalProgress;
use plimsoll_hub::{CachedModel, Hub, HubConfig, Source, Stop, names};
use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What a signal says to pulls under way.
pub static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);

static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Whether a pull is under way.
pub fn is_under_way() -> bool {
    UNDER_WAY.load(SeqCst)
}

/// The path of a model, pulled if it is not here, with a progress bar on a terminal. One at a time.
pub fn pull(source: &str) -> anyhow::Result<PathBuf> {
    let source = Source::parse(source)?;
    UNDER_WAY.store(true, SeqCst);
    let pulled = hub().and_then(|hub| Ok(hub.pull(&source, &TerminalProgress::default())?));
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
    Ok(Hub::new(config)?)
}

fn row(model: &CachedModel) -> String {
    let size = config::units::Size(model.bytes);
    let name = model.name.unwrap_or(&model.source);
    let broken = if model.whole { "" } else { " (damaged: pull it again)" };
    format!("{name:<14} {size:>10}  {}{broken}", model.path.display())
}
