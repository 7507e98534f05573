//! How large a model's engine is made, from what the configuration says and what the model is.

use crate::config::Model;
use crate::config::units::Size;
use anyhow::ensure;
use plimsoll_model::decoder::{Options, kv_block_bytes};
use plimsoll_model::engine::BLOCK_TOKENS;
use plimsoll_model::spec::DecoderSpec;

/// KV memory when nobody says, if that is enough for one full context.
const DEFAULT_KV_MEMORY: u64 = 512 << 20;
/// Token rows of a step. Longer prompts are computed in pieces, so more would only take memory.
pub const MAX_ROWS: usize = 512;

/// The sizes of the engine for `model`.
pub fn options(model: &Model, spec: &DecoderSpec) -> anyhow::Result<Options> {
    let context = model.ctx.unwrap_or(spec.context);
    ensure!(
        context <= spec.context,
        "model `{}`: ctx = {context} is more than the {} tokens it was trained for",
        model.name,
        spec.context
    );
    let blocks = blocks(model, context, kv_block_bytes(spec, model.kv_type) as u64)?;
    Ok(Options { context, blocks, max_seqs: model.max_seqs, max_rows: MAX_ROWS, kv: model.kv_type })
}

/// As many KV blocks as the memory holds, and no more than all sequences together can use.
fn blocks(model: &Model, context: usize, block_bytes: u64) -> anyhow::Result<usize> {
    let one_context = context.div_ceil(BLOCK_TOKENS);
    let fitting = |bytes: u64| usize::try_from(bytes / block_bytes).unwrap_or(usize::MAX);
    let affordable = match model.kv_memory {
        Some(bytes) => fitting(bytes),
        None => fitting(DEFAULT_KV_MEMORY).max(one_context),
    };
    ensure!(
        affordable > 0,
        "model `{}`: kv_memory = {} holds no block of its KV cache, which is {}",
        model.name,
        Size(model.kv_memory.unwrap_or(0)),
        Size(block_bytes)
    );
    Ok(affordable.min(one_context.saturating_mul(model.max_seqs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(kv_memory: Option<u64>, max_seqs: usize) -> Model {
        let (name, source) = ("m".to_owned(), "m".to_owned());
        let (parking, queue_policy, promise) = Default::default();
        let profile = None;
        let (ctx, prefix_cache, queue, max_queue_tokens, max_per_key, tenants) = (None, true, 1, None, 1, 1);
        Model {
            name,
            source,
            ctx,
            max_seqs,
            kv_memory,
            kv_type: Default::default(),
            prefix_cache,
            parking,
            queue,
            queue_policy,
            max_queue_tokens,
            max_per_key,
            promise,
            tenants,
            experiments: Vec::new(),
            tenant_limits: Vec::new(),
            profile,
        }
    }

    #[test]
    fn memory_becomes_blocks() {
        const MIB: u64 = 1 << 20;
        let cases = [
            // (KV memory, sequences, context, bytes of a block) -> blocks
            ((Some(64 * MIB), 16, 8192, MIB), 64),
            ((Some(64 * MIB), 1, 160, MIB), 10),
            ((None, 16, 8192, MIB), 512),
            ((None, 4, 160, MIB), 40),
            // One full context takes more than the default.
            ((None, 16, 32_000, MIB), 2000),
        ];
        for ((memory, max_seqs, context, block), expected) in cases {
            let blocks = blocks(&model(memory, max_seqs), context, block).unwrap();
            assert_eq!(blocks, expected, "{memory:?} {max_seqs} {context} {block}");
        }
        let error = blocks(&model(Some(MIB), 1), 100, 2 * MIB).unwrap_err().to_string();
        assert_eq!(error, "model `m`: kv_memory = 1 MiB holds no block of its KV cache, which is 2 MiB");
    }
}
