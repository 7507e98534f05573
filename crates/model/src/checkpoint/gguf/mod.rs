//! GGUF files, versions 2 and 3, little-endian (format: `docs/gguf.md` of the ggml project).
//!
//! - `reader`: bounded little-endian reads.
//! - `value`: the metadata.
//! - `types`: the weight types.
//! - `header`: the front of a file, and where its tensors lie.
//! - `llama`: the `llama` architecture.
//! - `vocab`: the vocabulary.

mod header;
mod llama;
mod reader;
mod types;
mod value;
mod vocab;

use super::{
    Checkpoint, CheckpointError, DType, Tensor, TokenizerSource,
    fault::{Fault, bad, quote, unsupported},
    limits,
    source::{DiskFile, Source},
    title,
    weights::{Found, Weights},
};
use crate::spec::{DecoderSpec, Role, Rope, RopeScaling};
use header::{Header, TensorInfo};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// A GGUF file, opened and checked.
pub struct Gguf {
    spec: DecoderSpec,
    weights: Weights,
    tokenizer: TokenizerSource,
    chat_template: Option<String>,
    title: String,
}

impl Gguf {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read, is not a sound GGUF file, or is of a kind that is not run.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let file = DiskFile::open(path).map_err(|e| Fault::Io(e).at(path))?;
        Self::from_source(path, Box::new(file)).map_err(|fault| fault.at(path))
    }

    /// A file that is already in memory; `path` is for messages.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, CheckpointError> {
        Self::from_source(path, Box::new(bytes)).map_err(|fault| fault.at(path))
    }

    fn from_source(path: &Path, source: Box<dyn Source>) -> Result<Self, Fault> {
        let Header { mut metadata, tensors } = Header::read(source.as_ref())?;
        llama::check_architecture(&metadata)?;
        let vocab = vocab::read(&mut metadata)?;
        let mut spec = llama::spec(&metadata, vocab.tokens.len())?;
        check_quantization(&metadata, &tensors)?;
        let (found, freqs) = sort_out(&tensors)?;
        if let Some(info) = freqs {
            read_factors(source.as_ref(), info, &mut spec.rope)?;
        }
        check_vocab(&found, spec.vocab)?;
        let files: Vec<(PathBuf, Box<dyn Source>)> = vec![(path.to_path_buf(), source)];
        let weights = Weights::new(&spec, found, files, llama::name)?;
        Ok(Self {
            title: title::of_file(metadata.text("general.name")?, path, weights.main_dtype()),
            chat_template: metadata.text("tokenizer.chat_template")?.map(str::to_owned),
            tokenizer: TokenizerSource::Gguf(Box::new(vocab)),
            spec,
            weights,
        })
    }
}

/// Weights by role, and the rotary factors if there are any.
type Sorted<'a> = (HashMap<Role, Found>, Option<&'a TensorInfo>);

fn sort_out(tensors: &[TensorInfo]) -> Result<Sorted<'_>, Fault> {
    let mut found = HashMap::with_capacity(tensors.len());
    let mut freqs = None;
    for info in tensors {
        match llama::usage(&info.name)? {
            llama::Use::Weight(role) => {
                found.insert(role, weight(info)?);
            }
            llama::Use::RopeFreqs => freqs = Some(info),
            llama::Use::Nothing => {}
        }
    }
    Ok((found, freqs))
}

fn weight(info: &TensorInfo) -> Result<Found, Fault> {
    let TensorInfo { name, at, kind, rows, cols, deep, offset, .. } = info;
    let Some(dtype) = kind.dtype else {
        let (name, kind) = (quote(name), kind.name);
        return Err(unsupported!("tensor {name} at byte {at} is of type {kind}; {}", types::SUPPORTED));
    };
    if *deep {
        return Err(bad!(
            "tensor {} at byte {at} has more than two dimensions; 1 or 2 are right",
            quote(name)
        ));
    }
    let tensor = Tensor { name: name.clone(), dtype, rows: *rows, cols: *cols, file: 0, offset: *offset };
    Ok(Found { tensor, described_at: *at })
}

/// Quantized blocks changed their layout before version 2; the numbers would be read as something else.
fn check_quantization(metadata: &value::Metadata, tensors: &[TensorInfo]) -> Result<(), Fault> {
    let key = "general.quantization_version";
    let quantized = tensors.iter().any(|tensor| tensor.kind.elements > 1);
    match metadata.int(key, 0..=usize::MAX)? {
        Some(version) if version != 2 && quantized => {
            Err(unsupported!("`{key}` is {version}; supported is 2"))
        }
        _ => Ok(()),
    }
}

fn check_vocab(found: &HashMap<Role, Found>, tokens: usize) -> Result<(), Fault> {
    match found.get(&Role::Embedding) {
        Some(Found { tensor, described_at }) if tensor.rows != tokens => Err(bad!(
            "tensor `{}` at byte {described_at} has {} rows, but `tokenizer.ggml.tokens` has {tokens} tokens; they must \
             be equal",
            tensor.name,
            tensor.rows
        )),
        _ => Ok(()),
    }
}

fn read_factors(source: &dyn Source, info: &TensorInfo, rope: &mut Rope) -> Result<(), Fault> {
    let (name, at, pairs) = (llama::ROPE_FREQS, info.at, rope.dim / 2);
    if rope.scaling != RopeScaling::None {
        return Err(unsupported!(
            "tensor `{name}` at byte {at} beside `llama.rope.scaling.*`; one of both is supported"
        ));
    }
    if info.kind.dtype != Some(DType::F32) || info.rows != 1 || info.cols != pairs {
        return Err(bad!(
            "tensor `{name}` at byte {at} has {} x {} numbers of type {}; it must have {pairs} of type F32, one for \
             each pair of the rotary dimension",
            info.rows,
            info.cols,
            info.kind.name
        ));
    }
    let mut bytes = vec![0; pairs * 4];
    source.read_exact_at(&mut bytes, info.offset)?;
    let factors: Vec<f32> = bytes.as_chunks().0.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect();
    if let Some(n) = factors.iter().position(|factor| !limits::ROPE.contains(factor)) {
        let (byte, factor) = (info.offset + 4 * n as u64, factors[n]);
        return Err(bad!("factor {n} of `{name}` at byte {byte} is {factor}; it must be a positive number"));
    }
    rope.scaling = RopeScaling::Factors(factors);
    Ok(())
}

impl Checkpoint for Gguf {
    fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    fn tensor(&self, role: Role) -> Result<Option<&Tensor>, CheckpointError> {
        self.weights.tensor(role)
    }

    fn read_rows(&self, tensor: &Tensor, first: usize, out: &mut [u8]) -> Result<(), CheckpointError> {
        self.weights.read_rows(tensor, first, out)
    }

    fn tokenizer(&self) -> &TokenizerSource {
        &self.tokenizer
    }

    fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    fn title(&self) -> &str {
        &self.title
    }
}
