//! A model on disk, whatever its format: what it is, where its weights lie, how its text is cut.
//!
//! Nothing here trusts a length, offset, count or string of a file.
//!
//! - [`open`]: a path to a checkpoint, by what lies there.
//! - [`Gguf`]: GGUF files. [`HfFolder`]: Hugging Face folders.
//! - `weights`: weights by role, shapes and types checked; `limits`: bounds on what a file may claim.
//! - `source`: positioned reads; `fault`: errors before the path is added; `title`: names for people.

mod fault;
mod gguf;
mod hf;
mod limits;
mod source;
mod title;
mod weights;

pub use gguf::Gguf;
pub use hf::HfFolder;
pub(crate) use hf::{TOKENIZER_MOST, read_text};

use crate::spec::{DecoderSpec, Role};
use std::path::{Path, PathBuf};

/// Opens the model at `path`: a GGUF file, or a Hugging Face folder.
///
/// # Errors
/// When it cannot be read, is not sound, or is of a kind that is not run.
pub fn open(path: &Path) -> Result<Box<dyn Checkpoint>, CheckpointError> {
    if path.is_dir() {
        return Ok(Box::new(HfFolder::open(path)?));
    }
    let part_of_folder =
        path.extension().is_some_and(|extension| extension == "safetensors" || extension == "json");
    if part_of_folder && let Some(folder) = path.parent() {
        let what = format!("a file of a Hugging Face folder; name the folder, {}", folder.display());
        return Err(CheckpointError::Unsupported { path: path.to_path_buf(), what });
    }
    Ok(Box::new(Gguf::open(path)?))
}

/// Reads the header of a safetensors file that is in memory, and checks it. For fuzzing; a folder's files are opened by
/// [`HfFolder::open`].
///
/// # Errors
/// When it is not sound.
pub fn check_safetensors(bytes: Vec<u8>) -> Result<Vec<Tensor>, CheckpointError> {
    let found = hf::safetensors::read(&bytes, 0).map_err(|fault| fault.at(Path::new("memory")))?;
    Ok(found.into_iter().map(|found| found.tensor).collect())
}

/// How a weight's numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// bfloat16.
    BF16,
    /// Blocks of 32: f16 scale, 32 signed bytes. 34 bytes.
    Q8_0,
    /// Blocks of 32: f16 scale, 32 nibbles less 8. 18 bytes.
    Q4_0,
    /// Blocks of 32: f16 scale, f16 minimum, 32 nibbles. 20 bytes.
    Q4_1,
}

impl DType {
    /// `(elements, bytes)` of one block.
    pub const fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::BF16 => (1, 2),
            Self::Q8_0 => (32, 34),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
        }
    }
}

/// Where a weight lies and what shape it has. Checked against the file's size when the checkpoint was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the file, for messages.
    pub name: String,
    /// How its numbers are stored.
    pub dtype: DType,
    /// Outputs (1 for a vector).
    pub rows: usize,
    /// Inputs; a multiple of the dtype's block.
    pub cols: usize,
    /// Which file of the checkpoint.
    pub file: usize,
    /// Byte offset of the first row in that file.
    pub offset: u64,
}

impl Tensor {
    /// Bytes of one row.
    pub const fn row_bytes(&self) -> usize {
        let (elements, bytes) = self.dtype.block();
        self.cols / elements * bytes
    }
}

/// How the text of a model is cut into tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerSource {
    /// A `tokenizer.json`, with what `tokenizer_config.json` adds.
    Json {
        /// Path of `tokenizer.json`.
        path: PathBuf,
        /// Text of the BOS token, if it has one.
        bos: Option<String>,
        /// Texts of the tokens that end a text.
        eos: Vec<String>,
        /// Whether prompts start with BOS; `None`: as `tokenizer.json` says.
        add_bos: Option<bool>,
    },
    /// The vocabulary in a GGUF file's metadata.
    Gguf(Box<GgufVocab>),
}

/// The vocabulary in a GGUF file's metadata (`tokenizer.ggml.*`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GgufVocab {
    /// `gpt2` (byte-level BPE) or `llama` (SentencePiece BPE).
    pub model: String,
    /// Pre-tokenizer, such as `smollm` or `llama-bpe`; may be empty.
    pub pre: String,
    /// Text of each token.
    pub tokens: Vec<String>,
    /// Kind of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub kinds: Vec<i32>,
    /// Score of each token (SentencePiece); may be empty.
    pub scores: Vec<f32>,
    /// BPE merges, `left right`; may be empty.
    pub merges: Vec<String>,
    /// First token of a prompt.
    pub bos: Option<u32>,
    /// Tokens that end a text: `eos`, `eot`, `eom`.
    pub eos: Vec<u32>,
    /// Unknown token.
    pub unk: Option<u32>,
    /// Whether prompts start with BOS; `None`: the model's default.
    pub add_bos: Option<bool>,
    /// Whether prompts end with EOS.
    pub add_eos: Option<bool>,
    /// Whether a space is put before the text (SentencePiece); `None`: the model's default.
    pub add_space_prefix: Option<bool>,
}

/// A file that could not be read as a model. The message is one line and names the file, the field and the offset; what the
/// system said is the source.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file could not be opened or read.
    #[error("cannot read {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes are not what the format says.
    #[error("{path}: {what}")]
    Format {
        /// Which file.
        path: PathBuf,
        /// The field, its offset, the value, and what would be right.
        what: String,
    },
    /// A sound file of a kind this engine does not run.
    #[error("{path}: {what}")]
    Unsupported {
        /// Which file.
        path: PathBuf,
        /// What it is, and what is supported.
        what: String,
    },
}

/// A model on disk: opened, checked, not yet loaded.
pub trait Checkpoint: Send + Sync {
    /// The decoder it describes.
    fn spec(&self) -> &DecoderSpec;

    /// The weight for `role`; `None` only for an absent [`Role::Head`].
    ///
    /// # Errors
    /// When the weight is missing or of the wrong shape or type.
    fn tensor(&self, role: Role) -> Result<Option<&Tensor>, CheckpointError>;

    /// Reads rows `first .. first + out.len() / row_bytes` of a weight, as stored.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn read_rows(&self, tensor: &Tensor, first: usize, out: &mut [u8]) -> Result<(), CheckpointError>;

    /// How its text is cut into tokens.
    fn tokenizer(&self) -> &TokenizerSource;

    /// Its chat template, if it has one.
    fn chat_template(&self) -> Option<&str>;

    /// A name for people, such as `SmolLM2 135M Instruct Q4_1`.
    fn title(&self) -> &str;
}
