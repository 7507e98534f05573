//! Numbers to bytes of each weight type: plain rounding, as simple as it can be.

use half::{bf16, f16};
use plimsoll_model::checkpoint::DType;

/// The bytes of `values` as `dtype`.
///
/// # Panics
/// When the length is not a multiple of the type's block.
pub fn encode(values: &[f32], dtype: DType) -> Vec<u8> {
    assert!(values.len().is_multiple_of(dtype.block().0), "{} values in blocks of {dtype:?}", values.len());
    match dtype {
        DType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::BF16 => values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
        DType::Q8_0 => values.chunks(32).flat_map(q8_0).collect(),
        DType::Q4_0 => values.chunks(32).flat_map(q4_0).collect(),
        DType::Q4_1 => values.chunks(32).flat_map(q4_1).collect(),
    }
}

fn q8_0(block: &[f32]) -> Vec<u8> {
    let scale = block.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
    let inverse = if scale > 0.0 { scale.recip() } else { 0.0 };
    let quants = block.iter().map(|x| (x * inverse).round() as i8 as u8);
    f16::from_f32(scale).to_le_bytes().into_iter().chain(quants).collect()
}

fn q4_0(block: &[f32]) -> Vec<u8> {
    let extreme = block.iter().copied().fold(0.0_f32, |most, x| if x.abs() > most.abs() { x } else { most });
    let scale = extreme / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { scale.recip() };
    let quants: Vec<u8> = block.iter().map(|x| (x * inverse + 8.5).clamp(0.0, 15.0) as u8).collect();
    f16::from_f32(scale).to_le_bytes().into_iter().chain(nibbles(&quants)).collect()
}

fn q4_1(block: &[f32]) -> Vec<u8> {
    let low = block.iter().copied().fold(f32::INFINITY, f32::min);
    let high = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = (high - low) / 15.0;
    let inverse = if scale > 0.0 { scale.recip() } else { 0.0 };
    let quants: Vec<u8> = block.iter().map(|x| ((x - low) * inverse + 0.5).clamp(0.0, 15.0) as u8).collect();
    let front = [f16::from_f32(scale).to_le_bytes(), f16::from_f32(low).to_le_bytes()].concat();
    front.into_iter().chain(nibbles(&quants)).collect()
}

/// Element `i` in the low nibble of byte `i`, element `i + 16` in the high one.
fn nibbles(quants: &[u8]) -> impl Iterator<Item = u8> {
    (0..16).map(|i| quants[i] | quants[i + 16] << 4)
}
