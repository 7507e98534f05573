//! A decoder described by data: a new architecture of the llama family is a new description, not new code.

/// Everything that shapes a decoder's computation, but the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    /// Transformer layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head; not always `width / heads`.
    pub head_dim: usize,
    /// Width of the feed-forward layer.
    pub ffn: usize,
    /// Vocabulary size.
    pub vocab: usize,
    /// Longest sequence it was trained for.
    pub context: usize,
    /// Epsilon of RMSNorm.
    pub norm_eps: f32,
    /// Rotary position embedding.
    pub rope: Rope,
    /// Activation of the gated feed-forward layer.
    pub activation: Activation,
}

/// Rotary position embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base frequency.
    pub theta: f32,
    /// Leading elements of a head that turn; the rest stay. Even, at most `head_dim`.
    pub dim: usize,
    /// Which elements pair up.
    pub order: RopeOrder,
    /// How positions past the trained length are brought into it.
    pub scaling: RopeScaling,
}

/// Which elements of a head pair up to turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeOrder {
    /// Element `2i` with `2i + 1`: GGUF files of the llama architecture.
    Interleaved,
    /// Element `i` with `i + dim / 2`: Hugging Face folders, and GGUF files of most other architectures.
    Half,
}

/// How positions past the trained length are brought into it.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions are divided by the factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Llama 3.1: long wavelengths are divided by the factor, short ones kept, the middle blended.
    Llama3 {
        /// The divisor.
        factor: f32,
        /// Wavelengths above `original_context / low_freq_factor` are scaled.
        low_freq_factor: f32,
        /// Wavelengths below `original_context / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// The length it was first trained for.
        original_context: f32,
    },
    /// YaRN (Peng et al., 2023): a ramp between interpolation and extrapolation, and a temperature on attention.
    Yarn {
        /// The divisor.
        factor: f32,
        /// The length it was first trained for.
        original_context: f32,
        /// Start of the ramp, in rotations.
        beta_fast: f32,
        /// End of the ramp, in rotations.
        beta_slow: f32,
        /// Factor on cos and sin; `None`: `0.1 ln(factor) + 1`.
        attention_factor: Option<f32>,
    },
    /// Each frequency divided by its own factor (`rope_freqs.weight` in GGUF files).
    Factors(Vec<f32>),
}

/// Activation of the gated feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// SwiGLU.
    Silu,
    /// GeGLU with the tanh approximation.
    GeluTanh,
}

/// What a weight is for; each format knows its own name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Token embedding, `[vocab, width]`.
    Embedding,
    /// Output head, `[vocab, width]`; absent when tied to the embedding.
    Head,
    /// Last norm, `[width]`.
    FinalNorm,
    /// A weight of layer `.0`.
    Layer(usize, LayerRole),
}

impl Role {
    /// Whether it is a norm's vector, not a matrix.
    pub const fn is_vector(self) -> bool {
        use LayerRole::{AttentionNorm, FfnNorm};
        matches!(self, Self::FinalNorm | Self::Layer(_, AttentionNorm | FfnNorm))
    }
}

/// What a weight of a layer is for. Shapes are `[outputs, inputs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Norm before attention, `[width]`.
    AttentionNorm,
    /// Query projection, `[heads * head_dim, width]`.
    Query,
    /// Key projection, `[kv_heads * head_dim, width]`.
    Key,
    /// Value projection, `[kv_heads * head_dim, width]`.
    Value,
    /// Output projection, `[width, heads * head_dim]`.
    Output,
    /// Norm before the feed-forward layer, `[width]`.
    FfnNorm,
    /// Gate projection, `[ffn, width]`.
    Gate,
    /// Up projection, `[ffn, width]`.
    Up,
    /// Down projection, `[width, ffn]`.
    Down,
}
