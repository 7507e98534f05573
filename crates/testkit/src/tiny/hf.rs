//! A tiny Hugging Face folder.

use super::{
    encode::encode,
    vocab,
    weights::{Part, Sizes, Weight},
};
use plimsoll_model::checkpoint::DType;
use serde_json::{Map, Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A tiny Hugging Face model, `LlamaForCausalLM` unless `config` says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct HfFolder {
    /// Seed of its weights.
    pub seed: u64,
    /// Its sizes.
    pub sizes: Sizes,
    /// Type of all weights: F32, F16 or BF16.
    pub dtype: DType,
    /// How many weight files; more than one comes with an index.
    pub shards: usize,
    /// Laid over `config.json`; `null` is written as such, which readers take for absent.
    pub config: Map<String, Value>,
    /// Laid over `tokenizer_config.json`.
    pub tokenizer_config: Map<String, Value>,
    /// `generation_config.json`, if any.
    pub generation_config: Option<Value>,
}

impl Default for HfFolder {
    fn default() -> Self {
        Self {
            seed: 0,
            sizes: Sizes::default(),
            dtype: DType::F32,
            shards: 1,
            config: Map::new(),
            tokenizer_config: Map::new(),
            generation_config: None,
        }
    }
}

impl HfFolder {
    /// Writes its files into `folder` itself, which must exist, and gives `folder` back.
    ///
    /// # Errors
    /// When a file cannot be written.
    ///
    /// # Panics
    /// When `dtype` is a block type, which the format does not have.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let write = |name: &str, value: &Value| fs::write(folder.join(name), value.to_string());
        write("config.json", &lay_over(self.model_config(), &self.config))?;
        write("tokenizer.json", &tokenizer())?;
        write("tokenizer_config.json", &lay_over(tokenizer_config(), &self.tokenizer_config))?;
        if let Some(config) = &self.generation_config {
            write("generation_config.json", config)?;
        }
        self.write_weights(folder)?;
        Ok(folder.to_path_buf())
    }

    fn write_weights(&self, folder: &Path) -> io::Result<()> {
        let weights = self.sizes.weights(self.seed);
        if self.shards <= 1 {
            return fs::write(folder.join("model.safetensors"), self.weight_file(&weights));
        }
        let mut map = Map::new();
        for (n, part) in weights.chunks(weights.len().div_ceil(self.shards)).enumerate() {
            let file = format!("model-{:05}-of-{:05}.safetensors", n + 1, self.shards);
            fs::write(folder.join(&file), self.weight_file(part))?;
            map.extend(part.iter().map(|weight| (name(weight), json!(file))));
        }
        let index = json!({ "metadata": {}, "weight_map": map });
        fs::write(folder.join("model.safetensors.index.json"), index.to_string())
    }

    fn weight_file(&self, weights: &[Weight]) -> Vec<u8> {
        let kind = match self.dtype {
            DType::F32 | DType::F16 | DType::BF16 => format!("{:?}", self.dtype),
            other => panic!("safetensors has no type {other:?}"),
        };
        let (mut header, mut data) = (Map::new(), Vec::new());
        for weight in weights {
            let bytes = encode(&weight.values, self.dtype);
            let shape =
                if weight.is_norm() { json!([weight.cols]) } else { json!([weight.rows, weight.cols]) };
            let offsets = [data.len(), data.len() + bytes.len()];
            header.insert(name(weight), json!({ "dtype": kind, "shape": shape, "data_offsets": offsets }));
            data.extend(bytes);
        }
        safetensors(&Value::Object(header).to_string(), &data)
    }

    fn model_config(&self) -> Value {
        let sizes = &self.sizes;
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "_name_or_path": "plimsoll/tiny",
            "hidden_size": sizes.width,
            "num_hidden_layers": sizes.layers,
            "num_attention_heads": sizes.heads,
            "num_key_value_heads": sizes.kv_heads,
            "head_dim": sizes.head_dim,
            "intermediate_size": sizes.ffn,
            "max_position_embeddings": sizes.context,
            "vocab_size": vocab::tokens().len(),
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": sizes.tied,
            "bos_token_id": vocab::FIRST_SPECIAL + 1,
            "eos_token_id": vocab::FIRST_SPECIAL + 2,
        })
    }
}

/// The bytes of a safetensors file; nothing is checked.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn lay_over(mut base: Value, over: &Map<String, Value>) -> Value {
    if let Value::Object(base) = &mut base {
        base.extend(over.clone());
    }
    base
}

/// The `tokenizer.json` of [`vocab`]: digits one by one, then byte-level BPE.
pub fn tokenizer() -> Value {
    let tokens = vocab::tokens();
    let (plain, specials) = tokens.split_at(vocab::FIRST_SPECIAL as usize);
    let ids: Map<String, Value> =
        plain.iter().enumerate().map(|(id, text)| (text.clone(), json!(id))).collect();
    let added: Vec<Value> = (vocab::FIRST_SPECIAL..)
        .zip(specials)
        .map(|(id, content)| {
            json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true })
        })
        .collect();
    let byte_level = |regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{ "type": "Digits", "individual_digits": true }, byte_level(true)],
        },
        "post_processor": null,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": ids,
            "merges": vocab::MERGES.iter().map(|(l, r)| format!("{l} {r}")).collect::<Vec<_>>(),
        },
    })
}

fn tokenizer_config() -> Value {
    let [unk, bos, eos] = vocab::SPECIALS;
    json!({
        "tokenizer_class": "GPT2Tokenizer",
        "add_bos_token": false,
        "add_prefix_space": false,
        "bos_token": bos,
        "eos_token": eos,
        "unk_token": unk,
        "chat_template": vocab::CHAT_TEMPLATE,
    })
}

fn name(weight: &Weight) -> String {
    let part = match weight.part {
        Part::Embedding => "model.embed_tokens",
        Part::Head => "lm_head",
        Part::FinalNorm => "model.norm",
        Part::AttentionNorm => "input_layernorm",
        Part::Query => "self_attn.q_proj",
        Part::Key => "self_attn.k_proj",
        Part::Value => "self_attn.v_proj",
        Part::Output => "self_attn.o_proj",
        Part::FfnNorm => "post_attention_layernorm",
        Part::Gate => "mlp.gate_proj",
        Part::Up => "mlp.up_proj",
        Part::Down => "mlp.down_proj",
    };
    match weight.layer {
        Some(n) => format!("model.layers.{n}.{part}.weight"),
        None => format!("{part}.weight"),
    }
}
