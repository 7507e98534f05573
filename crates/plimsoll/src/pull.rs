//! `pull` and `models`: the cache of models.

use crate::config;
use plimsoll_hub::{CachedModel, Hub, HubConfig, Source, TerminalProgress, names};
use std::io::Write;
use std::path::PathBuf;

/// The path of a model, pulled if it is not here, with a progress bar on a terminal.
pub fn pull(source: &str) -> anyhow::Result<PathBuf> {
    let source = Source::parse(source)?;
    Ok(hub()?.pull(&source, &TerminalProgress::new())?)
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
    Ok(Hub::new(HubConfig::from_env(config::env::lookup)?)?)
}

fn row(model: &CachedModel) -> String {
    let size = config::units::Size(model.bytes);
    let name = model.name.unwrap_or(&model.source);
    let broken = if model.whole { "" } else { " (damaged: pull it again)" };
    format!("{name:<14} {size:>10}  {}{broken}", model.path.display())
}
