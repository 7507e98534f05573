//! Rows of an embedding table.

use crate::Compute;
use crate::matrix::Matrix;
use crate::shared::Shared;

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
}
