//! A hub in a folder of its own, and what happens to it.

use plimsoll_hub::{HfConfig, Hub, HubConfig, HubError, Limits, Progress, Source, Token};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;

pub struct Fixture {
    pub dir: TempDir,
    pub config: HubConfig,
}

impl Fixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        Self { dir, config }
    }

    /// With a Hugging Face endpoint and a token.
    pub fn hf(endpoint: &str, token: Option<&str>) -> Self {
        let mut fixture = Self::new();
        fixture.config.hf.endpoint = endpoint.into();
        fixture.config.hf.token = token.and_then(Token::new);
        fixture
    }

    /// With a shell script for pip.
    pub fn pip(script: &str) -> Self {
        let mut fixture = Self::new();
        let path = fixture.dir.path().join("pip.sh");
        std::fs::write(&path, script).unwrap();
        fixture.config.pip = vec!["sh".into(), path.display().to_string()];
        fixture
    }

    pub fn hub(&self) -> Hub {
        Hub::new(self.config.clone()).unwrap()
    }

    pub fn pull(&self, source: &str) -> Result<PathBuf, HubError> {
        self.hub().pull(&Source::parse(source).unwrap(), &())
    }

    /// The message of a pull that must fail, and of what caused it.
    pub fn pull_error(&self, source: &str) -> String {
        let error = self.pull(source).expect_err(source);
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            text += &format!("; because {inner}");
            cause = inner.source();
        }
        text
    }

    /// Everything in the cache but lock files, as relative paths.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.config.cache_dir, &mut found);
        let relative =
            |path: &PathBuf| path.strip_prefix(&self.config.cache_dir).unwrap().display().to_string();
        let mut names: Vec<String> =
            found.iter().map(relative).filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }
}

pub fn config(dir: &Path) -> HubConfig {
    HubConfig {
        launcher: Vec::new(),
        cache_dir: dir.join("cache"),
        hf: HfConfig { endpoint: "http://127.0.0.1:9".into(), cache: dir.join("hf/hub"), token: None },
        pip: vec!["/nowhere/pip".into()],
        offline: false,
        ca_file: None,
        limits: Limits {
            max_bytes: 1 << 20,
            connect: Duration::from_secs(20),
            idle: Duration::from_secs(20),
            backoff: Duration::ZERO,
            ..Limits::default()
        },
    }
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            walk(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// Remembers notes.
#[derive(Default)]
pub struct Notes(pub Mutex<Vec<String>>);

impl Progress for Notes {
    fn begin(&self, _: &str, _: u64, _: Option<u64>) {}
    fn at(&self, _: u64) {}
    fn end(&self) {}
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Bytes that differ everywhere, so that a wrong resume shows.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).take(len).collect()
}

pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}
