//! Files that are whole or not there: written beside their place, and renamed.

use std::io::Result;
use std::path::{Path, PathBuf};

/// Writes `text` to `path`, so that whoever waits for the file never reads half of it.
///
/// # Errors
/// As writing and renaming.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let beside = beside(path);
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}

/// Finds out, before anybody waits for it, whether [`write`] could.
///
/// # Errors
/// As writing.
pub fn try_write(path: &Path) -> Result<()> {
    let beside = beside(path);
    std::fs::write(&beside, "")?;
    std::fs::remove_file(&beside)
}

fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}
