//! Every operation, in every instruction set of this machine, against plain f64 arithmetic; and bit for bit against
//! itself with other rows beside it, other threads, other cuts.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use half::{bf16, f16};
use plimsoll_kernels::product::Product;
use plimsoll_kernels::{
    Activation, Activations, AttentionPlan, Compute, Heads, Isa, KvType, Matrix, Query, Slab, SlabShape,
    Slot, Stored, Team,
};
use plimsoll_pool::AlignedBuf;

/// xorshift: the same numbers at each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn vec(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

fn computes() -> impl Iterator<Item = Compute> {
    let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    sets.flat_map(|isa| [1, 2, 3].map(|n| Compute::new(isa, Team::new(n, |_| {}).unwrap())))
}

const STORED: [Stored; 6] =
    [Stored::F32, Stored::F16, Stored::BF16, Stored::Q8_0, Stored::Q4_0, Stored::Q4_1];

/// A row as a file would store it.
fn store(stored: Stored, row: &[f32]) -> Vec<u8> {
    let blocks = |f: &dyn Fn(&[f32]) -> Vec<u8>| row.chunks(32).flat_map(f).collect();
    let nibbles = |q: Vec<u8>| (0..16).map(|i| q[i] | q[i + 16] << 4).collect::<Vec<u8>>();
    match stored {
        Stored::F32 => row.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Stored::F16 => row.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Stored::BF16 => row.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        Stored::Q8_0 => blocks(&|x| {
            let d = f16::from_f32(x.iter().fold(0f32, |m, x| m.max(x.abs())) / 127.0);
            let q = x.iter().map(|x| (x / d.to_f32()).round().clamp(-128.0, 127.0) as i8 as u8);
            d.to_le_bytes().into_iter().chain(q).collect()
        }),
        Stored::Q4_0 => blocks(&|x| {
            let d = f16::from_f32(x.iter().fold(0f32, |m, x| m.max(x.abs())) / 7.0);
            let q = x.iter().map(|x| ((x / d.to_f32()).round() + 8.0).clamp(0.0, 15.0) as u8).collect();
            d.to_le_bytes().into_iter().chain(nibbles(q)).collect()
        }),
        Stored::Q4_1 => blocks(&|x| {
            let (low, high) = x.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            let (d, m) = (f16::from_f32((high - low) / 15.0), f16::from_f32(low));
            let q =
                x.iter().map(|x| ((x - m.to_f32()) / d.to_f32()).round().clamp(0.0, 15.0) as u8).collect();
            d.to_le_bytes().into_iter().chain(m.to_le_bytes()).chain(nibbles(q)).collect()
        }),
    }
}

fn empty(outputs: usize, inputs: usize, stored: Stored) -> Matrix {
    let mut arena = AlignedBuf::zeroed(Matrix::arena_bytes(outputs, inputs, stored.packed()));
    Matrix::new(outputs, inputs, stored.packed(), &mut arena)
}

fn matrix(random: &mut Random, outputs: usize, inputs: usize, stored: Stored) -> Matrix {
    let mut matrix = empty(outputs, inputs, stored);
    for output in 0..outputs {
        matrix.set_row(output, stored, &store(stored, &random.vec(inputs)));
    }
    matrix
}

fn rows_of(matrix: &Matrix) -> Vec<Vec<f32>> {
    let row = |output| {
        let mut row = vec![0.0; matrix.inputs()];
        matrix.row(output, &mut row);
        row
    };
    (0..matrix.outputs()).map(row).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Relative distance of two vectors.
fn distance(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let off = norm(&mut got.iter().zip(want).map(|(g, w)| f64::from(*g) - w));
    off / norm(&mut want.iter().copied()).max(1e-9)
}

#[test]
fn rows_come_back_as_they_were_stored() {
    let mut random = Random(7);
    let row = random.vec(96);
    for (stored, most) in STORED.into_iter().zip([0.0, 1e-3, 1e-2, 1e-2, 0.2, 0.1]) {
        let mut matrix = empty(21, 96, stored);
        matrix.set_row(17, stored, &store(stored, &row));
        let want: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        let off = distance(&rows_of(&matrix)[17], &want);
        assert!(off <= most, "{stored:?} is off by {off}");
    }
}

#[test]
fn products_are_right_and_do_not_depend_on_company() {
    for (outputs, inputs) in [(16, 32), (48, 64), (50, 96), (33, 288), (576, 576)] {
        for stored in STORED {
            let mut random = Random(11);
            let weights = matrix(&mut random, outputs, inputs, stored);
            let rows = rows_of(&weights);
            let x = random.vec(70 * inputs);
            for mut compute in computes() {
                let mut first: Option<Vec<f32>> = None;
                for m in [1, 2, 3, 5, 6, 7, 13, 16, 17, 70] {
                    let mut acts = Activations::new(70, inputs, stored.packed().is_quantized());
                    acts.floats_mut().copy_from_slice(&x);
                    compute.quantize(&mut acts, m);
                    let mut out = vec![0.5; m * outputs];
                    compute.products(&acts, m, [Product { weights: &weights, out: &mut out, add: true }]);
                    let want: Vec<f64> = (0..m)
                        .flat_map(|i| rows.iter().map(move |w| (i, w)))
                        .map(|(i, w)| 0.5 + dot(&x[i * inputs..][..inputs], w))
                        .collect();
                    let off = distance(&out, &want);
                    let most = if stored.packed().is_quantized() { 1e-2 } else { 1e-5 };
                    assert!(
                        off < most,
                        "{stored:?} {outputs}x{inputs}, {m} rows, {}: off {off}",
                        compute.isa()
                    );
                    let first = first.get_or_insert_with(|| out[..outputs].to_vec());
                    assert!(
                        out[..outputs] == first[..],
                        "{stored:?}, {m} rows, {}: company matters",
                        compute.isa()
                    );
                }
            }
        }
    }
}

#[test]
fn gated_products_are_right_and_do_not_depend_on_company() {
    let (inputs, width) = (96, 160);
    for stored in STORED {
        // So many rows that one block of columns is computed at a time, and so few that several are.
        let m = if stored == Stored::Q4_1 { 100 } else { 9 };
        for activation in [Activation::Silu, Activation::GeluTanh] {
            let mut random = Random(13);
            let (gate, up) =
                (matrix(&mut random, width, inputs, stored), matrix(&mut random, width, inputs, stored));
            let x = random.vec(m * inputs);
            let act = |z: f64| match activation {
                Activation::Silu => z / (1.0 + (-z).exp()),
                Activation::GeluTanh => {
                    0.5 * z
                        * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (z + 0.044715 * z.powi(3))).tanh())
                }
            };
            let (g, u) = (rows_of(&gate), rows_of(&up));
            let row = |i: usize| &x[i * inputs..][..inputs];
            let want: Vec<f64> = (0..m)
                .flat_map(|i| (0..width).map(move |j| (i, j)))
                .map(|(i, j)| act(dot(row(i), &g[j])) * dot(row(i), &u[j]))
                .collect();
            for mut compute in computes() {
                let quantized = stored.packed().is_quantized();
                let mut acts = Activations::new(m, inputs, quantized);
                acts.floats_mut().copy_from_slice(&x);
                compute.quantize(&mut acts, m);
                let case = format!("{stored:?} {activation:?} {}", compute.isa());
                let mut gated = |rows: usize| {
                    let mut out = Activations::new(rows, width, false);
                    compute.gated(&acts, rows, (&gate, &up), activation, &mut out);
                    out.floats().to_vec()
                };
                let all = gated(m);
                let off = distance(&all, &want);
                assert!(off < if quantized { 2e-2 } else { 1e-5 }, "{case}: {off}");
                for rows in [1, 4] {
                    assert!(gated(rows) == all[..rows * width], "{case}: {rows} of {m} rows differ");
                }
            }
        }
    }
}

#[test]
fn norms_are_right() {
    let (width, m) = (96, 5);
    let mut random = Random(17);
    let (x, weight) = (random.vec(m * width), random.vec(width));
    for mut compute in computes() {
        let mut out = Activations::new(3, width, true);
        compute.rms_norm(&x, &[4, 0, 2], &weight, 1e-5, &mut out);
        for (i, row) in [4, 0, 2].into_iter().enumerate() {
            let x = &x[row * width..][..width];
            let scale = 1.0 / (dot(x, x) / width as f64 + 1e-5).sqrt();
            let want: Vec<f64> =
                x.iter().zip(&weight).map(|(x, w)| f64::from(*x) * scale * f64::from(*w)).collect();
            assert!(distance(&out.floats()[i * width..][..width], &want) < 1e-6);
        }
    }
}

/// One sequence's keys and values, put into a cache a piece at a time, asked with all its queries.
struct Attend {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    tokens: usize,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Attend {
    fn new(heads: usize, kv_heads: usize, dim: usize, tokens: usize) -> Self {
        let mut random = Random(19);
        Self {
            heads,
            kv_heads,
            dim,
            tokens,
            queries: random.vec(tokens * heads * dim),
            keys: random.vec(tokens * kv_heads * dim),
            values: random.vec(tokens * kv_heads * dim),
        }
    }

    /// Attention of all tokens, in spans of at most `span`, with a second sequence of `company` tokens beside it.
    fn run(&self, compute: &mut Compute, stored: KvType, span: usize, company: usize) -> Vec<f32> {
        let (width, kv) = (self.heads * self.dim, self.kv_heads * self.dim);
        let blocks = self.tokens.div_ceil(16) + 1;
        let (blocks_in_all, heads, head_dim) = (blocks + company, self.kv_heads, self.dim);
        let shape = SlabShape { layers: 2, blocks: blocks_in_all, heads, head_dim, stored };
        let mut slab = Slab::new(shape).unwrap();
        let table: Vec<u32> = (0..blocks as u32).rev().collect();
        let most = span + company;
        let mut plan = AttentionPlan::new(compute, (most, 1 + company, self.tokens), self.heads, &slab);
        let mut out = vec![0.0; self.tokens * width];
        for start in (0..self.tokens).step_by(span) {
            let n = span.min(self.tokens - start);
            let rows = n + company;
            let pad = |x: &[f32], w: usize| {
                let mut x = x[start * w..(start + n) * w].to_vec();
                x.resize(rows * w, 0.25);
                x
            };
            let mut queries = pad(&self.queries, width);
            let slots: Vec<Slot> = (0..n)
                .map(|i| Slot { block: table[(start + i) / 16], place: ((start + i) % 16) as u32 })
                .chain((0..company).map(|c| Slot { block: (blocks + c) as u32, place: 0 }))
                .collect();
            let angles: Vec<f32> = (0..rows).flat_map(|_| [1.0, 1.0, 0.0, 0.0]).collect();
            let heads = Heads {
                queries: &mut queries,
                keys: &mut pad(&self.keys, kv),
                values: &pad(&self.values, kv),
                angles: &angles,
                dim: 4,
                scale: 1.0 / (self.dim as f32).sqrt(),
            };
            compute.rope_and_store(heads, &slots, 1, &mut slab);
            let others: Vec<[u32; 1]> = (0..company).map(|c| [(blocks + c) as u32]).collect();
            let own = Query { rows: n, start, blocks: &table };
            let others = others.iter().map(|b| Query { rows: 1, start: 0, blocks: b });
            plan.begin(std::iter::once(own).chain(others));
            let mut acts = Activations::new(most, width, false);
            compute.attention(&mut plan, &queries, (1, &slab), &mut acts);
            out[start * width..(start + n) * width].copy_from_slice(&acts.floats()[..n * width]);
        }
        out
    }

    /// What the cache makes of `x`, `width` numbers of which share a scale.
    fn stored(x: &[f32], stored: KvType, width: usize) -> Vec<f64> {
        match stored {
            KvType::F16 => x.iter().map(|x| f64::from(f16::from_f32(*x).to_f32())).collect(),
            KvType::Q8 => x
                .chunks_exact(width)
                .flat_map(|x| {
                    let peak = x.iter().fold(0f32, |m, x| m.max(x.abs()));
                    let cut =
                        move |x: &f32| f64::from((x * (127.0 / peak)).round_ties_even() * (peak / 127.0));
                    x.iter().map(cut)
                })
                .collect(),
        }
    }

    fn want(&self, stored: KvType) -> Vec<f64> {
        let keys = Self::stored(&self.keys, stored, 32);
        let values = Self::stored(&self.values, stored, self.dim);
        let (kv, group) = (self.kv_heads * self.dim, self.heads / self.kv_heads);
        let mut out = Vec::new();
        for t in 0..self.tokens {
            for h in 0..self.heads {
                let q = &self.queries[(t * self.heads + h) * self.dim..][..self.dim];
                let at = |x: &[f64], u: usize| x[u * kv + h / group * self.dim..][..self.dim].to_vec();
                let score = |u: usize| {
                    let k = at(&keys, u);
                    q.iter().zip(k).map(|(q, k)| f64::from(*q) * k).sum::<f64>() / (self.dim as f64).sqrt()
                };
                let weights: Vec<f64> = (0..=t).map(|u| score(u).exp()).collect();
                let total: f64 = weights.iter().sum();
                let mut mean = vec![0.0; self.dim];
                for (u, w) in weights.iter().enumerate() {
                    at(&values, u).iter().zip(&mut mean).for_each(|(v, m)| *m += v * w / total);
                }
                out.extend(mean);
            }
        }
        out
    }
}

#[test]
fn attention_is_right_and_does_not_depend_on_cuts_or_company() {
    use KvType::{F16, Q8};
    for (stored, heads, kv_heads, dim, tokens) in [
        (F16, 3, 1, 16, 40),
        (F16, 9, 3, 64, 300),
        (F16, 8, 1, 32, 530),
        (F16, 4, 4, 80, 33),
        (F16, 16, 1, 32, 20),
        (Q8, 9, 3, 64, 300),
        (Q8, 8, 1, 32, 530),
        (Q8, 6, 3, 96, 33),
        (Q8, 16, 1, 32, 20),
    ] {
        let case = Attend::new(heads, kv_heads, dim, tokens);
        let want = case.want(stored);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let mut first: Option<Vec<f32>> = None;
            for (threads, span, company) in
                [(1, tokens, 0), (2, 1, 0), (2, 7, 0), (3, 64, 3), (2, tokens, 9), (3, 1, 5)]
            {
                let mut compute = Compute::new(isa, Team::new(threads, |_| {}).unwrap());
                let out = case.run(&mut compute, stored, span, company);
                let off = distance(&out, &want);
                assert!(
                    off < 1e-4,
                    "{stored:?} {heads}/{kv_heads} x {dim}, {tokens} tokens, {isa}, span {span}: off {off}"
                );
                let first = first.get_or_insert_with(|| out.clone());
                assert!(
                    &out == first,
                    "{stored:?} {heads}/{kv_heads} x {dim}, {isa}, {threads} threads, span {span}: company matters"
                );
            }
        }
    }
}
