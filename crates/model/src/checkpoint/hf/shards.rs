//! The weight files of a folder: one `model.safetensors`, or shards that an index names.

use super::{json, safetensors};
use crate::checkpoint::{
    CheckpointError,
    fault::{Fault, bad, quote, unsupported},
    source::{DiskFile, Source},
    weights::Found,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeSet, HashMap},
    path::{Component, Path, PathBuf},
};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Longest index, in bytes.
const INDEX_MOST: u64 = 64 << 20;
/// Most shards: each is an open file.
const SHARDS_MOST: usize = 256;

/// Open weight files and the tensors they describe.
pub(crate) struct Shards {
    /// Paths and files, by number.
    pub(crate) files: Vec<(PathBuf, Box<dyn Source>)>,
    /// All tensors; no name twice.
    pub(crate) found: Vec<Found>,
}

impl Shards {
    /// Opens those of `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let single = folder.join(SINGLE);
        if single.exists() {
            let mut shards = Self { files: Vec::new(), found: Vec::new() };
            shards.add(single)?;
            return Ok(shards);
        }
        let path = folder.join(INDEX);
        match json::read_object(&path, INDEX_MOST)? {
            Some(index) => Self::open_all(folder, &path, &index),
            None => Err(none_there(folder)),
        }
    }

    fn add(&mut self, path: PathBuf) -> Result<(), CheckpointError> {
        let file = DiskFile::open(&path).map_err(|e| Fault::Io(e).at(&path))?;
        let found = safetensors::read(&file, self.files.len()).map_err(|fault| fault.at(&path))?;
        self.found.extend(found);
        self.files.push((path, Box::new(file)));
        Ok(())
    }

    fn open_all(folder: &Path, path: &Path, index: &Map<String, Value>) -> Result<Self, CheckpointError> {
        let map = weight_map(index).map_err(|fault| fault.at(path))?;
        let names: BTreeSet<&str> = map.values().copied().collect();
        let mut shards = Self { files: Vec::new(), found: Vec::new() };
        for name in names {
            shards.add(folder.join(name))?;
        }
        shards.check(&map).map_err(|fault| fault.at(path))?;
        Ok(shards)
    }

    /// Every tensor of the map is in the shard that the map says, and no other tensor is anywhere.
    fn check(&self, map: &HashMap<&str, &str>) -> Result<(), Fault> {
        for Found { tensor, described_at } in &self.found {
            let path = &self.files[tensor.file].0;
            let shard = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if map.get(tensor.name.as_str()) != Some(&shard) {
                let name = quote(&tensor.name);
                return Err(bad!(
                    "tensor {name} is in {shard} at byte {described_at}, but not in `weight_map` under that shard"
                ));
            }
        }
        if self.found.len() < map.len() {
            let there: BTreeSet<&str> = self.found.iter().map(|found| found.tensor.name.as_str()).collect();
            let missing =
                map.iter().find(|(name, _)| !there.contains(*name)).map_or(("", ""), |(&n, &s)| (n, s));
            return Err(bad!(
                "tensor {} is not in {}, where `weight_map` has it",
                quote(missing.0),
                quote(missing.1)
            ));
        }
        Ok(())
    }
}

/// The names of shards by names of tensors.
fn weight_map(index: &Map<String, Value>) -> Result<HashMap<&str, &str>, Fault> {
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| bad!("field `weight_map` is missing or not an object"))?;
    let shards: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    if shards.is_empty() || shards.len() > SHARDS_MOST {
        return Err(bad!("`weight_map` names {} shards; 1 to {SHARDS_MOST} are right", shards.len()));
    }
    map.iter()
        .map(|(tensor, shard)| match shard.as_str() {
            Some(name) if is_plain(name) => Ok((tensor.as_str(), name)),
            _ => Err(bad!(
                "`weight_map` puts tensor {} into {}; the plain name of a .safetensors file in this folder is right",
                quote(tensor),
                quote(&shard.to_string())
            )),
        })
        .collect()
}

/// Whether `name` is the name of a file in the folder itself, on any system.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    one && !name.contains(['/', '\\', ':', '\0']) && name.ends_with(".safetensors")
}

fn none_there(folder: &Path) -> CheckpointError {
    let pickled =
        ["pytorch_model.bin", "pytorch_model.bin.index.json"].iter().any(|name| folder.join(name).exists());
    if pickled {
        return unsupported!("weights as pytorch_model.bin; supported are {SINGLE} and {INDEX}").at(folder);
    }
    bad!("no weights in this folder; it must have {SINGLE} or {INDEX}").at(folder)
}
