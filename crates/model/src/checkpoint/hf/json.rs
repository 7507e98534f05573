//! JSON files of a folder, and fields of theirs that are not trusted to be what they should be.

use crate::checkpoint::{
    CheckpointError,
    fault::{Fault, bad, quote},
};
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::{self, Read},
    ops::RangeInclusive,
    path::Path,
};

/// Reads a text file of at most `most` bytes; `None` when there is none.
pub(crate) fn read_text(path: &Path, most: u64) -> Result<Option<String>, CheckpointError> {
    let read = || -> Result<Option<String>, Fault> {
        let file = match File::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        // What says it is too long need not be read; what grows meanwhile, or says nothing, is read no further.
        let is_short = file.metadata()?.len() <= most;
        if is_short {
            file.take(most + 1).read_to_end(&mut bytes)?;
        }
        if !is_short || bytes.len() as u64 > most {
            return Err(bad!("the file has more than {most} bytes, the most that is read of it"));
        }
        let text = String::from_utf8(bytes)
            .map_err(|e| bad!("not UTF-8 at byte {}", e.utf8_error().valid_up_to()))?;
        Ok(Some(text))
    };
    read().map_err(|fault| fault.at(path))
}

/// Reads a JSON object; `None` when there is no file.
pub(crate) fn read_object(path: &Path, most: u64) -> Result<Option<Map<String, Value>>, CheckpointError> {
    let Some(text) = read_text(path, most)? else { return Ok(None) };
    let object = serde_json::from_str(&text).map_err(|e| bad!("not a JSON object: {e}").at(path))?;
    Ok(Some(object))
}

/// The fields of an object. `null` counts as absent.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Path of the object in its file, with a dot at its end; empty at the top.
    prefix: &'a str,
}

impl<'a> Fields<'a> {
    /// The fields of a file.
    pub(crate) const fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, prefix: "" }
    }

    /// The raw value under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Whether `key` is there, even as `null`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// An object, whose fields are named after `prefix` in messages.
    pub(crate) fn object(&self, key: &str, prefix: &'a str) -> Result<Option<Self>, Fault> {
        self.typed(key, "an object", |value| value.as_object().map(|map| Self { map, prefix }))
    }

    /// An integer in `range`.
    pub(crate) fn int(&self, key: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, Fault> {
        let want = format!("an integer from {} to {}", range.start(), range.end());
        self.typed(key, &want, |value| {
            value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n))
        })
    }

    /// A number in `range`.
    pub(crate) fn float(&self, key: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, Fault> {
        let want = format!("a number from {:e} to {:e}", range.start(), range.end());
        self.typed(key, &want, |value| value.as_f64().map(|x| x as f32).filter(|x| range.contains(x)))
    }

    /// `true` or `false`.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Fault> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        self.typed(key, "a string", Value::as_str)
    }

    /// `found`, or an error that says that `key` is missing.
    pub(crate) fn need<T>(&self, key: &str, found: Option<T>) -> Result<T, Fault> {
        found.ok_or_else(|| bad!("field `{}{key}` is missing", self.prefix))
    }

    /// The value under `key` as `pick` sees it.
    pub(crate) fn typed<T>(
        &self,
        key: &str,
        want: &str,
        pick: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let found = pick(value);
        if found.is_none() {
            let prefix = self.prefix;
            return Err(bad!("field `{prefix}{key}` is {}; it must be {want}", quote(&value.to_string())));
        }
        Ok(found)
    }
}
