//! Bounds on what a file may claim. They are far above any real model, and low enough that no product of them overflows.

use super::fault::{Fault, bad};
use crate::spec::DecoderSpec;
use std::ops::RangeInclusive;

/// Transformer layers.
pub(crate) const LAYERS: RangeInclusive<usize> = 1..=1024;
/// Residual and feed-forward width.
pub(crate) const WIDTH: RangeInclusive<usize> = 1..=1 << 20;
/// Query, key and value heads.
pub(crate) const HEADS: RangeInclusive<usize> = 1..=1024;
/// Width of one head.
pub(crate) const HEAD_DIM: RangeInclusive<usize> = 2..=4096;
/// Tokens in the vocabulary.
pub(crate) const VOCAB: RangeInclusive<usize> = 1..=1 << 24;
/// Longest sequence.
pub(crate) const CONTEXT: RangeInclusive<usize> = 1..=1 << 30;
/// Epsilon of RMSNorm.
pub(crate) const NORM_EPS: RangeInclusive<f32> = 1e-12..=1e-1;
/// Base frequency and the factors of rotary scaling.
pub(crate) const ROPE: RangeInclusive<f32> = 1e-6..=1e12;

/// Checks what several fields must satisfy together. The fields alone were checked when they were read.
pub(crate) fn check_together(spec: &DecoderSpec) -> Result<(), Fault> {
    let DecoderSpec { heads, kv_heads, head_dim, .. } = *spec;
    if !heads.is_multiple_of(kv_heads) {
        return Err(bad!("{kv_heads} key and value heads do not divide {heads} query heads; they must"));
    }
    let turned = spec.rope.dim;
    if turned == 0 || !turned.is_multiple_of(2) || turned > head_dim {
        return Err(bad!(
            "rotary dimension is {turned}; it must be even, at least 2 and at most the head dimension {head_dim}"
        ));
    }
    Ok(())
}

/// The width of a head when the file does not name it.
pub(crate) fn head_dim(width: usize, heads: usize) -> Result<usize, Fault> {
    if !width.is_multiple_of(heads) || !HEAD_DIM.contains(&(width / heads)) {
        return Err(bad!(
            "embedding width {width} over {heads} heads gives no head dimension from {} to {}",
            HEAD_DIM.start(),
            HEAD_DIM.end()
        ));
    }
    Ok(width / heads)
}
