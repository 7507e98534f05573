//! One step: rows of tokens from many sequences through all layers.

use super::rope::Frequencies;
use super::weights::{Layer, Weights};
use crate::engine::{BLOCK_TOKENS, Logits, Shape, Span, StepError};
use crate::spec::{Activation, DecoderSpec};
use plimsoll_kernels::{
    Activations, AttentionPlan, Compute, Heads, Matrix, Product, Query, Slab, Slot, product,
};
use plimsoll_pool::AlignedBuf;

/// Room for one step, sized when the model is loaded.
pub(crate) struct Buffers {
    tokens: Vec<u32>,
    slots: Vec<Slot>,
    /// Cosines and sines, `[rows, rope.dim]`.
    angles: Vec<f32>,
    /// Rows that want logits.
    wanted: Vec<u32>,
    /// 0, 1, 2, …: all rows.
    all: Vec<u32>,
    attention: AttentionPlan,
    /// The residual stream, `[rows, width]`.
    stream: AlignedBuf<f32>,
    normed: Activations,
    queries: AlignedBuf<f32>,
    keys: AlignedBuf<f32>,
    values: AlignedBuf<f32>,
    attended: Activations,
    gated: Activations,
    last: Activations,
}

impl Buffers {
    pub(crate) fn new(
        compute: &mut Compute,
        spec: &DecoderSpec,
        shape: &Shape,
        max_seqs: usize,
        (weights, slab): (&Weights, &Slab),
    ) -> Self {
        let rows = shape.max_rows;
        let (width, attended, kv) = (spec.width, spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let any =
            |of: &dyn Fn(&Layer) -> &Matrix| weights.layers.iter().any(|l| of(l).packed().is_quantized());
        let normed = any(&|l| &l.query)
            || any(&|l| &l.key)
            || any(&|l| &l.value)
            || any(&|l| &l.gate)
            || any(&|l| &l.up);
        Self {
            tokens: Vec::with_capacity(rows),
            slots: Vec::with_capacity(rows),
            angles: Vec::with_capacity(rows * spec.rope.dim),
            wanted: Vec::with_capacity(shape.max_logits),
            all: (0..rows as u32).collect(),
            attention: AttentionPlan::new(compute, (rows, max_seqs, shape.context), spec.heads, slab),
            stream: AlignedBuf::zeroed(rows * width),
            normed: Activations::new(rows, width, normed),
            queries: AlignedBuf::zeroed(rows * attended),
            keys: AlignedBuf::zeroed(rows * kv),
            values: AlignedBuf::zeroed(rows * kv),
            attended: Activations::new(rows, attended, any(&|l| &l.output)),
            gated: Activations::new(rows, spec.ffn, any(&|l| &l.down)),
            last: Activations::new(shape.max_logits, width, weights.head().packed().is_quantized()),
        }
    }

    /// Lays out the rows of `spans`, or says which limit they break.
    pub(crate) fn lay_out(
        &mut self,
        spans: &[Span<'_>],
        shape: &Shape,
        frequencies: &Frequencies,
    ) -> Result<(), StepError> {
        self.tokens.clear();
        self.slots.clear();
        self.wanted.clear();
        self.angles.clear();
        for span in spans {
            check(span, shape)?;
            let first = self.tokens.len();
            let rows = first..first + span.tokens.len();
            match span.logits {
                Logits::None => {}
                Logits::Last => self.wanted.push(rows.end as u32 - 1),
                Logits::All => self.wanted.extend(rows.start as u32..rows.end as u32),
            }
            if rows.end > shape.max_rows || self.wanted.len() > shape.max_logits {
                let Shape { max_rows, max_logits, .. } = shape;
                return Err(StepError(format!(
                    "over {max_rows} rows or {max_logits} rows of logits in a step"
                )));
            }
            self.tokens.extend_from_slice(span.tokens);
            for position in span.start..span.start + span.tokens.len() {
                let (block, place) = (span.blocks[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
                self.slots.push(Slot { block, place: place as u32 });
                let at = self.angles.len();
                self.angles.resize(at + frequencies.dim(), 0.0);
                frequencies.angles(position, &mut self.angles[at..]);
            }
        }
        let query = |span: &Span<'_>| (span.tokens.len(), span.start);
        self.attention.begin(spans.iter().map(|span| {
            let (rows, start) = query(span);
            Query { rows, start, blocks: span.blocks }
        }));
        Ok(())
    }

    /// Computes what was laid out.
    pub(crate) fn compute(
        &mut self,
        compute: &mut Compute,
        spec: &DecoderSpec,
        weights: &Weights,
        slab: &mut Slab,
        logits: &mut [f32],
    ) {
        compute.embed(&weights.embedding, &self.tokens, &mut self.stream);
        for (index, layer) in weights.layers.iter().enumerate() {
            self.attend(compute, spec, layer, (index, &mut *slab));
            self.feed_forward(compute, spec, layer);
        }
        compute.rms_norm(&self.stream, &self.wanted, &weights.final_norm, spec.norm_eps, &mut self.last);
        let head = Product { weights: weights.head(), out: logits, add: false };
        compute.products(&self.last, self.wanted.len(), [head]);
    }

    fn attend(
        &mut self,
        compute: &mut Compute,
        spec: &DecoderSpec,
        layer: &Layer,
        (index, slab): (usize, &mut Slab),
    ) {
        let rows = self.tokens.len();
        let (query, kv) = (rows * spec.heads * spec.head_dim, rows * spec.kv_heads * spec.head_dim);
        compute.rms_norm(
            &self.stream,
            &self.all[..rows],
            &layer.attention_norm,
            spec.norm_eps,
            &mut self.normed,
        );
        let (queries, keys, values) =
            (&mut self.queries[..query], &mut self.keys[..kv], &mut self.values[..kv]);
        let products = [
            Product { weights: &layer.query, out: &mut *queries, add: false },
            Product { weights: &layer.key, out: &mut *keys, add: false },
            Product { weights: &layer.value, out: &mut *values, add: false },
        ];
        compute.products(&self.normed, rows, products);
        let scale = 1.0 / (spec.head_dim as f32).sqrt();
        let heads =
            Heads { queries: &mut *queries, keys, values, angles: &self.angles, dim: spec.rope.dim, scale };
        compute.rope_and_store(heads, &self.slots, index, slab);
        compute.attention(&mut self.attention, queries, (index, slab), &mut self.attended);
        compute.quantize(&mut self.attended, rows);
        let output = Product { weights: &layer.output, out: &mut self.stream, add: true };
        compute.products(&self.attended, rows, [output]);
    }

    fn feed_forward(&mut self, compute: &mut Compute, spec: &DecoderSpec, layer: &Layer) {
        let rows = self.tokens.len();
        compute.rms_norm(&self.stream, &self.all[..rows], &layer.ffn_norm, spec.norm_eps, &mut self.normed);
        let activation = match spec.activation {
            Activation::Silu => product::Activation::Silu,
            Activation::GeluTanh => product::Activation::GeluTanh,
        };
        compute.gated(&self.normed, rows, (&layer.gate, &layer.up), activation, &mut self.gated);
        let down = Product { weights: &layer.down, out: &mut self.stream, add: true };
        compute.products(&self.gated, rows, [down]);
    }
}

fn check(span: &Span<'_>, shape: &Shape) -> Result<(), StepError> {
    let end = span.start + span.tokens.len();
    let fail = |what: String| Err(StepError(what));
    if span.tokens.is_empty() {
        return fail("a span without tokens".to_owned());
    }
    if end > shape.context {
        return fail(format!("position {} in a context of {}", end - 1, shape.context));
    }
    if span.blocks.len() * BLOCK_TOKENS < end {
        return fail(format!("{} blocks for {end} tokens", span.blocks.len()));
    }
    if let Some(token) = span.tokens.iter().find(|&&token| token as usize >= shape.vocab) {
        return fail(format!("token {token} in a vocabulary of {}", shape.vocab));
    }
    if let Some(block) = span.blocks.iter().find(|&&block| block as usize >= shape.blocks) {
        return fail(format!("block {block} of {}", shape.blocks));
    }
    Ok(())
}
