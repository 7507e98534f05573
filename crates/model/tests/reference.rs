//! What is read from files is what other engines compute with: the simple decoder gives their logits.

use plimsoll_model::checkpoint::{self, Checkpoint, DType};
use plimsoll_testkit::{
    reference,
    tiny::{self, Sizes},
};
use serde::Deserialize;
use std::{fs, path::Path};

#[derive(Deserialize)]
struct Reference {
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

fn furthest(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[track_caller]
fn check(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/decoder").join(name);
    let json = fs::read(folder.join("reference.json")).expect("the fixture is part of the repository");
    let reference: Reference = serde_json::from_slice(&json).expect("the fixture is as its script writes it");
    let model = checkpoint::open(&folder).unwrap_or_else(|e| panic!("{e}"));
    let logits = reference::logits(model.as_ref(), &reference.tokens).unwrap_or_else(|e| panic!("{e}"));
    let distance = furthest(&logits, &reference.logits);
    assert!(distance < 1e-3, "{name}: {distance}");
}

#[test]
fn transformers_gives_the_same_logits() {
    for name in ["plain-mistral", "llama3-tied", "linear-mha", "yarn-gelu-wide-heads"] {
        check(name);
    }
}

#[test]
fn both_formats_hold_the_same_model() {
    let sizes = Sizes { tied: false, head_dim: 32, ..Sizes::default() };
    let folder = tempfile::tempdir().unwrap();
    let dtype = DType::F32;
    let gguf = tiny::Gguf { seed: 5, sizes: sizes.clone(), dtype, ..tiny::Gguf::default() };
    let hf = tiny::HfFolder { seed: 5, sizes, dtype, ..tiny::HfFolder::default() };
    let a = checkpoint::open(&gguf.write(folder.path()).unwrap()).unwrap();
    let b = checkpoint::open(&hf.write(folder.path()).unwrap()).unwrap();
    let run = |model: &dyn Checkpoint| reference::logits(model, &[1, 200, 33, 7, 7, 120, 263]).unwrap();
    let distance = furthest(&run(a.as_ref()), &run(b.as_ref()));
    assert!(distance < 1e-3, "{distance}");
}
