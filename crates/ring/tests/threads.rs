//! Threads hammering the rings: nothing lost, nothing twice, order kept.
#![cfg(not(loom))]

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use plimsoll_ring::{Overflow, Pushed, Ring, Wake, spsc, thread_waker};

const ITEMS: usize = if cfg!(miri) { 60 } else { 20_000 };

/// `pushers` threads push `ITEMS` each under `overflow`, `poppers` pop until all is accounted for. Checks that the items
/// popped or handed back are exactly those pushed, and that a popper sees each pusher's items in order.
fn check_mpmc(capacity: usize, pushers: usize, poppers: usize, overflow: Overflow) {
    let ring = Ring::new(capacity);
    let pushing = std::sync::atomic::AtomicUsize::new(pushers);
    let push = |pusher: usize| {
        let mut left_over = Vec::new();
        for item in 0..ITEMS {
            left_over.extend(ring.push((pusher, item), overflow).left_over());
        }
        pushing.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        left_over
    };
    let pop = || {
        let mut popped = Vec::new();
        loop {
            let done = pushing.load(std::sync::atomic::Ordering::SeqCst) == 0;
            match ring.try_pop() {
                Some(item) => popped.push(item),
                None if done => break,
                None => thread::yield_now(),
            }
        }
        for pusher in 0..pushers {
            assert!(popped.iter().filter(|(who, _)| *who == pusher).is_sorted());
        }
        popped
    };
    let (push, pop) = (&push, &pop);
    let mut seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..pushers).map(|pusher| scope.spawn(move || push(pusher))).collect();
        let poppers: Vec<_> = (0..poppers).map(|_| scope.spawn(pop)).collect();
        threads
            .into_iter()
            .chain(poppers)
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    seen.sort_unstable();
    let expected: Vec<_> =
        (0..pushers).flat_map(|pusher| (0..ITEMS).map(move |item| (pusher, item))).collect();
    assert!(seen == expected, "capacity {capacity}, {pushers} pushers, {poppers} poppers, {overflow:?}");
    assert_eq!(ring.pushed(), ring.popped());
}

#[test]
fn mpmc_loses_and_doubles_nothing() {
    for capacity in [1, 2, 64] {
        for (pushers, poppers) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            for overflow in [Overflow::Block, Overflow::Reject, Overflow::EvictOldest] {
                check_mpmc(capacity, pushers, poppers, overflow);
            }
        }
    }
}

#[test]
fn spsc_keeps_order() {
    for capacity in [1, 2, 16] {
        let (mut producer, mut consumer) = spsc::ring(capacity);
        thread::scope(|scope| {
            scope.spawn(move || {
                for item in 0..ITEMS {
                    let mut item = Box::new(item);
                    while let Err(back) = producer.try_push(item) {
                        item = back;
                        thread::yield_now();
                    }
                }
            });
            let waker = thread_waker();
            let mut context = Context::from_waker(&waker);
            let mut next = 0;
            loop {
                match consumer.poll_pop(&mut context) {
                    Poll::Ready(Some(item)) => {
                        assert_eq!(*item, next);
                        next += 1;
                    }
                    Poll::Ready(None) => break,
                    Poll::Pending => thread::park(),
                }
            }
            assert_eq!(next, ITEMS);
        });
    }
}

#[test]
fn spsc_batches_keep_order() {
    let (mut producer, mut consumer) = spsc::ring(8);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut items = 0..ITEMS;
            while !items.is_empty() {
                if producer.push_batch(items.by_ref().take(5)) == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut seen = Vec::new();
        while !(consumer.is_abandoned() && consumer.is_empty()) {
            seen.extend(consumer.drain(3));
            thread::yield_now();
        }
        assert!(seen.into_iter().eq(0..ITEMS));
    });
}

#[test]
fn a_sleeping_thread_is_woken_by_many_pushers() {
    let (ring, wake) = (Ring::new(4), Wake::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for item in 0..ITEMS {
                    assert_eq!(ring.push(item, Overflow::Block), Pushed::Stored);
                    wake.wake();
                }
            });
        }
        let waker = thread_waker();
        let mut popped = 0;
        while popped < 2 * ITEMS {
            if ring.try_pop().is_some() {
                popped += 1;
                continue;
            }
            wake.register(&waker);
            match ring.try_pop() {
                Some(_) => popped += 1,
                None => thread::park(),
            }
        }
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn a_consumer_is_woken_once_for_each_time_it_found_nothing() {
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let woken = || count.0.load(std::sync::atomic::Ordering::SeqCst);
    let (mut producer, mut consumer) = spsc::ring(8);

    producer.try_push(0).expect("there is room");
    assert_eq!((consumer.poll_pop(&mut context), woken()), (Poll::Ready(Some(0)), 0));
    assert_eq!(consumer.poll_pop(&mut context), Poll::Pending);
    assert_eq!((producer.push_batch(1..=3), woken()), (3, 1));
    producer.try_push(4).expect("there is room");
    assert_eq!((consumer.drain(8).collect::<Vec<_>>(), woken()), (vec![1, 2, 3, 4], 1));
    assert_eq!(consumer.poll_pop(&mut context), Poll::Pending);
    drop(producer);
    assert_eq!((consumer.poll_pop(&mut context), woken()), (Poll::Ready(None), 2));
}

#[test]
fn frames_arrive_whole() {
    let (mut writer, mut reader) = plimsoll_ring::bytes::ring(128);
    let len = |index: usize| index * 7 % 57;
    thread::scope(|scope| {
        scope.spawn(move || {
            for index in 0..ITEMS {
                let mut grant = loop {
                    match writer.grant(len(index)) {
                        Ok(grant) => break grant,
                        Err(_) => thread::yield_now(),
                    }
                };
                grant.fill(index as u8);
                grant.commit(len(index));
            }
        });
        let mut index = 0;
        while index < ITEMS {
            match reader.read() {
                Some(frame) => {
                    assert!(frame.len() == len(index) && frame.iter().all(|byte| *byte == index as u8));
                    frame.release();
                    index += 1;
                }
                None => thread::yield_now(),
            }
        }
    });
}
