//! Who is in the batch, and who has which blocks.

use super::Planner;
use super::sequence::{Fetch, Place, Sequence};
use crate::plan::{BlockCopy, Plan, Start};
use crate::promise::Class;
use plimsoll_kv::BLOCK_TOKENS;

/// Blocks.
impl Planner {
    /// Lets go of all blocks of sequence `i`.
    pub(super) fn strip(&mut self, i: usize) {
        let sequence = &mut self.sequences[i];
        (sequence.computed, sequence.published) = (0, 0);
        self.kv.release_all(&mut sequence.blocks);
    }

    pub(super) fn preempt(&mut self, i: usize, plan: &mut Plan) {
        self.park(i, plan);
        self.strip(i);
        let sequence = &mut self.sequences[i];
        if sequence.is(Place::Active) {
            sequence.place = Place::Waiting;
        }
        plan.preempted.push(sequence.id);
    }

    /// Whose blocks go next: those of the last paused sequence in line, else of the last waiting one. Nobody in the
    /// batch.
    fn idle_holder(&self, except: usize) -> Option<usize> {
        let last = |place| {
            let holds = |i: usize| self.sequences[i].is(place) && !self.sequences[i].blocks.is_empty();
            self.line.iter().rev().copied().find(|&i| i != except && holds(i))
        };
        last(Place::Paused).or_else(|| last(Place::Waiting))
    }

    /// Gives every decode of the batch the block its next token needs, the first in line first, at the cost of idle
    /// holders and then of the last in the batch.
    pub(super) fn reserve_decodes(&mut self, plan: &mut Plan) {
        for k in 0..self.line.len() {
            let i = self.line[k];
            while self.sequences[i].is(Place::Active) && self.sequences[i].missing_blocks() > 0 {
                match self.kv.allocate() {
                    Some(block) => self.sequences[i].blocks.push(block),
                    None => self.preempt(self.victim(i), plan),
                }
            }
        }
    }

    /// Whose blocks sequence `i` of the batch may have: at the worst its own, when it is the last.
    fn victim(&self, i: usize) -> usize {
        let last = || self.line.iter().rev().copied().find(|&i| self.sequences[i].is(Place::Active));
        self.idle_holder(i).or_else(last).unwrap_or(i)
    }

    /// Blocks that waiting sequence `i` may have from those outside the batch: all their holders are.
    fn reclaimable(&mut self, i: usize) -> usize {
        let idle = |(j, s): &(usize, &Sequence)| *j != i && !s.is(Place::Active);
        let held = || self.sequences.iter().enumerate().filter(idle).flat_map(|(_, s)| &s.blocks);
        let mut count = 0;
        for &block in held() {
            self.seen[block as usize] += 1;
            count += usize::from(self.seen[block as usize] == self.kv.holders(block));
        }
        for &block in held() {
            self.seen[block as usize] = 0;
        }
        count
    }
}

/// Places.
impl Planner {
    /// Takes waiting sequences into the batch, in line, while there are places, and blocks for all they know. Who waits
    /// for a block that another one computes keeps a place. A class that has fewer places than it keeps goes first.
    pub(super) fn admit(&mut self, plan: &mut Plan) {
        let mut taken = self.count(Place::Active);
        for class in Class::ALL {
            let missing = self.kept(class).saturating_sub(self.active(class));
            self.admit_some(missing, Some(class), &mut taken, plan);
        }
        self.admit_some(usize::MAX, None, &mut taken, plan);
    }

    /// Takes in at most `most` sequences, of `class` if one is named.
    fn admit_some(&mut self, most: usize, class: Option<Class>, taken: &mut usize, plan: &mut Plan) {
        let mut left = most;
        for k in 0..self.line.len() {
            let i = self.line[k];
            if *taken == self.limits.max_seqs || left == 0 {
                break;
            }
            let sequence = &self.sequences[i];
            let is_meant = class.is_none_or(|class| sequence.deadlines.class == class);
            if !is_meant
                || !sequence.is(Place::Waiting)
                || sequence.visited == self.step
                || self.stands_back(i)
            {
                continue;
            }
            if self.awaits(i) {
                self.sequences[i].visited = self.step;
                self.fetch(i, plan);
            } else if !self.join(i, *taken, plan) {
                break;
            }
            *taken += 1;
            left -= 1;
        }
    }

    /// Whether the next block sequence `i` lacks is on its way from the parking store, or being computed by one of the
    /// batch. That one goes on, or leaves the batch: the wait ends.
    fn awaits(&self, i: usize) -> bool {
        let sequence = &self.sequences[i];
        if !sequence.blocks.is_empty() {
            return false;
        }
        if let Some(from) = self.parked_from(i) {
            return !matches!(sequence.fetch, Fetch::Ready(at_hand) if at_hand <= from);
        }
        if let Some(origin) = self.origin(i) {
            // What is brought back in this step is there when the step is over, if it could be read.
            return origin.computed < origin.prompt || origin.loaded_in == self.step;
        }
        let (names, found) = (sequence.shareable(), self.found(i));
        let Some(name) = names.get(found) else { return false };
        let computes = |other: &Sequence| {
            other.is(Place::Active)
                && other.names.get(found) == Some(name)
                && other.computed < (found + 1) * BLOCK_TOKENS
        };
        self.sequences.iter().any(computes)
    }

    /// How many blocks of sequence `i` are there by name. A block is there only if the one before it is.
    pub(super) fn found(&self, i: usize) -> usize {
        self.sequences[i].shareable().partition_point(|&name| self.kv.has(name))
    }

    /// The sequence that `i` takes its prompt's blocks over from, while that is in the batch.
    pub(super) fn origin(&self, i: usize) -> Option<&Sequence> {
        let origin = self.find(self.sequences[i].fork_of?)?;
        Some(&self.sequences[origin]).filter(|origin| origin.is(Place::Active))
    }

    /// Takes sequence `i` into the batch if there are blocks for all it knows. A block for each of the `taken` places
    /// must stay free, or the newcomer would soon be thrown out again.
    fn join(&mut self, i: usize, taken: usize, plan: &mut Plan) -> bool {
        let is_new = self.sequences[i].blocks.is_empty();
        let copied = if is_new { self.share(i) } else { None };
        let missing = self.sequences[i].missing_blocks();
        let fits = self.has_blocks_for(i, missing, taken, plan);
        if !fits {
            if is_new {
                self.strip(i);
            }
            return false;
        }
        while self.kv.available() < missing {
            let Some(holder) = self.idle_holder(i) else { break };
            self.preempt(holder, plan);
        }
        let sequence = &mut self.sequences[i];
        let own = sequence.blocks.len();
        let granted = self.kv.allocate_into(missing, &mut sequence.blocks);
        debug_assert!(granted, "blocks were counted and are not there");
        sequence.place = Place::Active;
        plan.moves.copies.extend(copied.map(|from| BlockCopy {
            seq: sequence.id,
            from,
            to: sequence.blocks[own],
        }));
        if is_new {
            let (seq, shared) = (sequence.id, sequence.computed);
            let prompt = sequence.prompt;
            let restored = self.load(i, plan);
            self.track.started(shared.min(prompt) as f64 / prompt as f64);
            plan.starts.push(Start { seq, shared, restored });
        }
        true
    }

    /// Whether sequence `i` may have `missing` blocks beside the `taken` places, be it at the cost of idle holders, or of
    /// less urgent ones in the batch, which make way here.
    fn has_blocks_for(&mut self, i: usize, missing: usize, mut taken: usize, plan: &mut Plan) -> bool {
        loop {
            let wanted = missing + if taken == 0 { 0 } else { taken + 1 };
            if wanted <= self.kv.available() || wanted <= self.kv.available() + self.reclaimable(i) {
                return true;
            }
            if !self.make_room_for(i, plan) {
                return false;
            }
            taken -= 1;
        }
    }

    /// Gives sequence `i`, which has no blocks, those that others have computed. Returns the block it is to copy, when
    /// there is one that it will write to.
    fn share(&mut self, i: usize) -> Option<u32> {
        // Not when it was here before, and the index or the parking store has more of it.
        if let Some(origin) = self.origin(i)
            && self.parked_from(i).is_none()
            && self.found(i) * BLOCK_TOKENS < origin.prompt - 1
        {
            return self.fork(i, self.find(origin.id)?);
        }
        let mut blocks = std::mem::take(&mut self.sequences[i].blocks);
        self.kv.take_longest(self.sequences[i].shareable(), &mut blocks);
        let sequence = &mut self.sequences[i];
        sequence.published = blocks.len();
        sequence.computed = blocks.len() * BLOCK_TOKENS;
        sequence.blocks = blocks;
        None
    }

    /// Gives sequence `i` all that `origin` has of their prompt, but for its last token: its logits are wanted.
    fn fork(&mut self, i: usize, origin: usize) -> Option<u32> {
        let prompt = self.sequences[origin].prompt;
        let (whole, rest) = ((prompt - 1) / BLOCK_TOKENS, (prompt - 1) % BLOCK_TOKENS);
        for k in 0..whole {
            let block = self.sequences[origin].blocks[k];
            self.kv.retain(block);
            self.sequences[i].blocks.push(block);
        }
        let sequence = &mut self.sequences[i];
        sequence.published = whole.min(sequence.names.len());
        sequence.computed = prompt - 1;
        (rest > 0).then(|| self.sequences[origin].blocks[whole])
    }
}
