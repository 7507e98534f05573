//! The threads that compute a step together.
//!
//! A job is a number of chunks and a closure to run on each. The caller publishes it in one word, everybody claims
//! chunks from that word, and the caller leaves when all chunks are done. Who claims what is left to chance, so a
//! chunk's result must not depend on the worker; a worker that is late (another process has its core) costs nothing,
//! because nobody waits for a worker that has claimed nothing.
//!
//! # The word
//! `next` (high 32 bits) and `count` (low 32 bits). A claim is one compare-exchange that raises `next`; it succeeds only
//! while `next < count`. A successful claim proves that the job is alive, because the caller waits until `done` has
//! reached `count` before it lets go of the closure, and a claimed chunk that is not done keeps it waiting. Only after a
//! successful claim does a worker read `job`.

mod sync;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, JoinHandle, Thread, UnsafeCell, fence, spin_loop, thread,
};

/// How many times a worker looks for a job before it sleeps: some 100 microseconds, longer than what lies between two
/// jobs of a step, shorter than anybody notices on an idle machine.
const SPINS: u32 = if cfg!(any(loom, miri)) { 0 } else { 4_000 };

/// A job: `f(worker, chunk)`.
type Job<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A caller and its workers.
pub struct Team {
    shared: Arc<Control>,
    workers: Vec<JoinHandle<()>>,
}

struct Control {
    word: AtomicU64,
    done: AtomicUsize,
    /// Written by the caller before it publishes, read by workers after a claim.
    job: UnsafeCell<Option<Job<'static>>>,
    sleepers: AtomicUsize,
    stop: AtomicBool,
    /// The first panic of a chunk that a worker ran.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only part that is not `Sync`; the module's text says who touches it when.
unsafe impl Sync for Control {}
// SAFETY: the closure behind `job` is `Sync`, so it may be called from any thread.
unsafe impl Send for Control {}

impl Team {
    /// A team of `size` threads, the caller being one of them. `start` runs first on each new thread (name, priority).
    ///
    /// # Errors
    /// When the system gives no thread.
    ///
    /// # Panics
    /// When `size` is 0.
    pub fn new(size: usize, start: impl Fn(usize) + Send + Clone + 'static) -> std::io::Result<Self> {
        assert!(size > 0, "a team has at least its caller");
        let shared = Arc::new(Control {
            word: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            sleepers: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let mut team = Self { shared, workers: Vec::new() };
        for worker in 1..size {
            let (shared, start) = (Arc::clone(&team.shared), start.clone());
            let spawned = thread::Builder::new().name(format!("compute-{worker}")).spawn(move || {
                start(worker);
                shared.work(worker);
            });
            team.workers.push(spawned?);
        }
        Ok(team)
    }

    /// How many threads compute, the caller included.
    pub fn size(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(worker, chunk)` for every chunk below `chunks`, on whichever threads come first, and returns when all
    /// are done. `worker` is below [`Team::size`] and no two threads have the same at one time.
    ///
    /// # Panics
    /// With the panic of a chunk, after all others are done; a team of one, or a job of one chunk, panics at once.
    pub fn run(&mut self, chunks: usize, job: impl Fn(usize, usize) + Sync) {
        if chunks == 0 {
            return;
        }
        if chunks == 1 || self.workers.is_empty() {
            (0..chunks).for_each(|chunk| job(0, chunk));
            return;
        }
        self.publish(chunks, &job);
        let caught = self.shared.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(panic) = caught {
            resume_unwind(panic);
        }
    }

    /// Announces, takes part, waits. Never unwinds, since `job` is borrowed by the workers until it returns.
    fn publish(&mut self, chunks: usize, job: Job<'_>) {
        self.announce(chunks, job);
        let shared = &*self.shared;
        shared.take_part(0);
        let mut spins = 0u32;
        while shared.done.load(Ordering::Acquire) < chunks {
            spins += 1;
            // Somebody who claimed a chunk lost its core: give way, it may be waiting for ours.
            if spins > SPINS { thread::yield_now() } else { spin_loop() }
        }
    }

    /// Lets the workers have the job and wakes them. The caller waits until it is done before it returns.
    fn announce(&mut self, chunks: usize, job: Job<'_>) {
        let count = u32::try_from(chunks).unwrap_or(u32::MAX);
        assert!(chunks == count as usize, "{chunks} chunks in one job");
        let shared = &*self.shared;
        // SAFETY: no job is alive (`&mut self`, and the last one was waited for), so nobody reads `job` now. The
        // lifetime is made longer only until `publish` has waited for all chunks.
        let job = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        // SAFETY: as above.
        shared.job.with_mut(|shared| unsafe { *shared = Some(job) });
        shared.done.store(0, Ordering::Relaxed);
        shared.word.store(u64::from(count), Ordering::Release);
        // Pairs with the fence of a worker that goes to sleep: it sees the job, or we see the sleeper.
        fence(Ordering::SeqCst);
        if shared.sleepers.load(Ordering::Relaxed) > 0 {
            self.workers.iter().map(JoinHandle::thread).for_each(Thread::unpark);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches its jobs' panics, so it ends only by returning.
            let _ = worker.join();
        }
    }
}

impl Control {
    /// A chunk of the job in the word, if one is left.
    #[inline]
    fn claim(&self) -> Option<usize> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let (next, count) = (word >> 32, word & 0xffff_ffff);
            if next >= count {
                return None;
            }
            match self.word.compare_exchange_weak(word, word + (1 << 32), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(next as usize),
                Err(now) => word = now,
            }
        }
    }

    /// Runs chunks until none is left. A panic is left for the caller before its chunk counts as done.
    fn take_part(&self, worker: usize) {
        while let Some(chunk) = self.claim() {
            // SAFETY: the claim proves that the job is alive until this chunk is counted as done.
            if let Some(job) = self.job.with(|job| unsafe { *job })
                && let Err(caught) = catch_unwind(AssertUnwindSafe(|| job(worker, chunk)))
            {
                self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(caught);
            }
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    fn work(&self, worker: usize) {
        let mut idle = 0u32;
        while !self.stop.load(Ordering::Relaxed) {
            if self.has_job() {
                idle = 0;
                self.take_part(worker);
            } else if idle < SPINS {
                idle += 1;
                spin_loop();
            } else {
                self.sleep();
                idle = 0;
            }
        }
    }

    fn has_job(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word >> 32 < word & 0xffff_ffff
    }

    fn sleep(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `publish`.
        fence(Ordering::SeqCst);
        while !self.has_job() && !self.stop.load(Ordering::Relaxed) {
            thread::park();
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn team(size: usize) -> Team {
        Team::new(size, |_| {}).unwrap()
    }

    #[test]
    fn every_chunk_runs_once_whatever_the_size() {
        for size in 1..=4 {
            let mut team = team(size);
            for chunks in [0, 1, 2, 3, 7, 64, 1000] {
                let runs: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                for _ in 0..20 {
                    team.run(chunks, |worker, chunk| {
                        assert!(worker < size);
                        runs[chunk].fetch_add(1, Ordering::Relaxed);
                    });
                }
                assert!(
                    runs.iter().all(|n| n.load(Ordering::Relaxed) == 20),
                    "{size} threads, {chunks} chunks"
                );
            }
        }
    }

    #[test]
    fn writes_of_a_job_are_seen_after_it() {
        let mut team = team(3);
        for round in 0..2000usize {
            let sums: Vec<AtomicUsize> = (0..5).map(|_| AtomicUsize::new(0)).collect();
            team.run(5, |_, chunk| sums[chunk].store(round + chunk, Ordering::Relaxed));
            let sum: usize = sums.iter().map(|s| s.load(Ordering::Relaxed)).sum();
            assert_eq!(sum, 5 * round + 10);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let mut team = team(2);
        for _ in 0..50 {
            let ran = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                team.run(8, |_, chunk| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    assert!(chunk != 5, "chunk five");
                });
            }));
            assert!(result.is_err());
            assert_eq!(ran.load(Ordering::Relaxed), 8);
        }
        let ran = AtomicUsize::new(0);
        team.run(8, |_, _| {
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ran.load(Ordering::Relaxed), 8);
    }
}
