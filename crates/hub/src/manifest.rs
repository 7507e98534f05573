//! What is recorded beside pulled files, so that a later run can trust them by a look at their sizes.

use crate::error::HubError;
use crate::fsx;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One pulled file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Path below the root.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// Hex digest, checked or computed when it was pulled.
    pub sha256: String,
}

/// The record of one pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Layout of this record; others are ignored, and their entries pulled again.
    pub format: u32,
    /// The source, as it may be shown.
    pub source: String,
    /// What exactly was fetched: a wheel, a commit.
    pub resolved: String,
    /// Folder of the files; `files` beside the manifest when absent.
    pub root: Option<PathBuf>,
    /// Which file of the root is the model; the root itself when empty.
    pub opens: String,
    /// All files.
    pub files: Vec<FileRecord>,
}

pub(crate) const FORMAT: u32 = 1;
const NAME: &str = "manifest.json";

impl Manifest {
    /// Reads an entry's manifest; one that is missing, torn or of another layout is none.
    pub(crate) fn read(entry: &Path) -> Option<Self> {
        let bytes = std::fs::read(entry.join(NAME)).ok()?;
        serde_json::from_slice::<Self>(&bytes).ok().filter(|manifest| manifest.format == FORMAT)
    }

    pub(crate) fn write(&self, entry: &Path) -> Result<(), HubError> {
        let path = entry.join(NAME);
        let text =
            serde_json::to_vec_pretty(self).map_err(|error| HubError::io("write", &path)(error.into()))?;
        fsx::write_atomic(&path, &text)
    }

    pub(crate) fn root(&self, entry: &Path) -> PathBuf {
        self.root.clone().unwrap_or_else(|| entry.join("files"))
    }

    /// The path to open.
    pub(crate) fn path(&self, entry: &Path) -> PathBuf {
        let root = self.root(entry);
        if self.opens.is_empty() { root } else { root.join(&self.opens) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The first file that is missing or has another size.
    pub(crate) fn damage(&self, entry: &Path) -> Option<HubError> {
        let root = self.root(entry);
        self.files.iter().find_map(|file| {
            let path = root.join(&file.path);
            let problem = match std::fs::metadata(&path) {
                Err(error) => error.to_string(),
                Ok(meta) if meta.len() != file.bytes => {
                    format!("{} bytes, pulled were {}", meta.len(), file.bytes)
                }
                Ok(_) => return None,
            };
            Some(HubError::Damaged { path, problem })
        })
    }
}
