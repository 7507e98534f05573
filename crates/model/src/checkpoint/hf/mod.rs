//! Hugging Face folders: `config.json`, safetensors, `tokenizer.json`.
//!
//! - `json`: fields that are not trusted. `config`, `rope`: the decoder. `text`: tokenizer and chat template.
//! - `safetensors`: one weight file. `shards`: all of them. `names`: their tensors by role.

mod config;
mod json;
mod names;
mod rope;
pub(crate) mod safetensors;
mod shards;
mod text;

pub(crate) use json::read_text;
pub(crate) use text::TOKENIZER_MOST;

use super::{
    Checkpoint, CheckpointError, Tensor, TokenizerSource,
    fault::{Fault, bad},
    title,
    weights::{Found, Weights},
};
use crate::spec::{DecoderSpec, Role};
use config::Config;
use json::Fields;
use shards::Shards;
use std::{collections::HashMap, path::Path};
use text::Text;

/// Longest `config.json`, in bytes.
const CONFIG_MOST: u64 = 16 << 20;

/// A Hugging Face folder, opened and checked.
pub struct HfFolder {
    spec: DecoderSpec,
    weights: Weights,
    text: Text,
    title: String,
}

impl HfFolder {
    /// Opens a folder.
    ///
    /// # Errors
    /// When a file of it cannot be read, is not sound, or is of a kind that is not run.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join("config.json");
        let map = json::read_object(&path, CONFIG_MOST)?.ok_or_else(|| {
            bad!("no config.json in this folder; it must have one (a GGUF model is opened by its file)")
                .at(folder)
        })?;
        let fields = Fields::new(&map);
        let Config { spec, tied } = Config::new(fields).map_err(|fault| fault.at(&path))?;
        let name = fields.text("_name_or_path").map_err(|fault| fault.at(&path))?;
        let text = Text::read(folder, fields)?;
        let Shards { files, found } = Shards::open(folder)?;
        let at = if let [(path, _)] = files.as_slice() { path.clone() } else { folder.to_path_buf() };
        let weights = by_role(found, tied)
            .and_then(|found| Weights::new(&spec, found, files, names::name))
            .map_err(|fault| fault.at(&at))?;
        if !tied && weights.tensor(Role::Head)?.is_none() {
            return Err(
                bad!("tensor `lm_head.weight` is missing, and `tie_word_embeddings` is not true").at(&at)
            );
        }
        let title = title::of_folder(name, folder, weights.main_dtype());
        Ok(Self { spec, weights, text, title })
    }
}

fn by_role(all: Vec<Found>, tied: bool) -> Result<HashMap<Role, Found>, Fault> {
    let mut found = HashMap::with_capacity(all.len());
    for weight in all {
        match names::role(&weight.tensor.name)? {
            // A head that is stored all the same is a copy of the embedding.
            Some(Role::Head) if tied => {}
            Some(role) => {
                found.insert(role, weight);
            }
            None => {}
        }
    }
    Ok(found)
}

impl Checkpoint for HfFolder {
    fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    fn tensor(&self, role: Role) -> Result<Option<&Tensor>, CheckpointError> {
        self.weights.tensor(role)
    }

    fn read_rows(&self, tensor: &Tensor, first: usize, out: &mut [u8]) -> Result<(), CheckpointError> {
        self.weights.read_rows(tensor, first, out)
    }

    fn tokenizer(&self) -> &TokenizerSource {
        &self.text.tokenizer
    }

    fn chat_template(&self) -> Option<&str> {
        self.text.chat_template.as_deref()
    }

    fn title(&self) -> &str {
        &self.title
    }
}
