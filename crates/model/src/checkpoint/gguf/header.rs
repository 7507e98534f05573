//! The front of a GGUF file: magic, version, metadata, and where each tensor lies.

use super::{reader::Reader, types, value::Metadata};
use crate::checkpoint::{
    fault::{Fault, bad, quote, unsupported},
    source::Source,
};
use std::collections::HashSet;

/// Longest tensor name, in bytes. The format says 64; some writers go further.
const NAME_MOST: u64 = 1024;
/// Tensors that there is room for before they are read.
const ROOM: usize = 1 << 14;
/// Alignment of tensor data when the file does not say.
const ALIGNMENT: usize = 32;

/// A tensor as the file describes it: inside the file, overlapping no other.
#[derive(Debug)]
pub(crate) struct TensorInfo {
    /// Its name, unique in the file.
    pub(crate) name: String,
    /// Offset of its description.
    pub(crate) at: u64,
    /// How its numbers are stored.
    pub(crate) kind: types::Kind,
    /// Rows (the product of all dimensions but the first).
    pub(crate) rows: usize,
    /// Elements of a row (the first dimension), a multiple of the type's block.
    pub(crate) cols: usize,
    /// Whether it has more than two dimensions.
    pub(crate) deep: bool,
    /// Offset of its first byte in the file.
    pub(crate) offset: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

/// The front of a file.
#[derive(Debug)]
pub(crate) struct Header {
    /// What the file says about itself.
    pub(crate) metadata: Metadata,
    /// All its tensors, in file order.
    pub(crate) tensors: Vec<TensorInfo>,
}

impl Header {
    /// Reads and checks it.
    pub(crate) fn read(source: &dyn Source) -> Result<Self, Fault> {
        let mut reader = Reader::new(source);
        check_magic(&mut reader)?;
        check_version(&mut reader)?;
        let tensor_count = reader.u64(format_args!("the number of tensors"))?;
        let entry_count = reader.u64(format_args!("the number of metadata entries"))?;
        let metadata = Metadata::read(&mut reader, entry_count)?;
        let alignment = alignment(&metadata)?;
        let mut tensors = read_tensors(&mut reader, tensor_count)?;
        place(&mut tensors, reader.at(), alignment, source.size())?;
        Ok(Self { metadata, tensors })
    }
}

fn check_magic(reader: &mut Reader<'_>) -> Result<(), Fault> {
    match &reader.bytes::<4>(format_args!("the magic"))? {
        b"GGUF" => Ok(()),
        b"FUGG" => Err(big_endian()),
        b"lmgg" | b"fmgg" | b"tjgg" | b"algg" => {
            Err(unsupported!("an old GGML file (magic at byte 0); supported is GGUF version 2 and 3"))
        }
        other => {
            Err(bad!("not a GGUF file: the magic at byte 0 is `{}`; it must be `GGUF`", other.escape_ascii()))
        }
    }
}

fn check_version(reader: &mut Reader<'_>) -> Result<(), Fault> {
    match reader.u32(format_args!("the version"))? {
        2 | 3 => Ok(()),
        other if (1..=0xFFFF).contains(&other.swap_bytes()) => Err(big_endian()),
        other => Err(unsupported!("GGUF version {other} (at byte 4); supported are 2 and 3")),
    }
}

fn big_endian() -> Fault {
    unsupported!("a big-endian GGUF file (version at byte 4 is byte-swapped); supported is little-endian")
}

fn alignment(metadata: &Metadata) -> Result<u64, Fault> {
    let key = "general.alignment";
    let found = metadata.int(key, 1..=1 << 20)?.unwrap_or(ALIGNMENT);
    if found < 8 || !found.is_power_of_two() {
        let at = metadata.get(key).map_or(0, |entry| entry.at);
        return Err(bad!(
            "metadata key `{key}` at byte {at} is {found}; it must be a power of two, at least 8"
        ));
    }
    Ok(found as u64)
}

fn read_tensors(reader: &mut Reader<'_>, count: u64) -> Result<Vec<TensorInfo>, Fault> {
    // The shortest description: a name of one byte, the number of dimensions, one dimension, type, offset.
    let count = reader.check_count(count, 8 + 1 + 4 + 8 + 4 + 8, "the number of tensors (at byte 8)")?;
    // What is in memory is larger than its description: a claim alone does not get room for more than real files have.
    let mut names = HashSet::with_capacity(count.min(ROOM));
    let mut tensors = Vec::with_capacity(count.min(ROOM));
    for n in 0..count {
        let tensor = read_tensor(reader, n)?;
        if !names.insert(tensor.name.clone()) {
            let (name, at) = (quote(&tensor.name), tensor.at);
            return Err(bad!("tensor {name} at byte {at} is there twice; once is right"));
        }
        tensors.push(tensor);
    }
    Ok(tensors)
}

fn read_tensor(reader: &mut Reader<'_>, n: usize) -> Result<TensorInfo, Fault> {
    let at = reader.at();
    let name = reader.text(NAME_MOST, format_args!("the name of tensor {n}"))?;
    let shown = quote(&name);
    let dims_at = reader.at();
    let count = reader.u32(format_args!("the number of dimensions of tensor {shown}"))?;
    if !(1..=4).contains(&count) {
        return Err(bad!("tensor {shown} at byte {dims_at} has {count} dimensions; 1 to 4 are right"));
    }
    let mut dims = [1_u64; 4];
    for dim in &mut dims[..count as usize] {
        *dim = reader.u64(format_args!("a dimension of tensor {shown}"))?;
    }
    let type_at = reader.at();
    let number = reader.u32(format_args!("the type of tensor {shown}"))?;
    let kind = types::kind(number).ok_or_else(|| {
        unsupported!("tensor {shown} at byte {type_at} has type {number}; {}", types::SUPPORTED)
    })?;
    let offset = reader.u64(format_args!("the offset of tensor {shown}"))?;
    let size = measure(&dims, &kind).map_err(|why| bad!("tensor {shown} at byte {dims_at} {why}"))?;
    let (rows, cols, bytes) = size;
    Ok(TensorInfo { name, at, kind, rows, cols, deep: dims[2] > 1 || dims[3] > 1, offset, bytes })
}

/// `(rows, cols, bytes)` of a tensor.
fn measure(dims: &[u64; 4], kind: &types::Kind) -> Result<(usize, usize, u64), String> {
    if dims.contains(&0) {
        return Err(format!("has dimensions {dims:?}; none may be 0"));
    }
    let (elements, block_bytes) = (u64::from(kind.elements), u64::from(kind.bytes));
    if !dims[0].is_multiple_of(elements) {
        return Err(format!("has rows of {}; type {} wants a multiple of {elements}", dims[0], kind.name));
    }
    let rows = dims[1].checked_mul(dims[2]).and_then(|n| n.checked_mul(dims[3]));
    let row_bytes = (dims[0] / elements).checked_mul(block_bytes);
    let size = rows.zip(row_bytes).and_then(|(rows, row)| rows.checked_mul(row));
    match (rows.map(usize::try_from), usize::try_from(dims[0]), size) {
        (Some(Ok(rows)), Ok(cols), Some(bytes)) => Ok((rows, cols, bytes)),
        _ => Err(format!("has dimensions {dims:?}; their product is too large for any file")),
    }
}

/// Turns offsets into offsets of the file and checks that all tensors lie inside it, apart from each other.
fn place(tensors: &mut [TensorInfo], front: u64, alignment: u64, size: u64) -> Result<(), Fault> {
    let base = front.next_multiple_of(alignment);
    for tensor in tensors.iter_mut() {
        let (name, at, offset) = (quote(&tensor.name), tensor.at, tensor.offset);
        if !offset.is_multiple_of(alignment) {
            return Err(bad!(
                "tensor {name} at byte {at} has offset {offset}; it must be a multiple of {alignment}"
            ));
        }
        let end = base.checked_add(offset).and_then(|start| start.checked_add(tensor.bytes));
        if end.is_none_or(|end| end > size) {
            return Err(bad!(
                "tensor {name} at byte {at} has {} bytes at offset {offset} of the data, which starts at byte {base}; \
                 the file ends at byte {size}: it is cut short, or the offset is wrong",
                tensor.bytes
            ));
        }
        tensor.offset += base;
    }
    check_apart(tensors)
}

fn check_apart(tensors: &[TensorInfo]) -> Result<(), Fault> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.offset + a.bytes > b.offset {
            return Err(bad!(
                "tensor {} at byte {} overlaps tensor {}: it starts at byte {}, the other ends at byte {}",
                quote(&b.name),
                b.at,
                quote(&a.name),
                b.offset,
                a.offset + a.bytes
            ));
        }
    }
    Ok(())
}
