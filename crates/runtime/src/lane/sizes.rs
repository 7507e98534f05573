//! How much of everything a lane has.

use crate::config::{LaneConfig, Parking};
use crate::experiment::most_waiting;
use crate::park::Sizes;
use plimsoll_model::engine::{BLOCK_TOKENS, Shape};
use plimsoll_sched::{Bounds, Limits, QueueRule};
use std::time::Duration;

/// Bytes per second at which blocks are thought to go to the parking store and come back.
const PARK_RATE: f64 = 1e9;

impl Parking {
    /// The store's sizes, with so many bytes to a block.
    pub(super) fn sizes(&self, block_bytes: usize) -> Sizes {
        let block = block_bytes.max(1);
        let most = u32::MAX as usize / 2;
        let file = if self.folder.is_some() { self.file / block as u64 } else { 0 };
        let file = usize::try_from(file).unwrap_or(most).min(most);
        Sizes { block, memory: (self.memory / block).min(most), file }
    }
}

impl LaneConfig {
    /// What steps and batches hold, and what may be in flight, on a lane of this configuration whose engine has such a shape and
    /// so many bytes to a KV block.
    pub fn sizes(&self, shape: &Shape, block_bytes: usize) -> (Limits, Bounds) {
        let limits = self.limits(shape, block_bytes);
        (limits, self.bounds(&limits))
    }

    fn limits(&self, shape: &Shape, block_bytes: usize) -> Limits {
        let park = self.parking.sizes(block_bytes);
        let wait = self.promise.ttft.or(self.promise.e2e);
        Limits {
            max_seqs: self.max_seqs.min(shape.max_rows).min(shape.max_logits).max(1),
            max_rows: shape.max_rows,
            max_logits: shape.max_logits,
            context: shape.context,
            blocks: shape.blocks,
            step_budget: self.step_budget,
            park_blocks: park.slots(),
            park_ahead: self.parking.ahead,
            park_move: Duration::from_secs_f64(park.block as f64 / PARK_RATE),
            quantile: self.promise.quantile,
            queue: QueueRule { policy: self.queue_policy, configured: self.queue, wait },
        }
    }

    fn bounds(&self, limits: &Limits) -> Bounds {
        let slab = (limits.blocks * BLOCK_TOKENS) as u64;
        let waiting = most_waiting((self.queue_policy, self.queue), &self.experiments);
        let sequences = limits.max_seqs as u64 + u64::from(waiting);
        let most = slab.saturating_mul(u64::from(self.kv_overcommit.max(1)));
        let tokens = self.max_queue_tokens.map_or(most, |waiting| most.min(slab.saturating_add(waiting)));
        Bounds {
            sequences: u32::try_from(sequences).unwrap_or(u32::MAX).min((1 << 23) - 1),
            tokens: tokens.min((1 << 40) - 1),
            per_tenant: self.per_tenant,
        }
    }
}
