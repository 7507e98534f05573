//! Wrong Hugging Face folders are refused in one line that names the file, the field, and what would be right.

use plimsoll_model::checkpoint::{self, CheckpointError, HfFolder};
use plimsoll_testkit::tiny::{self, hf::safetensors};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::{fs, path::Path};

#[track_caller]
fn refused(error: &CheckpointError, words: &[&str]) {
    let line = error.to_string();
    assert!(!line.contains('\n') && line.len() < 600, "{line}");
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
}

/// Writes `model`, lets `spoil` at the folder, opens it: it is refused with all `words`.
#[track_caller]
fn check_folder(model: &tiny::HfFolder, spoil: impl FnOnce(&Path), words: &[&str]) -> CheckpointError {
    let folder = tempfile::tempdir().expect("a folder");
    model.write(folder.path()).expect("files");
    spoil(folder.path());
    let Err(error) = HfFolder::open(folder.path()) else { panic!("accepted; {words:?} expected") };
    refused(&error, words);
    error
}

#[track_caller]
fn check_config(config: Value, words: &[&str]) -> CheckpointError {
    let Value::Object(config) = config else { panic!("not an object") };
    let words = [&["config.json: "], words].concat();
    check_folder(&tiny::HfFolder { config, ..tiny::HfFolder::default() }, |_| {}, &words)
}

#[test]
fn config_values() {
    let check = |config, words: &[&str]| {
        let error = check_config(config, words);
        assert!(matches!(error, CheckpointError::Format { .. }), "{error:?}");
    };
    check(json!({ "hidden_size": null }), &["`hidden_size` is missing"]);
    check(json!({ "hidden_size": "64" }), &["`hidden_size` is", "an integer from 1 to"]);
    check(json!({ "hidden_size": -64 }), &["`hidden_size` is `-64`"]);
    check(json!({ "num_hidden_layers": 1e9 }), &["`num_hidden_layers`", "from 1 to 1024"]);
    check(json!({ "num_attention_heads": 0 }), &["`num_attention_heads` is `0`"]);
    check(json!({ "num_key_value_heads": 3 }), &["3 key and value heads", "4 query heads"]);
    check(json!({ "head_dim": 15 }), &["rotary dimension is 15", "even"]);
    check(json!({ "head_dim": null, "num_attention_heads": 5 }), &["width 64 over 5 heads"]);
    check(json!({ "rms_norm_eps": 0 }), &["`rms_norm_eps`", "a number from"]);
    check(json!({ "rope_theta": -1.0 }), &["`rope_theta`", "a number from"]);
    check(json!({ "tie_word_embeddings": 1 }), &["`tie_word_embeddings` is `1`", "true or false"]);
    check(json!({ "rope_scaling": [] }), &["`rope_scaling`", "an object"]);
    check(json!({ "rope_scaling": { "rope_type": "linear" } }), &["`rope_scaling.factor` is missing"]);
    check(
        json!({ "rope_parameters": { "rope_type": "linear", "factor": "2" } }),
        &["`rope_parameters.factor` is"],
    );
    let llama3 = json!({ "rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4 });
    check(json!({ "rope_scaling": llama3 }), &["low must be less than high"]);
    check(json!({ "architectures": "LlamaForCausalLM" }), &["`architectures`", "a list of strings"]);
    check(json!({ "eos_token_id": "</s>" }), &["`eos_token_id`", "a token id or a list"]);
}

#[test]
fn configs_that_are_not_run() {
    let check = |config, words: &[&str]| {
        let error = check_config(config, words);
        assert!(matches!(error, CheckpointError::Unsupported { .. }), "{error:?}");
    };
    check(
        json!({ "architectures": ["Gemma2ForCausalLM"] }),
        &["Gemma2ForCausalLM", "LlamaForCausalLM and Mistral"],
    );
    check(json!({ "architectures": null, "model_type": "bert" }), &["`bert`", "llama, mistral"]);
    check(json!({ "attention_bias": true }), &["biases", "`attention_bias`"]);
    check(json!({ "mlp_bias": true }), &["biases", "`mlp_bias`"]);
    check(json!({ "hidden_act": "relu" }), &["relu", "silu, gelu_pytorch_tanh"]);
    check(json!({ "sliding_window": 128 }), &["window of 128", "context of 256", "null"]);
    check(json!({ "quantization_config": { "bits": 4 } }), &["`quantization_config`"]);
    check(json!({ "rope_scaling": { "type": "dynamic", "factor": 2 } }), &["`dynamic`", "llama3, yarn"]);
    check(json!({ "rope_scaling": { "type": "yarn", "factor": 2, "truncate": false } }), &["`truncate`"]);
    check(json!({ "partial_rotary_factor": 0.5 }), &["`partial_rotary_factor` is 0.5"]);
    let mistral = json!({ "model_type": "mistral", "architectures": null, "max_position_embeddings": 8192 });
    check(mistral, &["window of 4096", "context of 8192"]);
}

#[test]
fn files_that_are_missing_or_no_json() {
    let model = tiny::HfFolder::default();
    let remove = |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).unwrap();
    let write = |name: &'static str, text: &'static str| {
        move |folder: &Path| fs::write(folder.join(name), text).unwrap()
    };
    check_folder(&model, remove("config.json"), &["no config.json"]);
    check_folder(&model, remove("tokenizer.json"), &["no tokenizer.json"]);
    check_folder(&model, remove("model.safetensors"), &["no weights", "model.safetensors.index.json"]);
    check_folder(&model, write("config.json", "[1]"), &["config.json: not a JSON object"]);
    check_folder(&model, write("config.json", "{\n"), &["not a JSON object", "line 2"]);
    check_folder(&model, write("tokenizer_config.json", "{"), &["tokenizer_config.json: not a JSON object"]);
    check_folder(
        &model,
        write("tokenizer_config.json", r#"{"chat_template": 1}"#),
        &["`chat_template`", "a list"],
    );
    check_folder(
        &model,
        write("tokenizer_config.json", r#"{"eos_token": {}}"#),
        &["`eos_token`", "`content`"],
    );
    check_folder(
        &model,
        write("generation_config.json", r#"{"eos_token_id": [300]}"#),
        &["tokenizer.json", "id 300"],
    );
    check_folder(&model, write("tokenizer.json", "{}"), &["tokenizer.json: not a tokenizer"]);
    check_folder(
        &model,
        |folder| fs::write(folder.join("config.json"), [b'{', 0xFF]).unwrap(),
        &["UTF-8 at byte 1"],
    );
    let pickled = |folder: &Path| {
        fs::rename(folder.join("model.safetensors"), folder.join("pytorch_model.bin")).unwrap();
    };
    check_folder(&model, pickled, &["pytorch_model.bin", "model.safetensors"]);
    let folder = tempfile::tempdir().unwrap();
    model.write(folder.path()).unwrap();
    refused(&checkpoint::open(&folder.path().join("model.safetensors")).err().unwrap(), &["name the folder"]);
}

#[test]
fn weights_that_do_not_fit_the_config() {
    let check = |config: Value, words: &[&str]| {
        let Value::Object(config) = config else { panic!("not an object") };
        check_folder(&tiny::HfFolder { config, ..tiny::HfFolder::default() }, |_| {}, words);
    };
    check(
        json!({ "vocab_size": 300 }),
        &["model.safetensors", "embed_tokens", "264 rows of 64", "300 rows of 64"],
    );
    check(json!({ "num_hidden_layers": 3 }), &["`model.layers.2.input_layernorm.weight` is missing"]);
    check(json!({ "num_hidden_layers": 1 }), &["`model.layers.1.", "belongs to no layer"]);
    check(json!({ "tie_word_embeddings": false }), &["`lm_head.weight` is missing"]);
    check(json!({ "intermediate_size": 128 }), &["96 rows of 64", "128 rows of 64"]);
}

#[test]
fn shards() {
    let model = tiny::HfFolder { shards: 3, ..tiny::HfFolder::default() };
    const FIRST: &str = "model-00001-of-00003.safetensors";
    const NORM: &str = "model.norm.weight";
    let edit = |change: fn(&mut Map<String, Value>)| {
        move |folder: &Path| {
            let path = folder.join("model.safetensors.index.json");
            let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            change(index["weight_map"].as_object_mut().unwrap());
            fs::write(path, index.to_string()).unwrap();
        }
    };
    for escape in
        ["../model.safetensors", "/model.safetensors", "a/b.safetensors", r"a\b.safetensors", "..", "x.bin"]
    {
        let spoil = |folder: &Path| {
            let map = json!({ "weight_map": { NORM: escape } });
            fs::write(folder.join("model.safetensors.index.json"), map.to_string()).unwrap();
        };
        check_folder(&model, spoil, &["index.json", "`model.norm.weight`", "in this folder"]);
    }
    check_folder(&model, edit(|map| map.clear()), &["names 0 shards"]);
    check_folder(&model, edit(|map| drop(map.remove(NORM))), &[NORM, "not in `weight_map`"]);
    check_folder(&model, edit(|map| drop(map.insert("x".into(), FIRST.into()))), &["`x` is not in", FIRST]);
    check_folder(
        &model,
        edit(|map| drop(map.insert(NORM.into(), FIRST.into()))),
        &[NORM, "under that shard"],
    );
    check_folder(&model, edit(|map| drop(map.insert(NORM.into(), 1.into()))), &[NORM, "`1`", "plain name"]);
    check_folder(&model, |folder| fs::remove_file(folder.join(FIRST)).unwrap(), &[FIRST]);
    check_folder(&model, |folder| fs::write(folder.join(FIRST), "1234").unwrap(), &[FIRST, "4 bytes"]);
}

#[test]
fn safetensors_headers() {
    let check = |header: &str, words: &[&str]| {
        let error = checkpoint::check_safetensors(safetensors(header, &[0; 64])).err();
        refused(&error.unwrap_or_else(|| panic!("accepted: {header}")), words);
    };
    let one = |fields: &str| format!(r#"{{"a":{{{fields}}}}}"#);
    let place = |dtype: &str, shape: &str, offsets: &str| {
        one(&format!(r#""dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}"#))
    };
    check("", &["at byte 8", "not right"]);
    check("[]", &["byte 8", "an object of tensors"]);
    check("{\"a\":}", &["at byte 13"]);
    check(&one(""), &["tensor `a` at byte 13", "missing field"]);
    check(&one(r#""dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1"#), &["`a`", "unknown field"]);
    check(&place("F32", "[4,4]", "[0,60]"), &["`a` at byte 13", "[4, 4]", "60 bytes"]);
    check(&place("F32", "[0]", "[0,0]"), &["none 0"]);
    check(&place("F32", "[2,2,2]", "[0,32]"), &["1 or 2 dimensions"]);
    check(&place("F32", "[1,1,1,1,1,1,1,1,1,1]", "[0,4]"), &["..."]);
    check(&place("F32", "[18446744073709551615,18446744073709551615]", "[0,4]"), &["4 bytes"]);
    check(&place("F32", "[-1]", "[0,4]"), &["`a`", "-1"]);
    check(&place("F32", "[17]", "[0,68]"), &["data_offsets [0, 68]", "64 bytes of data"]);
    check(&place("F32", "[1]", "[8,4]"), &["must go up"]);
    check(&place("F32", "[1]", "[18446744073709551612,18446744073709551615]"), &["data_offsets"]);
    check(&place("F8_E4M3", "[4]", "[0,4]"), &["`F8_E4M3`", "F32, F16, BF16"]);
    let entry = |offsets: &str| format!(r#"{{"dtype":"F32","shape":[4],"data_offsets":{offsets}}}"#);
    let two =
        |a: &str, b: &str, second: &str| format!(r#"{{"{a}":{},"{b}":{}}}"#, entry("[0,16]"), entry(second));
    check(&two("a", "b", "[12,28]"), &["`b` at byte", "overlaps tensor `a`"]);
    check(&two("a", "a", "[16,32]"), &["`a` at byte", "twice"]);

    let check_bytes = |bytes: &[u8], words: &[&str]| {
        refused(&checkpoint::check_safetensors(bytes.to_vec()).unwrap_err(), words);
    };
    check_bytes(&[], &["0 bytes"]);
    check_bytes(&[255; 8], &["length at byte 0 is 18446744073709551615", "at most 0"]);
    check_bytes(&[2, 0, 0, 0, 0, 0, 0, 0, b'{'], &["length at byte 0 is 2", "at most 1"]);
    check_bytes(&[1, 0, 0, 0, 0, 0, 0, 0, 0xFF], &["not UTF-8 at byte 8"]);
    assert!(checkpoint::check_safetensors(safetensors(&two("a", "b", "[16,32]"), &[0; 64])).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is changed in a header, it is read or refused in one line.
    #[test]
    fn mutations_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}"#;
        let mut bytes = safetensors(header, &[0; 32]);
        for (place, new) in edits {
            let at = place.index(bytes.len() - 32);
            bytes[at] = new;
        }
        if let Err(error) = checkpoint::check_safetensors(bytes) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
