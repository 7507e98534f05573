//! Who computes which chunk: claimed one by one (what `Team` does), split beforehand, or split and stolen from when one's own part is
//! done, on an idle machine and with a hog that spins on one of its cores.
//!
//!     cargo bench -p plimsoll-kernels --bench claims
//!
//! A job is 16 chunks of some 20 microseconds, as a product of a step is; the time is from publishing it to its last chunk's end.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CHUNKS: u32 = 16;
const JOBS: usize = 4000;
const CHUNK: Duration = Duration::from_micros(20);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Policy {
    Claimed,
    Split,
    Stolen,
}

/// Chunks `next..end` in one word, so that the owner takes the first and a thief the last.
struct Part(AtomicU64);

impl Part {
    fn set(&self, next: u32, end: u32) {
        self.0.store(u64::from(next) << 32 | u64::from(end), Ordering::Release);
    }

    fn take(&self, first: bool) -> bool {
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let (next, end) = ((word >> 32) as u32, word as u32);
            let left = next < end;
            left.then(|| if first { word + (1 << 32) } else { word - 1 })
        });
        taken.is_ok()
    }
}

struct Shared {
    parts: Vec<Part>,
    /// Jobs published so far.
    published: AtomicUsize,
    done: AtomicUsize,
    stop: AtomicBool,
    policy: Policy,
    rounds: u32,
}

impl Shared {
    fn take_part(&self, me: usize) {
        let own = if self.policy == Policy::Claimed { 0 } else { me };
        loop {
            let mut took = self.parts[own].take(true);
            if !took && self.policy == Policy::Stolen {
                took = (0..self.parts.len()).any(|victim| victim != me && self.parts[victim].take(false));
            }
            if !took {
                return;
            }
            work(self.rounds);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    fn publish(&self) {
        self.done.store(0, Ordering::Relaxed);
        let threads = self.parts.len() as u32;
        for (i, part) in self.parts.iter().enumerate() {
            let i = i as u32;
            match self.policy {
                Policy::Claimed => part.set(0, if i == 0 { CHUNKS } else { 0 }),
                Policy::Split | Policy::Stolen => part.set(i * CHUNKS / threads, (i + 1) * CHUNKS / threads),
            }
        }
        self.published.fetch_add(1, Ordering::Release);
    }
}

fn work(rounds: u32) {
    let mut x = 1u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i % 63));
    }
    black_box(x);
}

/// Rounds of [`work`] that take as long as a chunk on an idle core.
fn rounds() -> u32 {
    let best = (0..50).map(|_| {
        let start = Instant::now();
        work(10_000);
        start.elapsed()
    });
    let best = best.min().unwrap_or(CHUNK);
    (10_000.0 * CHUNK.as_secs_f64() / best.as_secs_f64()) as u32
}

/// Microseconds of each job, sorted.
fn measure(policy: Policy, threads: usize, rounds: u32) -> Vec<f64> {
    let parts = (0..threads).map(|_| Part(AtomicU64::new(0))).collect();
    let (published, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let shared = Shared { parts, published, done, stop, policy, rounds };
    let mut times = Vec::with_capacity(JOBS);
    thread::scope(|scope| {
        for me in 1..threads {
            let shared = &shared;
            scope.spawn(move || {
                let mut seen = 0;
                while !shared.stop.load(Ordering::Relaxed) {
                    if shared.published.load(Ordering::Acquire) != seen {
                        seen = shared.published.load(Ordering::Acquire);
                        shared.take_part(me);
                    }
                    spin_loop();
                }
            });
        }
        for _ in 0..JOBS {
            let start = Instant::now();
            shared.publish();
            shared.take_part(0);
            while shared.done.load(Ordering::Acquire) < CHUNKS as usize {
                spin_loop();
            }
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        shared.stop.store(true, Ordering::Relaxed);
    });
    times.sort_by(f64::total_cmp);
    times
}

fn main() {
    let threads = thread::available_parallelism().map_or(2, |n| n.get()).max(2);
    let rounds = rounds();
    println!("{threads} threads, {JOBS} jobs of {CHUNKS} chunks\n");
    println!("| hog | chunks are | mean, us | P50, us | P99, us |\n| --- | --- | ---: | ---: | ---: |");
    for has_hog in [false, true] {
        for policy in [Policy::Claimed, Policy::Split, Policy::Stolen] {
            let stop = AtomicBool::new(false);
            let times = thread::scope(|scope| {
                if has_hog {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            work(1000);
                        }
                    });
                }
                let times = measure(policy, threads, rounds);
                stop.store(true, Ordering::Relaxed);
                times
            });
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize];
            let hog = if has_hog { "one" } else { "none" };
            println!("| {hog} | {policy:?} | {mean:.0} | {:.0} | {:.0} |", at(0.5), at(0.99));
        }
    }
}
