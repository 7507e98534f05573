//! Weights of a decoder, packed for the kernels as they are read: no more than one piece of the file is in memory
//! besides them.

use super::error::LoadError;
use crate::checkpoint::{Checkpoint, CheckpointError, DType, Tensor};
use crate::spec::{DecoderSpec, LayerRole, Role, Rope, RopeOrder};
use half::{bf16, f16};
use plimsoll_kernels::{Matrix, Stored};
use plimsoll_pool::AlignedBuf;

/// Bytes of a file read at a time.
const PIECE: usize = 4 << 20;

pub(crate) struct Weights {
    pub(crate) embedding: Matrix,
    /// `None`: tied to the embedding.
    head: Option<Matrix>,
    pub(crate) final_norm: Vec<f32>,
    pub(crate) layers: Vec<Layer>,
}

pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) output: Matrix,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

impl Layer {
    fn matrices(&self) -> [&Matrix; 7] {
        [&self.query, &self.key, &self.value, &self.output, &self.gate, &self.up, &self.down]
    }
}

impl Weights {
    /// Reads and packs all weights; `progress` is told the bytes read so far and in all.
    pub(crate) fn load(
        checkpoint: &dyn Checkpoint,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LoadError> {
        let spec = checkpoint.spec();
        let Totals { read, packed } = totals(checkpoint)?;
        let arena =
            AlignedBuf::try_zeroed(packed).map_err(|refused| LoadError::Weights { bytes: refused.bytes })?;
        let mut loader = Loader { checkpoint, progress, arena, read: 0, total: read };
        let embedding = loader.matrix(Role::Embedding, None)?;
        let head = match checkpoint.tensor(Role::Head)? {
            Some(_) => Some(loader.matrix(Role::Head, None)?),
            None => None,
        };
        let final_norm = loader.vector(Role::FinalNorm)?;
        let layers = (0..spec.layers).map(|i| loader.layer(i)).collect::<Result<_, CheckpointError>>()?;
        Ok(Self { embedding, head, final_norm, layers })
    }

    /// The output head.
    pub(crate) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Bytes of all matrices.
    pub(crate) fn bytes(&self) -> usize {
        self.matrices().map(Matrix::bytes).sum()
    }

    fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let layers = self.layers.iter().flat_map(Layer::matrices);
        [&self.embedding].into_iter().chain(&self.head).chain(layers)
    }
}

/// All roles of a decoder.
fn roles(spec: &DecoderSpec) -> impl Iterator<Item = Role> {
    use LayerRole::{AttentionNorm, Down, FfnNorm, Gate, Key, Output, Query, Up, Value};
    let layer = [AttentionNorm, Query, Key, Value, Output, FfnNorm, Gate, Up, Down];
    let layers = (0..spec.layers).flat_map(move |i| layer.map(|role| Role::Layer(i, role)));
    [Role::Embedding, Role::Head, Role::FinalNorm].into_iter().chain(layers)
}

/// Bytes of all weights.
struct Totals {
    /// In the file.
    read: u64,
    /// Packed matrices, which share one allocation.
    packed: usize,
}

fn totals(checkpoint: &dyn Checkpoint) -> Result<Totals, CheckpointError> {
    let mut totals = Totals { read: 0, packed: 0 };
    for role in roles(checkpoint.spec()) {
        if let Some(tensor) = checkpoint.tensor(role)? {
            totals.read += (tensor.rows * tensor.row_bytes()) as u64;
            if !role.is_vector() {
                totals.packed += Matrix::arena_bytes(tensor.rows, tensor.cols, stored(tensor.dtype).packed());
            }
        }
    }
    Ok(totals)
}

struct Loader<'a> {
    checkpoint: &'a dyn Checkpoint,
    progress: &'a mut dyn FnMut(u64, u64),
    arena: AlignedBuf<u8>,
    read: u64,
    total: u64,
}

impl Loader<'_> {
    fn layer(&mut self, i: usize) -> Result<Layer, CheckpointError> {
        let DecoderSpec { head_dim, rope, .. } = self.checkpoint.spec();
        let order = Some(HeadOrder::new(*head_dim, rope));
        let role = |role| Role::Layer(i, role);
        Ok(Layer {
            attention_norm: self.vector(role(LayerRole::AttentionNorm))?,
            query: self.matrix(role(LayerRole::Query), order)?,
            key: self.matrix(role(LayerRole::Key), order)?,
            value: self.matrix(role(LayerRole::Value), None)?,
            output: self.matrix(role(LayerRole::Output), None)?,
            ffn_norm: self.vector(role(LayerRole::FfnNorm))?,
            gate: self.matrix(role(LayerRole::Gate), None)?,
            up: self.matrix(role(LayerRole::Up), None)?,
            down: self.matrix(role(LayerRole::Down), None)?,
        })
    }

    /// Packs a matrix; `order` says where its rows go.
    fn matrix(&mut self, role: Role, order: Option<HeadOrder>) -> Result<Matrix, CheckpointError> {
        let tensor = self.tensor(role)?;
        let stored = stored(tensor.dtype);
        let mut matrix = Matrix::new(tensor.rows, tensor.cols, stored.packed(), &mut self.arena);
        let place = |row| order.map_or(row, |order| order.place(row));
        self.rows(tensor, |row, bytes| matrix.set_row(place(row), stored, bytes))?;
        Ok(matrix)
    }

    /// A vector as f32.
    fn vector(&mut self, role: Role) -> Result<Vec<f32>, CheckpointError> {
        let tensor = self.tensor(role)?;
        let mut vector = Vec::with_capacity(tensor.cols);
        let half = |b: &[u8]| [b[0], b[1]];
        self.rows(tensor, |_, bytes| match tensor.dtype {
            DType::F16 => vector.extend(bytes.chunks_exact(2).map(|b| f16::from_le_bytes(half(b)).to_f32())),
            DType::BF16 => {
                vector.extend(bytes.chunks_exact(2).map(|b| bf16::from_le_bytes(half(b)).to_f32()))
            }
            _ => vector.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        })?;
        Ok(vector)
    }

    fn tensor<'c>(&self, role: Role) -> Result<&'c Tensor, CheckpointError>
    where
        Self: 'c,
    {
        // `Weights::load` asks only for what is there; a checkpoint names what is missing itself.
        self.checkpoint.tensor(role)?.ok_or_else(|| CheckpointError::Format {
            path: std::path::PathBuf::from(self.checkpoint.title()),
            what: format!("no weight for {role:?}"),
        })
    }

    fn rows(&mut self, tensor: &Tensor, mut row: impl FnMut(usize, &[u8])) -> Result<(), CheckpointError> {
        let size = tensor.row_bytes();
        let rows = (PIECE / size).clamp(1, tensor.rows.max(1));
        let mut piece = vec![0; rows * size];
        for first in (0..tensor.rows).step_by(rows) {
            let count = rows.min(tensor.rows - first);
            let piece = &mut piece[..count * size];
            self.checkpoint.read_rows(tensor, first, piece)?;
            piece.chunks_exact(size).enumerate().for_each(|(i, bytes)| row(first + i, bytes));
            self.read += piece.len() as u64;
            (self.progress)(self.read, self.total);
        }
        Ok(())
    }
}

fn stored(dtype: DType) -> Stored {
    match dtype {
        DType::F32 => Stored::F32,
        DType::F16 => Stored::F16,
        DType::BF16 => Stored::BF16,
        DType::Q8_0 => Stored::Q8_0,
        DType::Q4_0 => Stored::Q4_0,
        DType::Q4_1 => Stored::Q4_1,
    }
}

/// Where a row of a query or key projection goes, so that the elements that turn together lie half the turning part
/// apart, as the kernels want them.
#[derive(Clone, Copy)]
struct HeadOrder {
    head_dim: usize,
    /// Elements of a head that turn in neighbouring pairs: 0 if none do.
    paired: usize,
}

impl HeadOrder {
    fn new(head_dim: usize, rope: &Rope) -> Self {
        let paired = if rope.order == RopeOrder::Interleaved { rope.dim } else { 0 };
        Self { head_dim, paired }
    }

    fn place(self, row: usize) -> usize {
        let within = row % self.head_dim;
        if within >= self.paired {
            return row;
        }
        row - within + within / 2 + within % 2 * (self.paired / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::HeadOrder;

    #[test]
    fn neighbours_come_to_lie_half_the_turning_part_apart() {
        let order = HeadOrder { head_dim: 8, paired: 6 };
        let places: Vec<usize> = (8..16).map(|row| order.place(row)).collect();
        assert_eq!(places, [8, 11, 9, 12, 10, 13, 14, 15]);
    }
}
