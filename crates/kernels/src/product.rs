//! Products of activations with packed weights: `out = x W^T`, added to what is there or not, and the gated feed-forward
//! product, which leaves its result quantized for the next one.

use crate::Compute;
use crate::activations::{Activations, View, Writer};
use crate::ahead::Ahead;
use crate::floats::{Brain, Floats, Half, Single};
use crate::isa::Kernel;
use crate::matrix::{BLOCK, Matrix, Packed, Q8_BLOCK_BYTES, nibbles_bytes};
use crate::quantized::{Bytes, Nibbles};
use crate::shared::Shared;
use crate::simd::{LANES, Simd, exp};
use crate::tile::{MAX_COLUMNS, MAX_PANELS, Panel, TILE, most_rows, tile};
use std::ops::Range;

/// Rows of a gated product whose gate and up columns are kept in scratch at a time.
const MAX_GATED_ROWS: usize = 512;

/// Rows times blocks of columns up to which they are kept so for several blocks: what the nearest cache holds.
const GATED_AT_ONCE: usize = 96;

/// f32 of scratch for them.
pub(crate) const GATED_SCRATCH: usize = 2 * MAX_GATED_ROWS * BLOCK;

/// Rows up to which weights are waited for, not computed on: asking early only gets in the loads' way.
const FEW_ROWS: usize = 2;

/// Chunks for each thread at most: enough that none waits long for another's last one.
const CHUNKS_PER_THREAD: usize = 8;

/// Bytes of weights times rows that a chunk should have. With fewer, threads would take turns at so short pieces of
/// memory that the hardware's reading ahead of one ends in the piece of the other.
const CHUNK_WORK: usize = 512 << 10;

/// A product to compute: one of several that share their activations.
pub struct Product<'a> {
    /// `[outputs, inputs]`.
    pub weights: &'a Matrix,
    /// `[rows, outputs]`.
    pub out: &'a mut [f32],
    /// Add to `out` rather than set it.
    pub add: bool,
}

/// The gate's activation in a gated feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + e^-x)`: SwiGLU.
    Silu,
    /// The tanh approximation of GELU: GeGLU.
    GeluTanh,
}

impl Compute {
    /// Computes up to `N` products of the first `rows` rows of `x`.
    ///
    /// # Panics
    /// When shapes do not agree, or `x` lacks the form a matrix needs.
    pub fn products<const N: usize>(&mut self, x: &Activations, rows: usize, products: [Product<'_>; N]) {
        for product in &products {
            check(x, rows, product.weights);
            let outputs = product.weights.outputs();
            assert!(product.out.len() >= rows * outputs, "{} f32 for {rows} x {outputs}", product.out.len());
        }
        let bytes = products.iter().map(|product| product.weights.bytes()).sum();
        let mut units = 0;
        let jobs = products.map(|product| {
            let first = units;
            units += product.weights.panels().div_ceil(MAX_PANELS);
            let stride = product.weights.outputs();
            let target =
                Target { out: Shared::new(product.out), stride, column: 0, columns: 0, add: product.add };
            (first..units, product.weights, target)
        });
        let ahead = self.prefetch.panels && rows > FEW_ROWS;
        let (view, chunks) = (x.view(), self.chunks(units, bytes, rows));
        self.by_chunks(chunks, |isa, chunk, _| {
            let mine = chunk * units / chunks..(chunk + 1) * units / chunks;
            for (range, weights, target) in &jobs {
                let part = mine.start.max(range.start)..mine.end.min(range.end);
                if !part.is_empty() {
                    let units = part.start - range.start..part.end - range.start;
                    isa.run(Multiply {
                        x: view,
                        rows,
                        weights,
                        units,
                        ahead: Ahead::new(ahead),
                        target: *target,
                    });
                }
            }
        });
    }

    /// `out = activation(x G^T) * (x U^T)`, quantized if `out` has that form, else in f32: the first half of a gated feed-forward layer.
    ///
    /// # Panics
    /// When shapes do not agree, or the width of `out` is no multiple of [`BLOCK`].
    pub fn gated(
        &mut self,
        x: &Activations,
        rows: usize,
        (gate, up): (&Matrix, &Matrix),
        activation: Activation,
        out: &mut Activations,
    ) {
        check(x, rows, gate);
        check(x, rows, up);
        assert!(gate.outputs() == out.width() && up.outputs() == out.width(), "gate, up and output widths");
        assert!(rows <= out.capacity(), "{rows} rows of {}", out.capacity());
        assert!(out.width().is_multiple_of(BLOCK), "{} columns in blocks of {BLOCK}", out.width());
        let units = out.width() / BLOCK;
        let ahead = self.prefetch.panels && rows > FEW_ROWS;
        let chunks = self.chunks(units, gate.bytes() + up.bytes(), rows);
        let (view, to) = (x.view(), out.writer());
        self.by_chunks(chunks, |isa, chunk, scratch| {
            let units = chunk * units / chunks..(chunk + 1) * units / chunks;
            let ahead = Ahead::new(ahead);
            isa.run(Gated { x: view, rows, weights: [gate, up], units, ahead, activation, to, scratch });
        });
    }

    /// How many chunks `units` pairs of panels, `bytes` of weights in all, are cut into.
    fn chunks(&self, units: usize, bytes: usize, rows: usize) -> usize {
        let each = (bytes * rows / CHUNK_WORK / self.threads()).clamp(1, CHUNKS_PER_THREAD);
        units.min(each * self.threads())
    }
}

fn check(x: &Activations, rows: usize, weights: &Matrix) {
    assert!(weights.inputs() == x.width(), "{} inputs for rows of {}", weights.inputs(), x.width());
    assert!(rows <= x.capacity(), "{rows} rows of {}", x.capacity());
    assert!(
        !weights.packed().is_quantized() || x.is_quantized(),
        "{:?} wants quantized rows",
        weights.packed()
    );
}

/// Where a product goes: `[rows, stride]`, some columns of it.
#[derive(Clone, Copy)]
struct Target<'a> {
    out: Shared<'a, f32>,
    stride: usize,
    column: usize,
    columns: usize,
    add: bool,
}

impl Target<'_> {
    /// Writes a tile.
    ///
    /// # Safety
    /// The columns are this thread's alone.
    #[inline(always)]
    unsafe fn put(&self, row: usize, rows: usize, tile: &[f32; TILE]) {
        for (r, from) in tile.chunks_exact(MAX_COLUMNS).take(rows).enumerate() {
            // SAFETY: the caller's word.
            let to = unsafe { self.out.part((row + r) * self.stride + self.column, self.columns) };
            if self.add {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            } else {
                to.copy_from_slice(&from[..self.columns]);
            }
        }
    }
}

/// Multiplies all rows with the pair of panels `unit` of `weights`.
///
/// # Safety
/// `x` has `rows` rows that fit `weights`; `unit` is one of its pairs of panels; the columns of `target` are this thread's.
#[inline(always)]
unsafe fn unit<S: Simd>(
    s: S,
    (x, rows): (&View, usize),
    (weights, unit, ahead): (&Matrix, usize, &mut Ahead),
    target: Target<'_>,
) {
    let (first, blocks, inputs) = (unit * MAX_PANELS, weights.blocks(), weights.inputs());
    let panels = (weights.panels() - first).min(MAX_PANELS);
    let next = first + MAX_PANELS..first + 2 * MAX_PANELS;
    ahead.begin(weights, next, rows.div_ceil(most_rows::<S>(panels)) * inputs.div_ceil(BLOCK));
    let (start, stride, x) = (weights.weights.as_ptr(), LANES * inputs, (x, rows));
    // SAFETY: panel `first` and `panels - 1` after it lie inside the buffers of `weights`; the rest by the caller's word.
    unsafe {
        match weights.packed() {
            Packed::Q4 => {
                let stride = nibbles_bytes(true, blocks);
                let nibbles = Nibbles::<true> { weights: start.add(first * stride), stride };
                tiles(s, x, (nibbles, panels, ahead), target);
            }
            Packed::Q4Centered => {
                let stride = nibbles_bytes(false, blocks);
                let nibbles = Nibbles::<false> { weights: start.add(first * stride), stride };
                tiles(s, x, (nibbles, panels, ahead), target);
            }
            Packed::Q8 => {
                let at = first * blocks;
                let scales = weights.scales().add(at * LANES);
                let bytes = Bytes { weights: start.add(at * Q8_BLOCK_BYTES), scales, blocks };
                tiles(s, x, (bytes, panels, ahead), target);
            }
            Packed::F32 => {
                let floats = Floats { weights: Single(start.cast()), first: first * stride, stride };
                tiles(s, x, (floats, panels, ahead), target);
            }
            Packed::F16 => {
                let floats = Floats { weights: Half(start.cast()), first: first * stride, stride };
                tiles(s, x, (floats, panels, ahead), target);
            }
            Packed::BF16 => {
                let floats = Floats { weights: Brain(start.cast()), first: first * stride, stride };
                tiles(s, x, (floats, panels, ahead), target);
            }
        }
    }
}

/// Cuts the rows into tiles as even as they go, as high as the instruction set's registers hold.
///
/// # Safety
/// As [`unit`].
#[inline(always)]
unsafe fn tiles<S: Simd, W: Panel>(
    s: S,
    (x, rows): (&View, usize),
    (weights, panels, ahead): (W, usize, &mut Ahead),
    target: Target<'_>,
) {
    let count = rows.div_ceil(most_rows::<S>(panels));
    let mut out = [0.0; TILE];
    for t in 0..count {
        let (row, end) = (t * rows / count, (t + 1) * rows / count);
        // SAFETY: the caller's word; a tile has at least one row, and at most what the instruction set holds.
        unsafe {
            tile(s, weights, x, (row, end - row), panels, (&mut *ahead, &mut out));
            target.put(row, end - row, &out);
        }
    }
}

/// Some pairs of panels of one product.
struct Multiply<'a> {
    x: View,
    rows: usize,
    weights: &'a Matrix,
    units: Range<usize>,
    ahead: Ahead,
    target: Target<'a>,
}

impl Kernel for Multiply<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        for u in self.units {
            let column = u * MAX_COLUMNS;
            let columns = (self.weights.outputs() - column).min(MAX_COLUMNS);
            let target = Target { column, columns, ..self.target };
            // SAFETY: shapes were checked by `products`; the chunk's units are inside the matrix and its own.
            unsafe { unit(s, (&self.x, self.rows), (self.weights, u, &mut self.ahead), target) };
        }
    }
}

/// Some blocks of 32 columns of a gated product.
struct Gated<'a> {
    x: View,
    rows: usize,
    weights: [&'a Matrix; 2],
    units: Range<usize>,
    ahead: Ahead,
    activation: Activation,
    to: Writer<'a>,
    scratch: &'a mut [f32],
}

impl Kernel for Gated<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let at_once = (GATED_AT_ONCE / self.rows.max(1)).max(1);
        for start in self.units.clone().step_by(at_once) {
            let blocks = start..self.units.end.min(start + at_once);
            for first in (0..self.rows).step_by(MAX_GATED_ROWS) {
                let rows = first..self.rows.min(first + MAX_GATED_ROWS);
                self.multiply(s, &blocks, &rows);
                self.finish(s, &blocks, &rows);
            }
        }
    }
}

impl Gated<'_> {
    /// Multiplies rows with some blocks of gate, then with those of up (each read front to back), into
    /// `scratch[block][row][2][BLOCK]`.
    #[inline(always)]
    fn multiply<S: Simd>(&mut self, s: S, blocks: &Range<usize>, rows: &Range<usize>) {
        let (x, raw) = (self.x.rows_after(rows.start), Shared::new(&mut self.scratch[..GATED_SCRATCH]));
        for (i, weights) in self.weights.into_iter().enumerate() {
            for (at, block) in blocks.clone().enumerate() {
                let column = at * rows.len() * 2 * BLOCK + i * BLOCK;
                let target = Target { out: raw, stride: 2 * BLOCK, column, columns: BLOCK, add: false };
                // SAFETY: shapes were checked by `gated`; a block of 32 columns is a pair of panels; the scratch is this
                // thread's.
                unsafe { unit(s, (&x, rows.len()), (weights, block, &mut self.ahead), target) };
            }
        }
    }

    /// Activates what `multiply` left in scratch, and writes it where it goes.
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, blocks: &Range<usize>, rows: &Range<usize>) {
        let places = blocks.clone().flat_map(|block| rows.clone().map(move |row| (block, row)));
        for ((block, row), raw) in places.zip(self.scratch[..GATED_SCRATCH].chunks_exact(2 * BLOCK)) {
            // SAFETY: the block of `to` is this chunk's; vectors lie inside blocks.
            unsafe {
                let mut x = [s.splat(0.0); 2];
                for i in 0..2 {
                    let gate = activate(s, self.activation, s.load(raw.as_ptr().add(i * LANES)));
                    x[i] = s.mul(gate, s.load(raw.as_ptr().add(BLOCK + i * LANES)));
                }
                if self.to.quantized {
                    self.to.quantize(s, row, block, x);
                } else {
                    let to = self.to.columns(row, block * BLOCK, BLOCK).as_mut_ptr();
                    s.store(to, x[0]);
                    s.store(to.add(LANES), x[1]);
                }
            }
        }
    }
}

#[inline(always)]
fn activate<S: Simd>(s: S, activation: Activation, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let z = match activation {
        Activation::Silu => x,
        // 0.5 (1 + tanh u) is the logistic function of 2u.
        Activation::GeluTanh => {
            let u = s.fma(s.mul(s.mul(x, x), x), s.splat(0.044_715), x);
            s.mul(u, s.splat(2.0 * 0.797_884_6))
        }
    };
    s.div(x, s.add(one, exp(s, s.sub(s.splat(0.0), z))))
}
