//! Tokenization and chat rendering equal to the reference answers in `tests/golden/`. Needs the models they were made with: see `./test`.
#![allow(clippy::unwrap_used, reason = "a test says what is missing by failing")]

use plimsoll_model::checkpoint::{self, TokenizerSource};
use plimsoll_model::template::ChatTemplate;
use plimsoll_model::tokenizer::{Encode, Tokenizer};
use serde_json::Value;
use std::path::{Path, PathBuf};

const PLAIN: Encode = Encode { add_special: false, parse_special: false };
const SPECIAL: Encode = Encode { add_special: false, parse_special: true };

#[expect(clippy::disallowed_methods, reason = "the test script names the models in the environment")]
fn model(variable: &str) -> PathBuf {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set; run ./test, which pulls the model"))
        .into()
}

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn smollm2() {
    let checkpoint = checkpoint::open(&model("PLIMSOLL_TEST_SMOLLM2")).unwrap();
    let tokenizer = Tokenizer::new(checkpoint.tokenizer()).unwrap();
    let golden = golden("smollm2.json");
    let check = |text: &Value, how, want: &Value| {
        let (text, want) = (text.as_str().unwrap(), ids(want));
        assert_eq!(tokenizer.encode(text, how).unwrap(), want, "{text:?} {how:?}");
        assert_eq!(tokenizer.decode_with_special(&want).unwrap(), text);
    };
    for case in golden["tokenize"].as_array().unwrap() {
        check(&case["text"], PLAIN, &case["plain"]);
        check(&case["text"], SPECIAL, &case["special"]);
    }
    for case in golden["completions"].as_array().unwrap() {
        check(&case["prompt"], SPECIAL, &case["prompt_ids"]);
    }
    for case in golden["chats"].as_array().unwrap() {
        check(&case["rendered"], SPECIAL, &case["prompt_ids"]);
    }
    assert_eq!(tokenizer.vocab(), 49152);
    assert_eq!(tokenizer.bos(), Some(1));
    assert_eq!(tokenizer.eos(), [2, 0]);
    let with_bos = Encode { add_special: true, parse_special: true };
    assert_eq!(tokenizer.encode("Hi", with_bos).unwrap(), tokenizer.encode("Hi", SPECIAL).unwrap());
}

#[test]
fn smollm2_chats() {
    let checkpoint = checkpoint::open(&model("PLIMSOLL_TEST_SMOLLM2")).unwrap();
    let template =
        ChatTemplate::new(checkpoint.chat_template().unwrap(), "<|im_start|>", "<|im_end|>").unwrap();
    for case in golden("smollm2.json")["chats"].as_array().unwrap() {
        let messages = case["messages"].as_array().unwrap();
        let rendered = template.render(messages, &serde_json::Map::new(), true).unwrap();
        assert_eq!(rendered, case["rendered"]);
    }
}

#[test]
fn minilm() {
    let path = model("PLIMSOLL_TEST_MINILM").join("tokenizer.json");
    let tokenizer =
        Tokenizer::new(&TokenizerSource::Json { path, bos: None, eos: Vec::new(), add_bos: None }).unwrap();
    let how = Encode { add_special: true, parse_special: true };
    for case in golden("minilm.json")["items"].as_array().unwrap() {
        let mut found = tokenizer.encode(case["text"].as_str().unwrap(), how).unwrap();
        if found.len() > 256 {
            let last = found.len() - 1;
            found.drain(255..last);
        }
        assert_eq!(found, ids(&case["ids"]), "{}", case["text"]);
    }
    assert_eq!(tokenizer.decode(&[101, 7592, 2088, 102]).unwrap(), "hello world");
}
