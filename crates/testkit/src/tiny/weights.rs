//! Seeded random weights of a llama-family decoder.

/// The sizes of a tiny decoder. Its vocabulary is [`super::vocab`].
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    /// Transformer layers.
    pub layers: usize,
    /// Width of the residual stream; a multiple of 32.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head; even, and `heads * head_dim` a multiple of 32.
    pub head_dim: usize,
    /// Width of the feed-forward layer; a multiple of 32.
    pub ffn: usize,
    /// Longest sequence.
    pub context: usize,
    /// Whether the embedding is the head too.
    pub tied: bool,
}

impl Default for Sizes {
    fn default() -> Self {
        let (layers, width, heads, kv_heads, head_dim) = (2, 64, 4, 2, 16);
        Self { layers, width, heads, kv_heads, head_dim, ffn: 96, context: 256, tied: true }
    }
}

/// What a weight is, in no format's spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Token embedding.
    Embedding,
    /// Output head.
    Head,
    /// Last norm.
    FinalNorm,
    /// Norm before attention.
    AttentionNorm,
    /// Query projection.
    Query,
    /// Key projection.
    Key,
    /// Value projection.
    Value,
    /// Output projection.
    Output,
    /// Norm before the feed-forward layer.
    FfnNorm,
    /// Gate projection.
    Gate,
    /// Up projection.
    Up,
    /// Down projection.
    Down,
}

/// A weight: `rows` outputs of `cols` inputs; a norm has one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// Which layer; `None` outside the layers.
    pub layer: Option<usize>,
    /// What it is.
    pub part: Part,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Its numbers, row by row.
    pub values: Vec<f32>,
}

impl Weight {
    /// Whether it is a norm.
    pub const fn is_norm(&self) -> bool {
        matches!(self.part, Part::FinalNorm | Part::AttentionNorm | Part::FfnNorm)
    }
}

impl Sizes {
    /// All weights in file order; the same for the same seed.
    pub fn weights(&self, seed: u64) -> Vec<Weight> {
        let mut noise = Noise(seed);
        let vocab = super::vocab::tokens().len();
        let mut all = vec![noise.matrix(None, Part::Embedding, vocab, self.width, 3.0)];
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        for layer in (0..self.layers).map(Some) {
            all.push(noise.norm(layer, Part::AttentionNorm, self.width));
            for (part, rows, cols) in [
                (Part::Query, query, self.width),
                (Part::Key, key, self.width),
                (Part::Value, key, self.width),
                (Part::Output, self.width, query),
                (Part::Gate, self.ffn, self.width),
                (Part::Up, self.ffn, self.width),
                (Part::Down, self.width, self.ffn),
            ] {
                all.push(noise.matrix(layer, part, rows, cols, 1.0));
            }
            all.push(noise.norm(layer, Part::FfnNorm, self.width));
        }
        all.push(noise.norm(None, Part::FinalNorm, self.width));
        if !self.tied {
            all.push(noise.matrix(None, Part::Head, vocab, self.width, 3.0));
        }
        all
    }
}

/// SplitMix64 (Steele et al., 2014).
struct Noise(u64);

impl Noise {
    /// Uniform in -1..1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Outputs of about `gain` times the deviation of the inputs, so that signals neither die nor explode, and logits
    /// are far enough apart for greedy choices to be clear.
    fn matrix(&mut self, layer: Option<usize>, part: Part, rows: usize, cols: usize, gain: f32) -> Weight {
        let reach = gain * (3.0 / cols as f32).sqrt();
        let values = (0..rows * cols).map(|_| reach * self.next()).collect();
        Weight { layer, part, rows, cols, values }
    }

    fn norm(&mut self, layer: Option<usize>, part: Part, width: usize) -> Weight {
        let values = (0..width).map(|_| 1.0 + 0.25 * self.next()).collect();
        Weight { layer, part, rows: 1, cols: width, values }
    }
}
