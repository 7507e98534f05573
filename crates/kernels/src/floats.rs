//! Tiles over float weights.

use crate::activations::View;
use crate::ahead::Ahead;
use crate::matrix::BLOCK;
use crate::simd::{LANES, Simd};
use crate::tile::{Panel, put};

/// How a float weight is read.
pub(crate) trait Element: Copy {
    /// 16 of them from element `at`.
    unsafe fn load<S: Simd>(self, s: S, at: usize) -> S::F;
}

macro_rules! element {
    ($name:ident, $bits:ty, $load:ident, $text:literal) => {
        #[doc = $text]
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) *const $bits);

        impl Element for $name {
            #[inline(always)]
            unsafe fn load<S: Simd>(self, s: S, at: usize) -> S::F {
                // SAFETY: the caller vouches for 16 elements from `at`.
                unsafe { s.$load(self.0.add(at)) }
            }
        }
    };
}

element!(Single, f32, load, "f32 weights.");
element!(Half, u16, load_f16, "IEEE half weights.");
element!(Brain, u16, load_bf16, "bfloat16 weights.");

/// Float weights.
#[derive(Clone, Copy)]
pub(crate) struct Floats<E> {
    pub(crate) weights: E,
    /// Elements from the start to the first panel.
    pub(crate) first: usize,
    /// Elements from one panel to the next.
    pub(crate) stride: usize,
}

impl<E: Element> Panel for Floats<E> {
    #[inline(always)]
    fn next(self) -> Self {
        Self { first: self.first + self.stride, ..self }
    }

    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        x: &View,
        row: usize,
        (ahead, out): (&mut Ahead, &mut [f32]),
    ) {
        let mut sums = [[s.splat(0.0); P]; R];
        for k in 0..x.width {
            if k.is_multiple_of(BLOCK) {
                ahead.ask(s);
            }
            // SAFETY: rows and panels are readable by the caller's word, and `k` is inside them.
            unsafe {
                let mut w = [s.splat(0.0); P];
                for p in 0..P {
                    w[p] = self.weights.load(s, self.first + p * self.stride + k * LANES);
                }
                for r in 0..R {
                    let a = s.splat(*x.floats.add((row + r) * x.width + k));
                    for p in 0..P {
                        sums[r][p] = s.fma(a, w[p], sums[r][p]);
                    }
                }
            }
        }
        put(s, sums, out);
    }
}
