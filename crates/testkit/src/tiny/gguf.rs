//! A tiny GGUF file.

use super::{
    encode::encode,
    gguf_writer::{Value, Writer},
    vocab,
    weights::{Part, Sizes, Weight},
};
use plimsoll_model::checkpoint::DType;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A tiny GGUF model of the `llama` architecture: with the same seed and sizes the same model as [`super::HfFolder`].
#[derive(Debug, Clone, PartialEq)]
pub struct Gguf {
    /// Seed of its weights.
    pub seed: u64,
    /// Its sizes.
    pub sizes: Sizes,
    /// Type of its matrices; norms are F32.
    pub dtype: DType,
    /// Factors that divide its rotary frequencies, `head_dim / 2` of them, if any.
    pub rope_factors: Option<Vec<f32>>,
    /// More metadata; replaces what is there under the same key.
    pub metadata: Vec<(String, Value)>,
}

impl Default for Gguf {
    fn default() -> Self {
        let (sizes, dtype) = (Sizes::default(), DType::Q8_0);
        Self { seed: 0, sizes, dtype, rope_factors: None, metadata: Vec::new() }
    }
}

impl Gguf {
    /// Writes `tiny.gguf` into `folder`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let path = folder.join("tiny.gguf");
        fs::write(&path, self.bytes())?;
        Ok(path)
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        self.writer().bytes()
    }

    /// The file's parts, to spoil them.
    pub fn writer(&self) -> Writer {
        let mut writer = Writer::default();
        self.describe(&mut writer);
        add_vocab(&mut writer);
        for (key, value) in &self.metadata {
            writer.set(key, value.clone());
        }
        for mut weight in self.sizes.weights(self.seed) {
            self.reorder(&mut weight);
            let dtype = if weight.is_norm() { DType::F32 } else { self.dtype };
            let dims = if weight.is_norm() { vec![weight.cols] } else { vec![weight.cols, weight.rows] };
            writer.tensor(&name(&weight), &dims, type_number(dtype), &encode(&weight.values, dtype));
        }
        if let Some(factors) = &self.rope_factors {
            writer.tensor("rope_freqs.weight", &[factors.len()], 0, &encode(factors, DType::F32));
        }
        writer
    }

    /// Files of this architecture have the rows of a query or key head in pairs that turn together, folders have the
    /// first halves of all pairs before the second: with the rows moved as converters do, both are the same model.
    fn reorder(&self, weight: &mut Weight) {
        if !matches!(weight.part, Part::Query | Part::Key) {
            return;
        }
        let (dim, cols) = (self.sizes.head_dim, weight.cols);
        let from = |row: usize| row / dim * dim + row % dim / 2 + row % 2 * dim / 2;
        weight.values =
            (0..weight.rows).flat_map(|row| &weight.values[from(row) * cols..][..cols]).copied().collect();
    }

    fn describe(&self, writer: &mut Writer) {
        let sizes = &self.sizes;
        writer.put("general.architecture", Value::Text("llama".into()));
        writer.put("general.name", Value::Text("Tiny".into()));
        writer.put("general.quantization_version", Value::U32(2));
        for (key, size) in [
            ("block_count", sizes.layers),
            ("context_length", sizes.context),
            ("embedding_length", sizes.width),
            ("feed_forward_length", sizes.ffn),
            ("attention.head_count", sizes.heads),
            ("attention.head_count_kv", sizes.kv_heads),
            ("attention.key_length", sizes.head_dim),
            ("attention.value_length", sizes.head_dim),
            ("rope.dimension_count", sizes.head_dim),
        ] {
            writer.put(&format!("llama.{key}"), Value::U32(size as u32));
        }
        writer.put("llama.rope.freq_base", Value::F32(10_000.0));
        writer.put("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    }
}

fn add_vocab(writer: &mut Writer) {
    let tokens = vocab::tokens();
    let kinds = (0..tokens.len() as u32).map(|id| if id < vocab::FIRST_SPECIAL { 1 } else { 3 });
    let merges = vocab::MERGES.iter().map(|(left, right)| format!("{left} {right}"));
    writer.put("tokenizer.ggml.model", Value::Text("gpt2".into()));
    writer.put("tokenizer.ggml.pre", Value::Text("smollm".into()));
    writer.put("tokenizer.ggml.token_type", Value::I32s(kinds.collect()));
    writer.put("tokenizer.ggml.tokens", Value::Texts(tokens));
    writer.put("tokenizer.ggml.merges", Value::Texts(merges.collect()));
    writer.put("tokenizer.ggml.unknown_token_id", Value::U32(vocab::FIRST_SPECIAL));
    writer.put("tokenizer.ggml.bos_token_id", Value::U32(vocab::FIRST_SPECIAL + 1));
    writer.put("tokenizer.ggml.eos_token_id", Value::U32(vocab::FIRST_SPECIAL + 2));
    writer.put("tokenizer.ggml.add_bos_token", Value::Bool(false));
    writer.put("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    writer.put("tokenizer.chat_template", Value::Text(vocab::CHAT_TEMPLATE.into()));
}

/// The format's number of a weight type.
pub const fn type_number(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q4_0 => 2,
        DType::Q4_1 => 3,
        DType::Q8_0 => 8,
        DType::BF16 => 30,
    }
}

fn name(weight: &Weight) -> String {
    let part = match weight.part {
        Part::Embedding => "token_embd",
        Part::Head => "output",
        Part::FinalNorm => "output_norm",
        Part::AttentionNorm => "attn_norm",
        Part::Query => "attn_q",
        Part::Key => "attn_k",
        Part::Value => "attn_v",
        Part::Output => "attn_output",
        Part::FfnNorm => "ffn_norm",
        Part::Gate => "ffn_gate",
        Part::Up => "ffn_up",
        Part::Down => "ffn_down",
    };
    match weight.layer {
        Some(n) => format!("blk.{n}.{part}.weight"),
        None => format!("{part}.weight"),
    }
}
