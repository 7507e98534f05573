//! Attention of a few rows over one segment of the context: scores, exponentials, weighted values; `halves` over a cache of
//! IEEE halves, `bytes` over a quantized one.

mod bytes;
mod halves;

use crate::simd::{LINE, Simd};
use crate::slab::{BLOCK_TOKENS, KvType};

/// Blocks of a segment.
const SEGMENT_BLOCKS: usize = 16;
/// Positions of a segment.
pub(crate) const SEGMENT: usize = SEGMENT_BLOCKS * BLOCK_TOKENS;
/// Rows computed together, at most.
pub(crate) const MAX_ROWS: usize = 12;
/// f32 of scratch that [`segment`] takes: scores, and room to quantize them.
pub(crate) const ROOM: usize = SCORES + if halves::ROOM > bytes::ROOM { halves::ROOM } else { bytes::ROOM };
/// f32 of scratch for scores.
const SCORES: usize = MAX_ROWS * SEGMENT;

/// Rows that share a key-value head: consecutive positions, and for each the heads of its group.
pub(crate) struct Rows<'a> {
    /// From the first position's row on.
    pub(crate) queries: &'a [f32],
    pub(crate) width: usize,
    /// Where the group's heads begin in a row.
    pub(crate) column: usize,
    pub(crate) group: usize,
    pub(crate) head_dim: usize,
    /// Of the first row in its sequence.
    pub(crate) position: usize,
    pub(crate) count: usize,
}

impl Rows<'_> {
    #[inline(always)]
    fn query(&self, i: usize) -> *const f32 {
        let at = i / self.group * self.width + self.column + i % self.group * self.head_dim;
        self.queries[at..][..self.head_dim].as_ptr()
    }

    /// Tokens of the segment that begins at `first` which row `i` sees.
    #[inline(always)]
    fn visible(&self, i: usize, first: usize) -> usize {
        (self.position + i / self.group + 1).saturating_sub(first).min(SEGMENT)
    }
}

/// One key-value head's pages of one sequence.
pub(crate) struct Context<'a> {
    pub(crate) stored: KvType,
    pub(crate) halves: &'a [u16],
    pub(crate) first: usize,
    pub(crate) stride: usize,
    /// Halves of a page.
    pub(crate) page: usize,
    pub(crate) table: &'a [u32],
    /// Where the next head's pages begin, and its blocks.
    pub(crate) next: (usize, &'a [u32]),
    /// Whether to ask for pages early.
    pub(crate) ahead: bool,
}

impl Context<'_> {
    /// The page of the `b`-th block.
    #[inline(always)]
    fn page(&self, b: usize) -> *const u16 {
        self.halves[self.first + self.table[b] as usize * self.stride..][..self.page].as_ptr()
    }

    /// Cache lines of a page.
    #[inline(always)]
    fn lines(&self) -> usize {
        self.page * size_of::<u16>() / LINE
    }

    /// The page of the `b`-th block, to ask for; behind the last one, the pages that are read next.
    #[inline(always)]
    fn page_ahead(&self, b: usize) -> *const u16 {
        let (first, table, b) = match b.checked_sub(self.table.len()) {
            None => (self.first, self.table, b),
            Some(b) => (self.next.0, self.next.1, b),
        };
        let block = table.get(b).or(self.table.last()).map_or(0, |&block| block as usize);
        self.halves.as_ptr().wrapping_add(first + block * self.stride)
    }
}

/// `R` rows from `first` on.
struct Piece<'a> {
    rows: &'a Rows<'a>,
    context: &'a Context<'a>,
    index: usize,
    first: usize,
    scratch: &'a mut [f32],
    results: &'a mut [f32],
}

/// Results of rows over a segment, `[rows][2 + head_dim]`: the largest score, the sum of exponentials, and the sum of
/// values weighted by them. Rows that see nothing of the segment get a sum of zero.
#[inline(always)]
pub(crate) fn segment<S: Simd>(
    s: S,
    rows: &Rows<'_>,
    context: &Context<'_>,
    index: usize,
    scratch: &mut [f32],
    results: &mut [f32],
) {
    let (total, stride) = (rows.count * rows.group, rows.head_dim + 2);
    let most = if S::WIDE { MAX_ROWS } else { 4 };
    let mut i = 0;
    while i < total {
        let results = &mut results[i * stride..];
        let piece = Piece { rows, context, index, first: i, scratch: &mut *scratch, results };
        let rows = (total - i).min(most);
        i += match context.stored {
            KvType::F16 => piece.over_halves(s, rows),
            KvType::Q8 => piece.over_bytes(s, rows),
        };
    }
}

/// The largest of a row's scores, or -1e30 without any.
#[inline(always)]
fn largest<S: Simd>(s: S, scores: &[f32]) -> f32 {
    let mut largest = s.splat(-1e30);
    for block in scores.chunks_exact(BLOCK_TOKENS) {
        // SAFETY: 16 f32.
        largest = s.max(largest, unsafe { s.load(block.as_ptr()) });
    }
    s.largest(largest)
}

/// Merges the results of a later segment into those of the ones before it.
#[inline(always)]
pub(crate) fn merge(into: &mut [f32], from: &[f32], head_dim: usize) {
    let stride = head_dim + 2;
    for (into, from) in into.chunks_exact_mut(stride).zip(from.chunks_exact(stride)) {
        if from[1] == 0.0 {
            continue;
        }
        let largest = into[0].max(from[0]);
        let (old, new) = ((into[0] - largest).exp(), (from[0] - largest).exp());
        into[0] = largest;
        into[1..].iter_mut().zip(&from[1..]).for_each(|(a, b)| *a = *a * old + b * new);
    }
}
