//! The SmolLM2 file is read as what it is.

use plimsoll_model::{
    checkpoint::{self, DType, TokenizerSource},
    spec::{LayerRole, Role, RopeOrder, RopeScaling},
};
use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "the test script names the model file this way")]
fn smollm2() -> PathBuf {
    std::env::var("PLIMSOLL_TEST_SMOLLM2")
        .expect("PLIMSOLL_TEST_SMOLLM2 must name the SmolLM2 GGUF file; ./test pulls it and sets it")
        .into()
}

#[test]
fn describes_smollm2() {
    let model = checkpoint::open(&smollm2()).unwrap();
    let spec = model.spec();
    assert_eq!((spec.layers, spec.width, spec.heads, spec.kv_heads), (30, 576, 9, 3));
    assert_eq!((spec.head_dim, spec.ffn, spec.vocab, spec.context), (64, 1536, 49152, 8192));
    assert_eq!((spec.rope.theta, spec.rope.dim), (100_000.0, 64));
    assert_eq!((spec.rope.order, &spec.rope.scaling), (RopeOrder::Interleaved, &RopeScaling::None));
    assert_eq!(model.title(), "Smollm2 135M 8k Lc100K Mix1 Ep2 Q4_1");
    assert!(model.chat_template().unwrap().contains("<|im_start|>"));

    let TokenizerSource::Gguf(vocab) = model.tokenizer() else { panic!("not a GGUF vocabulary") };
    assert_eq!((vocab.model.as_str(), vocab.pre.as_str()), ("gpt2", "smollm"));
    assert_eq!((vocab.tokens.len(), vocab.kinds.len(), vocab.merges.len()), (49152, 49152, 48900));
    assert_eq!((vocab.bos, vocab.eos.as_slice(), vocab.add_bos), (Some(1), [2].as_slice(), Some(false)));
}

#[test]
fn reads_smollm2_weights() {
    let model = checkpoint::open(&smollm2()).unwrap();
    assert_eq!(model.tensor(Role::Head).unwrap(), None);
    let embedding = model.tensor(Role::Embedding).unwrap().unwrap();
    assert_eq!((embedding.dtype, embedding.rows, embedding.cols), (DType::Q8_0, 49152, 576));
    let down = model.tensor(Role::Layer(29, LayerRole::Down)).unwrap().unwrap();
    assert_eq!((down.dtype, down.rows, down.cols, down.row_bytes()), (DType::Q4_1, 576, 1536, 960));

    let mut all = vec![0; 576 * 960];
    model.read_rows(down, 0, &mut all).unwrap();
    let mut last = vec![0; 960];
    model.read_rows(down, 575, &mut last).unwrap();
    assert_eq!(last, all[575 * 960..]);
    assert!(last.iter().any(|&byte| byte != 0));
    assert!(model.read_rows(down, 576, &mut last).is_err());
    assert!(model.tensor(Role::Layer(30, LayerRole::Down)).is_err());
}
