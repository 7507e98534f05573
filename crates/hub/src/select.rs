//! Which files of a repository make up a model.

use crate::nearest::most_similar;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Ends the name of the file that lists the shards.
pub(crate) const INDEX: &str = "model.safetensors.index.json";
const WHOLE: &str = "model.safetensors";
/// Beside the weights: taken when they are there.
const BESIDE: [&str; 14] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
];

/// What to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// One file.
    File(&'a str),
    /// A model's folder (empty: the repository itself).
    Folder {
        /// Path in the repository.
        folder: String,
        /// Its files, before what an index adds.
        first: Vec<String>,
    },
}

/// What a repository does not have, and what it has instead.
pub(crate) type Missing = (String, Vec<String>);

/// Decides what `path` means in a repository that has `files`.
pub(crate) fn wanted<'a>(files: &[&'a str], path: Option<&str>) -> Result<Wanted<'a>, Missing> {
    let folder = path.unwrap_or_default();
    if let Some(file) = files.iter().find(|file| **file == folder) {
        return Ok(Wanted::File(file));
    }
    if !folder.is_empty() && !files.iter().any(|file| below(folder, file).is_some()) {
        return Err((format!("no `{folder}`"), most_similar(folder, files.iter().copied(), 5)));
    }
    let inside: Vec<&str> = files.iter().filter_map(|file| below(folder, file)).collect();
    let has = |name: &str| inside.contains(&name);
    let weights: Vec<&str> = if has(INDEX) {
        vec![INDEX]
    } else if has(WHOLE) {
        vec![WHOLE]
    } else {
        inside.iter().copied().filter(|file| !file.contains('/') && file.ends_with(".safetensors")).collect()
    };
    if weights.is_empty() || !has("config.json") {
        let others = files.iter().filter(|file| file.ends_with(".gguf") || file.ends_with(".safetensors"));
        return Err((
            "no config.json with safetensors beside it: name one file".into(),
            others.take(20).map(|file| (*file).into()).collect(),
        ));
    }
    let first = BESIDE
        .iter()
        .copied()
        .filter(|name| has(name))
        .chain(weights)
        .map(|name| join(folder, name))
        .collect();
    Ok(Wanted::Folder { folder: folder.into(), first })
}

/// The shards that an index names, as paths in the repository, each of which it must have.
pub(crate) fn shards(index: &[u8], folder: &str, files: &[&str]) -> Result<Vec<String>, Missing> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let index: Index =
        serde_json::from_slice(index).map_err(|error| (format!("a bad {INDEX}: {error}"), Vec::new()))?;
    let names: BTreeSet<String> = index.weight_map.into_values().map(|name| join(folder, &name)).collect();
    match names.iter().find(|name| !files.contains(&name.as_str())) {
        Some(name) => Err((
            format!("no `{name}`, which its {INDEX} names"),
            most_similar(name, files.iter().copied(), 5),
        )),
        None => Ok(names.into_iter().collect()),
    }
}

fn below<'f>(folder: &str, file: &'f str) -> Option<&'f str> {
    if folder.is_empty() { Some(file) } else { file.strip_prefix(folder)?.strip_prefix('/') }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[&str], path: Option<&str>, expected: &str) {
        let found = match wanted(files, path) {
            Ok(Wanted::File(file)) => format!("file {file}"),
            Ok(Wanted::Folder { first, .. }) => format!("folder {}", first.join(" ")),
            Err((problem, near)) => format!("{problem}; {}", near.join(" ")),
        };
        assert_eq!(found, expected, "{files:?} {path:?}");
    }

    #[test]
    fn files_are_chosen() {
        check(&["a.gguf", "b.gguf"], Some("b.gguf"), "file b.gguf");
        check(
            &["config.json", "README.md", "model.safetensors", "model.onnx"],
            None,
            "folder config.json model.safetensors",
        );
        check(
            &["s/config.json", "s/a.safetensors", "s/b.safetensors"],
            Some("s"),
            "folder s/config.json s/a.safetensors s/b.safetensors",
        );
        check(
            &["config.json", INDEX, "model-1.safetensors"],
            None,
            "folder config.json model.safetensors.index.json",
        );
        check(&["a.gguf"], Some("c.gguf"), "no `c.gguf`; a.gguf");
        check(&["a.gguf", "x.md"], None, "no config.json with safetensors beside it: name one file; a.gguf");
    }

    #[test]
    fn shards_must_exist() {
        let index = br#"{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"1.safetensors"}}"#;
        assert_eq!(
            shards(index, "s", &["s/1.safetensors", "s/2.safetensors"]).unwrap(),
            ["s/1.safetensors", "s/2.safetensors"]
        );
        assert!(shards(index, "", &["1.safetensors"]).unwrap_err().0.contains("no `2.safetensors`"));
        assert!(shards(b"[]", "", &[]).is_err());
    }
}
