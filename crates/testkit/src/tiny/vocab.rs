//! The vocabulary of tiny models: byte-level BPE with 256 bytes, a few merges and three special tokens.

use plimsoll_model::checkpoint::{GgufVocab, TokenizerSource};
use plimsoll_model::tokenizer::Tokenizer;

/// Merges in order of rank. `Ġ` is a space in byte-level BPE.
pub const MERGES: [(&str, &str); 5] = [("Ġ", "t"), ("h", "e"), ("i", "n"), ("Ġt", "he"), ("Ġ", "a")];

/// Special tokens: end of text (also the unknown token), start and end of a message.
pub const SPECIALS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// The chat template of tiny models (ChatML).
pub const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
     message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ \
     '<|im_start|>assistant\\n' }}{% endif %}";

/// Id of the first special token; the other two follow.
pub const FIRST_SPECIAL: u32 = 256 + MERGES.len() as u32;

/// Texts of all tokens: byte `n` has id `n`, then merges, then specials.
pub fn tokens() -> Vec<String> {
    let bytes = (0..=255).map(|byte| byte_text(byte).to_string());
    let merged = MERGES.iter().map(|(left, right)| format!("{left}{right}"));
    bytes.chain(merged).chain(SPECIALS.map(str::to_owned)).collect()
}

/// The tokenizer that goes with a scripted engine: byte `n` is token `n`, and the first special token ends a text.
///
/// # Panics
/// Never: the vocabulary is sound.
pub fn tokenizer() -> Tokenizer {
    let tokens = tokens();
    let kinds = (0..tokens.len() as u32).map(|id| if id >= FIRST_SPECIAL { 3 } else { 1 }).collect();
    let merges = MERGES.iter().map(|(left, right)| format!("{left} {right}")).collect();
    let (model, eos) = ("gpt2".into(), vec![FIRST_SPECIAL]);
    let source = GgufVocab { model, tokens, kinds, merges, eos, ..GgufVocab::default() };
    Tokenizer::new(&TokenizerSource::Gguf(Box::new(source))).expect("a sound vocabulary")
}

/// The character that stands for a byte in byte-level BPE (GPT-2): printable ones for themselves, the others from
/// U+0100 on.
fn byte_text(byte: u8) -> char {
    let plain = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if plain(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !plain(b)).count() as u32;
    char::from_u32(256 + before).unwrap_or('\u{FFFD}')
}
