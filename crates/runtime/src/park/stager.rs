//! The thread that reads and writes the file.

use super::Shared;
use super::state::{Place, State};
use plimsoll_sched::{Event, SeqId};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// After a write failed nothing is written for so long: the disk is full, most likely.
const PAUSE: Duration = Duration::from_secs(10);

/// Where blocks go that memory has no room for.
pub(crate) trait Medium: Send {
    /// Writes all of `bytes` at `offset`.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `bytes` from `offset` on.
    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Medium for File {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }
}

/// The body of the thread: fetches first, and spills while memory is nearly full.
pub(super) fn run(shared: &Shared, medium: &dyn Medium) {
    let mut stager = Stager { shared, medium, writes_from: Instant::now() };
    while let Some(work) = stager.wait() {
        let work_done = catch_unwind(AssertUnwindSafe(|| match work {
            Work::Fetch(seq) => stager.fetch(seq),
            Work::Spill => {
                stager.spill();
            }
        }));
        if work_done.is_err() {
            tracing::error!("the stager of a parking store panicked, and goes on");
            if let Work::Fetch(seq) = work {
                // Its sequence would wait for an answer for ever.
                stager.answer(shared.lock(), seq, false);
            }
        }
    }
}

/// Reads or writes; a panic is an error like others, so that what was taken for it is given back.
fn whole(transfer: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    catch_unwind(AssertUnwindSafe(transfer)).unwrap_or_else(|_| Err(io::Error::other("it panicked")))
}

#[derive(Clone, Copy)]
enum Work {
    Fetch(SeqId),
    Spill,
}

struct Stager<'a> {
    shared: &'a Shared,
    medium: &'a dyn Medium,
    /// Nothing is written before.
    writes_from: Instant,
}

impl Stager<'_> {
    /// What is to be done next; `None` at the end.
    fn wait(&self) -> Option<Work> {
        let mut state = self.shared.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(&seq) = state.fetches.front() {
                return Some(Work::Fetch(seq));
            }
            if state.is_nearly_full() && self.may_write() && state.can_spill() {
                return Some(Work::Spill);
            }
            state = self.shared.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn may_write(&self) -> bool {
        Instant::now() >= self.writes_from
    }

    /// Moves one block from memory to the file. Returns whether it did.
    fn spill(&mut self) -> bool {
        let spill = self.may_write().then(|| self.shared.lock().take_oldest()).flatten();
        let Some((slot, bytes, place)) = spill else { return false };
        let written = whole(|| self.medium.write(&bytes, offset(place, bytes.len())));
        if let Err(error) = &written {
            tracing::error!("KV blocks cannot be parked on disk and are computed again instead: {error}");
            self.writes_from = Instant::now() + PAUSE;
        }
        self.shared.lock().spilled(slot, bytes, place, written.is_ok());
        written.is_ok()
    }

    /// Brings all slots kept for `seq` to memory, and tells the lane.
    fn fetch(&mut self, seq: SeqId) {
        loop {
            // Looked at and answered under one lock: it may be called off and asked for anew, with other slots.
            let state = self.shared.lock();
            match state.missing(seq) {
                None => return self.answer(state, seq, true),
                Some((_, None)) => return self.answer(state, seq, false),
                Some((slot, Some(place))) => {
                    drop(state);
                    if !self.read(slot, place) {
                        return self.answer(self.shared.lock(), seq, false);
                    }
                }
            }
        }
    }

    fn answer(&self, mut state: MutexGuard<'_, State>, seq: SeqId, is_there: bool) {
        // Otherwise it was called off.
        if state.fetches.front() == Some(&seq) {
            state.fetches.pop_front();
            if !is_there {
                state.unpin(seq);
            }
            self.shared.tell(&mut state, if is_there { Event::Fetched(seq) } else { Event::ParkLost(seq) });
            drop(state);
            self.shared.bell.ring();
        }
    }

    /// Reads a slot back, at the cost of another one's place in memory if need be.
    fn read(&mut self, slot: u32, place: Place) -> bool {
        let buffer = loop {
            let buffer = self.shared.lock().buffer();
            match buffer {
                Some(buffer) => break Some(buffer),
                None if self.spill() => {}
                None => break None,
            }
        };
        let Some(mut buffer) = buffer else { return false };
        let offset = offset(place, buffer.len());
        let result = whole(|| self.medium.read(&mut buffer, offset));
        let mut state = self.shared.lock();
        match result {
            Ok(()) => state.fetched(slot, place, buffer),
            Err(error) => {
                tracing::error!("a parked KV block cannot be read back and is computed again: {error}");
                state.put_back(buffer);
                return false;
            }
        }
        true
    }
}

fn offset(place: Place, block: usize) -> u64 {
    u64::from(place.at) * block as u64
}
