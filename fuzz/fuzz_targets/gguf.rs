//! Any bytes as a GGUF file: opened or refused in one line; what opened can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_model::{
    checkpoint::{Checkpoint, Gguf},
    spec::{LayerRole, Role},
};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    match Gguf::from_bytes(Path::new("fuzz.gguf"), bytes.to_vec()) {
        Ok(file) => read(&file),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});

fn read(file: &Gguf) {
    let last = file.spec().layers - 1;
    for role in [Role::Embedding, Role::FinalNorm, Role::Layer(last, LayerRole::Down)] {
        let tensor = file.tensor(role).expect("every role is filled").expect("only a head may be absent");
        let mut row = vec![0; tensor.row_bytes()];
        file.read_rows(tensor, tensor.rows - 1, &mut row).expect("a checked tensor lies inside its file");
    }
}
