//! Whether asking for the next step's rows of the embedding table pays: the time from the first token's choice until all rows
//! are there, with and without, in turns. Between two steps other memory is read, so that rows come from where they come from.
//!
//!     cargo bench -p plimsoll-kernels --bench embeddings

use plimsoll_kernels::softmax::{PART, Part, highest, weigh};
use plimsoll_kernels::{Compute, Isa, Matrix, Prefetch, Stored, Team};
use plimsoll_pool::AlignedBuf;
use std::hint::black_box;
use std::time::Instant;

/// Those of SmolLM2-135M.
const VOCAB: usize = 49_152;
const WIDTH: usize = 576;
/// Bytes that a step reads otherwise.
const STEP: usize = 96 << 20;
const ROUNDS: usize = 101;

struct Choice {
    logits: Vec<f32>,
    weights: Vec<f32>,
    parts: Vec<Part>,
}

impl Choice {
    /// What choosing a token at temperature 1 reads.
    fn choose(&mut self, isa: Isa) {
        let (_, most) = highest(isa, &self.logits);
        weigh(isa, &self.logits, (most, 1.0), &mut self.weights, &mut self.parts);
        black_box(&self.parts);
    }
}

fn main() {
    let mut compute = Compute::new(Isa::detect(), Team::new(2, |_| {}).expect("two threads"));
    let mut arena = AlignedBuf::zeroed(Matrix::arena_bytes(VOCAB, WIDTH, Stored::Q8_0.packed()));
    let mut table = Matrix::new(VOCAB, WIDTH, Stored::Q8_0.packed(), &mut arena);
    let row = [1; 34].repeat(WIDTH / 32);
    (0..VOCAB).for_each(|output| table.set_row(output, Stored::Q8_0, &row));
    let other = vec![1u8; STEP];
    let parts = VOCAB / PART;
    let mut choice =
        Choice { logits: vec![1.0; VOCAB], weights: vec![0.0; VOCAB], parts: vec![Part::default(); parts] };
    println!("| batch | without, us | with, us |\n| ---: | ---: | ---: |");
    for batch in [1, 16, 32] {
        let mut out = vec![0.0; batch * WIDTH];
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..2 * ROUNDS {
            let embeddings = round % 2 == 1;
            compute.set_prefetch(Prefetch { embeddings, ..Prefetch::default() });
            black_box(other.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>());
            let tokens: Vec<u32> = (0..batch).map(|i| ((round * batch + i) * 7919 % VOCAB) as u32).collect();
            let start = Instant::now();
            for token in &tokens {
                choice.choose(compute.isa());
                compute.touch(&table, std::slice::from_ref(token));
            }
            compute.embed(&table, &tokens, &mut out);
            times[usize::from(embeddings)].push(start.elapsed().as_secs_f64() * 1e6);
            black_box(&out);
        }
        let [without, with] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            format!("{:.0} ({:.0})", times[ROUNDS / 2], times[ROUNDS / 10])
        });
        println!("| {batch} | {without} | {with} |");
    }
}
