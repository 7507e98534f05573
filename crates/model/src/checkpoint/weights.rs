//! The weights of a checkpoint by role: every role filled, every shape and type checked against the spec.

use super::{
    CheckpointError, DType, Tensor,
    fault::{Fault, bad, quote, unsupported},
    source::Source,
};
use crate::spec::{DecoderSpec, LayerRole, Role};
use std::{collections::HashMap, path::PathBuf};

/// The roles of one layer.
const LAYER_ROLES: [LayerRole; 9] = [
    LayerRole::AttentionNorm,
    LayerRole::Query,
    LayerRole::Key,
    LayerRole::Value,
    LayerRole::Output,
    LayerRole::FfnNorm,
    LayerRole::Gate,
    LayerRole::Up,
    LayerRole::Down,
];

/// Every role of `spec`, the head included.
fn roles(spec: &DecoderSpec) -> impl Iterator<Item = Role> {
    let layers = (0..spec.layers).flat_map(|n| LAYER_ROLES.map(|role| Role::Layer(n, role)));
    [Role::Embedding, Role::Head, Role::FinalNorm].into_iter().chain(layers)
}

/// `(rows, cols)` that the weight for `role` must have.
fn shape(spec: &DecoderSpec, role: Role) -> (usize, usize) {
    let query = spec.heads * spec.head_dim;
    let key = spec.kv_heads * spec.head_dim;
    match role {
        Role::Embedding | Role::Head => (spec.vocab, spec.width),
        Role::FinalNorm => (1, spec.width),
        Role::Layer(_, role) => match role {
            LayerRole::AttentionNorm | LayerRole::FfnNorm => (1, spec.width),
            LayerRole::Query => (query, spec.width),
            LayerRole::Key | LayerRole::Value => (key, spec.width),
            LayerRole::Output => (spec.width, query),
            LayerRole::Gate | LayerRole::Up => (spec.ffn, spec.width),
            LayerRole::Down => (spec.width, spec.ffn),
        },
    }
}

/// Whether `role` is a norm: its numbers are used one by one, so block types do not fit.
const fn is_norm(role: Role) -> bool {
    matches!(role, Role::FinalNorm | Role::Layer(_, LayerRole::AttentionNorm | LayerRole::FfnNorm))
}

/// A weight as its file describes it.
#[derive(Debug)]
pub(crate) struct Found {
    /// Type, place and shape.
    pub(crate) tensor: Tensor,
    /// Where in its file it is described, for messages.
    pub(crate) described_at: u64,
}

impl Found {
    fn check(&self, spec: &DecoderSpec, role: Role) -> Result<(), Fault> {
        let Tensor { name, dtype, rows, cols, .. } = &self.tensor;
        let (name, at) = (quote(name), self.described_at);
        let (want_rows, want_cols) = shape(spec, role);
        if (*rows, *cols) != (want_rows, want_cols) {
            return Err(bad!(
                "tensor {name} described at byte {at} has {rows} rows of {cols}; the model's sizes want \
                 {want_rows} rows of {want_cols}"
            ));
        }
        if is_norm(role) && !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(unsupported!(
                "tensor {name} described at byte {at} is a norm of type {dtype:?}; norms are supported as F32, F16, \
                 BF16"
            ));
        }
        Ok(())
    }
}

/// All weights of a checkpoint and the files they lie in.
pub(crate) struct Weights {
    tensors: HashMap<Role, Tensor>,
    files: Vec<(PathBuf, Box<dyn Source>)>,
}

impl Weights {
    /// Checks that every role of `spec` but the head is filled, and every shape and type.
    pub(crate) fn new(
        spec: &DecoderSpec,
        mut found: HashMap<Role, Found>,
        files: Vec<(PathBuf, Box<dyn Source>)>,
        name: impl Fn(Role) -> String,
    ) -> Result<Self, Fault> {
        let mut tensors = HashMap::with_capacity(found.len());
        for role in roles(spec) {
            match found.remove(&role) {
                Some(weight) => {
                    weight.check(spec, role)?;
                    tensors.insert(role, weight.tensor);
                }
                None if role == Role::Head => {}
                None => return Err(bad!("tensor `{}` is missing", name(role))),
            }
        }
        if let Some(extra) = found.into_values().next() {
            return Err(bad!(
                "tensor {} described at byte {} belongs to no layer from 0 to {}",
                quote(&extra.tensor.name),
                extra.described_at,
                spec.layers - 1
            ));
        }
        Ok(Self { tensors, files })
    }

    /// The weight for `role`.
    pub(crate) fn tensor(&self, role: Role) -> Result<Option<&Tensor>, CheckpointError> {
        match self.tensors.get(&role) {
            None if role != Role::Head => {
                Err(bad!("this model has no weight for {role:?}").at(&self.files[0].0))
            }
            found => Ok(found),
        }
    }

    /// Reads whole rows as stored.
    pub(crate) fn read_rows(
        &self,
        tensor: &Tensor,
        first: usize,
        out: &mut [u8],
    ) -> Result<(), CheckpointError> {
        let (path, source) = self.files.get(tensor.file).unwrap_or(&self.files[0]);
        let row = tensor.row_bytes();
        let rows = out.len() / row.max(1);
        let inside = first.checked_add(rows).is_some_and(|end| end <= tensor.rows);
        if row == 0 || !out.len().is_multiple_of(row) || !inside || tensor.file >= self.files.len() {
            return Err(bad!(
                "{} bytes from row {first} of tensor {} are not whole rows of {row} bytes below row {}",
                out.len(),
                quote(&tensor.name),
                tensor.rows
            )
            .at(path));
        }
        let offset = tensor.offset + (first * row) as u64;
        source.read_exact_at(out, offset).map_err(|e| Fault::Io(e).at(path))
    }

    /// The type that most bytes of the matrices of layers are stored in.
    pub(crate) fn main_dtype(&self) -> DType {
        let mut bytes: HashMap<DType, usize> = HashMap::new();
        for (role, tensor) in &self.tensors {
            if matches!(role, Role::Layer(..)) {
                *bytes.entry(tensor.dtype).or_default() += tensor.rows * tensor.row_bytes();
            }
        }
        bytes.into_iter().max_by_key(|&(_, bytes)| bytes).map_or(DType::F32, |(dtype, _)| dtype)
    }
}
