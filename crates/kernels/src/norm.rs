//! RMSNorm (Zhang and Sennrich, 2019), leaving its result in the forms the next product takes.

use crate::Compute;
use crate::activations::{Activations, Writer};
use crate::isa::Kernel;
use crate::simd::{LANES, Simd};
use std::ops::Range;

impl Compute {
    /// `out[i] = x[rows[i]] / rms(x[rows[i]]) * weight`; `x` is `[any, width]`, `weight` `[width]`.
    ///
    /// # Panics
    /// When shapes do not agree, or the width is no multiple of 16.
    pub fn rms_norm(&mut self, x: &[f32], rows: &[u32], weight: &[f32], epsilon: f32, out: &mut Activations) {
        let width = out.width();
        assert!(
            weight.len() == width && width.is_multiple_of(LANES),
            "a norm of {} over {width}",
            weight.len()
        );
        assert!(rows.len() <= out.capacity(), "{} rows of {}", rows.len(), out.capacity());
        assert!(rows.iter().all(|&r| (r as usize + 1) * width <= x.len()), "a row outside {} f32", x.len());
        let to = out.writer();
        self.by_rows(rows.len(), |isa, _, range| isa.run(Norm { x, rows, weight, epsilon, to, range }));
    }
}

struct Norm<'a> {
    x: &'a [f32],
    rows: &'a [u32],
    weight: &'a [f32],
    epsilon: f32,
    to: Writer<'a>,
    range: Range<usize>,
}

impl Kernel for Norm<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.weight.len();
        for i in self.range {
            let x = &self.x[self.rows[i] as usize * width..][..width];
            // SAFETY: vectors lie inside rows of `width`, a multiple of 16; the row of `to` is this chunk's alone.
            unsafe {
                let mut squares = s.splat(0.0);
                for at in (0..width).step_by(LANES) {
                    let v = s.load(x.as_ptr().add(at));
                    squares = s.fma(v, v, squares);
                }
                let scale = s.splat(1.0 / (s.sum(squares) / width as f32 + self.epsilon).sqrt());
                let to = self.to.row(i).as_mut_ptr();
                for at in (0..width).step_by(LANES) {
                    let v = s.mul(s.load(x.as_ptr().add(at)), scale);
                    s.store(to.add(at), s.mul(v, s.load(self.weight.as_ptr().add(at))));
                }
                if self.to.quantized {
                    self.to.quantize_row(s, i);
                }
            }
        }
    }
}
