//! Sound Hugging Face folders are read as what they are.

use plimsoll_model::{
    checkpoint::{self, Checkpoint, DType, HfFolder, TokenizerSource},
    spec::{Activation, LayerRole, Role, RopeOrder, RopeScaling},
};
use plimsoll_testkit::tiny::{self, Sizes, weights::Part};
use serde_json::{Value, json};
use std::fs;

fn open(model: &tiny::HfFolder) -> HfFolder {
    let folder = tempfile::tempdir().expect("a folder");
    HfFolder::open(&model.write(folder.path()).expect("files")).expect("a sound folder")
}

fn with(config: Value) -> tiny::HfFolder {
    let Value::Object(config) = config else { panic!("not an object") };
    tiny::HfFolder { config, ..tiny::HfFolder::default() }
}

#[test]
fn every_weight_type_reads_back_its_bytes_from_one_file_and_from_shards() {
    for (dtype, shards) in [(DType::F32, 1), (DType::F16, 2), (DType::BF16, 5)] {
        let model = tiny::HfFolder { dtype, shards, seed: 9, ..tiny::HfFolder::default() };
        let folder = tempfile::tempdir().unwrap();
        let file = checkpoint::open(&model.write(folder.path()).unwrap()).unwrap();
        for layer in 0..2 {
            let find = |w: &tiny::weights::Weight| w.part == Part::Key && w.layer == Some(layer);
            let key = model.sizes.weights(9).into_iter().find(find).unwrap();
            let tensor = file.tensor(Role::Layer(layer, LayerRole::Key)).unwrap().unwrap();
            assert_eq!((tensor.dtype, tensor.rows, tensor.cols), (dtype, key.rows, key.cols));
            let mut rows = vec![0; tensor.row_bytes() * key.rows];
            file.read_rows(tensor, 0, &mut rows).unwrap();
            assert_eq!(rows, tiny::encode::encode(&key.values, dtype), "{dtype:?}");
        }
        assert_eq!(file.title(), format!("tiny {dtype:?}"));
    }
}

#[test]
fn describes_the_decoder() {
    let sizes = Sizes { layers: 3, heads: 6, kv_heads: 2, head_dim: 32, tied: false, ..Sizes::default() };
    let file = open(&tiny::HfFolder { sizes, ..tiny::HfFolder::default() });
    let spec = file.spec();
    assert_eq!((spec.layers, spec.heads, spec.kv_heads, spec.head_dim), (3, 6, 2, 32));
    assert_eq!((spec.rope.order, spec.rope.dim, spec.rope.theta), (RopeOrder::Half, 32, 10_000.0));
    assert_eq!(spec.activation, Activation::Silu);
    assert!(file.tensor(Role::Head).unwrap().is_some());

    let file = open(&with(json!({
        "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "gelu_pytorch_tanh",
        "head_dim": null, "sliding_window": null, "max_position_embeddings": 32768,
    })));
    assert_eq!((file.spec().head_dim, file.spec().activation), (16, Activation::GeluTanh));
}

#[test]
fn a_stored_head_of_a_tied_model_is_not_used() {
    let sizes = Sizes { tied: false, ..Sizes::default() };
    let config = with(json!({ "tie_word_embeddings": true })).config;
    let file = open(&tiny::HfFolder { sizes, config, ..tiny::HfFolder::default() });
    assert_eq!(file.tensor(Role::Head).unwrap(), None);
}

#[test]
fn rope_scalings() {
    let check = |config: Value, theta: f32, scaling: RopeScaling| {
        let shown = config.to_string();
        let rope = open(&with(config)).spec().rope.clone();
        assert_eq!((rope.theta, rope.scaling), (theta, scaling), "{shown}");
    };
    let linear = RopeScaling::Linear { factor: 2.0 };
    check(json!({ "rope_theta": 5e5, "rope_scaling": { "rope_type": "default" } }), 5e5, RopeScaling::None);
    check(json!({ "rope_scaling": { "type": "linear", "factor": 2 } }), 1e4, linear.clone());
    let newer = json!({ "rope_type": "linear", "factor": 2.0, "rope_theta": 7e4 });
    check(json!({ "rope_theta": null, "rope_parameters": newer }), 7e4, linear);
    check(
        json!({ "rope_scaling": { "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                 "high_freq_factor": 4.0, "original_max_position_embeddings": 64 } }),
        1e4,
        RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 64.0,
        },
    );
    let yarn = |attention_factor| RopeScaling::Yarn {
        factor: 4.0,
        original_context: 64.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        attention_factor,
    };
    let original = "original_max_position_embeddings";
    check(json!({ "rope_scaling": { "rope_type": "yarn", "factor": 4.0, original: 64 } }), 1e4, yarn(None));
    check(json!({ "rope_scaling": { "rope_type": "yarn", original: 64 } }), 1e4, yarn(None));
    check(
        json!({ original: 64, "rope_scaling": { "type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0 } }),
        1e4,
        yarn(Some(1.0)),
    );
}

/// BOS, ends of text, whether BOS is added, template.
type Side = (Option<String>, Vec<String>, Option<bool>, Option<String>);

fn text_side(tokenizer_config: Value, generation_config: Option<Value>) -> Side {
    let Value::Object(tokenizer_config) = tokenizer_config else { panic!("not an object") };
    let file = open(&tiny::HfFolder { tokenizer_config, generation_config, ..tiny::HfFolder::default() });
    let TokenizerSource::Json { bos, eos, add_bos, .. } = file.tokenizer().clone() else {
        panic!("not JSON")
    };
    (bos, eos, add_bos, file.chat_template().map(str::to_owned))
}

#[test]
fn text_side_of_a_folder() {
    let (bos, eos, add_bos, template) = text_side(json!({}), None);
    assert_eq!((bos.as_deref(), add_bos), (Some("<|im_start|>"), Some(false)));
    assert_eq!((eos, template.as_deref()), (vec!["<|im_end|>".to_owned()], Some(tiny::vocab::CHAT_TEMPLATE)));

    let config = json!({
        "bos_token": { "content": "<|endoftext|>", "special": true }, "eos_token": null, "add_bos_token": true,
        "chat_template": [{ "name": "tool_use", "template": "T" }, { "name": "default", "template": "D" }],
    });
    let ids = json!({ "eos_token_id": [tiny::vocab::FIRST_SPECIAL, 65] });
    let (bos, eos, add_bos, template) = text_side(config, Some(ids));
    assert_eq!(
        (bos.as_deref(), add_bos, template.as_deref()),
        (Some("<|endoftext|>"), Some(true), Some("D"))
    );
    assert_eq!(eos, ["<|endoftext|>", "A"]);
}

#[test]
fn a_template_file_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    tiny::HfFolder::default().write(folder.path()).unwrap();
    fs::write(folder.path().join("chat_template.jinja"), "{{ messages }}").unwrap();
    assert_eq!(HfFolder::open(folder.path()).unwrap().chat_template(), Some("{{ messages }}"));
}
