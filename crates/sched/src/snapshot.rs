//! What the planner last published about itself. One writer, any number of readers.

use crate::promise::Class;
use crate::view::{Published, View};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Figures of a lane as of its last step. Each is right by itself; together they may be from two neighbouring steps.
/// The [`View`] alone is read as it was published.
#[derive(Debug)]
pub struct Snapshot {
    view: Published,
    /// Bits of an `f64` each, by class.
    attainment: [AtomicU64; Class::COUNT],
    /// Bits of an `f64`.
    sequences_per_second: AtomicU64,
    /// Bits of an `f64`.
    tokens_per_second: AtomicU64,
    queue_limit: AtomicU32,
    waiting: AtomicUsize,
    running: AtomicUsize,
    free_blocks: AtomicUsize,
}

impl Default for Snapshot {
    fn default() -> Self {
        let (sequences_per_second, tokens_per_second) = Default::default();
        let (waiting, running, free_blocks) = Default::default();
        let attainment = std::array::from_fn(|_| AtomicU64::new(1.0_f64.to_bits()));
        let (view, queue_limit) = (Published::new(), AtomicU32::new(u32::MAX));
        Self {
            view,
            attainment,
            queue_limit,
            sequences_per_second,
            tokens_per_second,
            waiting,
            running,
            free_blocks,
        }
    }
}

impl Snapshot {
    /// What predictions start from.
    pub fn view(&self) -> View {
        self.view.get()
    }

    /// Publishes what predictions start from.
    pub fn set_view(&self, view: &View) {
        self.view.set(view);
    }

    /// Sequences that may wait.
    pub fn queue_limit(&self) -> u32 {
        self.queue_limit.load(Relaxed)
    }

    /// Publishes how many sequences may wait.
    pub fn set_queue_limit(&self, sequences: u32) {
        self.queue_limit.store(sequences, Relaxed);
    }

    /// Share of the requests of a class that kept their promises lately, of those that had any; 1 before the first.
    pub fn attainment(&self, class: Class) -> f64 {
        f64::from_bits(self.attainment[class.index()].load(Relaxed))
    }

    /// Publishes that share.
    pub fn set_attainment(&self, class: Class, share: f64) {
        self.attainment[class.index()].store(share.to_bits(), Relaxed);
    }

    /// Sequences that left per second lately; 0 before the first one did.
    pub fn sequences_per_second(&self) -> f64 {
        f64::from_bits(self.sequences_per_second.load(Relaxed))
    }

    /// Tokens (prompt and output) of the sequences that left, per second.
    pub fn tokens_per_second(&self) -> f64 {
        f64::from_bits(self.tokens_per_second.load(Relaxed))
    }

    /// Sequences waiting for a place in the batch.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Sequences in the batch, and those paused by a slow reader.
    pub fn running(&self) -> usize {
        self.running.load(Relaxed)
    }

    /// KV blocks nobody holds.
    pub fn free_blocks(&self) -> usize {
        self.free_blocks.load(Relaxed)
    }

    /// Publishes service rates.
    pub fn set_rates(&self, sequences_per_second: f64, tokens_per_second: f64) {
        self.sequences_per_second.store(sequences_per_second.to_bits(), Relaxed);
        self.tokens_per_second.store(tokens_per_second.to_bits(), Relaxed);
    }

    /// Publishes how full the lane is.
    pub fn set_occupancy(&self, waiting: usize, running: usize, free_blocks: usize) {
        self.waiting.store(waiting, Relaxed);
        self.running.store(running, Relaxed);
        self.free_blocks.store(free_blocks, Relaxed);
    }
}

/// Events per second, the older ones counting less: weights decay by e every [`Rate::MEMORY`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Rate {
    weight: f64,
    /// How much of the memory has been lived through, 0 to 1: without it a young rate would read low.
    seen: f64,
    at: Duration,
}

impl Rate {
    const MEMORY: f64 = 5.0;

    /// Counts `events` at `now`.
    pub(crate) fn add(&mut self, now: Duration, events: f64) {
        self.decay(now);
        self.weight += events;
    }

    /// Events per second as of `now`.
    pub(crate) fn per_second(&mut self, now: Duration) -> f64 {
        self.decay(now);
        if self.seen < 1e-3 { 0.0 } else { self.weight / (Self::MEMORY * self.seen) }
    }

    fn decay(&mut self, now: Duration) {
        let keep = (-now.saturating_sub(self.at).as_secs_f64() / Self::MEMORY).exp();
        self.weight *= keep;
        self.seen = 1.0 - (1.0 - self.seen) * keep;
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_read_as_it_is() {
        for per_second in [1.0, 20.0, 400.0] {
            let mut rate = Rate::default();
            for i in 1..=2000 {
                rate.add(Duration::from_secs_f64(f64::from(i) / per_second), 1.0);
                let read = rate.per_second(Duration::from_secs_f64(f64::from(i) / per_second));
                assert!(i < 20 || (read / per_second - 1.0).abs() < 0.2, "{read} for {per_second} at {i}");
            }
        }
    }
}
