//! Our pool beside plain allocation, a ring of idle objects, `thingbuf` and `object-pool`:
//! `cargo bench -p plimsoll-pool --bench pools`.
//!
//! An object is a buffer of 4 KiB of which 64 bytes are written. Rounds of all candidates are interleaved, so that what else
//! the machine does hits all of them; a figure is the median of its rounds, in nanoseconds for each object. The table is
//! printed in Markdown, for `benches/README.md`.

use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use plimsoll_pool::{Pool, Pooled};
use plimsoll_ring::{Ring, spsc};
use thingbuf::ThingBuf;
use thingbuf::recycling::WithCapacity;

const SIZE: usize = 4096;
const OBJECTS: usize = 256;
const ITEMS: usize = 16_000;
const ROUNDS: usize = 151;
/// Objects held at once where several are.
const SEVERAL: usize = 8;

fn main() {
    println!(
        "| work | ours, ns | ring | plain | thingbuf | object-pool | ring / ours | plain / ours | thingbuf / ours | object-pool / ours |"
    );
    println!("| --- |{}", " ---: |".repeat(9));
    for threads in [1, 2, 4, 8] {
        line(&format!("take 1, drop 1, {threads} threads"), |all| all.in_turns(threads, 1));
    }
    for threads in [1, 2, 4, 8] {
        line(&format!("take {SEVERAL}, drop {SEVERAL}, {threads} threads"), |all| {
            all.in_turns(threads, SEVERAL)
        });
    }
    line("taken by one thread, dropped by another", |all| all.between());
}

/// Prints one line: every candidate's time for `ITEMS` objects.
fn line(work: &str, round: impl Fn(&dyn Candidate) -> f64) {
    let candidates: [Box<dyn Candidate>; 5] = [
        Box::new(ours()),
        Box::new(Arc::new(ring())),
        Box::new(Plain),
        Box::new(thing()),
        Box::new(object_pool()),
    ];
    let mut rounds = [const { Vec::new() }; 5];
    for first in 0..ROUNDS {
        // Which goes first changes, so that none always finds another's caches.
        for step in 0..candidates.len() {
            let which = (first + step) % candidates.len();
            rounds[which].push(round(&*candidates[which]) / ITEMS as f64);
        }
    }
    let [ours, others @ ..] = rounds.map(median);
    let times: String = others.iter().map(|time| format!(" {time:.1} |")).collect();
    let ratios: String = others.iter().map(|time| format!(" {:.2} |", time / ours)).collect();
    println!("| {work} | {ours:.1} |{times}{ratios}");
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Says how long `ITEMS` objects took, in nanoseconds.
trait Candidate {
    /// Each of `threads` takes `several` objects, then drops them, again and again.
    fn in_turns(&self, threads: usize, several: usize) -> f64;
    /// One thread takes, another drops.
    fn between(&self) -> f64;
}

/// What hands out objects that come back when they are dropped.
trait Supply: Sync {
    type Object: AsMut<Vec<u8>> + Send;
    fn take(&self) -> Option<Self::Object>;
}

impl<S: Supply> Candidate for S {
    fn in_turns(&self, threads: usize, several: usize) -> f64 {
        let work = || {
            let mut held = Vec::with_capacity(several);
            for _ in 0..ITEMS / threads / several {
                held.extend((0..several).map(|_| filled(insist(|| self.take()))));
                held.clear();
            }
        };
        timed((0..threads).map(|_| Box::new(work) as Box<dyn FnOnce() + Send>).collect())
    }

    fn between(&self) -> f64 {
        let (mut give, mut take) = spsc::ring(OBJECTS / 4);
        let taker = move || {
            for _ in 0..ITEMS {
                let mut object = Some(filled(insist(|| self.take())));
                insist(|| give.try_push(object.take()?).map_err(|back| object = Some(back)).ok());
            }
        };
        let dropper = move || (0..ITEMS).for_each(|_| drop(insist(|| take.try_pop())));
        timed(vec![Box::new(taker), Box::new(dropper)])
    }
}

fn filled<B: AsMut<Vec<u8>>>(mut object: B) -> B {
    object.as_mut().extend_from_slice(black_box(&[7; 64]));
    black_box(object)
}

/// Repeats `attempt` until it succeeds: spins a little, then lets others run.
fn insist<R>(mut attempt: impl FnMut() -> Option<R>) -> R {
    loop {
        for _ in 0..64 {
            if let Some(result) = attempt() {
                return result;
            }
            spin_loop();
        }
        thread::yield_now();
    }
}

/// Nanoseconds from the moment all `workers` are ready until the last one is done.
fn timed(workers: Vec<Box<dyn FnOnce() + Send + '_>>) -> f64 {
    let barrier = Barrier::new(workers.len() + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    worker();
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().expect("a worker does not panic");
        }
        start.elapsed().as_nanos() as f64
    })
}

fn buffer() -> Vec<u8> {
    Vec::with_capacity(SIZE)
}

fn ours() -> Pool<Vec<u8>> {
    Pool::new(OBJECTS, buffer)
}

impl Supply for Pool<Vec<u8>> {
    type Object = OurObject;

    fn take(&self) -> Option<OurObject> {
        self.try_take().map(OurObject)
    }
}

struct OurObject(Pooled<Vec<u8>>);

impl AsMut<Vec<u8>> for OurObject {
    fn as_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// The depot alone: idle objects lie in a ring that all threads share.
fn ring() -> Ring<Vec<u8>> {
    let ring = Ring::new(OBJECTS);
    (0..OBJECTS).for_each(|_| ring.try_push(buffer()).expect("there is room"));
    ring
}

impl Supply for Arc<Ring<Vec<u8>>> {
    type Object = OfRing;

    fn take(&self) -> Option<OfRing> {
        Some(OfRing { object: self.try_pop()?, home: Arc::clone(self) })
    }
}

struct OfRing {
    object: Vec<u8>,
    home: Arc<Ring<Vec<u8>>>,
}

impl AsMut<Vec<u8>> for OfRing {
    fn as_mut(&mut self) -> &mut Vec<u8> {
        &mut self.object
    }
}

impl Drop for OfRing {
    fn drop(&mut self) {
        self.object.clear();
        let mut object = Some(std::mem::take(&mut self.object));
        insist(|| self.home.try_push(object.take()?).map_err(|back| object = Some(back)).ok());
    }
}

struct Plain;

impl Supply for Plain {
    type Object = Allocated;

    fn take(&self) -> Option<Allocated> {
        Some(Allocated(buffer()))
    }
}

struct Allocated(Vec<u8>);

impl AsMut<Vec<u8>> for Allocated {
    fn as_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

fn object_pool() -> Arc<object_pool::Pool<Vec<u8>>> {
    Arc::new(object_pool::Pool::new(OBJECTS, buffer))
}

impl Supply for Arc<object_pool::Pool<Vec<u8>>> {
    type Object = OfObjectPool;

    fn take(&self) -> Option<OfObjectPool> {
        let mut object = self.try_pull_owned()?;
        object.clear();
        Some(OfObjectPool(object))
    }
}

struct OfObjectPool(object_pool::ReusableOwned<Vec<u8>>);

impl AsMut<Vec<u8>> for OfObjectPool {
    fn as_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

type Thing = ThingBuf<Vec<u8>, WithCapacity>;

/// A queue whose slots are used again: to take is to write into a slot and hand it over, to drop is to read it.
fn thing() -> Thing {
    ThingBuf::with_recycle(OBJECTS, WithCapacity::new().with_min_capacity(SIZE).with_max_capacity(SIZE))
}

impl Candidate for Thing {
    fn in_turns(&self, threads: usize, several: usize) -> f64 {
        let work = || {
            for _ in 0..ITEMS / threads / several {
                (0..several).for_each(|_| push(self));
                (0..several).for_each(|_| pop(self));
            }
        };
        timed((0..threads).map(|_| Box::new(work) as Box<dyn FnOnce() + Send>).collect())
    }

    fn between(&self) -> f64 {
        let taker = || (0..ITEMS).for_each(|_| push(self));
        let dropper = || (0..ITEMS).for_each(|_| pop(self));
        timed(vec![Box::new(taker), Box::new(dropper)])
    }
}

fn push(things: &Thing) {
    insist(|| {
        let mut slot = things.push_ref().ok()?;
        slot.extend_from_slice(black_box(&[7; 64]));
        Some(())
    });
}

fn pop(things: &Thing) {
    insist(|| things.pop_ref().map(|slot| drop(black_box(slot))));
}
