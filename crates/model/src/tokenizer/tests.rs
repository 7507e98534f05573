mod bound;

use super::*;
use crate::checkpoint::GgufVocab;
use crate::detokenizer::Detokenizer;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock};

const PLAIN: Encode = Encode { add_special: false, parse_special: false };
const SPECIAL: Encode = Encode { add_special: false, parse_special: true };
const AROUND: Encode = Encode { add_special: true, parse_special: true };

/// Byte-level vocabulary: `<s>` 0, `</s>` 1, `<tool>` (user-defined) 2, the bytes from 3 on, then merges.
fn bytes_vocab() -> GgufVocab {
    let mut tokens: Vec<String> = ["<s>", "</s>", "<tool>"].map(str::to_owned).to_vec();
    tokens.extend(alphabet::chars().map(String::from));
    let pairs = [
        "a b",
        "ab ab",
        "b c",
        "Ġ a",
        "Ġa b",
        "Ã ©",
        "a a",
        "aa aa",
        "aaaa aa",
        "abab c",
        "Ġ Ġ",
        "ĠĠ ĠĠ",
        "< /",
        "s >",
    ];
    tokens.extend(pairs.map(|pair| pair.replace(' ', "")));
    let mut kinds = vec![1; tokens.len()];
    kinds[..3].copy_from_slice(&[3, 3, 4]);
    GgufVocab {
        model: "gpt2".into(),
        pre: "gpt-2".into(),
        tokens,
        kinds,
        merges: pairs.map(str::to_owned).to_vec(),
        bos: Some(0),
        eos: vec![1],
        ..GgufVocab::default()
    }
}

/// SentencePiece vocabulary: `<unk>` 0, `<s>` 1, `</s>` 2, the bytes from 3 on, then pieces with scores, some of them tied.
fn sentence_vocab() -> GgufVocab {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    let mut kinds = vec![2, 3, 3];
    kinds.resize(tokens.len(), 6);
    let mut scores = vec![0.0; tokens.len()];
    let pieces = [
        ("▁", -9.0),
        ("a", -9.0),
        ("b", -9.0),
        ("é", -9.0),
        ("<", -9.0),
        ("/", -9.0),
        ("s", -9.0),
        (">", -9.0),
        ("▁a", -1.0),
        ("ab", -2.0),
        ("aa", -3.0),
        ("▁▁", -3.0),
        ("aaa", -4.0),
        ("ba", -2.5),
        ("bab", -1.5),
        ("▁ab", -5.0),
        ("</", -1.0),
        ("s>", -1.0),
        ("éa", -1.0),
    ];
    for (piece, score) in pieces {
        tokens.push(piece.to_owned());
        kinds.push(1);
        scores.push(score);
    }
    let (bos, unk) = (Some(1), Some(0));
    GgufVocab { model: "llama".into(), tokens, kinds, scores, bos, unk, eos: vec![2], ..GgufVocab::default() }
}

fn tokenizer(vocab: GgufVocab) -> Tokenizer {
    Tokenizer::new(&TokenizerSource::Gguf(Box::new(vocab))).expect("a sound vocabulary")
}

static BYTES: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| Arc::new(tokenizer(bytes_vocab())));
static SENTENCE: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| Arc::new(tokenizer(sentence_vocab())));
static ORACLE: LazyLock<Tokenizer> =
    LazyLock::new(|| load_json(&json(&bytes_vocab()), None, None).expect("a sound file"));

fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter()
        .map(|&id| {
            String::from_utf8_lossy(tokenizer.token_bytes(id).expect("in the vocabulary")).into_owned()
        })
        .collect()
}

fn check(tokenizer: &Tokenizer, text: &str, how: Encode, want: &[&str]) {
    let ids = tokenizer.encode(text, how).expect("encodes");
    assert_eq!(texts(tokenizer, &ids), want, "{text:?} {how:?}");
}

#[test]
fn byte_level() {
    let tokenizer = tokenizer(bytes_vocab());
    check(&tokenizer, "", SPECIAL, &[]);
    check(&tokenizer, "ababc ab", PLAIN, &["ababc", " ", "ab"]);
    check(&tokenizer, "aaaaaaa", PLAIN, &["aaaaaa", "a"]);
    check(&tokenizer, "é", PLAIN, &["é"]);
    check(&tokenizer, "a<s>b", SPECIAL, &["a", "<s>", "b"]);
    check(&tokenizer, "</s>", PLAIN, &["</", "s", ">"]);
    check(&tokenizer, "a<tool>b", PLAIN, &["a", "<tool>", "b"]);
    check(&tokenizer, "ab", AROUND, &["ab"]);
    assert_eq!(tokenizer.encode("</s>", SPECIAL), Ok(vec![1]));
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.vocab()), (Some(0), &[1][..], 273));
}

#[test]
fn what_the_file_says_is_put_around_a_prompt() {
    let with = |change: fn(&mut GgufVocab), want: &[&str]| {
        let mut vocab = bytes_vocab();
        change(&mut vocab);
        check(&tokenizer(vocab), "ab", AROUND, want);
    };
    with(|_| {}, &["ab"]);
    with(|vocab| vocab.add_bos = Some(true), &["<s>", "ab"]);
    with(|vocab| vocab.add_eos = Some(true), &["ab", "</s>"]);
    with(|vocab| vocab.pre = "llama-bpe".into(), &["<s>", "ab"]);
    with(|vocab| (vocab.pre, vocab.add_bos) = ("llama-bpe".into(), Some(false)), &["ab"]);
    with(|vocab| *vocab = sentence_vocab(), &["<s>", " ab"]);
}

#[test]
fn sentence_pieces() {
    let tokenizer = tokenizer(sentence_vocab());
    check(&tokenizer, "", AROUND, &["<s>"]);
    check(&tokenizer, "ab", PLAIN, &[" ab"]);
    check(&tokenizer, "bab", PLAIN, &[" ", "bab"]);
    check(&tokenizer, "  a", PLAIN, &["  ", " a"]);
    check(&tokenizer, "\u{2581}a", PLAIN, &[" ", " a"]);
    check(&tokenizer, "é", PLAIN, &[" ", "é"]);
    check(&tokenizer, "a<s>a", SPECIAL, &[" a", "<s>", " a"]);
    // Writing the end token must not end the text, though its halves are tokens that could be joined.
    check(&tokenizer, "</s>", PLAIN, &[" ", "</", "s>"]);
    check(&tokenizer, "<0x41>", PLAIN, &[" ", "<", "0", "x", "4", "1", ">"]);
    let ids = tokenizer.encode("aü", PLAIN).expect("encodes");
    assert_eq!(ids[1..], [3 + 0xC3, 3 + 0xBC]);
    assert_eq!(tokenizer.decode(&ids).as_deref(), Ok("aü"));
    let mut vocab = sentence_vocab();
    vocab.add_space_prefix = Some(false);
    check(&self::tokenizer(vocab), "a a", PLAIN, &["a", " a"]);
}

#[test]
fn sentence_pieces_without_bytes_become_unknown() {
    let mut vocab = sentence_vocab();
    vocab.kinds[3..259].fill(5);
    check(&tokenizer(vocab), "aüa", PLAIN, &[" a", "<unk>", "a"]);
}

#[test]
fn ends_are_known_by_name() {
    let mut vocab = bytes_vocab();
    vocab.tokens.extend(["<|im_end|>", "<|endoftext|>", "<eos>"].map(str::to_owned));
    vocab.kinds.extend([4, 3, 1]);
    let tokenizer = tokenizer(vocab);
    assert_eq!(tokenizer.eos(), [1, 273, 274]);
    assert!(tokenizer.is_special(273));
    assert_eq!(tokenizer.encode("<|im_end|>", SPECIAL), Ok(vec![273]));
    assert!(tokenizer.encode("<|im_end|>", PLAIN).expect("encodes").len() > 1);
}

#[test]
fn unsound_vocabularies_are_refused() {
    let check = |change: fn(&mut GgufVocab), want: &str| {
        let mut vocab = bytes_vocab();
        change(&mut vocab);
        let error =
            Tokenizer::new(&TokenizerSource::Gguf(Box::new(vocab))).err().expect("unsound").to_string();
        assert!(error.contains(want), "{error}");
    };
    check(|vocab| vocab.model = "t5".into(), "tokenizer.ggml.model is \"t5\"; supported are gpt2, llama");
    check(|vocab| vocab.pre = "x".into(), "tokenizer.ggml.pre is \"x\"; supported are default");
    check(|vocab| vocab.tokens.clear(), "tokenizer.ggml.tokens has 0 entries");
    check(|vocab| vocab.kinds.truncate(4), "token_type has 4 entries for 273 tokens");
    check(|vocab| vocab.scores = vec![0.0], "scores has 1 entries for 273 tokens");
    check(|vocab| vocab.bos = Some(273), "tokenizer.ggml.bos_token_id is 273, past 273 tokens");
    check(|vocab| vocab.eos = vec![999], "tokenizer.ggml.eos_token_id is 999");
    check(|vocab| (vocab.bos, vocab.add_bos) = (None, Some(true)), "no tokenizer.ggml.bos_token_id");
}

#[test]
fn odd_merges_are_passed_over() {
    let mut vocab = bytes_vocab();
    vocab.merges.splice(0..0, ["", "a", " ", "  ", "zz yy", "a zz", "é", "a é b"].map(str::to_owned));
    check(&tokenizer(vocab), "ababc", PLAIN, &["ababc"]);
}

#[test]
fn decoding() {
    let tokenizer = tokenizer(sentence_vocab());
    let ids = tokenizer.encode(" ab</s>a", AROUND).expect("encodes");
    assert_eq!(tokenizer.decode(&ids).as_deref(), Ok(" ab a"));
    assert_eq!(tokenizer.decode_with_special(&ids).as_deref(), Ok("<s> ab</s> a"));
    assert_eq!(tokenizer.decode(&[3 + 0xC3, 260]).as_deref(), Ok("\u{FFFD}a"));
    assert_eq!(tokenizer.decode(&[278]), Err(TextError::UnknownToken { id: 278, vocab: 278 }));
}

#[test]
fn the_space_before_a_text_is_dropped_only_at_its_start() {
    let tokenizer = Arc::new(tokenizer(sentence_vocab()));
    let ids = tokenizer.encode("a a", AROUND).expect("encodes");
    let run = |mut detokenizer: Detokenizer| {
        let mut out = String::new();
        ids.iter().for_each(|&id| detokenizer.push(id, &mut out));
        detokenizer.finish(&mut out);
        out
    };
    assert_eq!(run(Detokenizer::new(Arc::clone(&tokenizer))), " a a");
    assert_eq!(run(Detokenizer::at_start(tokenizer)), "a a");
}

/// The same vocabulary as a `tokenizer.json`, with prompts that start with `<s>`.
fn json(vocab: &GgufVocab) -> Value {
    let ids: Map<_, _> = vocab.tokens.iter().cloned().zip((0u32..).map(Value::from)).collect();
    let added = |id: usize, special| {
        json!({"id": id, "content": vocab.tokens[id], "special": special, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false})
    };
    json!({
        "version": "1.0",
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "added_tokens": [added(0, true), added(1, true), added(2, false)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": ids, "merges": vocab.merges},
    })
}

fn load_json(json: &Value, bos: Option<&str>, add_bos: Option<bool>) -> Result<Tokenizer, CheckpointError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, json.to_string()).expect("written");
    let (bos, eos) = (bos.map(str::to_owned), vec!["</s>".to_owned()]);
    Tokenizer::new(&TokenizerSource::Json { path, bos, eos, add_bos })
}

#[test]
fn json_files() {
    let json = json(&bytes_vocab());
    let with = |add_bos, text, how, want: &[&str]| {
        let tokenizer = load_json(&json, Some("<s>"), add_bos).expect("a sound file");
        check(&tokenizer, text, how, want);
        assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.vocab()), (Some(0), &[1][..], 273));
    };
    with(None, "ab", AROUND, &["<s>", "ab"]);
    with(Some(true), "ab", AROUND, &["<s>", "ab"]);
    with(Some(false), "ab", AROUND, &["ab"]);
    with(None, "ab", PLAIN, &["ab"]);
    with(None, "", AROUND, &["<s>"]);
    with(None, "a</s>é", SPECIAL, &["a", "</s>", "é"]);
    with(None, "a</s>", PLAIN, &["a", "</", "s", ">"]);
    with(None, "a<tool>b", PLAIN, &["a", "<tool>", "b"]);
    // The file's own truncation is not applied in silence.
    with(None, "a b a b a b", PLAIN, &["a", " ", "b", " a", " ", "b", " a", " ", "b"]);
}

/// A file that says it is longer than any tokenizer is not read.
#[test]
fn an_endless_json_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokenizer.json");
    let file = std::fs::File::create(&path).expect("created");
    file.set_len((256 << 20) + 1).expect("a hole");
    let source = TokenizerSource::Json { path, bos: None, eos: Vec::new(), add_bos: None };
    let error = Tokenizer::new(&source).err().expect("refused").to_string();
    assert!(error.contains("tokenizer.json") && error.contains("268435456 bytes"), "{error}");
}

#[test]
fn json_files_that_do_not_fit_are_refused() {
    let sound = json(&bytes_vocab());
    let error = load_json(&sound, Some("<bos>"), None).err().expect("no such token").to_string();
    assert!(error.contains("tokenizer.json: token \"<bos>\" of tokenizer_config.json"), "{error}");
    let error = load_json(&json!({"model": 1}), None, None).err().expect("unsound").to_string();
    assert!(error.contains("tokenizer.json: "), "{error}");
}

/// SentencePiece merging as it is defined: the best pair, the leftmost among equals, again and again.
fn naive_sentence(vocab: &GgufVocab, text: &str) -> Vec<String> {
    let text = format!("▁{}", text.replace(' ', "▁"));
    let score = |piece: &str| {
        let id = vocab.tokens.iter().position(|token| token == piece)?;
        (vocab.kinds[id] == 1).then(|| vocab.scores[id])
    };
    let mut parts: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for at in 1..parts.len() {
            if let Some(score) = score(&format!("{}{}", parts[at - 1], parts[at]))
                && best.is_none_or(|(other, _)| score > other)
            {
                best = Some((score, at));
            }
        }
        let Some((_, at)) = best else { break };
        let right = parts.remove(at);
        parts[at - 1].push_str(&right);
    }
    parts.into_iter().map(|part| part.replace('▁', " ")).collect()
}

proptest! {
    #[test]
    fn byte_level_as_the_tokenizers_crate(text in "([ab c\né<>/s]|\\PC|aa|</s>|<tool>| {2,4}){0,60}") {
        for how in [PLAIN, SPECIAL] {
            prop_assert_eq!(BYTES.encode(&text, how).expect("encodes"), ORACLE.encode(&text, how).expect("encodes"));
        }
    }

    #[test]
    fn sentence_pieces_as_defined(text in "[ab é]{1,40}") {
        let vocab = sentence_vocab();
        let want = naive_sentence(&vocab, &text);
        let tokenizer = tokenizer(vocab);
        let ids = tokenizer.encode(&text, PLAIN).expect("encodes");
        prop_assert_eq!(texts(&tokenizer, &ids), want);
        prop_assert_eq!(tokenizer.decode(&ids).expect("decodes"), text);
    }

    #[test]
    fn text_comes_back(text in "\\PC{0,60}") {
        let tokenizer = &BYTES;
        for how in [PLAIN, SPECIAL] {
            let ids = tokenizer.encode(&text, how).expect("encodes");
            prop_assert_eq!(&tokenizer.decode_with_special(&ids).expect("decodes"), &text);
        }
    }

    #[test]
    fn streamed_text_is_the_lossy_decoding_of_all_bytes(
        ids in proptest::collection::vec(prop_oneof![0u32..280, 195u32..273, Just(172 + 3), Just(0xF0 + 3)], 0..40),
        sentence in any::<bool>(),
    ) {
        let tokenizer = Arc::clone(if sentence { &SENTENCE } else { &BYTES });
        let plain = |id: &&u32| !tokenizer.is_special(**id);
        let bytes: Vec<u8> =
            ids.iter().filter(plain).flat_map(|&id| tokenizer.token_bytes(id).unwrap_or_default()).copied().collect();
        let want = String::from_utf8_lossy(&bytes);
        let mut detokenizer = Detokenizer::new(Arc::clone(&tokenizer));
        let mut out = String::new();
        for &id in &ids {
            detokenizer.push(id, &mut out);
            prop_assert!(want.starts_with(out.as_str()), "{out:?} is no beginning of {want:?}");
        }
        detokenizer.finish(&mut out);
        prop_assert_eq!(out, want);
    }
}

/// Nothing is lost of texts of 100 000 characters, which end in reasonable time.
#[test]
fn long_texts() {
    let bytes = tokenizer(bytes_vocab());
    let sentence = tokenizer(sentence_vocab());
    for piece in ["a", "ab", " ", "\n", "é", "\u{1F600}", "a b ", "!", "1", "<", "<s", "'"] {
        let text = piece.repeat(100_000 / piece.chars().count());
        for (name, tokenizer) in [("bytes", &bytes), ("sentence", &sentence)] {
            let ids = tokenizer.encode(&text, SPECIAL).expect("encodes");
            assert!(tokenizer.decode(&ids).as_deref() == Ok(&text), "{name} {piece:?}");
        }
    }
}
