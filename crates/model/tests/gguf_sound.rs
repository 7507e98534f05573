//! Sound GGUF files are read as what they are.

use plimsoll_model::{
    checkpoint::{self, Checkpoint, DType, Gguf, TokenizerSource},
    spec::{LayerRole, Role, RopeScaling},
};
use plimsoll_testkit::tiny::{self, Sizes, gguf_writer::Value, weights::Part};
use std::path::Path;

fn open(model: &tiny::Gguf) -> Gguf {
    Gguf::from_bytes(Path::new("tiny.gguf"), model.bytes()).expect("a sound file")
}

fn with(metadata: &[(&str, Value)]) -> tiny::Gguf {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    tiny::Gguf { metadata, ..tiny::Gguf::default() }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn every_weight_type_reads_back_its_bytes() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1] {
        let model = tiny::Gguf { dtype, seed: 3, ..tiny::Gguf::default() };
        let down =
            model.sizes.weights(3).into_iter().find(|w| w.part == Part::Down && w.layer == Some(1)).unwrap();
        let file = open(&model);
        let tensor = file.tensor(Role::Layer(1, LayerRole::Down)).unwrap().unwrap();
        assert_eq!((tensor.dtype, tensor.rows, tensor.cols), (dtype, down.rows, down.cols));
        let mut rows = vec![0; tensor.row_bytes() * 3];
        file.read_rows(tensor, 2, &mut rows).unwrap();
        let expected = tiny::encode::encode(&down.values[2 * down.cols..5 * down.cols], dtype);
        assert_eq!(rows, expected, "{dtype:?}");
        assert_eq!(file.title(), format!("Tiny {dtype:?}"));
    }
}

#[test]
fn sizes_come_from_the_file() {
    let sizes = Sizes { layers: 3, heads: 6, kv_heads: 3, head_dim: 32, tied: false, ..Sizes::default() };
    let file = open(&tiny::Gguf { sizes, ..tiny::Gguf::default() });
    let spec = file.spec();
    assert_eq!((spec.layers, spec.heads, spec.kv_heads, spec.head_dim), (3, 6, 3, 32));
    assert_eq!((spec.width, spec.ffn, spec.context), (64, 96, 256));
    assert_eq!(file.tensor(Role::Head).unwrap().unwrap().rows, spec.vocab);
    assert_eq!(open(&tiny::Gguf::default()).tensor(Role::Head).unwrap(), None);
}

#[test]
fn rows_outside_a_tensor_are_refused() {
    let file = open(&tiny::Gguf::default());
    let norm = file.tensor(Role::FinalNorm).unwrap().unwrap();
    let check = |first: usize, len: usize| file.read_rows(norm, first, &mut vec![0; len]).is_ok();
    assert!(check(0, 256));
    assert!(check(1, 0));
    for (first, len) in [(0, 255), (0, 512), (1, 256), (usize::MAX, 256), (2, 0)] {
        assert!(!check(first, len), "{first} {len}");
    }
}

#[test]
fn rope_scalings() {
    let check = |metadata: &[(&str, Value)], expected: RopeScaling| {
        assert_eq!(open(&with(metadata)).spec().rope.scaling, expected, "{metadata:?}");
    };
    let (kind, factor) = ("llama.rope.scaling.type", "llama.rope.scaling.factor");
    check(&[], RopeScaling::None);
    check(&[(kind, text("none")), (factor, Value::F32(4.0))], RopeScaling::None);
    check(&[(kind, text("linear")), (factor, Value::F32(1.0))], RopeScaling::None);
    check(&[(kind, text("linear")), (factor, Value::F32(4.0))], RopeScaling::Linear { factor: 4.0 });
    check(&[("llama.rope.scale_linear", Value::F32(2.0))], RopeScaling::Linear { factor: 2.0 });
    let yarn = |original_context, attention_factor| RopeScaling::Yarn {
        factor: 4.0,
        original_context,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor,
    };
    check(&[(kind, text("yarn")), (factor, Value::F32(4.0))], yarn(256.0, None));
    let original = ("llama.rope.scaling.original_context_length", Value::U32(64));
    check(&[(kind, text("yarn")), (factor, Value::F32(4.0)), original], yarn(64.0, None));
    let attention = ("llama.rope.scaling.attn_factor", Value::F32(2.0));
    let doubled = Some(2.0 * (0.1 * 4.0_f32.ln() + 1.0));
    check(&[(kind, text("yarn")), (factor, Value::F32(4.0)), attention], yarn(256.0, doubled));
}

#[test]
fn rope_factors_become_the_scaling() {
    let factors: Vec<f32> = (1..=8).map(|n| n as f32).collect();
    let file = open(&tiny::Gguf { rope_factors: Some(factors.clone()), ..tiny::Gguf::default() });
    assert_eq!(file.spec().rope.scaling, RopeScaling::Factors(factors));
}

#[test]
fn ends_of_text_are_gathered_once_each() {
    let file = open(&with(&[
        ("tokenizer.ggml.eot_token_id", Value::U32(7)),
        ("tokenizer.ggml.eom_token_id", Value::U32(tiny::vocab::FIRST_SPECIAL + 2)),
    ]));
    let TokenizerSource::Gguf(vocab) = file.tokenizer() else { panic!("not a GGUF vocabulary") };
    assert_eq!(vocab.eos, [tiny::vocab::FIRST_SPECIAL + 2, 7]);
    assert_eq!(vocab.bos, Some(tiny::vocab::FIRST_SPECIAL + 1));
    assert_eq!((vocab.add_bos, vocab.add_space_prefix), (Some(false), Some(false)));
}

#[test]
fn versions_integer_widths_and_unknown_arrays_do_not_matter() {
    let mut writer = tiny::Gguf::default().writer();
    writer.version = 2;
    writer.set("llama.block_count", Value::U64(2));
    writer.set("llama.context_length", Value::I32(256));
    writer.put("general.languages", Value::Texts(vec!["en".into(), String::new()]));
    writer.put("general.numbers", Value::F32s(vec![f32::NAN; 5]));
    writer.put("general.byte", Value::U8(3));
    let file = Gguf::from_bytes(Path::new("x"), writer.bytes()).unwrap();
    assert_eq!(file.spec().layers, 2);
}

#[test]
fn a_file_on_disk_opens_by_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny::Gguf::default().write(folder.path()).unwrap();
    assert_eq!(checkpoint::open(&path).unwrap().spec().layers, 2);
    let error = checkpoint::open(&folder.path().join("none.gguf")).err().unwrap().to_string();
    assert!(error.contains("none.gguf"), "{error}");
}
