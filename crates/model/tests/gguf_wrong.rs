//! Wrong GGUF files are refused in one line that names the field, its offset, and what would be right.

use plimsoll_model::checkpoint::{CheckpointError, Gguf};
use plimsoll_testkit::tiny::{
    self,
    gguf_writer::{Value, Writer},
};
use proptest::prelude::*;
use std::path::Path;

const PATH: &str = "wrong.gguf";

#[track_caller]
fn refused(bytes: Vec<u8>, words: &[&str]) -> CheckpointError {
    let Err(error) = Gguf::from_bytes(Path::new(PATH), bytes) else { panic!("accepted; {words:?} expected") };
    let line = error.to_string();
    assert!(line.starts_with(PATH) && !line.contains('\n') && line.len() < 500, "{line}");
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
    error
}

/// Spoils a sound file; the error is about its format and has all `words`.
#[track_caller]
fn check(spoil: impl FnOnce(&mut Writer), words: &[&str]) {
    let mut writer = tiny::Gguf::default().writer();
    spoil(&mut writer);
    let error = refused(writer.bytes(), words);
    assert!(matches!(error, CheckpointError::Format { .. }), "{error:?}");
}

/// Makes a sound file of a kind that is not run.
#[track_caller]
fn check_unsupported(spoil: impl FnOnce(&mut Writer), words: &[&str]) {
    let mut writer = tiny::Gguf::default().writer();
    spoil(&mut writer);
    let error = refused(writer.bytes(), words);
    assert!(matches!(error, CheckpointError::Unsupported { .. }), "{error:?}");
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// An array value: element type, claimed length, bytes.
fn array(kind: u32, count: u64, bytes: &[u8]) -> Value {
    Value::Raw(9, [&kind.to_le_bytes(), count.to_le_bytes().as_slice(), bytes].concat())
}

#[test]
fn front() {
    check(|w| w.magic = *b"PK\x03\x04", &["magic at byte 0", r"PK\x03\x04", "must be `GGUF`"]);
    check_unsupported(|w| w.magic = *b"lmgg", &["old GGML", "version 2 and 3"]);
    check_unsupported(|w| w.version = 1, &["version 1", "byte 4", "2 and 3"]);
    check_unsupported(|w| w.version = 0x0001_0001, &["version 65537", "byte 4", "2 and 3"]);
    check_unsupported(|w| w.version = 3_u32.swap_bytes(), &["big-endian", "byte 4", "little-endian"]);
    check_unsupported(|w| w.magic = *b"FUGG", &["big-endian"]);
    refused(Vec::new(), &["ends at byte 0", "magic"]);
    refused(b"GGUF\x03\0\0\0\x01".to_vec(), &["ends at byte 9", "number of tensors", "at byte 8"]);
}

#[test]
fn huge_counts_allocate_nothing() {
    check(
        |w| w.tensor_count = Some(u64::MAX),
        &["number of tensors (at byte 8)", "18446744073709551615", "at most"],
    );
    check(|w| w.entry_count = Some(u64::MAX / 2), &["number of metadata entries", "byte 24", "at most"]);
    check(|w| w.set("a", array(4, 1 << 60, &[])), &["length of array `a`", "at most"]);
    check(|w| w.set("a", array(8, u64::MAX, &[])), &["length of array `a`", "at most"]);
    check(
        |w| w.set("a", Value::Raw(8, u64::MAX.to_le_bytes().into())),
        &["length of the string `a`", "at most"],
    );
    check(
        |w| w.set("a", Value::Raw(8, 10_000_000_u64.to_le_bytes().into())),
        &["the file ends", "string `a`"],
    );
    check(|w| w.entry_count = Some(w.metadata.len() as u64 + 1), &[]);
    // All there, and still not believed: in memory it would be eight times as large.
    let most = 1 << 24;
    check(
        |w| w.set("tokenizer.ggml.x", array(0, most + 1, &vec![0; most as usize + 1])),
        &["length of array `tokenizer.ggml.x`", "is 16777217", "at most 16777216"],
    );
    check(|w| w.tensor_count = Some(w.tensors.len() as u64 + 1), &[]);
}

#[test]
fn metadata() {
    check(|w| w.put("general.name", text("x")), &["`general.name` at byte", "twice", "once is right"]);
    check(|w| w.put("a", Value::Raw(13, vec![0])), &["type of `a`", "13", "0 to 12"]);
    check(|w| w.put("a", Value::Raw(7, vec![2])), &["`a` at byte", "bool 2", "0 or 1"]);
    check(
        |w| w.put("a", Value::Raw(8, [2, 0, 0, 0, 0, 0, 0, 0, b'x', 0xFF].into())),
        &["`a`", "not UTF-8 at byte"],
    );
    check(|w| w.put("a", array(99, 0, &[])), &["element type of array `a`", "99"]);
    check_unsupported(|w| w.put("a", array(9, 0, &[])), &["array `a` at byte", "holds arrays", "flat"]);
    check(|w| w.put("general.alignment", Value::U32(0)), &["`general.alignment` at byte", "1 to"]);
    check(
        |w| w.put("general.alignment", Value::U32(48)),
        &["`general.alignment` at byte", "48", "power of two"],
    );
    check(|w| w.put("general.alignment", Value::U32(4)), &["power of two, at least 8"]);
    check(|w| w.put("general.alignment", text("32")), &["string `32`", "an integer"]);
    check(|w| w.put(&"k\n".repeat(200), Value::Raw(99, Vec::new())), &[r"`k\nk\n", "...`"]);
}

#[test]
fn tensors() {
    let name = "blk.0.attn_q.weight";
    check(|w| w.tensors[1].name = w.tensors[0].name.clone(), &["`token_embd.weight` at byte", "twice"]);
    check(|w| w.tensor_mut(name).dims = vec![64, 0], &[name, "at byte", "[64, 0, 1, 1]", "none may be 0"]);
    check(|w| w.tensor_mut(name).dims = vec![], &[name, "0 dimensions", "1 to 4"]);
    check(|w| w.tensor_mut(name).dims = vec![1; 5], &[name, "5 dimensions", "1 to 4"]);
    check(|w| w.tensor_mut(name).dims = vec![1 << 62, 1 << 62], &[name, "product", "too large"]);
    check(|w| w.tensor_mut(name).dims = vec![64, 8, 8], &[name, "more than two dimensions"]);
    check(|w| w.tensor_mut(name).dims = vec![48, 64], &[name, "rows of 48", "multiple of 32"]);
    check(|w| w.tensor_mut(name).dims = vec![32, 128], &[name, "128 rows of 32", "64 rows of 64"]);
    check(|w| w.tensor_mut(name).offset += 8, &[name, "must be a multiple of 32"]);
    check(|w| w.tensor_mut(name).offset = 1 << 40, &[name, "offset 1099511627776", "ends at byte"]);
    check(|w| w.tensor_mut(name).offset = u64::MAX - 31, &[name, "ends at byte"]);
    check(|w| w.tensor_mut(name).offset -= 32, &[name, "overlaps tensor `blk.0.attn_norm.weight`"]);
    check(|w| w.data.truncate(w.data.len() - 1), &["`output_norm.weight`", "cut short"]);
    check(|w| w.tensors.retain(|t| t.name != name), &["`blk.0.attn_q.weight` is missing"]);
    check(|w| w.set("llama.block_count", Value::U32(1)), &["`blk.1.", "belongs to no layer from 0 to 0"]);
    check(|w| w.set("llama.block_count", Value::U32(3)), &["`blk.2.attn_norm.weight` is missing"]);
    check_unsupported(|w| w.tensor_mut(name).name = "blk.0.attn_q.bias".into(), &["bias", "wrong text"]);
    check_unsupported(
        |w| w.tensor_mut(name).name = "blk.00.attn_q.weight".into(),
        &["`blk.00.attn_q.weight`"],
    );
    check_unsupported(|w| w.tensor("blk.0.ffn_gate_inp.weight", &[1], 0, &[0; 4]), &["ffn_gate_inp"]);
}

#[test]
fn weight_types() {
    check_unsupported(
        |w| {
            (w.tensor_mut("blk.0.attn_q.weight").kind, w.tensor_mut("blk.0.attn_q.weight").dims) =
                (12, vec![256])
        },
        &["attn_q", "Q4_K", "F32, F16, BF16, Q8_0, Q4_0, Q4_1"],
    );
    check_unsupported(|w| w.tensor_mut("blk.0.attn_q.weight").kind = 99, &["at byte", "type 99", "F32, F16"]);
    check_unsupported(
        |w| w.tensor_mut("output_norm.weight").kind = 8,
        &["output_norm", "norm of type Q8_0", "F32, F16, BF16"],
    );
    check_unsupported(
        |w| w.set("general.quantization_version", Value::U32(1)),
        &["quantization_version", "2"],
    );
}

#[test]
fn hyperparameters() {
    let set =
        |key: &str, value: Value, words: &[&str]| check(|w| w.set(key, value), &[&[key], words].concat());
    set("llama.attention.head_count", Value::U32(0), &["at byte", "integer 0", "from 1 to"]);
    set("llama.attention.head_count", Value::I32(-1), &["integer -1"]);
    set("llama.block_count", Value::U32(u32::MAX), &["from 1 to 1024"]);
    set("llama.context_length", Value::F32(4.0), &["float 4", "an integer"]);
    set("llama.context_length", Value::Raw(11, i64::MIN.to_le_bytes().into()), &["an integer"]);
    set("llama.rope.freq_base", Value::F32(f32::NAN), &["NaN", "a float from"]);
    set("llama.rope.freq_base", Value::F32(f32::INFINITY), &["a float from"]);
    set("llama.attention.layer_norm_rms_epsilon", Value::F32(0.0), &["a float from"]);
    set("llama.attention.head_count_kv", Value::I32s(vec![2, 2]), &["array of i32", "an integer"]);
    check(
        |w| w.set("llama.attention.head_count_kv", Value::U32(3)),
        &["3 key and value heads", "4 query heads"],
    );
    check(|w| w.set("llama.rope.dimension_count", Value::U32(15)), &["rotary dimension is 15", "even"]);
    check(|w| w.set("llama.rope.dimension_count", Value::U32(32)), &["rotary dimension is 32", "at most"]);
    for key in
        ["general.architecture", "llama.block_count", "llama.embedding_length", "tokenizer.ggml.tokens"]
    {
        check(|w| w.remove(key), &[key, "is missing"]);
    }
    check(
        |w| {
            w.remove("llama.attention.key_length");
            w.set("llama.attention.head_count", Value::U32(5));
        },
        &["width 64 over 5 heads"],
    );
}

#[test]
fn kinds_that_are_not_run() {
    let set = |key: &str, value: Value, words: &[&str]| check_unsupported(|w| w.set(key, value), words);
    set("general.architecture", text("mamba\n2"), &[r"`mamba\n2`", "supported is `llama`"]);
    set("llama.expert_count", Value::U32(8), &["mixture of experts", "is 8"]);
    set("llama.attention.sliding_window", Value::U32(128), &["sliding window"]);
    set("split.count", Value::U32(2), &["split file"]);
    set("llama.attention.value_length", Value::U32(32), &["value_length", "equal lengths"]);
    set("llama.rope.scaling.type", text("longrope"), &["longrope", "none, linear, yarn"]);
    set("tokenizer.ggml.model", text("bert"), &["tokenizer `bert`", "gpt2 and llama"]);
    check(|w| w.set("llama.rope.scaling.type", text("yarn")), &["scaling.factor` is missing"]);
}

#[test]
fn rope_factors() {
    let check = |factors: Vec<f32>, words: &[&str]| {
        let model = tiny::Gguf { rope_factors: Some(factors), ..tiny::Gguf::default() };
        refused(model.bytes(), words);
    };
    check(vec![1.0; 7], &["`rope_freqs.weight` at byte", "7 numbers", "must have 8"]);
    check(vec![0.0; 8], &["factor 0", "at byte", "positive"]);
    check(vec![1.0, 1.0, f32::NAN, 1.0, 1.0, 1.0, 1.0, 1.0], &["factor 2", "NaN"]);
    let both = tiny::Gguf {
        rope_factors: Some(vec![1.0; 8]),
        metadata: vec![("llama.rope.scale_linear".into(), Value::F32(2.0))],
        ..tiny::Gguf::default()
    };
    refused(both.bytes(), &["`rope_freqs.weight`", "rope.scaling"]);
}

#[test]
fn vocabularies() {
    let set =
        |key: &str, value: Value, words: &[&str]| check(|w| w.set(key, value), &[&[key], words].concat());
    set("tokenizer.ggml.tokens", Value::Texts(Vec::new()), &["0 tokens"]);
    set("tokenizer.ggml.tokens", Value::I32s(vec![1]), &["an array of strings"]);
    set("tokenizer.ggml.token_type", Value::I32s(vec![1]), &["one for each token"]);
    set("tokenizer.ggml.token_type", Value::I32s(vec![7; tiny::vocab::tokens().len()]), &["from 1 to 6"]);
    set("tokenizer.ggml.scores", Value::F32s(vec![f32::NAN; tiny::vocab::tokens().len()]), &["floats"]);
    set("tokenizer.ggml.bos_token_id", Value::U32(264), &["from 0 to 263"]);
    set("tokenizer.ggml.eos_token_id", Value::I32(-1), &["from 0 to 263"]);
    let mut tokens = tiny::vocab::tokens();
    tokens.push("one more".into());
    check(
        |w| {
            w.set("tokenizer.ggml.tokens", Value::Texts(tokens));
            w.remove("tokenizer.ggml.token_type");
        },
        &["`token_embd.weight` at byte", "264 rows", "265 tokens"],
    );
}

/// The front of a sound file, and where it ends.
fn sound() -> (Vec<u8>, usize) {
    let writer = tiny::Gguf::default().writer();
    let bytes = writer.bytes();
    let front = bytes.len() - writer.data.len();
    (bytes, front)
}

#[test]
fn every_truncation_of_the_front_is_refused() {
    let (bytes, front) = sound();
    for len in (0..front).step_by(5) {
        refused(bytes[..len].to_vec(), &["byte"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is changed, it opens or is refused in one line.
    #[test]
    fn mutations_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<[u8; 8]>(), 1..=8usize), 1..6)) {
        let (mut bytes, front) = sound();
        for (place, new, len) in edits {
            let at = place.index(front);
            bytes[at..at + len].copy_from_slice(&new[..len]);
        }
        if let Err(error) = Gguf::from_bytes(Path::new(PATH), bytes) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
