//! Tiny models with seeded random weights: real files of real formats, opened in milliseconds. Their text is noise, but
//! the same noise every time.
//!
//! - [`Gguf`]: a GGUF file of the `llama` architecture. [`gguf_writer::Writer`]: any GGUF file, wrong ones too.
//! - [`HfFolder`]: a Hugging Face folder. [`hf::safetensors`]: the bytes of a safetensors file.
//! - [`vocab`]: the vocabulary of both: 256 bytes, a few merges, three special tokens.
//! - [`weights`]: the random weights; [`encode`]: weight types.
//!
//! ```
//! # let folder = std::env::temp_dir().join("plimsoll-tiny-doc");
//! # std::fs::create_dir_all(&folder).unwrap();
//! use plimsoll_testkit::tiny;
//! let path = tiny::Gguf { seed: 7, ..tiny::Gguf::default() }.write(&folder).unwrap();
//! let model = plimsoll_model::checkpoint::open(&path).unwrap();
//! assert_eq!(model.spec().vocab, tiny::vocab::tokens().len());
//! ```

pub mod encode;
pub mod gguf;
pub mod gguf_writer;
pub mod hf;
pub mod vocab;
pub mod weights;

pub use gguf::Gguf;
pub use hf::HfFolder;
pub use weights::Sizes;
