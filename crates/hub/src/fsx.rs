//! File system steps whose order matters after a power cut, with errors that name the path.

use crate::error::HubError;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

pub(crate) fn create_dir(path: &Path) -> Result<(), HubError> {
    fs::create_dir_all(path).map_err(HubError::io("create", path))
}

/// Removes a file or folder; that it is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), HubError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(HubError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Moves within one file system and makes the new name last.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), HubError> {
    fs::rename(from, to).map_err(HubError::io("move into place", to))?;
    to.parent().map_or(Ok(()), sync_dir)
}

/// Without this a new name in a folder may be lost although the file's bytes are on disk.
pub(crate) fn sync_dir(path: &Path) -> Result<(), HubError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(HubError::io("write", path))
}

/// Writes a small file whole or not at all.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), HubError> {
    let new = path.with_added_extension("new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(HubError::io("write", &new))?;
    rename(&new, path)
}

/// Bytes of all files below `path`, however deep; what vanishes meanwhile counts nothing.
pub(crate) fn size_below(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
