//! What happens to blocks before a step: they are parked, brought back and copied.

use crate::park::Store;
use plimsoll_model::engine::Engine;
use plimsoll_sched::{Event, Moves, Planner};
use plimsoll_telemetry::{ModelMetrics, Parked};

/// Moves blocks as a plan says.
pub(super) struct Mover<'a> {
    pub(super) engine: &'a mut dyn Engine,
    pub(super) store: &'a Store,
    pub(super) planner: &'a Planner,
    pub(super) metrics: &'a ModelMetrics,
    /// What became of it, for the planner.
    pub(super) events: &'a mut Vec<Event>,
}

impl Mover<'_> {
    /// Returns whether all is there that the plan's spans read. Where it is not, they must not be computed.
    pub(super) fn make(&mut self, moves: &Moves) -> bool {
        moves.discards.iter().for_each(|&slot| self.store.discard(slot));
        self.save(moves);
        let has_all = self.load(moves);
        for copy in &moves.copies {
            self.engine.copy_block(copy.from, copy.to);
        }
        moves.fetched.iter().for_each(|&seq| self.store.release(seq));
        for &(seq, from) in &moves.fetches {
            self.store.fetch(seq, self.planner.slots(seq).get(from..).unwrap_or_default());
        }
        self.record(moves);
        has_all
    }

    fn save(&mut self, moves: &Moves) {
        for save in &moves.saves {
            let engine = &*self.engine;
            if !self.store.save(save.at.slot, |to| engine.save_block(save.at.block, to)) {
                self.lost(Event::ParkLost(save.seq));
            }
        }
    }

    fn load(&mut self, moves: &Moves) -> bool {
        let mut has_all = true;
        for load in &moves.loads {
            let engine = &mut *self.engine;
            if !self.store.load(load.at.slot, |from| engine.load_block(load.at.block, from)) {
                self.lost(Event::ParkLost(load.seq));
                has_all = false;
            }
        }
        has_all
    }

    /// Once per sequence, whose blocks follow each other.
    fn lost(&mut self, event: Event) {
        if self.events.last() != Some(&event) {
            self.events.push(event);
        }
    }

    fn record(&self, moves: &Moves) {
        let (saved, loaded) = (moves.saves.len(), moves.loads.len());
        if saved + loaded + moves.discards.len() > 0 {
            let (memory, file) = self.store.used();
            self.metrics.parked(Parked { saved, loaded, memory, file });
        }
    }
}
