//! `config.json` as a decoder's description.

use super::{json::Fields, rope};
use crate::{
    checkpoint::{
        fault::{Fault, bad, quote, unsupported},
        limits,
    },
    spec::{Activation, DecoderSpec},
};
use serde_json::Value;

/// For messages: what is run.
const SUPPORTED: &str = "supported are LlamaForCausalLM and MistralForCausalLM (model_type llama, mistral)";
/// The window that a Mistral model has when its file does not say.
const MISTRAL_WINDOW: usize = 4096;

/// What `config.json` says.
pub(crate) struct Config {
    /// The decoder.
    pub(crate) spec: DecoderSpec,
    /// Whether the embedding is the head too.
    pub(crate) tied: bool,
}

impl Config {
    /// Reads the fields.
    pub(crate) fn new(config: Fields<'_>) -> Result<Self, Fault> {
        let kind = check_architecture(config)?;
        check_plain(config)?;
        let context = need(config, "max_position_embeddings", limits::CONTEXT)?;
        check_window(config, kind, context)?;
        let spec = spec(config, context)?;
        limits::check_together(&spec)?;
        Ok(Self { spec, tied: config.bool("tie_word_embeddings")?.unwrap_or(false) })
    }
}

fn need(config: Fields<'_>, key: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, Fault> {
    config.need(key, config.int(key, range)?)
}

fn spec(config: Fields<'_>, context: usize) -> Result<DecoderSpec, Fault> {
    let width = need(config, "hidden_size", limits::WIDTH)?;
    let heads = need(config, "num_attention_heads", limits::HEADS)?;
    let head_dim = match config.int("head_dim", limits::HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None => limits::head_dim(width, heads)?,
    };
    Ok(DecoderSpec {
        layers: need(config, "num_hidden_layers", limits::LAYERS)?,
        width,
        heads,
        kv_heads: config.int("num_key_value_heads", limits::HEADS)?.unwrap_or(heads),
        head_dim,
        ffn: need(config, "intermediate_size", limits::WIDTH)?,
        vocab: need(config, "vocab_size", limits::VOCAB)?,
        context,
        norm_eps: config.float("rms_norm_eps", limits::NORM_EPS)?.unwrap_or(1e-6),
        rope: rope::rope(config, head_dim, context)?,
        activation: activation(config)?,
    })
}

fn check_architecture(config: Fields<'_>) -> Result<&str, Fault> {
    let names = config.typed("architectures", "a list of strings", |value| {
        value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()
    })?;
    let known = |name: &&str| matches!(*name, "LlamaForCausalLM" | "MistralForCausalLM");
    if let Some(names) = names.filter(|names| !names.is_empty())
        && !names.iter().any(known)
    {
        return Err(unsupported!("architecture {} (`architectures`); {SUPPORTED}", quote(&names.join(", "))));
    }
    match config.need("model_type", config.text("model_type")?)? {
        kind @ ("llama" | "mistral") => Ok(kind),
        other => Err(unsupported!("architecture {} (`model_type`); {SUPPORTED}", quote(other))),
    }
}

/// Refuses options that make it another computation.
fn check_plain(config: Fields<'_>) -> Result<(), Fault> {
    for key in ["attention_bias", "mlp_bias"] {
        if config.bool(key)?.unwrap_or(false) {
            return Err(unsupported!("biases (`{key}` is true); supported are projections without"));
        }
    }
    if config.has("quantization_config") && config.get("quantization_config").is_some() {
        return Err(unsupported!("quantized weights (`quantization_config`); supported are F32, F16, BF16"));
    }
    Ok(())
}

fn check_window(config: Fields<'_>, kind: &str, context: usize) -> Result<(), Fault> {
    let key = "sliding_window";
    let silent = (kind == "mistral" && !config.has(key)).then_some(MISTRAL_WINDOW);
    match config.int(key, 1..=usize::MAX)?.or(silent) {
        Some(window) if window < context => Err(unsupported!(
            "attention over a sliding window of {window} (`{key}`) in a context of {context}; supported is null, or a \
             window as long as the context"
        )),
        _ => Ok(()),
    }
}

fn activation(config: Fields<'_>) -> Result<Activation, Fault> {
    match config.text("hidden_act")?.unwrap_or("silu") {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        other => Err(unsupported!(
            "activation {} (`hidden_act`); supported are silu, gelu_pytorch_tanh",
            quote(other)
        )),
    }
}

/// Token ids under `key`: one, or a list.
pub(crate) fn token_ids(fields: Fields<'_>, key: &str) -> Result<Vec<u32>, Fault> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids = fields.typed(key, "a token id or a list of token ids", |value| match value {
        Value::Array(list) => list.iter().map(id).collect::<Option<Vec<u32>>>(),
        one => id(one).map(|id| vec![id]),
    })?;
    let ids = ids.unwrap_or_default();
    if ids.len() > 1024 {
        return Err(bad!("field `{key}` has {} token ids; at most 1024 are read", ids.len()));
    }
    Ok(ids)
}
