//! Rows of an embedding table.

use crate::Compute;
use crate::isa::Kernel;
use crate::matrix::Matrix;
use crate::shared::Shared;
use crate::simd::Simd;

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
    /// ([`Prefetch::embeddings`](crate::Prefetch::embeddings)). A token outside the table is passed over.
    pub fn touch(&self, table: &Matrix, tokens: &[u32]) {
        if self.prefetch.embeddings {
            tokens.iter().for_each(|token| self.isa().run(Touch { rows: table.lines_of(*token as usize) }));
        }
    }
}

/// The bytes that a row is among.
struct Touch<'a> {
    rows: [&'a [u8]; 2],
}

impl Kernel for Touch<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for bytes in self.rows {
            for line in bytes.chunks(64) {
                s.prefetch(line.as_ptr());
            }
        }
    }
}
