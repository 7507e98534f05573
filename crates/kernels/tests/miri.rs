//! Every operation once, in shapes small enough for Miri: `cargo +nightly miri test -p plimsoll-kernels --test miri`. Two
//! threads and the portable instructions, whose memory accesses are those of all others; that numbers are right is tested
//! in `against_reference`, here only that none is made of memory that is not there.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use plimsoll_kernels::{
    Activation, Activations, AttentionPlan, Compute, Heads, Isa, KvType, Matrix, Prefetch, Product, Query,
    Slab, SlabShape, Slot, Stored, Team,
};
use plimsoll_pool::AlignedBuf;

/// One block of inputs.
const INPUTS: usize = 32;

fn compute() -> Compute {
    Compute::new(Isa::Portable, Team::new(2, |_| {}).unwrap())
}

/// A matrix of ones in the form `stored`.
fn ones(outputs: usize, stored: Stored) -> Matrix {
    let inputs = INPUTS;
    let mut arena = AlignedBuf::zeroed(Matrix::arena_bytes(outputs, inputs, stored.packed()));
    let mut matrix = Matrix::new(outputs, inputs, stored.packed(), &mut arena);
    // 1.0 as a half is 0x3c00.
    let block: Vec<u8> = match stored {
        Stored::F32 => 1f32.to_le_bytes().repeat(32),
        Stored::F16 => [0x00, 0x3c].repeat(32),
        Stored::BF16 => [0x80, 0x3f].repeat(32),
        Stored::Q8_0 => [&[0x00, 0x3c][..], &[1; 32]].concat(),
        Stored::Q4_0 => [&[0x00, 0x3c][..], &[0x99; 16]].concat(),
        Stored::Q4_1 => [&[0x00, 0x3c, 0, 0][..], &[0x11; 16]].concat(),
    };
    for output in 0..outputs {
        matrix.set_row(output, stored, &block.repeat(inputs / 32));
    }
    matrix
}

#[test]
fn products() {
    let mut compute = compute();
    // No multiple of a panel's 16.
    let outputs = 18;
    for stored in [Stored::F32, Stored::F16, Stored::BF16, Stored::Q8_0, Stored::Q4_0, Stored::Q4_1] {
        let weights = ones(outputs, stored);
        // One row, and more than a tile has.
        for rows in [1, 3] {
            let mut x = Activations::new(3, INPUTS, stored.packed().is_quantized());
            x.floats_mut().fill(0.5);
            compute.quantize(&mut x, rows);
            let mut out = vec![0.0; rows * outputs];
            compute.products(&x, rows, [Product { weights: &weights, out: &mut out, add: false }]);
            assert!(out.iter().all(|y| (y - 16.0).abs() < 0.5), "{stored:?}: {out:?}");
        }
    }
}

#[test]
fn gates_norms_and_embeddings() {
    let mut compute = compute();
    let outputs = 32;
    let weights = ones(outputs, Stored::Q8_0);
    let mut x = Activations::new(2, INPUTS, true);
    x.floats_mut().fill(0.5);
    compute.quantize(&mut x, 2);
    let mut gated = Activations::new(2, outputs, false);
    compute.gated(&x, 2, (&weights, &weights), Activation::Silu, &mut gated);
    assert!(gated.floats().iter().all(|y| (y - 256.0).abs() < 5.0), "{:?}", gated.floats());
    let mut normed = Activations::new(1, INPUTS, true);
    compute.rms_norm(x.floats(), &[1], &[2.0; INPUTS], 1e-5, &mut normed);
    assert!(normed.floats().iter().all(|y| (y - 2.0).abs() < 0.01), "{:?}", normed.floats());
    let mut embedded = vec![0.0; 2 * INPUTS];
    compute.embed(&weights, &[17, 0], &mut embedded);
    assert!(embedded.iter().all(|y| (y - 1.0).abs() < 0.01), "{embedded:?}");
}

/// Two sequences, one of them across a block's border, and the blocks' ways out and back.
#[test]
fn attention_and_its_blocks() {
    check_attention(KvType::F16, 16);
    check_attention(KvType::Q8, 32);
}

fn check_attention(stored: KvType, dim: usize) {
    let mut compute = compute();
    let (heads, kv_heads) = (2, 1);
    let shape = SlabShape { layers: 2, blocks: 4, heads: kv_heads, head_dim: dim, stored };
    let mut slab = Slab::new(shape).unwrap();
    let slots: Vec<Slot> = (0..17)
        .map(|i| Slot { block: 2 - i / 16, place: i % 16 })
        .chain([Slot { block: 3, place: 0 }])
        .collect();
    let rows = slots.len();
    let mut queries = vec![1.0; rows * heads * dim];
    let (mut keys, values) = (vec![1.0; rows * kv_heads * dim], vec![0.25; rows * kv_heads * dim]);
    let angles = [1.0, 1.0, 0.0, 0.0].repeat(rows);
    let side = Heads {
        queries: &mut queries,
        keys: &mut keys,
        values: &values,
        angles: &angles,
        dim: 4,
        scale: 0.25,
    };
    compute.rope_and_store(side, &slots, 1, &mut slab);
    let mut plan = AttentionPlan::new(&mut compute, (rows, 2, 32), heads, &slab);
    let spans = [Query { rows: 17, start: 0, blocks: &[2, 1] }, Query { rows: 1, start: 0, blocks: &[3] }];
    plan.begin(spans.into_iter());
    let mut out = Activations::new(rows, heads * dim, false);
    compute.attention(&mut plan, &queries, (1, &slab), &mut out);
    assert!(out.floats().iter().all(|y| (y - 0.25).abs() < 1e-3), "{:?}", out.floats());

    let mut saved = vec![0; slab.shape().block_bytes()];
    slab.save_block(2, &mut saved);
    slab.copy_block(2, 0);
    slab.release_blocks(&[1, 2]);
    slab.load_block(1, &saved);
    let mut again = vec![0; saved.len()];
    for block in [0, 1] {
        slab.save_block(block, &mut again);
        assert!(again == saved, "block {block}");
    }
}

#[test]
fn rows_are_touched() {
    let mut compute = compute();
    compute.set_prefetch(Prefetch { embeddings: true, ..Prefetch::default() });
    for stored in [Stored::F32, Stored::F16, Stored::BF16, Stored::Q8_0, Stored::Q4_0, Stored::Q4_1] {
        // The last of the table, and one that there is not.
        compute.touch(&ones(18, stored), &[0, 17, 18, u32::MAX]);
    }
}
