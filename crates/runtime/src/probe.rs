//! Steps of a stated shape, to be timed: some sequences decode, and one prefills.

use plimsoll_model::engine::{BLOCK_TOKENS, Engine, Logits, Span};
use plimsoll_model::sampling::{Candidates, Sampler};
use plimsoll_sched::Load;

/// The shape of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probe {
    /// Sequences that decode a token each.
    pub decodes: usize,
    /// Tokens that each of these holds before.
    pub depth: usize,
    /// Rows of one prefill chunk; 0: none.
    pub prefill: usize,
    /// Where that begins.
    pub start: usize,
}

impl Probe {
    /// One chunk of so many rows at the beginning of a sequence.
    pub(crate) fn prefill(rows: usize) -> Self {
        Self { prefill: rows, ..Self::default() }
    }

    /// So many sequences, each at position 0.
    pub(crate) fn decode(sequences: usize) -> Self {
        Self { decodes: sequences, ..Self::default() }
    }

    /// What it has to do.
    pub fn load(self) -> Load {
        let load = (0..self.decodes).fold(Load::default(), |load, _| load.with_decode(self.depth));
        if self.prefill > 0 { load.with_prefill(self.start, self.prefill) } else { load }
    }

    /// Blocks of each of its sequences.
    pub(crate) fn blocks_each(self) -> usize {
        let tokens = if self.decodes > 0 { self.depth + 1 } else { 0 };
        tokens.max(self.start + self.prefill).div_ceil(BLOCK_TOKENS)
    }

    /// Sequences it has.
    pub(crate) fn sequences(self) -> usize {
        self.decodes + usize::from(self.prefill > 0)
    }

    /// Blocks it reads and writes: the first ones of the slab.
    pub(crate) fn blocks(self) -> usize {
        self.blocks_each() * self.sequences()
    }

    /// Computes it once, on the first blocks of the slab, which nobody must hold, and chooses its tokens: that is part of
    /// a lane's step.
    ///
    /// # Errors
    /// When the engine fails: why.
    pub(crate) fn run(self, engine: &mut dyn Engine, chooser: &mut Chooser) -> Result<(), String> {
        let tokens = vec![0; self.prefill.max(1)];
        let blocks: Vec<u32> = (0..).take(self.blocks()).collect();
        let spans: Vec<_> = blocks
            .chunks(self.blocks_each().max(1))
            .enumerate()
            .map(|(i, blocks)| {
                let (len, start) =
                    if i < self.decodes { (1, self.depth) } else { (self.prefill, self.start) };
                Span { tokens: &tokens[..len], start, blocks, logits: Logits::Last }
            })
            .collect();
        engine.step(&spans).map_err(|error| error.to_string())?;
        (0..spans.len()).for_each(|row| chooser.choose(engine.logits(row)));
        Ok(())
    }
}

/// Chooses tokens as a request does that asks for nothing particular, and forgets them.
pub(crate) struct Chooser {
    sampler: Sampler,
    candidates: Candidates,
}

impl Chooser {
    /// For the logits of `engine`.
    pub(crate) fn new(engine: &dyn Engine) -> Self {
        Self { sampler: Sampler::default(), candidates: Candidates::with_vocab(engine.shape().vocab) }
    }

    fn choose(&mut self, logits: &mut [f32]) {
        std::hint::black_box(self.sampler.sample(logits, &mut self.candidates));
    }
}
