//! Rows of activations, as f32 and quantized to bytes: what a product takes in.

use crate::Compute;
use crate::isa::Kernel;
use crate::matrix::BLOCK;
use crate::shared::Shared;
use crate::simd::{LANES, Simd};
use plimsoll_pool::AlignedBuf;

/// Up to `capacity` rows of `width` activations. The quantized form holds, per row and 32 columns, a scale, 32 signed
/// bytes, and their sum (for weights with a minimum or an offset).
pub struct Activations {
    width: usize,
    capacity: usize,
    floats: AlignedBuf<f32>,
    bytes: AlignedBuf<i8>,
    scales: AlignedBuf<f32>,
    /// Scale times sum of bytes.
    biases: AlignedBuf<f32>,
    sums: AlignedBuf<i32>,
}

impl Activations {
    /// Room for `capacity` rows of `width`; `quantized` if a quantized matrix will read them.
    ///
    /// # Panics
    /// When quantized rows are no multiple of [`BLOCK`] wide.
    pub fn new(capacity: usize, width: usize, quantized: bool) -> Self {
        assert!(!quantized || width.is_multiple_of(BLOCK), "{width} columns in blocks of {BLOCK}");
        let (bytes, blocks) = if quantized { (capacity * width, capacity * width / BLOCK) } else { (0, 0) };
        Self {
            width,
            capacity,
            floats: AlignedBuf::zeroed(capacity * width),
            bytes: AlignedBuf::zeroed(bytes),
            scales: AlignedBuf::zeroed(blocks),
            biases: AlignedBuf::zeroed(blocks),
            sums: AlignedBuf::zeroed(blocks),
        }
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Most rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The f32 form, `[capacity, width]`.
    pub fn floats(&self) -> &[f32] {
        &self.floats
    }

    /// The f32 form to write; [`Compute::quantize`] brings the other form up to date.
    pub fn floats_mut(&mut self) -> &mut [f32] {
        &mut self.floats
    }

    pub(crate) fn is_quantized(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(crate) fn view(&self) -> View {
        View {
            floats: self.floats.as_ptr(),
            bytes: self.bytes.as_ptr(),
            scales: self.scales.as_ptr(),
            biases: self.biases.as_ptr(),
            sums: self.sums.as_ptr(),
            width: self.width,
            blocks: self.width / BLOCK,
        }
    }

    pub(crate) fn writer(&mut self) -> Writer<'_> {
        Writer {
            quantized: self.is_quantized(),
            width: self.width,
            floats: Shared::new(&mut self.floats),
            bytes: Shared::new(&mut self.bytes),
            scales: Shared::new(&mut self.scales),
            biases: Shared::new(&mut self.biases),
            sums: Shared::new(&mut self.sums),
        }
    }
}

/// Where the rows lie, for kernels.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) floats: *const f32,
    pub(crate) bytes: *const i8,
    pub(crate) scales: *const f32,
    pub(crate) biases: *const f32,
    pub(crate) sums: *const i32,
    pub(crate) width: usize,
    pub(crate) blocks: usize,
}

impl View {
    /// The rows from `first` on.
    #[inline(always)]
    pub(crate) fn rows_after(self, first: usize) -> Self {
        let (columns, blocks) = (first * self.width, first * self.blocks);
        Self {
            floats: self.floats.wrapping_add(columns),
            bytes: self.bytes.wrapping_add(columns),
            scales: self.scales.wrapping_add(blocks),
            biases: self.biases.wrapping_add(blocks),
            sums: self.sums.wrapping_add(blocks),
            ..self
        }
    }
}

// SAFETY: a view is only read, while the activations it came from are borrowed by the job.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// Writes rows from several threads.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) quantized: bool,
    pub(crate) width: usize,
    floats: Shared<'a, f32>,
    bytes: Shared<'a, i8>,
    scales: Shared<'a, f32>,
    biases: Shared<'a, f32>,
    sums: Shared<'a, i32>,
}

impl Writer<'_> {
    /// The f32 form of `row`.
    ///
    /// # Safety
    /// No other thread touches this row meanwhile.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "see Shared")]
    pub(crate) unsafe fn row(&self, row: usize) -> &mut [f32] {
        // SAFETY: the caller's word.
        unsafe { self.floats.part(row * self.width, self.width) }
    }

    /// `count` columns of the f32 form of `row`, from `first` on.
    ///
    /// # Safety
    /// No other thread touches these columns of this row meanwhile.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "see Shared")]
    pub(crate) unsafe fn columns(&self, row: usize, first: usize, count: usize) -> &mut [f32] {
        // SAFETY: the caller's word.
        unsafe { self.floats.part(row * self.width + first, count) }
    }

    /// Quantizes columns `32 block..32 block + 32` of `row`, given as two vectors.
    ///
    /// # Safety
    /// No other thread touches this block meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn quantize<S: Simd>(&self, s: S, row: usize, block: usize, x: [S::F; 2]) {
        let peak = s.largest(s.max(s.abs(x[0]), s.abs(x[1])));
        let inverse = s.splat(if peak > 0.0 { 127.0 / peak } else { 0.0 });
        let q = [s.to_i32(s.mul(x[0], inverse)), s.to_i32(s.mul(x[1], inverse))];
        let sum = s.isum(s.iadd(q[0], q[1]));
        // Halves, as in the formats' reference kernels, whose rounding this engine follows.
        let scale = peak * (1.0 / 127.0);
        let (scale, bias) = (s.half(scale), s.half(scale * sum as f32));
        let at = row * (self.width / BLOCK) + block;
        // SAFETY: the block is this thread's by the caller's word; `part` checks the bounds.
        unsafe {
            let bytes = self.bytes.part(at * BLOCK, BLOCK);
            s.store_i8(bytes.as_mut_ptr(), q[0]);
            s.store_i8(bytes.as_mut_ptr().add(LANES), q[1]);
            self.scales.part(at, 1)[0] = scale;
            self.biases.part(at, 1)[0] = bias;
            self.sums.part(at, 1)[0] = sum;
        }
    }

    /// Quantizes a whole row from its f32 form.
    ///
    /// # Safety
    /// No other thread touches this row meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn quantize_row<S: Simd>(&self, s: S, row: usize) {
        // SAFETY: the caller's word; a row is `width` long, a multiple of 32.
        unsafe {
            let x = self.row(row).as_ptr();
            for block in 0..self.width / BLOCK {
                let at = x.add(block * BLOCK);
                self.quantize(s, row, block, [s.load(at), s.load(at.add(LANES))]);
            }
        }
    }
}

/// Quantizes some rows.
struct Quantize<'a> {
    to: Writer<'a>,
    rows: std::ops::Range<usize>,
}

impl Kernel for Quantize<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for row in self.rows {
            // SAFETY: each chunk of the job has rows of its own.
            unsafe { self.to.quantize_row(s, row) };
        }
    }
}

impl Compute {
    /// Brings the quantized form of the first `rows` rows up to date with the f32 form.
    ///
    /// # Panics
    /// When there are fewer rows.
    pub fn quantize(&mut self, activations: &mut Activations, rows: usize) {
        if !activations.is_quantized() {
            return;
        }
        assert!(rows <= activations.capacity, "{rows} rows of {}", activations.capacity);
        let to = activations.writer();
        self.by_rows(rows, |isa, _, rows| isa.run(Quantize { to, rows }));
    }
}
