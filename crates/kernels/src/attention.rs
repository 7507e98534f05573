//! Paged, grouped-query attention over the KV cache.
//!
//! The context is cut into segments of 256 positions, always at the same places; each gives a maximum, a sum and a
//! weighted sum of values, and these are merged in order (Milakov and Gimelshein, 2018). A row's numbers therefore
//! depend neither on the rows computed with it nor on who computed which segment.

use crate::Compute;
use crate::activations::{Activations, Writer};
use crate::isa::Kernel;
use crate::rope::MAX_HEAD;
use crate::segment::{Context, MAX_ROWS, ROOM, Rows, SEGMENT, merge, segment};
use crate::shared::Shared;
use crate::simd::Simd;
use crate::slab::{BLOCK_TOKENS, Slab};
use plimsoll_pool::AlignedBuf;

/// Consecutive positions of one sequence that ask for attention.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Rows, the next of the step.
    pub rows: usize,
    /// Position of the first row: it sees this many tokens and itself.
    pub start: usize,
    /// Blocks of the sequence from position 0.
    pub blocks: &'a [u32],
}

/// How the attention of a step is cut into items of work: made once a step, used by every layer.
pub struct AttentionPlan {
    cut: Cut,
    /// Results of parts.
    partial: AlignedBuf<f32>,
}

/// The plan without its room for results, so that threads can read the one and write the other.
struct Cut {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    threads: usize,
    queries: Vec<Placed>,
    tables: Vec<u32>,
    items: Vec<Item>,
    /// Single segments of the items, when these are too few to share out; empty otherwise.
    parts: Vec<Part>,
}

/// A query's place in the step.
#[derive(Debug, Clone, Copy)]
struct Placed {
    row: usize,
    rows: usize,
    start: usize,
    table: usize,
}

/// A few positions of a query and one key-value head.
#[derive(Debug, Clone, Copy)]
struct Item {
    query: usize,
    head: usize,
    /// Positions within the query.
    first: usize,
    count: usize,
    /// Where the results of its parts begin.
    partial: usize,
}

/// One segment of an item.
#[derive(Debug, Clone, Copy)]
struct Part {
    item: Item,
    segment: usize,
    partial: usize,
}

/// Chunks for each thread from which on a chunk has all heads.
const MANY_CHUNKS: usize = 8;

/// Below how many items segments are shared out too.
const fn split_below(threads: usize) -> usize {
    4 * threads
}

impl AttentionPlan {
    /// Room for steps of up to `rows` rows in up to `queries` queries, each of up to `context` tokens, with `heads`
    /// query heads.
    ///
    /// # Panics
    /// When the heads do not fit those of the slab.
    pub fn new(
        compute: &mut Compute,
        (rows, queries, context): (usize, usize, usize),
        heads: usize,
        slab: &Slab,
    ) -> Self {
        let shape = slab.shape();
        assert!(heads.is_multiple_of(shape.heads), "{heads} query heads on {}", shape.heads);
        assert!(shape.head_dim <= MAX_HEAD, "head width {} over {MAX_HEAD}", shape.head_dim);
        let (segments, split) = (context.div_ceil(SEGMENT), split_below(compute.threads()));
        let tile = MAX_ROWS.max(heads / shape.heads) * (shape.head_dim + 2);
        compute.reserve(ROOM + 2 * tile);
        let cut = Cut {
            heads,
            kv_heads: shape.heads,
            head_dim: shape.head_dim,
            threads: compute.threads(),
            queries: Vec::with_capacity(queries),
            tables: Vec::with_capacity(queries * context.div_ceil(BLOCK_TOKENS)),
            items: Vec::with_capacity(rows * shape.heads),
            parts: Vec::with_capacity(split * segments),
        };
        Self { cut, partial: AlignedBuf::zeroed(split * segments * tile) }
    }

    /// Cuts the attention of a step. Allocates nothing as long as the step is within the sizes given to `new`.
    ///
    /// # Panics
    /// When a query has too few blocks.
    pub fn begin<'a>(&mut self, queries: impl Iterator<Item = Query<'a>>) {
        self.cut.begin(queries);
    }
}

impl Cut {
    fn begin<'a>(&mut self, queries: impl Iterator<Item = Query<'a>>) {
        self.queries.clear();
        self.tables.clear();
        self.items.clear();
        self.parts.clear();
        let (mut row, tile) = (0, (MAX_ROWS / self.group()).max(1));
        for (query, Query { rows, start, blocks }) in queries.enumerate() {
            let table = self.tables.len();
            assert!(
                blocks.len() * BLOCK_TOKENS >= start + rows,
                "{} blocks for {} tokens",
                blocks.len(),
                start + rows
            );
            self.tables.extend_from_slice(&blocks[..(start + rows).div_ceil(BLOCK_TOKENS)]);
            self.queries.push(Placed { row, rows, start, table });
            for first in (0..rows).step_by(tile) {
                let count = tile.min(rows - first);
                let heads = 0..self.kv_heads;
                self.items.extend(heads.map(|head| Item { query, head, first, count, partial: 0 }));
            }
            row += rows;
        }
        let longest = self.items.iter().map(|item| self.end(item)).max().unwrap_or(0);
        if self.threads > 1 && self.items.len() < split_below(self.threads) && longest > SEGMENT {
            self.split();
        }
    }

    fn split(&mut self) {
        let mut partial = 0;
        for i in 0..self.items.len() {
            self.items[i].partial = partial;
            let item = self.items[i];
            for segment in 0..self.end(&item).div_ceil(SEGMENT) {
                self.parts.push(Part { item, segment, partial });
                partial += self.results(&item);
            }
        }
    }

    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// One past the last position that an item sees.
    fn end(&self, item: &Item) -> usize {
        self.queries[item.query].start + item.first + item.count
    }

    /// f32 that the results of one segment of an item take.
    fn results(&self, item: &Item) -> usize {
        item.count * self.group() * (self.head_dim + 2)
    }
}

impl Compute {
    /// Attention of `layer` for the rows of the step that `plan` was begun with: `queries` (turned and scaled,
    /// `[rows, heads * head_dim]`) over the cache, into `out`.
    ///
    /// # Panics
    /// When shapes do not agree.
    pub fn attention(
        &mut self,
        plan: &mut AttentionPlan,
        queries: &[f32],
        (layer, slab): (usize, &Slab),
        out: &mut Activations,
    ) {
        let AttentionPlan { cut: plan, partial } = plan;
        let plan = &*plan;
        let width = plan.heads * plan.head_dim;
        assert!(out.width() == width, "attention of width {width} into {}", out.width());
        assert!(layer < slab.shape().layers, "layer {layer} of {}", slab.shape().layers);
        let rows =
            plan.items.iter().map(|i| plan.queries[i.query].row + i.first + i.count).max().unwrap_or(0);
        assert!(queries.len() >= rows * width && rows <= out.capacity(), "attention of {rows} rows");
        assert!(plan.tables.iter().all(|&b| (b as usize) < slab.shape().blocks), "a block outside the cache");
        let to = out.writer();
        let ahead = self.prefetch.kv;
        let step = Step { plan, queries, layer, slab, to, partial: Shared::new(partial), ahead };
        if step.plan.parts.is_empty() {
            let (items, heads) = (&step.plan.items, step.plan.kv_heads);
            // All heads of some rows by one thread, where there are enough: their pages lie together.
            let each = if items.len() < MANY_CHUNKS * self.threads() * heads { 1 } else { heads };
            self.by_chunks(items.len() / each, |isa, chunk, scratch| {
                for &item in &items[chunk * each..][..each] {
                    isa.run(Attend { step: &step, item, part: None, scratch: &mut *scratch });
                }
            });
        } else {
            self.by_chunks(step.plan.parts.len(), |isa, i, scratch| {
                let Part { item, segment, partial } = step.plan.parts[i];
                isa.run(Attend { step: &step, item, part: Some((segment, partial)), scratch });
            });
            self.by_chunks(step.plan.items.len(), |isa, i, scratch| {
                isa.run(Merge { step: &step, item: step.plan.items[i], scratch });
            });
        }
    }
}

/// What all items of a layer share.
struct Step<'a> {
    plan: &'a Cut,
    queries: &'a [f32],
    layer: usize,
    slab: &'a Slab,
    to: Writer<'a>,
    partial: Shared<'a, f32>,
    /// Whether to ask for pages early.
    ahead: bool,
}

impl Step<'_> {
    fn rows(&self, item: &Item) -> Rows<'_> {
        let (plan, query) = (self.plan, self.plan.queries[item.query]);
        let (group, width) = (plan.group(), plan.heads * plan.head_dim);
        Rows {
            queries: &self.queries[(query.row + item.first) * width..][..item.count * width],
            width,
            column: item.head * group * plan.head_dim,
            group,
            head_dim: plan.head_dim,
            position: query.start + item.first,
            count: item.count,
        }
    }

    fn context(&self, item: &Item) -> Context<'_> {
        let Placed { rows, table, .. } = self.plan.queries[item.query];
        let blocks = self.plan.end(item).div_ceil(BLOCK_TOKENS);
        let page_at = |block, head| self.slab.page_at(self.layer, block, head);
        let (tables, last) = (&self.plan.tables, item.head + 1 == self.plan.kv_heads);
        let next = if last {
            (page_at(0, 0), &tables[table + blocks..])
        } else {
            (page_at(0, item.head + 1), &tables[table..])
        };
        Context {
            stored: self.slab.shape().stored,
            page: self.slab.shape().page(),
            halves: &self.slab.halves,
            first: page_at(0, item.head),
            stride: page_at(1, 0) - page_at(0, 0),
            table: &tables[table..][..blocks],
            next,
            // A prompt computes on its pages for longer than they take to come, and again and again.
            ahead: self.ahead && rows == 1,
        }
    }

    /// Divides the merged results of an item and writes them to its rows.
    #[inline(always)]
    fn finish(&self, item: &Item, results: &[f32]) {
        let (plan, query) = (self.plan, self.plan.queries[item.query]);
        let (group, dim) = (plan.group(), plan.head_dim);
        for (i, result) in results.chunks_exact(dim + 2).enumerate() {
            let row = query.row + item.first + i / group;
            // SAFETY: rows of a query and columns of a head belong to one item.
            let to = unsafe { self.to.columns(row, (item.head * group + i % group) * dim, dim) };
            let scale = 1.0 / result[1];
            to.iter_mut().zip(&result[2..]).for_each(|(to, from)| *to = from * scale);
        }
    }
}

/// The whole of an item, or one segment of it.
struct Attend<'a> {
    step: &'a Step<'a>,
    item: Item,
    /// The segment, and where its results go.
    part: Option<(usize, usize)>,
    scratch: &'a mut [f32],
}

impl Kernel for Attend<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (rows, context) = (self.step.rows(&self.item), self.step.context(&self.item));
        let size = self.step.plan.results(&self.item);
        let (room, rest) = self.scratch.split_at_mut(ROOM);
        let (merged, rest) = rest.split_at_mut(size);
        let all = 0..self.step.plan.end(&self.item).div_ceil(SEGMENT);
        let segments = self.part.map_or(all, |(segment, _)| segment..segment + 1);
        for index in segments {
            let to = match self.part {
                // SAFETY: each part has a place of its own.
                Some((_, partial)) => unsafe { self.step.partial.part(partial, size) },
                None if index == 0 => &mut *merged,
                None => &mut rest[..size],
            };
            // The one place that calls it: it is all the code there is, for every instruction set.
            segment(s, &rows, &context, index, room, to);
            if self.part.is_none() && index > 0 {
                merge(merged, &rest[..size], rows.head_dim);
            }
        }
        if self.part.is_none() {
            self.step.finish(&self.item, merged);
        }
    }
}

struct Merge<'a> {
    step: &'a Step<'a>,
    item: Item,
    scratch: &'a mut [f32],
}

impl Kernel for Merge<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let plan = self.step.plan;
        let size = plan.results(&self.item);
        let merged = &mut self.scratch[..size];
        for index in 0..plan.end(&self.item).div_ceil(SEGMENT) {
            // SAFETY: an item's results are read by it alone, after all parts are done.
            let results = unsafe { self.step.partial.part(self.item.partial + index * size, size) };
            if index == 0 {
                merged.copy_from_slice(results);
            } else {
                merge(merged, results, plan.head_dim);
            }
        }
        self.step.finish(&self.item, merged);
    }
}
