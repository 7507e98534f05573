//! Which slot's bytes are where.

use super::Sizes;
use plimsoll_sched::{Event, SeqId};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) type Buffer = Box<[u8]>;

/// Where the bytes of a slot are.
#[derive(Debug, Clone)]
enum Slot {
    Nowhere,
    Memory(Arc<Buffer>),
    File(Place),
}

/// Bytes in the file. No two are alike, also when one comes where another was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// In blocks.
    pub(super) at: u32,
    serial: u64,
}

/// How what was asked for stands.
pub(super) enum Pinned {
    InMemory,
    InFile,
    Lost,
}

/// The slots of a store. Methods do no I/O and copy no blocks: they run under the store's lock.
pub(super) struct State {
    slots: Vec<Slot>,
    sizes: Sizes,
    /// Buffers in use.
    used: usize,
    /// Buffers to be used again.
    pub(super) spare: Vec<Buffer>,
    /// Slots in the order in which they came to memory; some have left it since, or came again.
    order: VecDeque<u32>,
    /// Slots that are to stay in memory, by whose they are.
    pinned: Vec<(SeqId, Vec<u32>)>,
    /// How many they are, per slot.
    pins: Vec<u32>,
    /// Those whose slots are not all in memory yet.
    pub(super) fetches: VecDeque<SeqId>,
    /// Free places in the file.
    places: Vec<u32>,
    serial: u64,
    pub(super) news: Vec<Event>,
    pub(super) is_over: bool,
}

impl State {
    pub(super) fn new(sizes: Sizes) -> Self {
        let (spare, order, pinned, fetches, news) = Default::default();
        Self {
            slots: vec![Slot::Nowhere; sizes.slots()],
            sizes,
            used: 0,
            spare,
            order,
            pinned,
            pins: vec![0; sizes.slots()],
            fetches,
            places: (0..u32::try_from(sizes.file).unwrap_or(u32::MAX)).rev().collect(),
            serial: 0,
            news,
            is_over: false,
        }
    }

    /// Blocks in memory and in the file.
    pub(super) fn used(&self) -> (usize, usize) {
        (self.used, self.sizes.file - self.places.len())
    }

    /// Whether the stager should make room.
    pub(super) const fn is_nearly_full(&self) -> bool {
        4 * self.used > 3 * self.sizes.memory
    }

    /// A buffer, if memory is not full.
    pub(super) fn buffer(&mut self) -> Option<Buffer> {
        if self.used == self.sizes.memory {
            return None;
        }
        self.used += 1;
        Some(self.spare.pop().unwrap_or_else(|| vec![0; self.sizes.block].into_boxed_slice()))
    }

    /// Takes back a buffer that was not used.
    pub(super) fn put_back(&mut self, buffer: Buffer) {
        self.used -= 1;
        self.spare.push(buffer);
    }

    /// One user of a buffer is done with it; the last one gives it back.
    pub(super) fn recycle(&mut self, bytes: Arc<Buffer>) {
        if let Some(buffer) = Arc::into_inner(bytes) {
            self.put_back(buffer);
        }
    }

    /// The bytes of a slot, if they are in memory.
    pub(super) fn bytes(&self, slot: u32) -> Option<Arc<Buffer>> {
        match &self.slots[slot as usize] {
            Slot::Memory(bytes) => Some(bytes.clone()),
            Slot::Nowhere | Slot::File(_) => None,
        }
    }

    /// Where in the file the bytes of a slot are, if they are there.
    pub(super) fn place(&self, slot: u32) -> Option<Place> {
        match self.slots[slot as usize] {
            Slot::File(place) => Some(place),
            Slot::Nowhere | Slot::Memory(_) => None,
        }
    }

    /// The bytes of a slot are in `buffer`.
    pub(super) fn keep(&mut self, slot: u32, buffer: Buffer) {
        self.discard(slot);
        self.slots[slot as usize] = Slot::Memory(Arc::new(buffer));
        if self.order.len() > 2 * self.slots.len() {
            self.tidy();
        }
        self.order.push_back(slot);
    }

    /// Forgets entries of slots that left memory, and all but the last of each that is there.
    fn tidy(&mut self) {
        let mut seen = vec![false; self.slots.len()];
        let mut kept: VecDeque<_> = self.order.drain(..).collect();
        while let Some(slot) = kept.pop_back() {
            let is_there = matches!(self.slots[slot as usize], Slot::Memory(_));
            if is_there && !std::mem::replace(&mut seen[slot as usize], true) {
                self.order.push_front(slot);
            }
        }
    }

    pub(super) fn discard(&mut self, slot: u32) {
        match std::mem::replace(&mut self.slots[slot as usize], Slot::Nowhere) {
            Slot::Nowhere => {}
            Slot::Memory(bytes) => self.recycle(bytes),
            Slot::File(place) => self.places.push(place.at),
        }
    }

    /// Forgets all slots, and who waits for any.
    pub(super) fn clear(&mut self) {
        (0..self.slots.len()).for_each(|slot| self.discard(slot as u32));
        self.pinned.clear();
        self.pins.fill(0);
        self.fetches.clear();
        self.order.clear();
        self.news.clear();
    }

    /// The entry in the order of the slot that may go to the file: the one that came longest ago.
    fn oldest(&self) -> Option<(usize, Arc<Buffer>)> {
        let may_go = |slot: u32| self.bytes(slot).filter(|_| !self.is_pinned(slot));
        self.order.iter().enumerate().find_map(|(i, &slot)| Some((i, may_go(slot)?)))
    }

    /// Whether there is anything to write and a place for it.
    pub(super) fn can_spill(&self) -> bool {
        !self.places.is_empty() && self.oldest().is_some()
    }

    fn is_pinned(&self, slot: u32) -> bool {
        self.pins[slot as usize] > 0
    }

    /// A slot in memory that may go to the file, and the place it may go to.
    pub(super) fn take_oldest(&mut self) -> Option<(u32, Arc<Buffer>, Place)> {
        let (i, bytes) = self.oldest()?;
        let at = self.places.pop()?;
        let slot = self.order.remove(i)?;
        self.serial += 1;
        Some((slot, bytes, Place { at, serial: self.serial }))
    }

    /// The bytes of a slot are in the file as well now; or are not, when writing failed. If they are still wanted, and
    /// not in memory, there they are from now on.
    pub(super) fn spilled(&mut self, slot: u32, bytes: Arc<Buffer>, place: Place, is_written: bool) {
        let is_same = self.bytes(slot).is_some_and(|there| Arc::ptr_eq(&there, &bytes));
        if is_same && is_written && !self.is_pinned(slot) {
            self.discard(slot);
            self.slots[slot as usize] = Slot::File(place);
        } else {
            self.places.push(place.at);
            if is_same {
                self.order.push_front(slot);
            }
        }
        self.recycle(bytes);
    }

    /// What was at `place` in the file is in `buffer` now.
    pub(super) fn fetched(&mut self, slot: u32, place: Place, buffer: Buffer) {
        if self.place(slot) == Some(place) {
            self.keep(slot, buffer);
        } else {
            self.put_back(buffer);
        }
    }

    pub(super) fn pin(&mut self, seq: SeqId, slots: &[u32]) -> Pinned {
        self.unpin(seq);
        if slots.is_empty() || slots.iter().any(|&slot| matches!(self.slots[slot as usize], Slot::Nowhere)) {
            return Pinned::Lost;
        }
        self.pinned.push((seq, slots.to_vec()));
        slots.iter().for_each(|&slot| self.pins[slot as usize] += 1);
        if self.missing(seq).is_none() {
            return Pinned::InMemory;
        }
        self.fetches.push_back(seq);
        Pinned::InFile
    }

    pub(super) fn unpin(&mut self, seq: SeqId) {
        if let Some(i) = self.pinned.iter().position(|(other, _)| *other == seq) {
            let (_, slots) = self.pinned.swap_remove(i);
            slots.iter().for_each(|&slot| self.pins[slot as usize] -= 1);
        }
        self.fetches.retain(|other| *other != seq);
    }

    /// The first slot of those kept for `seq` that is not in memory.
    pub(super) fn missing(&self, seq: SeqId) -> Option<(u32, Option<Place>)> {
        let (_, slots) = self.pinned.iter().find(|(other, _)| *other == seq)?;
        let missing = slots.iter().find(|&&slot| self.bytes(slot).is_none())?;
        Some((*missing, self.place(*missing)))
    }
}
