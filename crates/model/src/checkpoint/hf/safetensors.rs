//! The header of a safetensors file: eight bytes of length, then JSON that names each tensor, its type, shape and place.
//!
//! Parsed here, because the `safetensors` crate wants the whole file in memory or mapped.

use crate::checkpoint::{
    DType, Tensor,
    fault::{Fault, bad, quote, unsupported},
    source::Source,
    weights::Found,
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{collections::HashSet, fmt};

/// Longest header, in bytes (the format's own limit).
const HEADER_MOST: u64 = 100_000_000;

/// Reads the header of file number `file` of the checkpoint and checks that every tensor lies inside the file, apart from
/// the others.
pub(crate) fn read(source: &dyn Source, file: usize) -> Result<Vec<Found>, Fault> {
    let text = read_header(source)?;
    let Header(entries) = serde_json::from_str(&text).map_err(|e| bad_json(&e))?;
    let data = 8 + text.len() as u64;
    let mut names = HashSet::with_capacity(entries.len());
    let mut found = Vec::with_capacity(entries.len());
    for (name, raw) in entries {
        let at = 8 + (raw.get().as_ptr() as usize - text.as_ptr() as usize) as u64;
        if !names.insert(name.clone()) {
            return Err(bad!("{} at byte {at} is there twice; once is right", quote(&name)));
        }
        if name != "__metadata__" {
            let entry: Entry = serde_json::from_str(raw.get())
                .map_err(|e| bad!("tensor {} at byte {at}: {e}", quote(&name)))?;
            found.push(entry.place(name, at, file, data..source.size())?);
        }
    }
    check_apart(&found)?;
    Ok(found.into_iter().map(|(found, _)| found).collect())
}

fn read_header(source: &dyn Source) -> Result<String, Fault> {
    let size = source.size();
    let Some(left) = size.checked_sub(8) else {
        return Err(bad!(
            "the file has {size} bytes; a safetensors file starts with 8 bytes of header length"
        ));
    };
    let mut length = [0; 8];
    source.read_exact_at(&mut length, 0)?;
    let length = u64::from_le_bytes(length);
    let most = left.min(HEADER_MOST);
    if length > most {
        return Err(bad!("the header length at byte 0 is {length}; in this file it can be at most {most}"));
    }
    let mut bytes = vec![0; length as usize];
    source.read_exact_at(&mut bytes, 8)?;
    String::from_utf8(bytes)
        .map_err(|e| bad!("the header is not UTF-8 at byte {}", 8 + e.utf8_error().valid_up_to()))
}

fn bad_json(error: &serde_json::Error) -> Fault {
    match error.line() {
        0 | 1 => bad!("the header at byte 8 is not right, at byte {}: {error}", 7 + error.column().max(1)),
        _ => bad!("the header at byte 8 is not right: {error}"),
    }
}

/// Names and raw entries, in file order; names may repeat.
struct Header<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Header<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A tensor as the header describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Entry {
    /// The tensor and where it ends, or why it cannot be.
    fn place(
        self,
        name: String,
        at: u64,
        file: usize,
        data: std::ops::Range<u64>,
    ) -> Result<(Found, u64), Fault> {
        let shown = quote(&name);
        let [first, last] = self.data_offsets;
        let place = |offset: u64| data.start.checked_add(offset).filter(|&place| place <= data.end);
        let (Some(start), Some(end), true) = (place(first), place(last), first <= last) else {
            let most = data.end - data.start;
            return Err(bad!(
                "tensor {shown} at byte {at} has data_offsets [{first}, {last}]; they must go up and stay within the \
                 {most} bytes of data in this file"
            ));
        };
        let dtype = dtype(&self.dtype).ok_or_else(|| {
            let kind = quote(&self.dtype);
            unsupported!(
                "tensor {shown} at byte {at} is of type {kind}; supported weight types are F32, F16, BF16"
            )
        })?;
        let (rows, cols) = flatten(&self.shape)
            .filter(|&(rows, cols)| matches(rows, cols, dtype, last - first))
            .ok_or_else(|| {
                bad!(
                    "tensor {shown} at byte {at} has shape {:?} of {dtype:?} and {} bytes; 1 or 2 dimensions, none 0, \
                     that give just these bytes are right",
                    Shown(&self.shape),
                    last - first
                )
            })?;
        let tensor = Tensor { name, dtype, rows, cols, file, offset: start };
        Ok((Found { tensor, described_at: at }, end))
    }
}

/// A shape for a message: cut short, because it may be of any length.
struct Shown<'a>(&'a [u64]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, dots) = if self.0.len() > 8 { (&self.0[..8], "...") } else { (self.0, "") };
        write!(f, "{head:?}{dots}")
    }
}

fn dtype(name: &str) -> Option<DType> {
    match name {
        "F32" => Some(DType::F32),
        "F16" => Some(DType::F16),
        "BF16" => Some(DType::BF16),
        _ => None,
    }
}

fn flatten(shape: &[u64]) -> Option<(usize, usize)> {
    let (rows, cols) = match *shape {
        [cols] => (1, cols),
        [rows, cols] => (rows, cols),
        _ => return None,
    };
    Some((usize::try_from(rows).ok()?, usize::try_from(cols).ok()?))
        .filter(|&(rows, cols)| rows > 0 && cols > 0)
}

fn matches(rows: usize, cols: usize, dtype: DType, bytes: u64) -> bool {
    let (_, element) = dtype.block();
    rows.checked_mul(cols).and_then(|n| n.checked_mul(element)).is_some_and(|n| n as u64 == bytes)
}

fn check_apart(found: &[(Found, u64)]) -> Result<(), Fault> {
    let mut order: Vec<&(Found, u64)> = found.iter().collect();
    order.sort_by_key(|(found, _)| found.tensor.offset);
    for pair in order.windows(2) {
        let ((a, a_end), (b, _)) = (pair[0], pair[1]);
        if *a_end > b.tensor.offset {
            return Err(bad!(
                "tensor {} at byte {} overlaps tensor {}: it starts at byte {}, the other ends at byte {a_end}",
                quote(&b.tensor.name),
                b.described_at,
                quote(&a.tensor.name),
                b.tensor.offset
            ));
        }
    }
    Ok(())
}
