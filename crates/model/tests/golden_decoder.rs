//! The decoder against llama.cpp's answers (`tests/golden/smollm2.json`), in every instruction set of this machine, and
//! against itself: alone, among others, its prompt cut in pieces.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use plimsoll_kernels::{Compute, Isa, KvType, Team};
use plimsoll_model::checkpoint;
use plimsoll_model::decoder::{Decoder, Options};
use plimsoll_model::engine::{Engine, Logits, Span};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Below this margin between the two likeliest tokens, another engine's rounding may choose the other one.
const MARGIN: f64 = 0.3;
/// How far the chosen token's log-probability may be from the reference. Exact f32 arithmetic (`testkit::reference`) is up
/// to 0.37 nats from it on these steps: the noise is the reference's as much as ours.
const NATS: f64 = 0.5;

fn decoder(isa: Isa, threads: usize) -> Decoder {
    #[expect(clippy::disallowed_methods, reason = "a test is told where the model lies by ./test")]
    let path = std::env::var("PLIMSOLL_TEST_SMOLLM2")
        .expect("PLIMSOLL_TEST_SMOLLM2 must name SmolLM2-135M-Instruct.Q4_1.gguf; ./test sets it");
    let checkpoint = checkpoint::open(Path::new(&path)).unwrap();
    let compute = Compute::new(isa, Team::new(threads, |_| {}).unwrap());
    let options = Options { context: 512, blocks: 20 * 32, max_seqs: 20, max_rows: 256, kv: KvType::F16 };
    Decoder::load(&*checkpoint, Arc::new(Mutex::new(compute)), &options, &mut |_, _| {}).unwrap()
}

struct Case {
    prompt: Vec<u32>,
    steps: Vec<Step>,
}

struct Step {
    id: u32,
    top: Vec<(u32, f64)>,
}

fn cases() -> Vec<Case> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/smollm2.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let id = |v: &Value| v.as_u64().unwrap() as u32;
    let top = |v: &Value| v.as_array().unwrap().iter().map(|t| (id(&t[0]), t[1].as_f64().unwrap())).collect();
    let step = |v: &Value| Step { id: id(&v["id"]), top: top(&v["top"]) };
    let case = |v: &Value| Case {
        prompt: v["prompt_ids"].as_array().unwrap().iter().map(id).collect(),
        steps: v["steps"].as_array().unwrap().iter().map(step).collect(),
    };
    ["completions", "chats"].iter().flat_map(|k| golden[k].as_array().unwrap()).map(case).collect()
}

fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    best.unwrap().0 as u32
}

/// Blocks of the `i`-th sequence.
fn blocks(i: usize) -> Vec<u32> {
    (0..32).map(|b| (b * 20 + i) as u32).collect()
}

/// Greedy continuation, and a hash of all logits on the way.
fn alone(engine: &mut Decoder, prompt: &[u32], count: usize, chunk: usize) -> (Vec<u32>, Vec<u32>) {
    let (blocks, mut out, mut bits) = (blocks(3), Vec::new(), Vec::new());
    for (i, tokens) in prompt.chunks(chunk).enumerate() {
        let logits = if (i + 1) * chunk >= prompt.len() { Logits::Last } else { Logits::None };
        engine.step(&[Span { tokens, start: i * chunk, blocks: &blocks, logits }]).unwrap();
    }
    for i in 0..count {
        let logits = engine.logits(0);
        bits.push(logits.iter().fold(0u32, |h, x| h.wrapping_mul(31).wrapping_add(x.to_bits())));
        out.push(argmax(logits));
        let last = [out[i]];
        engine
            .step(&[Span { tokens: &last, start: prompt.len() + i, blocks: &blocks, logits: Logits::Last }])
            .unwrap();
    }
    (out, bits)
}

fn check_case(engine: &mut Decoder, isa: Isa, case: &Case) {
    let blocks = blocks(0);
    let mut tokens = case.prompt.clone();
    engine.step(&[Span { tokens: &tokens, start: 0, blocks: &blocks, logits: Logits::Last }]).unwrap();
    for (i, step) in case.steps.iter().enumerate() {
        if step.top[0].1 - step.top[1].1 < MARGIN {
            break;
        }
        let logits = engine.logits(0);
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let log_sum = logits.iter().map(|x| f64::from(x - most).exp()).sum::<f64>().ln() + f64::from(most);
        assert_eq!(argmax(logits), step.id, "{isa}, step {i} after {} tokens", case.prompt.len());
        // Eight-bit activations, here and there, put log-probabilities a tenth of a nat from exact arithmetic, and the
        // unlikelier a token the further: exact arithmetic is no nearer to the reference than this engine.
        for ((id, want), most) in step.top.iter().zip([NATS, 2.0 * NATS]) {
            let got = f64::from(logits[*id as usize]) - log_sum;
            assert!((got - want).abs() < most, "{isa}, step {i}: token {id} has {got}, reference {want}");
        }
        tokens.push(step.id);
        let last = &tokens[tokens.len() - 1..];
        engine
            .step(&[Span { tokens: last, start: tokens.len() - 1, blocks: &blocks, logits: Logits::Last }])
            .unwrap();
    }
}

#[test]
fn continuations_are_those_of_the_reference() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let mut engine = decoder(isa, 2);
        for case in cases() {
            check_case(&mut engine, isa, &case);
        }
    }
}

#[test]
fn numbers_do_not_depend_on_company_cuts_or_threads() {
    let cases = cases();
    let isa = Isa::detect();
    let mut engine = decoder(isa, 2);
    let want: Vec<_> = cases.iter().map(|c| alone(&mut engine, &c.prompt, 8, 512)).collect();
    for (threads, chunk) in [(1, 512), (2, 1), (3, 7)] {
        let mut engine = decoder(isa, threads);
        for (case, want) in cases.iter().zip(&want) {
            assert_eq!(
                &alone(&mut engine, &case.prompt, 8, chunk),
                want,
                "{threads} threads, pieces of {chunk}"
            );
        }
    }
    together(&mut engine, &cases, &want);
}

/// All cases at once, each decoding while others still prefill.
fn together(engine: &mut Decoder, cases: &[Case], want: &[(Vec<u32>, Vec<u32>)]) {
    let mut done: Vec<(usize, Vec<u32>, Vec<u32>)> =
        cases.iter().map(|c| (0, c.prompt.clone(), Vec::new())).collect();
    let tables: Vec<_> = (0..cases.len()).map(blocks).collect();
    while done.iter().any(|(_, _, bits)| bits.len() < 8) {
        let mut spans = Vec::new();
        for (i, (computed, tokens, bits)) in done.iter().enumerate() {
            // Prompts come in pieces of different sizes; a finished one stays out.
            let piece = (tokens.len() - computed).min(5 + 3 * i);
            if bits.len() < 8 {
                let logits = if computed + piece == tokens.len() { Logits::Last } else { Logits::None };
                let tokens = &tokens[*computed..computed + piece];
                spans.push((i, Span { tokens, start: *computed, blocks: &tables[i], logits }));
            }
        }
        engine.step(&spans.iter().map(|(_, span)| *span).collect::<Vec<_>>()).unwrap();
        let steps: Vec<_> = spans.iter().map(|(i, span)| (*i, span.tokens.len(), span.logits)).collect();
        let mut row = 0;
        for (i, len, logits) in steps {
            done[i].0 += len;
            if logits == Logits::Last {
                let logits = engine.logits(row);
                row += 1;
                done[i].2.push(logits.iter().fold(0u32, |h, x| h.wrapping_mul(31).wrapping_add(x.to_bits())));
                let next = argmax(logits);
                done[i].1.push(next);
            }
        }
    }
    for ((case, want), (_, tokens, bits)) in cases.iter().zip(want).zip(&done) {
        assert_eq!(tokens[case.prompt.len()..], want.0, "text");
        assert_eq!(bits, &want.1, "logits, bit for bit");
    }
}
