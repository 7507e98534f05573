//! Files that are whole or not there: written beside their place, and renamed.

use std::io::Result;
use std::path::{Path, PathBuf};

/// Writes `text` to `path`, so that whoever waits for the file never reads half of it.
///
/// # Errors
/// As writing and renaming.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let beside = beside(path);
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        std::fs::remove_file(&beside).ok();
    }
    written
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let path = folder.path().join("a.json");
        try_write(&path).unwrap();
        assert_eq!(names().count(), 0);
        write(&path, "whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        // A folder cannot be replaced by a file.
        let taken = folder.path().join("b");
        std::fs::create_dir(&taken).unwrap();
        assert!(write(&taken, "half").is_err());
        let mut left: Vec<_> = names().collect();
        left.sort();
        assert_eq!(left, ["a.json", "b"]);
    }
}
