//! [`Counting`]: the system's allocator, which counts what each thread allocates. For tests and benches that claim that
//! some thread allocates nothing.
//!
//! ```
//! use plimsoll_pool::counting::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let before = counting::of_this_thread();
//! let numbers = vec![1, 2, 3];
//! assert_eq!(counting::of_this_thread().since(before).allocations, 1);
//! # drop(numbers);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with counts per thread. To be made the `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks of memory it asked for; one that grows or shrinks counts once more each time.
    pub allocations: u64,
    /// Blocks it gave back, whoever asked for them.
    pub frees: u64,
}

impl Counts {
    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self { allocations: self.allocations - earlier.allocations, frees: self.frees - earlier.frees }
    }
}

/// Threads that are told apart over the life of the process. All later ones share the last place.
const PLACES: usize = 1024;

struct Place {
    /// Its number in the system; 0: nobody's.
    thread: AtomicI32,
    allocations: AtomicU64,
    frees: AtomicU64,
    is_watched: AtomicBool,
}

static PLACE: [Place; PLACES] = [const {
    Place {
        thread: AtomicI32::new(0),
        allocations: AtomicU64::new(0),
        frees: AtomicU64::new(0),
        is_watched: AtomicBool::new(false),
    }
}; PLACES];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

const NONE: usize = usize::MAX;

thread_local! {
    // Constant and without a destructor: reading it allocates nothing and works until the very end of a thread.
    static MINE: Cell<usize> = const { Cell::new(NONE) };
}

/// The counts of the calling thread.
pub fn of_this_thread() -> Counts {
    counts(place())
}

/// The counts of the thread that has this number in the system (`gettid`); `None` when it never allocated.
pub fn of(thread: i32) -> Option<Counts> {
    find(thread).map(counts)
}

/// Whether the next allocation of that thread writes to standard error where it came from.
pub fn watch(thread: i32, is_watched: bool) {
    if let Some(place) = find(thread) {
        place.is_watched.store(is_watched, Relaxed);
    }
}

/// The last thread to have that number: the system gives numbers out again.
fn find(thread: i32) -> Option<&'static Place> {
    PLACE.iter().rev().find(|place| place.thread.load(Relaxed) == thread)
}

fn counts(place: &Place) -> Counts {
    Counts { allocations: place.allocations.load(Relaxed), frees: place.frees.load(Relaxed) }
}

fn place() -> &'static Place {
    let mut mine = MINE.get();
    if mine == NONE {
        mine = TAKEN.fetch_add(1, Relaxed).min(PLACES - 1);
        MINE.set(mine);
        PLACE[mine].thread.store(this_thread(), Relaxed);
    }
    &PLACE[mine]
}

fn allocated() {
    let place = place();
    place.allocations.fetch_add(1, Relaxed);
    if place.is_watched.swap(false, Relaxed) {
        // By a file of its own: this thread may be writing to `stderr` right now, which then panics, and an allocator must not.
        let trace = Backtrace::force_capture();
        if let Ok(mut stderr) = File::options().append(true).open("/dev/stderr") {
            writeln!(stderr, "an allocation where there should be none:\n{trace}").ok();
        }
    }
}

#[cfg(target_os = "linux")]
fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// Elsewhere threads can be counted by themselves alone.
#[cfg(not(target_os = "linux"))]
fn this_thread() -> i32 {
    -1
}

// SAFETY: all memory comes from `System` and goes back there with the layout it came with; counting neither allocates nor
// unwinds, but for the trace of a watched thread, which is no longer watched then.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated();
        // SAFETY: the caller's word.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated();
        // SAFETY: the caller's word.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        allocated();
        // SAFETY: the caller's word.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        place().frees.fetch_add(1, Relaxed);
        // SAFETY: the caller's word.
        unsafe { System.dealloc(memory, layout) };
    }
}
