//! The parking store: bytes of KV blocks that had to make way, in memory up to a limit, then in a file.
//!
//! A lane saves and loads from memory alone, and never waits for a disk: a stager thread spills what was saved longest
//! ago to the file before memory is full, and reads back what the planner will want soon. What cannot be kept, for lack
//! of room or because the disk fails, is lost for the sequences it belongs to, which are computed again.
//!
//! - [`state`]: which slot's bytes are where.
//! - [`stager`]: the thread that reads and writes the file.

mod stager;
mod state;

pub(crate) use stager::Medium;

use crate::bell::Bell;
use plimsoll_sched::{Event, SeqId};
use state::{Buffer, State};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The sizes of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of a block.
    pub(crate) block: usize,
    /// Blocks in memory.
    pub(crate) memory: usize,
    /// Blocks in the file.
    pub(crate) file: usize,
}

impl Sizes {
    /// Slots of the store; 0 when there is no memory for it, through which all must go.
    pub(crate) const fn slots(&self) -> usize {
        if self.memory == 0 { 0 } else { self.memory + self.file }
    }
}

/// What a lane and its stager share.
struct Shared {
    state: Mutex<State>,
    /// For the stager: there is something to do.
    work: Condvar,
    /// For the lane: there is news.
    has_news: AtomicBool,
    bell: Arc<Bell>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &mut State, news: Event) {
        state.news.push(news);
        self.has_news.store(true, SeqCst);
    }
}

/// A buffer that is being filled. If that panics, it goes back.
struct Taken<'a> {
    shared: &'a Shared,
    buffer: Buffer,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.buffer.is_empty() {
            self.shared.lock().put_back(std::mem::take(&mut self.buffer));
        }
    }
}

/// The parking store of a lane. Dropping it ends the stager; the file is gone with it, and with the process.
pub(crate) struct Store {
    shared: Arc<Shared>,
    stager: Option<JoinHandle<()>>,
}

impl Store {
    /// An empty store. The file is made in `folder` and has no name from then on, so that nothing is left of it
    /// whatever ends the process.
    ///
    /// # Errors
    /// When the file or the thread cannot be made.
    pub(crate) fn open(sizes: Sizes, folder: Option<&Path>, bell: Arc<Bell>) -> std::io::Result<Self> {
        let folder = folder.filter(|_| sizes.file > 0 && sizes.memory > 0);
        let file = folder.map(tempfile::tempfile_in).transpose()?;
        Self::new(sizes, file.map(|file| Box::new(file) as Box<dyn Medium>), bell)
    }

    fn new(sizes: Sizes, medium: Option<Box<dyn Medium>>, bell: Arc<Bell>) -> std::io::Result<Self> {
        let sizes = if medium.is_some() { sizes } else { Sizes { file: 0, ..sizes } };
        let (work, has_news) = Default::default();
        let shared = Arc::new(Shared { state: Mutex::new(State::new(sizes)), work, has_news, bell });
        let theirs = shared.clone();
        let start = |medium: Box<dyn Medium>| {
            std::thread::Builder::new().name("stager".into()).spawn(move || stager::run(&theirs, &*medium))
        };
        let stager = medium.map(start).transpose()?;
        Ok(Self { shared, stager })
    }

    /// Keeps what `fill` writes in a slot, in place of what it had. Returns whether there is room.
    pub(crate) fn save(&self, slot: u32, fill: impl FnOnce(&mut [u8])) -> bool {
        let buffer = {
            let mut state = self.shared.lock();
            state.discard(slot);
            state.buffer()
        };
        let Some(buffer) = buffer else {
            self.shared.work.notify_one();
            return false;
        };
        let mut taken = Taken { shared: &self.shared, buffer };
        fill(&mut taken.buffer);
        let buffer = std::mem::take(&mut taken.buffer);
        let mut state = self.shared.lock();
        state.keep(slot, buffer);
        if state.is_nearly_full() {
            self.shared.work.notify_one();
        }
        true
    }

    /// Shows the bytes of a slot, if they are in memory: those that were fetched are. Returns whether they are.
    pub(crate) fn load(&self, slot: u32, read: impl FnOnce(&[u8])) -> bool {
        let bytes = self.shared.lock().bytes(slot);
        let Some(bytes) = bytes else { return false };
        read(&bytes);
        self.shared.lock().recycle(bytes);
        true
    }

    /// Nobody wants the contents of a slot any more.
    pub(crate) fn discard(&self, slot: u32) {
        self.shared.lock().discard(slot);
    }

    /// Nobody wants anything any more.
    pub(crate) fn clear(&self) {
        self.shared.lock().clear();
    }

    /// Brings the bytes of `slots` to memory and keeps them there for `seq`, until [`Store::release`]. The answer is
    /// among the news.
    pub(crate) fn fetch(&self, seq: SeqId, slots: &[u32]) {
        let mut state = self.shared.lock();
        match state.pin(seq, slots) {
            state::Pinned::InMemory => self.shared.tell(&mut state, Event::Fetched(seq)),
            state::Pinned::Lost => self.shared.tell(&mut state, Event::ParkLost(seq)),
            state::Pinned::InFile => self.shared.work.notify_one(),
        }
    }

    /// What was fetched for `seq` need not stay in memory.
    pub(crate) fn release(&self, seq: SeqId) {
        self.shared.lock().unpin(seq);
    }

    /// Appends what became of fetches to `events`.
    pub(crate) fn news(&self, events: &mut Vec<Event>) {
        if self.shared.has_news.swap(false, SeqCst) {
            events.append(&mut self.shared.lock().news);
        }
    }

    /// Gives memory back that holds nothing.
    pub(crate) fn trim(&self) {
        self.shared.lock().spare.clear();
    }

    /// Blocks in memory and in the file.
    pub(crate) fn used(&self) -> (usize, usize) {
        self.shared.lock().used()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_one();
        if self.stager.take().is_some_and(|stager| stager.join().is_err()) {
            tracing::error!("the stager of a parking store panicked");
        }
    }
}

#[cfg(test)]
mod tests;
