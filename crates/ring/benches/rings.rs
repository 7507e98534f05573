//! Our rings beside `crossbeam-queue` and `rtrb`: `cargo bench -p plimsoll-ring --bench rings [-- MPMC|SPSC]`.
//!
//! Rounds of all candidates are interleaved, so that what else the machine does hits all of them; a figure is the median of
//! its rounds, in nanoseconds for each item that went through. The table is printed in Markdown, for `benches/README.md`.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use plimsoll_ring::{Ring, spsc};

const CAPACITY: usize = 1024;
const ITEMS: usize = 200_000;
const ROUNDS: usize = 31;
const BATCH: usize = 16;

fn main() {
    println!("| ring | work | ours, ns | theirs | theirs, ns | theirs / ours |");
    println!("| --- | --- | ---: | --- | ---: | ---: |");
    for threads in [1, 2, 4] {
        let work = format!("each of {threads} pushes, then pops");
        let (ours, theirs) = (Ring::new(CAPACITY), ArrayQueue::new(CAPACITY));
        compare("MPMC", &work, "crossbeam", || in_turns(&ours, threads), || in_turns(&theirs, threads));
    }
    for (pushers, poppers) in [(1, 1), (3, 1), (1, 3), (2, 2)] {
        let work = format!("{pushers} push, {poppers} pop");
        let (ours, theirs) = (Ring::new(CAPACITY), ArrayQueue::new(CAPACITY));
        let through = (pushers, poppers);
        compare("MPMC", &work, "crossbeam", || stream(&ours, through), || stream(&theirs, through));
    }
    compare("SPSC", "push, then pop, 1 thread", "rtrb", alternate::<Quiet>, alternate::<Rtrb>);
    compare("SPSC, waking", "push, then pop, 1 thread", "rtrb", alternate::<Waking>, alternate::<Rtrb>);
    compare("SPSC", "1 push, 1 pop", "rtrb", between::<Quiet>, between::<Rtrb>);
    compare("SPSC, waking", "1 push, 1 pop", "rtrb", between::<Waking>, between::<Rtrb>);
    let work = format!("1 push, 1 pop, by {BATCH}");
    compare("SPSC, waking", &work, "rtrb chunks", between::<Batches>, between::<RtrbChunks>);
}

/// Prints one line. Both candidates say how long `ITEMS` items took, in nanoseconds.
fn compare(ring: &str, work: &str, other: &str, ours: impl Fn() -> f64, theirs: impl Fn() -> f64) {
    if std::env::args().skip(1).any(|chosen| !chosen.starts_with('-') && !ring.starts_with(&chosen)) {
        return;
    }
    let (mut our_rounds, mut their_rounds) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Which goes first changes, so that neither always finds the other's caches.
        if round % 2 == 0 {
            our_rounds.push(ours());
            their_rounds.push(theirs());
        } else {
            their_rounds.push(theirs());
            our_rounds.push(ours());
        }
    }
    let (ours, theirs) = (median(our_rounds) / ITEMS as f64, median(their_rounds) / ITEMS as f64);
    println!("| {ring} | {work} | {ours:.1} | {other} | {theirs:.1} | {:.2} |", theirs / ours);
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

trait Queue: Sync {
    fn push(&self, item: usize) -> bool;
    fn pop(&self) -> Option<usize>;
}

impl Queue for Ring<usize> {
    fn push(&self, item: usize) -> bool {
        self.try_push(item).is_ok()
    }

    fn pop(&self) -> Option<usize> {
        self.try_pop()
    }
}

impl Queue for ArrayQueue<usize> {
    fn push(&self, item: usize) -> bool {
        self.push(item).is_ok()
    }

    fn pop(&self) -> Option<usize> {
        self.pop()
    }
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

fn in_turns(queue: &impl Queue, threads: usize) -> f64 {
    let work = || {
        for item in 0..ITEMS / threads {
            insist(|| queue.push(item).then_some(()));
            std::hint::black_box(insist(|| queue.pop()));
        }
    };
    timed((0..threads).map(|_| Box::new(work) as Box<dyn FnOnce() + Send>).collect())
}

fn stream(queue: &impl Queue, (pushers, poppers): (usize, usize)) -> f64 {
    let push = move || (0..ITEMS / pushers).for_each(|item| insist(|| queue.push(item).then_some(())));
    let pop = move |count: usize| {
        (0..count).for_each(|_| {
            std::hint::black_box(insist(|| queue.pop()));
        });
    };
    let total = ITEMS / pushers * pushers;
    let share = |index: usize| total / poppers + usize::from(index < total % poppers);
    let mut workers: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    workers.extend((0..pushers).map(|_| Box::new(push) as Box<dyn FnOnce() + Send>));
    workers.extend((0..poppers).map(|index| Box::new(move || pop(share(index))) as Box<dyn FnOnce() + Send>));
    timed(workers)
}

/// One producer and one consumer. Both calls say how many items went through, up to `BATCH`.
trait Pair {
    type Producer: Send;
    type Consumer: Send;

    fn ring() -> (Self::Producer, Self::Consumer);
    fn push(producer: &mut Self::Producer, items: std::ops::Range<usize>) -> usize;
    fn pop(consumer: &mut Self::Consumer) -> usize;
}

fn alternate<P: Pair>() -> f64 {
    let (mut producer, mut consumer) = P::ring();
    let start = Instant::now();
    for item in 0..ITEMS {
        P::push(&mut producer, item..item + 1);
        P::pop(&mut consumer);
    }
    start.elapsed().as_nanos() as f64
}

fn between<P: Pair>() -> f64 {
    let (mut producer, mut consumer) = P::ring();
    let push = move || {
        let mut items = 0..ITEMS;
        while !items.is_empty() {
            items.start +=
                insist(|| Some(P::push(&mut producer, items.clone())).filter(|pushed| *pushed > 0));
        }
    };
    let pop = move || {
        let mut popped = 0;
        while popped < ITEMS {
            popped += insist(|| Some(P::pop(&mut consumer)).filter(|popped| *popped > 0));
        }
    };
    timed(vec![Box::new(push), Box::new(pop)])
}

fn pop_one<T>(item: Option<T>) -> usize {
    std::hint::black_box(item).map_or(0, |_| 1)
}

struct Quiet;

impl Pair for Quiet {
    type Producer = spsc::Producer<usize>;
    type Consumer = spsc::Consumer<usize>;

    fn ring() -> (Self::Producer, Self::Consumer) {
        spsc::ring(CAPACITY)
    }

    fn push(producer: &mut Self::Producer, items: std::ops::Range<usize>) -> usize {
        usize::from(producer.try_push_quietly(items.start).is_ok())
    }

    fn pop(consumer: &mut Self::Consumer) -> usize {
        pop_one(consumer.try_pop())
    }
}

struct Waking;

impl Pair for Waking {
    type Producer = spsc::Producer<usize>;
    type Consumer = spsc::Consumer<usize>;

    fn ring() -> (Self::Producer, Self::Consumer) {
        spsc::ring(CAPACITY)
    }

    fn push(producer: &mut Self::Producer, items: std::ops::Range<usize>) -> usize {
        usize::from(producer.try_push(items.start).is_ok())
    }

    fn pop(consumer: &mut Self::Consumer) -> usize {
        pop_one(consumer.try_pop())
    }
}

struct Batches;

impl Pair for Batches {
    type Producer = spsc::Producer<usize>;
    type Consumer = spsc::Consumer<usize>;

    fn ring() -> (Self::Producer, Self::Consumer) {
        spsc::ring(CAPACITY)
    }

    fn push(producer: &mut Self::Producer, items: std::ops::Range<usize>) -> usize {
        producer.push_batch(items.take(BATCH))
    }

    fn pop(consumer: &mut Self::Consumer) -> usize {
        consumer.drain(BATCH).map(std::hint::black_box).count()
    }
}

struct Rtrb;

impl Pair for Rtrb {
    type Producer = rtrb::Producer<usize>;
    type Consumer = rtrb::Consumer<usize>;

    fn ring() -> (Self::Producer, Self::Consumer) {
        rtrb::RingBuffer::new(CAPACITY)
    }

    fn push(producer: &mut Self::Producer, items: std::ops::Range<usize>) -> usize {
        usize::from(producer.push(items.start).is_ok())
    }

    fn pop(consumer: &mut Self::Consumer) -> usize {
        pop_one(consumer.pop().ok())
    }
}

struct RtrbChunks;

impl Pair for RtrbChunks {
    type Producer = rtrb::Producer<usize>;
    type Consumer = rtrb::Consumer<usize>;

    fn ring() -> (Self::Producer, Self::Consumer) {
        rtrb::RingBuffer::new(CAPACITY)
    }

    fn push(producer: &mut Self::Producer, items: std::ops::Range<usize>) -> usize {
        let wanted = producer.slots().min(BATCH).min(items.len());
        producer.write_chunk_uninit(wanted).map_or(0, |chunk| chunk.fill_from_iter(items))
    }

    fn pop(consumer: &mut Self::Consumer) -> usize {
        let wanted = consumer.slots().min(BATCH);
        consumer.read_chunk(wanted).map_or(0, |chunk| chunk.into_iter().map(std::hint::black_box).count())
    }
}
