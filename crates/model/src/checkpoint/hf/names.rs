//! Names of weights in a Hugging Face folder of the llama family.

use crate::{
    checkpoint::fault::{Fault, quote, unsupported},
    spec::{LayerRole, Role},
};

/// The weights of a layer.
const LAYER_NAMES: [(&str, LayerRole); 9] = [
    ("input_layernorm.weight", LayerRole::AttentionNorm),
    ("self_attn.q_proj.weight", LayerRole::Query),
    ("self_attn.k_proj.weight", LayerRole::Key),
    ("self_attn.v_proj.weight", LayerRole::Value),
    ("self_attn.o_proj.weight", LayerRole::Output),
    ("post_attention_layernorm.weight", LayerRole::FfnNorm),
    ("mlp.gate_proj.weight", LayerRole::Gate),
    ("mlp.up_proj.weight", LayerRole::Up),
    ("mlp.down_proj.weight", LayerRole::Down),
];

/// What the tensor called `name` is for; `None` for what follows from the config.
pub(crate) fn role(name: &str) -> Result<Option<Role>, Fault> {
    match name {
        "model.embed_tokens.weight" => return Ok(Some(Role::Embedding)),
        "lm_head.weight" => return Ok(Some(Role::Head)),
        "model.norm.weight" => return Ok(Some(Role::FinalNorm)),
        _ if name.ends_with("rotary_emb.inv_freq") => return Ok(None),
        _ => {}
    }
    let layer =
        name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.')).and_then(|(n, part)| {
            // Only the plain spelling, so that two names never mean one layer.
            let layer: usize = n.parse().ok().filter(|layer: &usize| layer.to_string() == n)?;
            let (_, role) = LAYER_NAMES.iter().find(|(name, _)| *name == part)?;
            Some(Role::Layer(layer, *role))
        });
    layer.map(Some).ok_or_else(|| {
        let what = if name.ends_with(".bias") { "a bias" } else { "a tensor" };
        unsupported!(
            "{} is {what} that the supported architectures do not have; leaving it out would give wrong text",
            quote(name)
        )
    })
}

/// The name of the weight for `role`.
pub(crate) fn name(role: Role) -> String {
    match role {
        Role::Embedding => "model.embed_tokens.weight".into(),
        Role::Head => "lm_head.weight".into(),
        Role::FinalNorm => "model.norm.weight".into(),
        Role::Layer(n, role) => {
            let part = LAYER_NAMES.iter().find(|&&(_, r)| r == role).map_or("", |&(name, _)| name);
            format!("model.layers.{n}.{part}")
        }
    }
}
