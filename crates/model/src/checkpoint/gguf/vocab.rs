//! The vocabulary in a GGUF file's metadata.

use super::value::{Metadata, Value};
use crate::checkpoint::{
    GgufVocab,
    fault::{Fault, bad, quote, unsupported},
    limits,
};

/// Reads `tokenizer.ggml.*`; takes the token texts and merges out of the metadata.
pub(crate) fn read(metadata: &mut Metadata) -> Result<GgufVocab, Fault> {
    let key = "tokenizer.ggml.model";
    let model = Metadata::need(key, metadata.text(key)?)?.to_owned();
    if !matches!(model.as_str(), "gpt2" | "llama") {
        return Err(unsupported!("tokenizer {} (`{key}`); supported are gpt2 and llama", quote(&model)));
    }
    let key = "tokenizer.ggml.tokens";
    let tokens = Metadata::need(key, metadata.take_texts(key)?)?;
    let count = tokens.len();
    if !limits::VOCAB.contains(&count) {
        return Err(bad!("`{key}` has {count} tokens; 1 to {} are right", limits::VOCAB.end()));
    }
    let id = |key: &str| metadata.int(key, 0..=count - 1).map(|id| id.map(|id| id as u32));
    let mut vocab = GgufVocab {
        model,
        pre: metadata.text("tokenizer.ggml.pre")?.unwrap_or_default().to_owned(),
        kinds: kinds(metadata, count)?,
        scores: scores(metadata, count)?,
        bos: id("tokenizer.ggml.bos_token_id")?,
        eos: Vec::new(),
        unk: id("tokenizer.ggml.unknown_token_id")?,
        add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
        add_eos: metadata.bool("tokenizer.ggml.add_eos_token")?,
        add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
        merges: Vec::new(),
        tokens,
    };
    for name in ["eos", "eot", "eom"] {
        if let Some(id) = id(&format!("tokenizer.ggml.{name}_token_id"))?
            && !vocab.eos.contains(&id)
        {
            vocab.eos.push(id);
        }
    }
    vocab.merges = metadata.take_texts("tokenizer.ggml.merges")?.unwrap_or_default();
    Ok(vocab)
}

fn kinds(metadata: &Metadata, count: usize) -> Result<Vec<i32>, Fault> {
    let key = "tokenizer.ggml.token_type";
    let want = format!("an array of {count} integers from 1 to 6, one for each token");
    let kinds = metadata.typed(key, &want, |value| match value {
        Value::Ints(kinds) if kinds.len() == count => {
            kinds.iter().map(|&kind| (1..=6).contains(&kind).then_some(kind as i32)).collect()
        }
        _ => None,
    })?;
    Ok(kinds.unwrap_or_else(|| vec![1; count]))
}

fn scores(metadata: &Metadata, count: usize) -> Result<Vec<f32>, Fault> {
    let want = format!("an array of {count} floats that are numbers, one for each token");
    let scores = metadata.typed("tokenizer.ggml.scores", &want, |value| match value {
        Value::Floats(scores) if scores.len() == count && scores.iter().all(|s| !s.is_nan()) => {
            Some(scores.clone())
        }
        _ => None,
    })?;
    Ok(scores.unwrap_or_default())
}
