//! Metadata of a GGUF file: typed values under names.

use super::reader::Reader;
use crate::checkpoint::fault::{Fault, bad, quote, unsupported};
use crate::checkpoint::limits;
use std::{collections::HashMap, fmt::Display, ops::RangeInclusive};

/// Longest string value, in bytes; chat templates are the longest that real files have.
const TEXT_MOST: u64 = 16 << 20;
/// Longest array of the tokenizer: as many tokens as are believed, or merges. In memory a number is up to 8 times as
/// large as in the file.
const ARRAY_MOST: usize = *limits::VOCAB.end();
/// Longest key, in bytes (the format's own limit).
const KEY_MOST: u64 = 65_535;

/// The type numbers of the format.
const TYPES: [(&str, u64); 13] = [
    ("u8", 1),
    ("i8", 1),
    ("u16", 2),
    ("i16", 2),
    ("u32", 4),
    ("i32", 4),
    ("f32", 4),
    ("bool", 1),
    ("string", 8),
    ("array", 12),
    ("u64", 8),
    ("i64", 8),
    ("f64", 8),
];

/// A metadata value. Integers and floats of all widths are one kind each: files of different writers differ in width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Any integer type.
    Int(i128),
    /// `f32` or `f64`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// `string`.
    Text(String),
    /// Array of strings.
    Texts(Vec<String>),
    /// Array of integers of any type.
    Ints(Vec<i64>),
    /// Array of floats.
    Floats(Vec<f32>),
    /// An array that nothing asks for, not kept: its element type.
    Array(&'static str),
}

impl Value {
    fn kind(&self) -> String {
        match self {
            Self::Int(n) => format!("integer {n}"),
            Self::Float(x) => format!("float {x}"),
            Self::Bool(b) => format!("bool {b}"),
            Self::Text(s) => format!("string {}", quote(s)),
            Self::Texts(v) => format!("array of {} strings", v.len()),
            Self::Ints(v) => format!("array of {} integers", v.len()),
            Self::Floats(v) => format!("array of {} floats", v.len()),
            Self::Array(of) => format!("array of {of}"),
        }
    }
}

/// A value and where it lies.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Offset of the value.
    pub(crate) at: u64,
    /// The value.
    pub(crate) value: Value,
}

/// The metadata of a file.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    entries: HashMap<String, Entry>,
}

impl Metadata {
    /// Reads `count` entries.
    pub(crate) fn read(reader: &mut Reader<'_>, count: u64) -> Result<Self, Fault> {
        // The shortest entry: a key of one byte, a type, one byte of value.
        let count = reader.check_count(count, 8 + 1 + 4 + 1, "the number of metadata entries")?;
        let mut entries = HashMap::new();
        for n in 0..count {
            let key_at = reader.at();
            let key = reader.text(KEY_MOST, format_args!("the key of metadata entry {n}"))?;
            let kind = reader.u32(format_args!("the type of {}", quote(&key)))?;
            let at = reader.at();
            let value = read_value(reader, &key, kind)?;
            if entries.contains_key(&key) {
                return Err(bad!(
                    "metadata key {} at byte {key_at} is there twice; once is right",
                    quote(&key)
                ));
            }
            entries.insert(key, Entry { at, value });
        }
        Ok(Self { entries })
    }

    /// The entry under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// An integer in `range`.
    pub(crate) fn int(&self, key: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, Fault> {
        let want = format!("an integer from {} to {}", range.start(), range.end());
        self.typed(key, &want, |value| match value {
            Value::Int(n) => usize::try_from(*n).ok().filter(|n| range.contains(n)),
            _ => None,
        })
    }

    /// A float in `range`; NaN is in none.
    pub(crate) fn float(&self, key: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, Fault> {
        let want = format!("a float from {:e} to {:e}", range.start(), range.end());
        self.typed(key, &want, |value| match value {
            Value::Float(x) => Some(*x as f32).filter(|x| range.contains(x)),
            _ => None,
        })
    }

    /// A bool.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Fault> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Fault> {
        self.typed(key, "a string", |value| match value {
            Value::Text(s) => Some(s.as_str()),
            _ => None,
        })
    }

    /// `found`, or an error that says that `key` is missing.
    pub(crate) fn need<T>(key: &str, found: Option<T>) -> Result<T, Fault> {
        found.ok_or_else(|| bad!("metadata key `{key}` is missing"))
    }

    /// Takes out an array of strings.
    pub(crate) fn take_texts(&mut self, key: &str) -> Result<Option<Vec<String>>, Fault> {
        self.typed(key, "an array of strings", |v| matches!(v, Value::Texts(_)).then_some(()))?;
        match self.entries.remove(key).map(|entry| entry.value) {
            Some(Value::Texts(texts)) => Ok(Some(texts)),
            _ => Ok(None),
        }
    }

    /// The value under `key` as `pick` sees it.
    pub(crate) fn typed<'a, T>(
        &'a self,
        key: &str,
        want: &str,
        pick: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(entry) = self.get(key) else { return Ok(None) };
        match pick(&entry.value) {
            Some(found) => Ok(Some(found)),
            None => {
                let (kind, at) = (entry.value.kind(), entry.at);
                Err(bad!("metadata key `{key}` at byte {at} is {kind}; it must be {want}"))
            }
        }
    }
}

fn type_of(number: u32, at: u64, field: impl Display) -> Result<(&'static str, u64), Fault> {
    let known = TYPES.get(number as usize).copied();
    known.ok_or_else(|| bad!("{field} before byte {at} is {number}; value types are 0 to 12"))
}

fn read_value(reader: &mut Reader<'_>, key: &str, number: u32) -> Result<Value, Fault> {
    let shown = quote(key);
    let (kind, _) = type_of(number, reader.at(), format_args!("the type of {shown}"))?;
    match kind {
        "string" => Ok(Value::Text(reader.text(TEXT_MOST, format_args!("the string {shown}"))?)),
        "array" => read_array(reader, key),
        _ => read_scalar(reader, kind, format_args!("the value of {shown}")),
    }
}

fn read_scalar(r: &mut Reader<'_>, kind: &str, field: std::fmt::Arguments<'_>) -> Result<Value, Fault> {
    Ok(match kind {
        "u8" => Value::Int(u8::from_le_bytes(r.bytes(field)?).into()),
        "i8" => Value::Int(i8::from_le_bytes(r.bytes(field)?).into()),
        "u16" => Value::Int(u16::from_le_bytes(r.bytes(field)?).into()),
        "i16" => Value::Int(i16::from_le_bytes(r.bytes(field)?).into()),
        "u32" => Value::Int(r.u32(field)?.into()),
        "i32" => Value::Int(i32::from_le_bytes(r.bytes(field)?).into()),
        "u64" => Value::Int(r.u64(field)?.into()),
        "i64" => Value::Int(i64::from_le_bytes(r.bytes(field)?).into()),
        "f32" => Value::Float(f32::from_le_bytes(r.bytes(field)?).into()),
        "f64" => Value::Float(f64::from_le_bytes(r.bytes(field)?)),
        _ => match r.bytes(field)? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            [other] => {
                return Err(bad!("{field} at byte {} is the bool {other}; it must be 0 or 1", r.at() - 1));
            }
        },
    })
}

/// Reads an array; keeps it only if it is part of the tokenizer, the one thing here that arrays are read for.
fn read_array(reader: &mut Reader<'_>, key: &str) -> Result<Value, Fault> {
    let shown = quote(key);
    let number = reader.u32(format_args!("the element type of array {shown}"))?;
    let (kind, size) = type_of(number, reader.at(), format_args!("the element type of array {shown}"))?;
    if kind == "array" {
        let at = reader.at() - 4;
        return Err(unsupported!("array {shown} at byte {at} holds arrays; only flat arrays are supported"));
    }
    let count = reader.u64(format_args!("the length of array {shown}"))?;
    let count = reader.check_count(count, size, format_args!("the length of array {shown}"))?;
    let wanted = key.starts_with("tokenizer.ggml.");
    if wanted && count > ARRAY_MOST {
        let at = reader.at() - 8;
        return Err(bad!(
            "the length of array {shown} at byte {at} is {count}; it may be at most {ARRAY_MOST}"
        ));
    }
    match kind {
        "string" => read_texts(reader, &shown, count, wanted),
        _ if !wanted => {
            reader.skip(count as u64 * size, format_args!("array {shown}"))?;
            Ok(Value::Array(kind))
        }
        _ => read_numbers(reader, &shown, count, kind),
    }
}

fn read_texts(reader: &mut Reader<'_>, shown: &str, count: usize, wanted: bool) -> Result<Value, Fault> {
    let mut texts = Vec::with_capacity(if wanted { count } else { 0 });
    for n in 0..count {
        let text = reader.text(TEXT_MOST, format_args!("string {n} of array {shown}"))?;
        if wanted {
            texts.push(text);
        }
    }
    Ok(if wanted { Value::Texts(texts) } else { Value::Array("string") })
}

fn read_numbers(
    reader: &mut Reader<'_>,
    shown: &str,
    count: usize,
    kind: &'static str,
) -> Result<Value, Fault> {
    let (mut ints, mut floats) = (Vec::new(), Vec::new());
    for n in 0..count {
        match read_scalar(reader, kind, format_args!("element {n} of array {shown}"))? {
            Value::Int(int) => ints.push(i64::try_from(int).unwrap_or(i64::MAX)),
            Value::Float(float) => floats.push(float as f32),
            _ => {}
        }
    }
    Ok(match kind {
        "bool" => Value::Array(kind),
        "f32" | "f64" => Value::Floats(floats),
        _ => Value::Ints(ints),
    })
}
