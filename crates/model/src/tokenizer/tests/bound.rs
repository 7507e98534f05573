//! How few tokens a text can be.

use super::*;

/// What is known about the number of tokens before a text is cut holds, and is worth something.
#[test]
fn a_text_has_no_fewer_tokens_than_foretold() {
    let composing = load_json(&with_normalizer(json!({"type": "NFC"})), None, None).expect("a sound file");
    let texts = ["aaaaaaaaaaaa".repeat(50), "\u{3b1}\u{313}\u{300}\u{345}".repeat(90), "▁ é</s>".repeat(70)];
    for (name, tokenizer) in
        [("bytes", &**BYTES), ("sentence", &**SENTENCE), ("json", &*ORACLE), ("composing", &composing)]
    {
        for text in &texts {
            for how in [PLAIN, SPECIAL] {
                let (least, tokens) =
                    (tokenizer.at_least(text), tokenizer.encode(text, how).expect("encodes"));
                assert!(least <= tokens.len(), "{name} {how:?} {text:?}: {least} > {}", tokens.len());
            }
        }
        assert!(tokenizer.at_least(&"a".repeat(6000)) > 100, "{name}");
    }
}

#[test]
fn nothing_is_foretold_where_characters_may_be_lost() {
    let mut without_a = bytes_vocab();
    without_a.tokens[3 + usize::from(b'a')] = "aq".into();
    let mut unspelled = sentence_vocab();
    unspelled.unk = None;
    unspelled.kinds[3..259].fill(1);
    let lowercase =
        load_json(&with_normalizer(json!({"type": "Lowercase"})), None, None).expect("a sound file");
    let without_a = tokenizer(without_a);
    for tokenizer in [&without_a, &tokenizer(unspelled), &lowercase] {
        assert_eq!(tokenizer.at_least(&"a".repeat(6000)), 0);
    }
    // Of bytes only those are lost that are no token.
    let text = "aéb".repeat(2000);
    let least = without_a.at_least(&text);
    assert!((100..=without_a.encode(&text, PLAIN).expect("encodes").len()).contains(&least), "{least}");
}

fn with_normalizer(normalizer: Value) -> Value {
    let mut file = json(&bytes_vocab());
    file["normalizer"] = normalizer;
    file
}
