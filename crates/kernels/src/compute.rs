//! What computes: an instruction set, a team of threads, and scratch memory for each of them.

use crate::isa::Isa;
use crate::product::GATED_SCRATCH;
use crate::shared::Shared;
use crate::team::Team;
use plimsoll_pool::AlignedBuf;
use std::ops::Range;

/// Everything an operation runs on. Operations are methods, one file each; none allocates.
pub struct Compute {
    isa: Isa,
    pub(crate) team: Team,
    scratch: AlignedBuf<f32>,
    /// f32 of scratch for each worker.
    share: usize,
    pub(crate) prefetch: Prefetch,
}

/// What is asked for before it is needed. No result depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefetch {
    /// The next panels of weights, where many rows leave the time for it. On by default.
    pub panels: bool,
    /// The next blocks of the KV cache, where few rows leave the time for it. On by default.
    pub kv: bool,
    /// The rows of the embedding table of tokens that come next, while others are still chosen. Measured to bring nothing:
    /// off by default.
    pub embeddings: bool,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self { panels: true, kv: true, embeddings: false }
    }
}

impl Compute {
    /// Computes with `isa` on `team`.
    pub fn new(isa: Isa, team: Team) -> Self {
        let mut compute =
            Self { isa, team, scratch: AlignedBuf::zeroed(0), share: 0, prefetch: Prefetch::default() };
        compute.reserve(GATED_SCRATCH);
        compute
    }

    /// Switches what is asked for early.
    pub fn set_prefetch(&mut self, prefetch: Prefetch) {
        self.prefetch = prefetch;
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads.
    pub fn threads(&self) -> usize {
        self.team.size()
    }

    /// Makes sure that each worker has `floats` f32 of scratch. Called when a model is loaded, never in a step.
    pub(crate) fn reserve(&mut self, floats: usize) {
        if floats > self.share {
            self.share = floats.next_multiple_of(LINE);
            self.scratch = AlignedBuf::zeroed(self.share * self.team.size());
        }
    }

    /// Splits `rows` rows into chunks and runs `job(isa, worker, rows)` on each.
    pub(crate) fn by_rows(&mut self, rows: usize, job: impl Fn(Isa, usize, Range<usize>) + Sync) {
        let chunks = (rows / ROWS_EACH).clamp(1, 4 * self.team.size());
        let isa = self.isa;
        self.team.run(chunks, |worker, chunk| {
            job(isa, worker, chunk * rows / chunks..(chunk + 1) * rows / chunks)
        });
    }

    /// Runs `job(isa, chunk, scratch of the worker)` for each chunk.
    pub(crate) fn by_chunks(&mut self, chunks: usize, job: impl Fn(Isa, usize, &mut [f32]) + Sync) {
        let (isa, share) = (self.isa, self.share);
        let scratch = Shared::new(&mut self.scratch);
        self.team.run(chunks, |worker, chunk| {
            // SAFETY: no two threads are the same worker at one time.
            let own = unsafe { scratch.part(worker * share, share) };
            job(isa, chunk, own);
        });
    }
}

/// Rows of a chunk at least: what is done with fewer takes less time than another thread needs to hear of it.
const ROWS_EACH: usize = 4;

/// f32 in two cache lines: shares of scratch are kept apart by it.
const LINE: usize = 32;
