//! Rows of an embedding table.

use crate::Compute;
use crate::isa::Kernel;
use crate::matrix::Matrix;
use crate::shared::Shared;
use crate::simd::{LANES, LINE, Simd};

impl Compute {
    /// `out[i] = table[tokens[i]]` as f32; `out` is `[tokens.len(), table.inputs()]`.
    ///
    /// # Panics
    /// When a token is outside the table, or `out` is too short.
    pub fn embed(&mut self, table: &Matrix, tokens: &[u32], out: &mut [f32]) {
        let width = table.inputs();
        assert!(out.len() >= tokens.len() * width, "{} f32 for {} rows of {width}", out.len(), tokens.len());
        let out = Shared::new(out);
        self.by_rows(tokens.len(), |_, _, rows| {
            for i in rows {
                // SAFETY: each row is one chunk's.
                table.row(tokens[i] as usize, unsafe { out.part(i * width, width) });
            }
        });
    }

    /// Asks for what [`Compute::embed`] will read for these tokens to be brought near, if that is switched on
    /// ([`Prefetch::embeddings`](crate::Prefetch::embeddings)). A token outside the table does no harm.
    pub fn touch(&self, table: &Matrix, tokens: &[u32]) {
        if self.prefetch.embeddings {
            tokens.iter().for_each(|token| {
                let panel = *token as usize / LANES;
                self.isa().run(Touch { rows: table.of_panels(panel..panel + 1) });
            });
        }
    }
}

/// The panel that a row is in: each of its cache lines holds some of the row.
struct Touch<'a> {
    rows: [&'a [u8]; 2],
}

impl Kernel for Touch<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for bytes in self.rows {
            for line in bytes.chunks(LINE) {
                s.prefetch(line.as_ptr());
            }
        }
    }
}
