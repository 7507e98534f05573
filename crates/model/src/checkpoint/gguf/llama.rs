//! GGUF files of the `llama` architecture: their metadata as a decoder's description, their tensor names as roles.

use super::value::Metadata;
use crate::{
    checkpoint::{
        fault::{Fault, bad, quote, unsupported},
        limits,
    },
    spec::{Activation, DecoderSpec, LayerRole, Role, Rope, RopeOrder, RopeScaling},
};

/// Divides the rotary frequencies, if the file has it.
pub(crate) const ROPE_FREQS: &str = "rope_freqs.weight";

/// Refuses architectures that are not run.
pub(crate) fn check_architecture(metadata: &Metadata) -> Result<(), Fault> {
    let key = "general.architecture";
    match Metadata::need(key, metadata.text(key)?)? {
        "llama" => Ok(()),
        other => {
            Err(unsupported!("architecture {} (`{key}`); supported is `llama` in GGUF files", quote(other)))
        }
    }
}

/// The decoder that the metadata describes, with `vocab` tokens.
pub(crate) fn spec(metadata: &Metadata, vocab: usize) -> Result<DecoderSpec, Fault> {
    let need = |key, range| Metadata::need(key, metadata.int(key, range)?);
    check_plain(metadata)?;
    let width = need("llama.embedding_length", limits::WIDTH)?;
    let heads = need("llama.attention.head_count", limits::HEADS)?;
    let head_dim = match metadata.int("llama.attention.key_length", limits::HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None => limits::head_dim(width, heads)?,
    };
    let eps = "llama.attention.layer_norm_rms_epsilon";
    let context = need("llama.context_length", limits::CONTEXT)?;
    check_value_length(metadata, head_dim)?;
    check_window(metadata, context)?;
    let spec = DecoderSpec {
        layers: need("llama.block_count", limits::LAYERS)?,
        width,
        heads,
        kv_heads: metadata.int("llama.attention.head_count_kv", limits::HEADS)?.unwrap_or(heads),
        head_dim,
        ffn: need("llama.feed_forward_length", limits::WIDTH)?,
        vocab,
        context,
        norm_eps: Metadata::need(eps, metadata.float(eps, limits::NORM_EPS)?)?,
        rope: rope(metadata, head_dim, context)?,
        activation: Activation::Silu,
    };
    limits::check_together(&spec)?;
    Ok(spec)
}

fn check_value_length(metadata: &Metadata, head_dim: usize) -> Result<(), Fault> {
    match metadata.int("llama.attention.value_length", limits::HEAD_DIM)? {
        Some(value) if value != head_dim => Err(unsupported!(
            "`llama.attention.value_length` is {value}, the length of keys {head_dim}; supported are equal lengths"
        )),
        _ => Ok(()),
    }
}

/// A window of 0 is none.
fn check_window(metadata: &Metadata, context: usize) -> Result<(), Fault> {
    let key = "llama.attention.sliding_window";
    match metadata.int(key, 0..=usize::MAX)? {
        Some(window) if window > 0 && window < context => Err(unsupported!(
            "attention over a sliding window of {window} (`{key}`) in a context of {context}; supported is a window as \
             long as the context"
        )),
        _ => Ok(()),
    }
}

/// Refuses what is stored under `llama` but is another computation.
fn check_plain(metadata: &Metadata) -> Result<(), Fault> {
    let anything = 0..=usize::MAX;
    for (key, plain, what) in
        [("llama.expert_count", 0, "a mixture of experts"), ("split.count", 1, "one part of a split file")]
    {
        match metadata.int(key, anything.clone())? {
            Some(found) if found > plain => {
                return Err(unsupported!(
                    "{what} (`{key}` is {found}); supported is a plain model in one file"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn rope(metadata: &Metadata, head_dim: usize, context: usize) -> Result<Rope, Fault> {
    Ok(Rope {
        theta: metadata.float("llama.rope.freq_base", 1.0..=*limits::ROPE.end())?.unwrap_or(10_000.0),
        dim: metadata.int("llama.rope.dimension_count", 2..=*limits::HEAD_DIM.end())?.unwrap_or(head_dim),
        order: RopeOrder::Interleaved,
        scaling: scaling(metadata, context)?,
    })
}

fn scaling(metadata: &Metadata, context: usize) -> Result<RopeScaling, Fault> {
    let kind = metadata.text("llama.rope.scaling.type")?;
    let factor = match metadata.float("llama.rope.scaling.factor", limits::ROPE)? {
        None => metadata.float("llama.rope.scale_linear", limits::ROPE)?,
        found => found,
    };
    match (kind, factor) {
        (Some("none"), _) | (None, None) => Ok(RopeScaling::None),
        (Some("linear") | None, Some(1.0)) => Ok(RopeScaling::None),
        (Some("linear") | None, Some(factor)) => Ok(RopeScaling::Linear { factor }),
        (Some("yarn"), Some(factor)) => yarn(metadata, factor, context),
        (Some("linear" | "yarn"), None) => Err(bad!("metadata key `llama.rope.scaling.factor` is missing")),
        (Some(other), _) => Err(unsupported!(
            "rotary scaling {} (`llama.rope.scaling.type`); supported are none, linear, yarn",
            quote(other)
        )),
    }
}

fn yarn(metadata: &Metadata, factor: f32, context: usize) -> Result<RopeScaling, Fault> {
    let float = |key, range| metadata.float(key, range);
    let original = metadata.int("llama.rope.scaling.original_context_length", limits::CONTEXT)?;
    // Files state a multiplier of the temperature that the method itself gives.
    let multiplier = match float("llama.rope.scaling.yarn_attn_factor", limits::ROPE)? {
        None => float("llama.rope.scaling.attn_factor", limits::ROPE)?,
        found => found,
    };
    Ok(RopeScaling::Yarn {
        factor,
        original_context: original.unwrap_or(context) as f32,
        beta_fast: float("llama.rope.scaling.yarn_beta_fast", limits::ROPE)?.unwrap_or(32.0),
        beta_slow: float("llama.rope.scaling.yarn_beta_slow", limits::ROPE)?.unwrap_or(1.0),
        attention_factor: multiplier.map(|by| by * 0.1_f32.mul_add(factor.ln(), 1.0)),
    })
}

/// What a tensor is for.
pub(crate) enum Use {
    /// A weight of the decoder.
    Weight(Role),
    /// Divides the rotary frequencies.
    RopeFreqs,
    /// Nothing: some writers store what follows from the metadata.
    Nothing,
}

/// What the tensor called `name` is for.
pub(crate) fn usage(name: &str) -> Result<Use, Fault> {
    match name {
        "token_embd.weight" => return Ok(Use::Weight(Role::Embedding)),
        "output.weight" => return Ok(Use::Weight(Role::Head)),
        "output_norm.weight" => return Ok(Use::Weight(Role::FinalNorm)),
        ROPE_FREQS => return Ok(Use::RopeFreqs),
        _ => {}
    }
    if name.ends_with(".attn_rot_embd") || name.ends_with(".attn_rot_embd.weight") {
        return Ok(Use::Nothing);
    }
    let layer_role = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).and_then(|(n, part)| {
        // Only the plain spelling, so that two names never mean one layer.
        let layer: usize = n.parse().ok().filter(|layer: &usize| layer.to_string() == n)?;
        Some(Use::Weight(Role::Layer(layer, layer_role(part)?)))
    });
    layer_role.ok_or_else(|| {
        let what = if name.ends_with(".bias") { "a bias" } else { "a tensor" };
        unsupported!(
            "{} is {what} that the supported `llama` architecture does not have; leaving it out would give wrong text",
            quote(name)
        )
    })
}

/// The weights of a layer by their names in the file.
const LAYER_NAMES: [(&str, LayerRole); 9] = [
    ("attn_norm.weight", LayerRole::AttentionNorm),
    ("attn_q.weight", LayerRole::Query),
    ("attn_k.weight", LayerRole::Key),
    ("attn_v.weight", LayerRole::Value),
    ("attn_output.weight", LayerRole::Output),
    ("ffn_norm.weight", LayerRole::FfnNorm),
    ("ffn_gate.weight", LayerRole::Gate),
    ("ffn_up.weight", LayerRole::Up),
    ("ffn_down.weight", LayerRole::Down),
];

fn layer_role(part: &str) -> Option<LayerRole> {
    LAYER_NAMES.iter().find(|(name, _)| *name == part).map(|&(_, role)| role)
}

/// The name of the weight for `role`.
pub(crate) fn name(role: Role) -> String {
    match role {
        Role::Embedding => "token_embd.weight".into(),
        Role::Head => "output.weight".into(),
        Role::FinalNorm => "output_norm.weight".into(),
        Role::Layer(n, role) => {
            let part = LAYER_NAMES.iter().find(|&&(_, r)| r == role).map_or("", |&(name, _)| name);
            format!("blk.{n}.{part}")
        }
    }
}
