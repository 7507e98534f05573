//! How large a model is on disk.

use std::path::Path;

/// Bytes of a model's file, or of the files of its folder: about what its weights take.
pub fn bytes_of(path: &Path) -> u64 {
    let size = |path: &Path| path.metadata().map_or(0, |of| of.len());
    match path.read_dir() {
        Ok(files) => files.filter_map(|file| Some(size(&file.ok()?.path()))).sum(),
        Err(_) => size(path),
    }
}
