//! Products and attention alone, without a model around them: multiply-accumulates per second for the shapes of a 135M and a
//! 1B decoder, so that a step's time can be told apart into what its parts allow.
//!
//!     cargo bench -p plimsoll-kernels --bench kernels [-- memory|product|attention]
//!
//! A pass multiplies with as many copies of a layer as a model has, so that weights come from where they come from in a step.

use plimsoll_kernels::matrix::BLOCK;
use plimsoll_kernels::{
    Activation, Activations, AttentionPlan, Compute, Isa, KvType, Matrix, Packed, Product, Query, Slab,
    SlabShape, Stored, Team,
};
use plimsoll_pool::AlignedBuf;
use std::hint::black_box;
use std::time::Instant;

/// Layers, width, key-value width, feed-forward width.
const SHAPES: [(&str, usize, usize, usize, usize); 2] =
    [("135M", 30, 576, 192, 1536), ("1B", 4, 2048, 256, 5632)];
const ROUNDS: usize = 7;

struct Layer {
    qkv: [Matrix; 3],
    output: Matrix,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Layer {
    fn all(&self) -> [&Matrix; 7] {
        let [q, k, v] = &self.qkv;
        [q, k, v, &self.output, &self.gate, &self.up, &self.down]
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn fill(matrix: &mut Matrix, packed: Packed) {
    let (stored, halves) = match packed {
        Packed::Q8 => (Stored::Q8_0, 2),
        Packed::Q4Centered => (Stored::Q4_0, 2),
        _ => (Stored::Q4_1, 4),
    };
    let mut row = vec![0u8; stored.row_bytes(matrix.inputs())];
    for block in row.chunks_exact_mut(stored.row_bytes(BLOCK)) {
        block[..halves].iter_mut().enumerate().for_each(|(i, byte)| *byte = [0, 0x20][i % 2]);
        block[halves..].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 37) as u8);
    }
    (0..matrix.outputs()).for_each(|output| matrix.set_row(output, stored, &row));
}

/// What there is to be had: bytes read by all threads with nothing else to do.
fn memory(threads: usize) {
    const BYTES: usize = 256 << 20;
    let words = vec![1u64; BYTES / 8];
    let Ok(mut team) = Team::new(threads, |_| {}) else { return println!("no threads") };
    let times = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        team.run(64, |_, chunk| {
            let part = &words[chunk * words.len() / 64..(chunk + 1) * words.len() / 64];
            black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
        });
        start.elapsed().as_secs_f64()
    });
    let rate = BYTES as f64 / median(times.collect()) / 1e9;
    println!("reading memory: {rate:.1} GB/s\n");
}

fn products(compute: &mut Compute, packed: Packed) {
    println!(
        "| {packed:?} | rows | ms a pass | GMAC/s | weights GB/s |\n| --- | ---: | ---: | ---: | ---: |"
    );
    for (name, layers, width, kv, ffn) in SHAPES {
        let shapes = [
            (width, width),
            (kv, width),
            (kv, width),
            (width, width),
            (ffn, width),
            (ffn, width),
            (width, ffn),
        ];
        let bytes: usize = shapes.iter().map(|&(o, i)| Matrix::arena_bytes(o, i, packed)).sum();
        let mut arena = AlignedBuf::zeroed(bytes * layers);
        let layers: Vec<Layer> = (0..layers)
            .map(|_| {
                let mut next = |i: usize| {
                    let (outputs, inputs) = shapes[i];
                    let mut matrix = Matrix::new(outputs, inputs, packed, &mut arena);
                    fill(&mut matrix, packed);
                    matrix
                };
                Layer {
                    qkv: [next(0), next(1), next(2)],
                    output: next(3),
                    gate: next(4),
                    up: next(5),
                    down: next(6),
                }
            })
            .collect();
        let macs: usize = shapes.iter().map(|&(o, i)| o * i).sum::<usize>() * layers.len();
        let bytes: usize = layers.iter().flat_map(|l| l.all()).map(Matrix::bytes).sum();
        for rows in [1, 2, 4, 8, 16, 32, 128, 512] {
            let mut x = Activations::new(rows, width, true);
            let mut inner = Activations::new(rows, ffn, true);
            x.floats_mut().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 13) as f32 - 6.0);
            compute.quantize(&mut x, rows);
            let (mut q, mut k, mut v, mut o) = (
                vec![0f32; rows * width],
                vec![0f32; rows * kv],
                vec![0f32; rows * kv],
                vec![0f32; rows * width],
            );
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for layer in &layers {
                    let [wq, wk, wv] = &layer.qkv;
                    compute.products(
                        &x,
                        rows,
                        [
                            Product { weights: wq, out: &mut q, add: false },
                            Product { weights: wk, out: &mut k, add: false },
                            Product { weights: wv, out: &mut v, add: false },
                        ],
                    );
                    compute.products(&x, rows, [Product { weights: &layer.output, out: &mut o, add: true }]);
                    compute.gated(&x, rows, (&layer.gate, &layer.up), Activation::Silu, &mut inner);
                    compute.products(
                        &inner,
                        rows,
                        [Product { weights: &layer.down, out: &mut o, add: true }],
                    );
                }
                times.push(start.elapsed().as_secs_f64());
            }
            let time = median(times);
            println!(
                "| {name} | {rows} | {:.2} | {:.0} | {:.1} |",
                time * 1e3,
                (macs * rows) as f64 / time / 1e9,
                bytes as f64 / time / 1e9
            );
        }
    }
}

fn attention(compute: &mut Compute, stored: KvType) {
    println!(
        "| attention over {stored:?} | sequences | context | us a layer | GMAC/s | KV GB/s |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    for (heads, kv_heads, dim) in [(9, 3, 64), (32, 4, 64)] {
        for (rows, sequences, context) in
            [(1, 1, 128), (1, 8, 128), (1, 32, 160), (1, 1, 8192), (1, 4, 8192), (512, 1, 512)]
        {
            let blocks = (context + 1usize).div_ceil(16);
            let layers = 8;
            let shape =
                SlabShape { layers, blocks: blocks * sequences, heads: kv_heads, head_dim: dim, stored };
            let Ok(slab) = Slab::new(shape) else { return println!("no memory") };
            let mut plan =
                AttentionPlan::new(compute, (rows * sequences, sequences, context + 16), heads, &slab);
            let queries = vec![0.01f32; rows * sequences * heads * dim];
            let mut out = Activations::new(rows * sequences, heads * dim, true);
            let tables: Vec<Vec<u32>> =
                (0..sequences).map(|s| (0..blocks).map(|b| (s * blocks + b) as u32).collect()).collect();
            plan.begin(tables.iter().map(|blocks| Query { rows, start: context - rows, blocks }));
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for layer in 0..layers {
                    compute.attention(&mut plan, &queries, (layer, &slab), &mut out);
                }
                times.push(start.elapsed().as_secs_f64() / layers as f64);
            }
            let time = median(times);
            let pairs: usize = (0..rows).map(|r| context - rows + r + 1).sum::<usize>() * sequences;
            println!(
                "| {heads}/{kv_heads}x{dim}, {rows} rows each | {sequences} | {context} | {:.0} | {:.0} | {:.1} |",
                time * 1e6,
                (pairs * heads * dim * 2) as f64 / time / 1e9,
                (shape.block_bytes() / layers / 16 * context * sequences) as f64 / time / 1e9,
            );
        }
    }
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|arg| arg == name);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
    let Ok(team) = Team::new(threads, |_| {}) else { return println!("no threads") };
    let mut compute = Compute::new(Isa::detect(), team);
    println!("{:?}, {threads} threads, medians of {ROUNDS}\n", Isa::detect());
    if wanted("memory") {
        memory(threads);
    }
    if wanted("product") {
        products(&mut compute, Packed::Q4);
        products(&mut compute, Packed::Q4Centered);
        products(&mut compute, Packed::Q8);
    }
    if wanted("attention") {
        attention(&mut compute, KvType::F16);
        attention(&mut compute, KvType::Q8);
    }
}
