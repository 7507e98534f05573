//! A decoder as simple as can be: what every fast one must agree with. One sequence, all positions, f64 sums, no cache.
//!
//! It reads any [`Checkpoint`], so it is an oracle for readers and kernels alike.

mod rope;
mod weights;

use plimsoll_model::{
    checkpoint::{Checkpoint, CheckpointError},
    spec::{Activation, DecoderSpec, LayerRole, Role},
};
use rope::Turner;
use weights::Matrix;

/// Logits after each of `tokens`: a row of `vocab` numbers for each.
///
/// # Errors
/// When a weight cannot be read.
///
/// # Panics
/// When a token is outside the vocabulary.
pub fn logits(model: &dyn Checkpoint, tokens: &[u32]) -> Result<Vec<Vec<f32>>, CheckpointError> {
    let spec = model.spec();
    let embedding = Matrix::need(model, Role::Embedding)?;
    let mut stream: Vec<Vec<f32>> = tokens.iter().map(|&id| embedding.row(id as usize).to_vec()).collect();
    let turner = Turner::new(&spec.rope);
    for n in 0..spec.layers {
        Layer::read(model, n)?.run(spec, &turner, &mut stream);
    }
    let norm = Matrix::need(model, Role::FinalNorm)?;
    let head = Matrix::read(model, Role::Head)?.unwrap_or(embedding);
    Ok(stream.iter().map(|x| head.times(&normed(x, &norm, spec.norm_eps))).collect())
}

struct Layer {
    attention_norm: Matrix,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    output: Matrix,
    ffn_norm: Matrix,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Layer {
    fn read(model: &dyn Checkpoint, n: usize) -> Result<Self, CheckpointError> {
        let need = |role| Matrix::need(model, Role::Layer(n, role));
        Ok(Self {
            attention_norm: need(LayerRole::AttentionNorm)?,
            query: need(LayerRole::Query)?,
            key: need(LayerRole::Key)?,
            value: need(LayerRole::Value)?,
            output: need(LayerRole::Output)?,
            ffn_norm: need(LayerRole::FfnNorm)?,
            gate: need(LayerRole::Gate)?,
            up: need(LayerRole::Up)?,
            down: need(LayerRole::Down)?,
        })
    }

    fn run(&self, spec: &DecoderSpec, turner: &Turner, stream: &mut [Vec<f32>]) {
        let attended = self.attend(spec, turner, stream);
        for (x, heads) in stream.iter_mut().zip(attended) {
            add(x, &self.output.times(&heads));
            let inner = normed(x, &self.ffn_norm, spec.norm_eps);
            let (gate, up) = (self.gate.times(&inner), self.up.times(&inner));
            let gated: Vec<f32> =
                gate.iter().zip(up).map(|(&gate, up)| activate(spec.activation, gate) * up).collect();
            add(x, &self.down.times(&gated));
        }
    }

    /// What the heads of each position gather, side by side.
    fn attend(&self, spec: &DecoderSpec, turner: &Turner, stream: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let inputs: Vec<Vec<f32>> =
            stream.iter().map(|x| normed(x, &self.attention_norm, spec.norm_eps)).collect();
        let turned = |matrix: &Matrix| -> Vec<Vec<f32>> {
            let turn = |(position, x): (usize, &Vec<f32>)| {
                let mut out = matrix.times(x);
                out.chunks_mut(spec.head_dim).for_each(|head| turner.turn(head, position));
                out
            };
            inputs.iter().enumerate().map(turn).collect()
        };
        let (queries, keys) = (turned(&self.query), turned(&self.key));
        let values: Vec<Vec<f32>> = inputs.iter().map(|x| self.value.times(x)).collect();
        let gather = |(position, query): (usize, &Vec<f32>)| {
            let heads = query.chunks(spec.head_dim).enumerate();
            let one = |(head, query)| {
                let start = head / (spec.heads / spec.kv_heads) * spec.head_dim;
                let range = start..start + spec.head_dim;
                let part = |rows: &[Vec<f32>]| -> Vec<Vec<f32>> {
                    rows[..=position].iter().map(|row| row[range.clone()].to_vec()).collect()
                };
                attention(query, &part(&keys), &part(&values))
            };
            heads.flat_map(one).collect()
        };
        queries.iter().enumerate().map(gather).collect()
    }
}

/// The mean of `values`, weighted by the softmax of the scaled products of `query` with `keys`.
fn attention(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f32> {
    let scale = 1.0 / (query.len() as f64).sqrt();
    let scores: Vec<f64> = keys.iter().map(|key| scale * dot(query, key)).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = shares.iter().sum();
    let mean =
        |i: usize| shares.iter().zip(values).map(|(share, value)| share * f64::from(value[i])).sum::<f64>();
    (0..query.len()).map(|i| (mean(i) / total) as f32).collect()
}

fn normed(x: &[f32], weight: &Matrix, eps: f32) -> Vec<f32> {
    let scale = 1.0 / (dot(x, x) / x.len() as f64 + f64::from(eps)).sqrt();
    x.iter().zip(weight.row(0)).map(|(&x, weight)| (f64::from(x) * scale) as f32 * weight).collect()
}

fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
