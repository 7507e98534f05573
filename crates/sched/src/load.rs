//! What is in a step, and what each part of it costs.

/// What a step has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Rows of prefill chunks.
    pub prefill: usize,
    /// Sequences that decode one token.
    pub decodes: usize,
    /// Tokens of KV cache read, summed over all rows.
    pub kv: usize,
}

impl Load {
    /// This load and a prefill chunk of `len` rows from position `start` on.
    #[must_use]
    pub const fn with_prefill(self, start: usize, len: usize) -> Self {
        Self { prefill: self.prefill + len, kv: self.kv + len * start + len * (len + 1) / 2, ..self }
    }

    /// This load and the decode of the token at `position`.
    #[must_use]
    pub const fn with_decode(self, position: usize) -> Self {
        Self { decodes: self.decodes + 1, kv: self.kv + position + 1, ..self }
    }

    pub(crate) const fn features(self) -> [f64; 4] {
        [1.0, self.prefill as f64, self.decodes as f64, self.kv as f64]
    }
}

/// Seconds per step, and per unit of what is in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// A step of nothing.
    pub base: f64,
    /// A row of prefill.
    pub prefill: f64,
    /// A sequence that decodes.
    pub decode: f64,
    /// A token of KV cache read.
    pub kv: f64,
}

impl Rates {
    /// How long a step of this load takes by these rates.
    pub fn seconds(&self, load: Load) -> f64 {
        let weights = [self.base, self.prefill, self.decode, self.kv];
        weights.iter().zip(load.features()).map(|(weight, feature)| weight * feature).sum()
    }
}
