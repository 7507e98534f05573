//! The decoder against plain f32 arithmetic and against transformers, over the options of the llama family.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use plimsoll_kernels::{Compute, Isa, KvType, Team};
use plimsoll_model::checkpoint::{self, DType};
use plimsoll_model::decoder::{Decoder, LoadError, Options};
use plimsoll_model::engine::{Engine, Logits, Span};
use plimsoll_testkit::reference;
use plimsoll_testkit::tiny::{self, Sizes};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn load(path: &Path, isa: Isa) -> Result<Decoder, LoadError> {
    let checkpoint = checkpoint::open(path).unwrap();
    let compute = Compute::new(isa, Team::new(2, |_| {}).unwrap());
    let options = Options { context: 64, blocks: 8, max_seqs: 2, max_rows: 64, kv: KvType::F16 };
    Decoder::load(&*checkpoint, Arc::new(Mutex::new(compute)), &options, &mut |_, _| {})
}

/// Logits of all rows, the prompt computed in pieces.
fn logits(engine: &mut Decoder, tokens: &[u32], piece: usize) -> Vec<Vec<f32>> {
    let (mut out, mut start) = (Vec::new(), 0);
    for tokens in tokens.chunks(piece) {
        engine.step(&[Span { tokens, start, blocks: &[5, 0, 7, 2], logits: Logits::All }]).unwrap();
        out.extend((0..tokens.len()).map(|row| engine.logits(row).to_vec()));
        start += tokens.len();
    }
    out
}

/// Distance relative to the length of what is wanted.
fn distance(got: &[Vec<f32>], want: &[Vec<f32>]) -> f32 {
    assert_eq!(got.len(), want.len());
    let (got, want) = (got.concat(), want.concat());
    let off: f32 = got.iter().zip(&want).map(|(g, w)| (g - w) * (g - w)).sum();
    (off / want.iter().map(|w| w * w).sum::<f32>()).sqrt()
}

#[test]
fn logits_are_those_of_transformers() {
    for name in ["plain-mistral", "llama3-tied", "linear-mha", "yarn-gelu-wide-heads"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/decoder").join(name);
        let json: Value =
            serde_json::from_slice(&std::fs::read(folder.join("reference.json")).unwrap()).unwrap();
        let tokens: Vec<u32> = serde_json::from_value(json["tokens"].clone()).unwrap();
        let want: Vec<Vec<f32>> = serde_json::from_value(json["logits"].clone()).unwrap();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let mut engine = load(&folder, isa).unwrap();
            let off = distance(&logits(&mut engine, &tokens, 13), &want);
            // Weights are exact and sums are f32; keys and values are stored as halves.
            assert!(off < 2e-3, "{name}, {isa}: off by {off}");
        }
    }
}

#[test]
fn every_weight_type_and_shape_is_right() {
    let dtypes = [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1];
    let shapes =
        [Sizes { head_dim: 32, ..Sizes::default() }, Sizes { head_dim: 16, tied: false, ..Sizes::default() }];
    let tokens = [1, 200, 33, 7, 7, 120, 263, 90, 91, 92, 5, 6, 7, 8, 250, 11, 12, 13, 14];
    for (dtype, sizes) in dtypes.into_iter().flat_map(|d| shapes.iter().map(move |s| (d, s.clone()))) {
        let folder = tempfile::tempdir().unwrap();
        let file =
            tiny::Gguf { dtype, sizes, seed: 9, ..tiny::Gguf::default() }.write(folder.path()).unwrap();
        let want = reference::logits(&*checkpoint::open(&file).unwrap(), &tokens).unwrap();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let mut engine = load(&file, isa).unwrap();
            let off = distance(&logits(&mut engine, &tokens, 8), &want);
            // Quantized weights take activations in bytes: the price is part of the format.
            let most = if matches!(dtype, DType::Q8_0 | DType::Q4_0 | DType::Q4_1) { 4e-2 } else { 2e-3 };
            assert!(off < most, "{dtype:?}, {isa}: off by {off}");
        }
    }
}

#[test]
fn a_step_over_the_limits_is_refused_and_the_next_one_computed() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = Sizes { head_dim: 32, ..Sizes::default() };
    let file = tiny::Gguf { sizes, ..tiny::Gguf::default() }.write(folder.path()).unwrap();
    let mut engine = load(&file, Isa::detect()).unwrap();
    let good = Span { tokens: &[1, 2, 3], start: 0, blocks: &[0, 1, 2, 3], logits: Logits::Last };
    let long = [1; 65];
    for (bad, says) in [
        (Span { tokens: &[], ..good }, "without tokens"),
        (Span { tokens: &[9999], ..good }, "token 9999"),
        (Span { start: 64, ..good }, "position 66 in a context of 64"),
        (Span { blocks: &[], ..good }, "0 blocks for 3 tokens"),
        (Span { blocks: &[8], ..good }, "block 8 of 8"),
        (Span { tokens: &long, ..good }, "position 64"),
        (Span { tokens: &long[..20], logits: Logits::All, ..good }, "rows of logits"),
    ] {
        let error = engine.step(&[bad]).unwrap_err().to_string();
        assert!(error.contains(says), "{error:?} does not say {says:?}");
        engine.step(&[good]).unwrap();
        assert!(engine.logits(0).iter().all(|x| x.is_finite()));
    }
}
