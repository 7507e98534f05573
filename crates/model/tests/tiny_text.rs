//! The text side of tiny models works, and is the same in both formats.

use plimsoll_model::{
    checkpoint::{self, Checkpoint},
    template::ChatTemplate,
    tokenizer::{Encode, Tokenizer},
};
use plimsoll_testkit::tiny;
use serde_json::{Map, json};
use std::path::Path;

fn both(folder: &Path) -> [Box<dyn Checkpoint>; 2] {
    let gguf = tiny::Gguf::default().write(folder).expect("a file");
    let hf = tiny::HfFolder::default().write(folder).expect("a folder");
    [gguf, hf].map(|path| checkpoint::open(&path).expect("a sound model"))
}

#[test]
fn text_is_cut_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let [gguf, hf] = both(folder.path()).map(|model| Tokenizer::new(model.tokenizer()).unwrap());
    assert_eq!((gguf.vocab(), gguf.bos(), gguf.eos()[0]), (hf.vocab(), hf.bos(), hf.eos()[0]));
    assert_eq!(hf.eos(), [tiny::vocab::FIRST_SPECIAL + 2]);
    for text in ["", "in the cat", " the 1234 äöü \n\t 漢字 🦀", "<|im_start|>user\nhe<|im_end|>", "a\u{0}b"]
    {
        for parse_special in [false, true] {
            let how = Encode { add_special: true, parse_special };
            let ids = gguf.encode(text, how).unwrap();
            assert_eq!(ids, hf.encode(text, how).unwrap(), "{text:?}");
            assert_eq!(gguf.decode_with_special(&ids).unwrap(), text);
        }
    }
    let how = Encode { add_special: true, parse_special: true };
    assert_eq!(gguf.encode("h the<|im_end|>", how).unwrap(), [104, 259, 263]);
}

#[test]
fn chats_become_one_text() {
    let folder = tempfile::tempdir().unwrap();
    for model in both(folder.path()) {
        let template =
            ChatTemplate::new(model.chat_template().unwrap(), "<|im_start|>", "<|im_end|>").unwrap();
        let text = template.render(&[json!({ "role": "user", "content": "hi" })], &Map::new(), true).unwrap();
        assert_eq!(text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    }
}

#[test]
fn fixture_folders_have_a_tokenizer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/decoder/llama3-tied");
    let model = checkpoint::open(&folder).unwrap();
    assert_eq!(Tokenizer::new(model.tokenizer()).unwrap().vocab(), model.spec().vocab);
}
