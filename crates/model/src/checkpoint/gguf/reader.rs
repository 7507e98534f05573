//! Reads little-endian values from a file front to back, through a small buffer, and never past its end.

use crate::checkpoint::{
    fault::{Fault, bad},
    source::Source,
};
use std::fmt::{Arguments, Display};

/// Bytes fetched at once.
const CHUNK: u64 = 64 << 10;

/// A cursor over a file.
pub(crate) struct Reader<'a> {
    source: &'a dyn Source,
    size: u64,
    at: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
}

impl<'a> Reader<'a> {
    /// Starts at byte 0.
    pub(crate) fn new(source: &'a dyn Source) -> Self {
        Self { source, size: source.size(), at: 0, chunk: Vec::new(), chunk_at: 0 }
    }

    /// Offset of the next byte.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// Bytes left.
    pub(crate) const fn left(&self) -> u64 {
        self.size - self.at
    }

    /// Checks that `count` things of at least `each` bytes can still come, and gives the count as a length.
    /// Nothing is allocated for a count that did not pass here.
    pub(crate) fn check_count(&self, count: u64, each: u64, field: impl Display) -> Result<usize, Fault> {
        let most = self.left() / each;
        match usize::try_from(count) {
            Ok(len) if count <= most => Ok(len),
            _ => Err(bad!(
                "{field} before byte {} is {count}, but the {} bytes left in the file hold at most {most}",
                self.at,
                self.left()
            )),
        }
    }

    /// Moves over `bytes` bytes.
    pub(crate) fn skip(&mut self, bytes: u64, field: Arguments<'_>) -> Result<(), Fault> {
        if bytes > self.left() {
            return Err(self.ends_inside(bytes, field));
        }
        self.at += bytes;
        Ok(())
    }

    /// Fills `out`.
    pub(crate) fn fill(&mut self, out: &mut [u8], field: Arguments<'_>) -> Result<(), Fault> {
        if out.len() as u64 > self.left() {
            return Err(self.ends_inside(out.len() as u64, field));
        }
        if let Some(bytes) = self.buffered(out.len()) {
            out.copy_from_slice(bytes);
        } else if out.len() as u64 >= CHUNK {
            self.source.read_exact_at(out, self.at)?;
        } else {
            self.chunk.resize(CHUNK.min(self.left()) as usize, 0);
            self.chunk_at = self.at;
            self.source.read_exact_at(&mut self.chunk, self.at)?;
            out.copy_from_slice(&self.chunk[..out.len()]);
        }
        self.at += out.len() as u64;
        Ok(())
    }

    fn buffered(&self, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(self.at.checked_sub(self.chunk_at)?).ok()?;
        self.chunk.get(start..start.checked_add(len)?)
    }

    fn ends_inside(&self, need: u64, field: Arguments<'_>) -> Fault {
        bad!(
            "the file ends at byte {} inside {field} at byte {}, which needs {need} bytes: it is cut short, or a \
             length before it is wrong",
            self.size,
            self.at
        )
    }

    /// `N` bytes.
    pub(crate) fn bytes<const N: usize>(&mut self, field: Arguments<'_>) -> Result<[u8; N], Fault> {
        let mut out = [0; N];
        self.fill(&mut out, field)?;
        Ok(out)
    }

    /// A `u32`.
    pub(crate) fn u32(&mut self, field: Arguments<'_>) -> Result<u32, Fault> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    /// A `u64`.
    pub(crate) fn u64(&mut self, field: Arguments<'_>) -> Result<u64, Fault> {
        self.bytes(field).map(u64::from_le_bytes)
    }

    /// A string: its length as `u64`, at most `most`, then UTF-8.
    pub(crate) fn text(&mut self, most: u64, field: Arguments<'_>) -> Result<String, Fault> {
        let start = self.at;
        let len = self.u64(format_args!("the length of {field}"))?;
        if len > most {
            return Err(bad!("the length of {field} at byte {start} is {len}; it may be at most {most}"));
        }
        if len > self.left() {
            return Err(self.ends_inside(len, field));
        }
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes, field)?;
        String::from_utf8(bytes).map_err(|e| {
            let bad_at = start + 8 + e.utf8_error().valid_up_to() as u64;
            bad!("{field} is not UTF-8 at byte {bad_at}")
        })
    }
}
