//! Rotary embedding in `config.json`: `rope_theta` and `rope_scaling` of older files, `rope_parameters` of newer ones.

use super::json::Fields;
use crate::{
    checkpoint::{
        fault::{Fault, bad, quote, unsupported},
        limits,
    },
    spec::{Rope, RopeOrder, RopeScaling},
};

/// Reads it.
pub(crate) fn rope(config: Fields<'_>, head_dim: usize, context: usize) -> Result<Rope, Fault> {
    let newer = config.object("rope_parameters", "rope_parameters.")?;
    let older = config.object("rope_scaling", "rope_scaling.")?;
    let parameters = older.or(newer);
    let theta_range = 1.0..=*limits::ROPE.end();
    let nested = parameters.map(|p| p.float("rope_theta", theta_range.clone())).transpose()?.flatten();
    let theta = match nested {
        None => config.float("rope_theta", theta_range)?,
        found => found,
    };
    for fields in [Some(config), parameters].into_iter().flatten() {
        check_whole(fields)?;
    }
    let scaling = match parameters {
        Some(parameters) => scaling(config, parameters, context)?,
        None => RopeScaling::None,
    };
    Ok(Rope { theta: theta.unwrap_or(10_000.0), dim: head_dim, order: RopeOrder::Half, scaling })
}

fn check_whole(fields: Fields<'_>) -> Result<(), Fault> {
    match fields.float("partial_rotary_factor", 0.0..=1.0)? {
        Some(part) if part != 1.0 => Err(unsupported!(
            "a rotary embedding of part of the head (`partial_rotary_factor` is {part}); supported is 1"
        )),
        _ => Ok(()),
    }
}

fn scaling(config: Fields<'_>, parameters: Fields<'_>, context: usize) -> Result<RopeScaling, Fault> {
    let kind = match parameters.text("rope_type")? {
        None => parameters.text("type")?,
        found => found,
    };
    let need = |key| parameters.need(key, parameters.float(key, limits::ROPE)?);
    match kind.unwrap_or("default") {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: need("factor")? }),
        "llama3" => {
            let (low, high) = (need("low_freq_factor")?, need("high_freq_factor")?);
            if low >= high {
                return Err(bad!(
                    "`low_freq_factor` is {low}, `high_freq_factor` {high}; low must be less than high"
                ));
            }
            Ok(RopeScaling::Llama3 {
                factor: need("factor")?,
                low_freq_factor: low,
                high_freq_factor: high,
                original_context: original_context(config, parameters, context)?,
            })
        }
        "yarn" => yarn(config, parameters, context),
        other => Err(unsupported!(
            "rotary scaling {} (`rope_type`); supported are default, linear, llama3, yarn",
            quote(other)
        )),
    }
}

fn original_context(config: Fields<'_>, parameters: Fields<'_>, context: usize) -> Result<f32, Fault> {
    let key = "original_max_position_embeddings";
    let found = match config.int(key, limits::CONTEXT)? {
        None => parameters.int(key, limits::CONTEXT)?,
        found => found,
    };
    Ok(found.unwrap_or(context) as f32)
}

fn yarn(config: Fields<'_>, parameters: Fields<'_>, context: usize) -> Result<RopeScaling, Fault> {
    let float = |key| parameters.float(key, limits::ROPE);
    if parameters.bool("truncate")? == Some(false) {
        return Err(unsupported!("yarn with an untruncated ramp (`truncate` is false); supported is true"));
    }
    let original_context = original_context(config, parameters, context)?;
    let factor = float("factor")?.unwrap_or(context as f32 / original_context);
    let temperature = |by: f32| if factor <= 1.0 { 1.0 } else { (0.1 * by).mul_add(factor.ln(), 1.0) };
    // Some files state two temperatures, of which the quotient counts.
    let attention_factor = match (float("attention_factor")?, float("mscale")?, float("mscale_all_dim")?) {
        (None, Some(mscale), Some(all)) => Some(temperature(mscale) / temperature(all)),
        (None, ..) if factor <= 1.0 => Some(1.0),
        (stated, ..) => stated,
    };
    Ok(RopeScaling::Yarn {
        factor,
        original_context,
        beta_fast: float("beta_fast")?.unwrap_or(32.0),
        beta_slow: float("beta_slow")?.unwrap_or(1.0),
        attention_factor,
    })
}
