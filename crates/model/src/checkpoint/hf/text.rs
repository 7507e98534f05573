//! What a folder says about text: tokenizer, special tokens, chat template.

use super::{
    config::token_ids,
    json::{self, Fields},
};
use crate::checkpoint::{
    CheckpointError, TokenizerSource,
    fault::{Fault, bad},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// Longest of each file, in bytes.
const CONFIG_MOST: u64 = 16 << 20;
pub(crate) const TOKENIZER_MOST: u64 = 256 << 20;
const TEMPLATE_MOST: u64 = 4 << 20;

/// Text side of a folder.
pub(crate) struct Text {
    /// How text is cut into tokens.
    pub(crate) tokenizer: TokenizerSource,
    /// The chat template.
    pub(crate) chat_template: Option<String>,
}

impl Text {
    /// Reads it; `model` is the content of `config.json`.
    pub(crate) fn read(folder: &Path, model: Fields<'_>) -> Result<Self, CheckpointError> {
        let tokenizer = folder.join("tokenizer.json");
        if !tokenizer.is_file() {
            return Err(bad!("no tokenizer.json in this folder; it must have one").at(folder));
        }
        let path = folder.join("tokenizer_config.json");
        let config = json::read_object(&path, CONFIG_MOST)?.unwrap_or_default();
        let stated = Stated::new(Fields::new(&config)).map_err(|fault| fault.at(&path))?;
        let mut eos: Vec<String> = stated.eos.into_iter().collect();
        for text in eos_texts(folder, &tokenizer, model)? {
            if !eos.contains(&text) {
                eos.push(text);
            }
        }
        Ok(Self {
            tokenizer: TokenizerSource::Json {
                path: tokenizer,
                bos: stated.bos,
                eos,
                add_bos: stated.add_bos,
            },
            chat_template: match json::read_text(&folder.join("chat_template.jinja"), TEMPLATE_MOST)? {
                None => stated.chat_template,
                found => found,
            },
        })
    }
}

/// What `tokenizer_config.json` states.
struct Stated {
    bos: Option<String>,
    eos: Option<String>,
    add_bos: Option<bool>,
    chat_template: Option<String>,
}

impl Stated {
    fn new(config: Fields<'_>) -> Result<Self, Fault> {
        Ok(Self {
            bos: special(config, "bos_token")?,
            eos: special(config, "eos_token")?,
            add_bos: config.bool("add_bos_token")?,
            chat_template: chat_template(config)?,
        })
    }
}

/// A special token: its text, or an object that has it as `content`.
fn special(config: Fields<'_>, key: &str) -> Result<Option<String>, Fault> {
    let text = config.typed(key, "a string, or an object with a string `content`", |value| match value {
        Value::String(text) => Some(text.as_str()),
        other => other.get("content")?.as_str(),
    })?;
    Ok(text.map(str::to_owned))
}

/// The template, or of a list of named ones the one named `default`.
fn chat_template(config: Fields<'_>) -> Result<Option<String>, Fault> {
    let want = "a string, or a list of objects with strings `name` and `template`";
    config
        .typed("chat_template", want, |value| match value {
            Value::String(template) => Some(Some(template.clone())),
            Value::Array(list) => named(list),
            _ => None,
        })
        .map(Option::flatten)
}

fn named(list: &[Value]) -> Option<Option<String>> {
    let pairs = list.iter().map(|one| Some((one.get("name")?.as_str()?, one.get("template")?.as_str()?)));
    let all: BTreeMap<&str, &str> = pairs.collect::<Option<_>>()?;
    Some(all.get("default").map(|&template| template.to_owned()))
}

/// Texts of the tokens that end a text, as `generation_config.json` or else `config.json` numbers them.
fn eos_texts(folder: &Path, tokenizer: &Path, model: Fields<'_>) -> Result<Vec<String>, CheckpointError> {
    let (path, key) = (folder.join("generation_config.json"), "eos_token_id");
    let generation = json::read_object(&path, CONFIG_MOST)?.unwrap_or_default();
    let mut ids = token_ids(Fields::new(&generation), key).map_err(|fault| fault.at(&path))?;
    if ids.is_empty() {
        let path = folder.join("config.json");
        ids = token_ids(model, key).map_err(|fault| fault.at(&path))?;
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let text = json::read_text(tokenizer, TOKENIZER_MOST)?.unwrap_or_default();
    texts_of(&text, &ids).map_err(|fault| fault.at(tokenizer))
}

/// Texts of token ids in a `tokenizer.json`.
fn texts_of(tokenizer: &str, ids: &[u32]) -> Result<Vec<String>, Fault> {
    #[derive(Deserialize)]
    struct Added {
        id: u32,
        content: String,
    }
    #[derive(Deserialize)]
    struct Front {
        #[serde(default)]
        added_tokens: Vec<Added>,
    }
    let wrong = |e| bad!("not a tokenizer: {e}");
    let front: Front = serde_json::from_str(tokenizer).map_err(wrong)?;
    let mut texts: HashMap<u32, String> = front.added_tokens.into_iter().map(|t| (t.id, t.content)).collect();
    if ids.iter().any(|id| !texts.contains_key(id)) {
        // Seldom: most files list every token that ends a text among the added ones.
        let Whole { model } = serde_json::from_str(tokenizer).map_err(wrong)?;
        texts.extend(
            model.vocab.into_iter().filter_map(|(text, id)| Some((u32::try_from(id.as_u64()?).ok()?, text))),
        );
    }
    ids.iter()
        .map(|id| {
            let text = texts.get(id).cloned();
            text.ok_or_else(|| bad!("no token has id {id}, which `eos_token_id` names; known ids are right"))
        })
        .collect()
}

#[derive(Deserialize)]
struct Whole {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: Map<String, Value>,
}
