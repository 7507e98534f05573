//! Weights as f32, whatever their type.

use half::{bf16, f16};
use plimsoll_model::{
    checkpoint::{Checkpoint, CheckpointError, DType},
    spec::Role,
};

/// A weight, row by row.
pub(super) struct Matrix {
    cols: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// The weight for `role`, if it is there.
    pub(super) fn read(model: &dyn Checkpoint, role: Role) -> Result<Option<Self>, CheckpointError> {
        let Some(tensor) = model.tensor(role)? else { return Ok(None) };
        let mut bytes = vec![0; tensor.rows * tensor.row_bytes()];
        model.read_rows(tensor, 0, &mut bytes)?;
        Ok(Some(Self { cols: tensor.cols, values: decode(&bytes, tensor.dtype) }))
    }

    /// The weight for `role`, which must be there.
    pub(super) fn need(model: &dyn Checkpoint, role: Role) -> Result<Self, CheckpointError> {
        let found = Self::read(model, role)?;
        Ok(found.expect("only a head may be absent, and it is asked for with `read`"))
    }

    /// A row.
    pub(super) fn row(&self, n: usize) -> &[f32] {
        &self.values[n * self.cols..][..self.cols]
    }

    /// Its product with a column.
    pub(super) fn times(&self, x: &[f32]) -> Vec<f32> {
        self.values.chunks(self.cols).map(|row| super::dot(row, x) as f32).collect()
    }
}

/// The numbers that `bytes` mean as `dtype`.
pub fn decode(bytes: &[u8], dtype: DType) -> Vec<f32> {
    let f16 = |b: &[u8]| f16::from_le_bytes([b[0], b[1]]).to_f32();
    bytes
        .chunks(dtype.block().1)
        .flat_map(|b| match dtype {
            DType::F32 => vec![f32::from_le_bytes([b[0], b[1], b[2], b[3]])],
            DType::F16 => vec![f16(b)],
            DType::BF16 => vec![bf16::from_le_bytes([b[0], b[1]]).to_f32()],
            DType::Q8_0 => b[2..].iter().map(|&q| f16(b) * f32::from(q as i8)).collect(),
            DType::Q4_0 => nibbles(&b[2..]).map(|q| f16(b) * (q - 8.0)).collect(),
            DType::Q4_1 => nibbles(&b[4..]).map(|q| f16(b) * q + f16(&b[2..])).collect(),
        })
        .collect()
}

/// Low nibbles, then high ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let low = bytes.iter().map(|byte| f32::from(byte & 15));
    low.chain(bytes.iter().map(|byte| f32::from(byte >> 4)))
}
