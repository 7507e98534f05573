//! Why a checkpoint does not become a decoder.

use crate::checkpoint::CheckpointError;

/// A checkpoint that did not become a decoder.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// It describes what the kernels do not compute.
    #[error("{title}: {what}")]
    Unsupported {
        /// The model.
        title: String,
        /// What it wants, and what is supported.
        what: String,
    },
    /// The system refuses the memory for the weights.
    #[error(
        "no memory for {bytes} bytes of packed weights: free some, or take a smaller or more quantized model"
    )]
    Weights {
        /// What was asked for.
        bytes: usize,
    },
    /// The system refuses the memory for the cache.
    #[error("no memory for {bytes} bytes of KV cache: lower --kv-memory, --ctx or --max-seqs")]
    Memory {
        /// What was asked for.
        bytes: usize,
    },
}
