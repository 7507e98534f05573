//! Every interleaving (up to a bounded number of preemptions) of a few operations.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-ring --release`
#![cfg(loom)]

use loom::future::block_on;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread::{self, JoinHandle};
use plimsoll_ring::{Level, Overflow, Pressure, Pushed, Ring, Wake, spsc};

/// Runs `model` under every schedule with at most `preemptions` preemptions.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn spawn<T: 'static, R: 'static>(shared: &Arc<T>, work: impl FnOnce(&T) -> R + 'static) -> JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

fn join<R>(thread: JoinHandle<R>) -> R {
    thread.join().expect("no panic")
}

fn drain<T>(ring: &Ring<T>) -> Vec<T> {
    std::iter::from_fn(|| ring.try_pop()).collect()
}

fn sorted(mut items: Vec<i32>) -> Vec<i32> {
    items.sort_unstable();
    items
}

#[test]
fn two_pushers_one_popper() {
    for capacity in [1, 2] {
        explore(3, move || {
            let ring = Arc::new(Ring::new(capacity));
            let pushers = [1, 2].map(|item| spawn(&ring, move |ring| ring.try_push(Box::new(item)).err()));
            let mut seen: Vec<_> = ring.try_pop().into_iter().collect();
            seen.extend(pushers.into_iter().filter_map(join));
            seen.extend(drain(&ring));
            assert_eq!(sorted(seen.into_iter().map(|item| *item).collect()), [1, 2]);
        });
    }
}

#[test]
fn one_pusher_two_poppers() {
    explore(3, || {
        let ring = Arc::new(Ring::new(2));
        ring.try_push(1).expect("there is room");
        let poppers = [(); 2].map(|()| spawn(&ring, |ring| ring.try_pop()));
        let mut seen: Vec<_> = [2, 3].into_iter().filter_map(|item| ring.try_push(item).err()).collect();
        seen.extend(poppers.into_iter().filter_map(join));
        seen.extend(drain(&ring));
        assert_eq!(sorted(seen), [1, 2, 3]);
    });
}

#[test]
fn eviction_races_a_pop() {
    for capacity in [1, 2] {
        explore(3, move || {
            let ring = Arc::new(Ring::new(capacity));
            let full = capacity as i32;
            (0..full).for_each(|item| ring.try_push(item).expect("there is room"));
            let popper = spawn(&ring, |ring| ring.try_pop());
            let pushed = ring.push(full, Overflow::EvictOldest);
            let popped = join(popper);
            if let (Pushed::Evicted(evicted), Some(popped)) = (&pushed, popped) {
                assert_ne!(*evicted, popped);
            }
            let mut seen: Vec<_> = pushed.left_over().into_iter().chain(popped).collect();
            let rest = drain(&ring);
            assert!(rest.is_sorted() && rest.last().is_none_or(|last| *last == full));
            seen.extend(rest);
            assert_eq!(sorted(seen), (0..=full).collect::<Vec<_>>());
        });
    }
}

#[test]
fn two_evictions_race() {
    for capacity in [1, 2] {
        explore(3, move || {
            let ring = Arc::new(Ring::new(capacity));
            let full = capacity as i32;
            (0..full).for_each(|item| ring.try_push(item).expect("there is room"));
            let other = spawn(&ring, move |ring| ring.push(full, Overflow::EvictOldest).left_over());
            let mut seen: Vec<_> =
                ring.push(full + 1, Overflow::EvictOldest).left_over().into_iter().collect();
            seen.extend(join(other));
            assert_eq!(seen.len(), 2, "a full ring that nobody pops evicts once for each push");
            seen.extend(drain(&ring));
            assert_eq!(sorted(seen), (0..=full + 1).collect::<Vec<_>>());
        });
    }
}

#[test]
fn an_eviction_races_a_push() {
    explore(3, || {
        let ring = Arc::new(Ring::new(2));
        ring.try_push(0).expect("there is room");
        let other = spawn(&ring, |ring| ring.try_push(1).err());
        let mut seen: Vec<_> = ring.push(2, Overflow::EvictOldest).left_over().into_iter().collect();
        seen.extend(join(other));
        seen.extend(drain(&ring));
        assert_eq!(sorted(seen), [0, 1, 2]);
    });
}

/// Two sleepers are in `loom_room.rs`: with two pushers that spin, the model has no end.
#[test]
fn a_blocked_pusher_is_let_in() {
    explore(4, || {
        let ring = Arc::new(Ring::new(1));
        ring.try_push(0).expect("there is room");
        let pusher = spawn(&ring, |ring| ring.push(1, Overflow::Block));
        assert_eq!(ring.try_pop(), Some(0));
        assert_eq!(join(pusher), Pushed::Stored);
        assert_eq!(ring.try_pop(), Some(1));
    });
}

#[test]
fn spsc_keeps_order_and_drops_the_rest() {
    for capacity in [1, 2] {
        explore(3, move || {
            let counted = Arc::new(());
            let (mut producer, mut consumer) = spsc::ring(capacity);
            let item = Arc::clone(&counted);
            let pusher = thread::spawn(move || {
                let pushed =
                    (0..3).take_while(|index| producer.try_push((*index, Arc::clone(&item))).is_ok()).count();
                drop(item);
                pushed
            });
            let mut seen: Vec<usize> =
                [(); 2].iter().filter_map(|()| consumer.try_pop()).map(|(index, _)| index).collect();
            seen.extend(consumer.drain(1).map(|(index, _)| index));
            assert!(seen.iter().copied().eq(0..seen.len()));
            assert!(join(pusher) >= seen.len());
            drop(consumer);
            assert_eq!(Arc::strong_count(&counted), 1);
        });
    }
}

#[test]
fn an_async_consumer_misses_no_wake() {
    explore(3, || {
        let (mut producer, mut consumer) = spsc::ring(2);
        let pusher = thread::spawn(move || {
            producer.try_push(1).expect("there is room");
            assert_eq!(producer.push_batch([2]), 1);
        });
        let seen = block_on(async { [consumer.pop().await, consumer.pop().await, consumer.pop().await] });
        assert_eq!(seen, [Some(1), Some(2), None]);
        join(pusher);
    });
}

#[test]
fn a_batch_is_seen_after_its_one_wake() {
    explore(3, || {
        let (mut producer, mut consumer) = spsc::ring(2);
        let pusher = thread::spawn(move || {
            producer.try_push_quietly(1).expect("there is room");
            producer.try_push_quietly(2).expect("there is room");
            producer.wake();
            producer
        });
        assert_eq!(block_on(async { [consumer.pop().await, consumer.pop().await] }), [Some(1), Some(2)]);
        drop(join(pusher));
    });
}

#[test]
fn two_wakers_and_a_consumer() {
    explore(3, || {
        let shared = Arc::new((Wake::new(), AtomicUsize::new(0)));
        let wakers = [(); 2].map(|()| {
            spawn(&shared, |(wake, done)| {
                done.fetch_add(1, SeqCst);
                wake.wake();
            })
        });
        let is_done = || shared.1.load(SeqCst) == 2;
        block_on(std::future::poll_fn(|context| {
            if !is_done() {
                shared.0.register(context.waker());
                if !is_done() {
                    return std::task::Poll::Pending;
                }
            }
            std::task::Poll::Ready(())
        }));
        wakers.into_iter().for_each(join);
    });
}

#[test]
fn slots_are_handed_over_whole() {
    explore(3, || {
        let (mut writer, mut reader) = spsc::slots(1, || [0; 2]);
        let writing = thread::spawn(move || {
            (1..=2).filter(|round| writer.write(|slot| *slot = [*round; 2]).is_some()).count()
        });
        let mut last = 0;
        for _ in 0..2 {
            if let Some([a, b]) = reader.read(|slot| *slot) {
                assert!(a == b && a > last);
                last = a;
            }
        }
        join(writing);
    });
}

#[test]
fn leaving_is_seen_after_the_last_item() {
    explore(3, || {
        let (mut producer, mut consumer) = spsc::ring(1);
        let pusher = thread::spawn(move || producer.try_push_quietly(1).expect("there is room"));
        if consumer.is_abandoned() {
            assert_eq!(consumer.try_pop(), Some(1));
        }
        join(pusher);
    });
}

#[test]
fn one_thread_is_told_of_a_crossing() {
    explore(3, || {
        let pressure = Arc::new(Pressure::new(1, 4));
        let other = spawn(&pressure, |pressure| pressure.observe(4));
        let told = [pressure.observe(5), join(other)];
        assert_eq!(told.into_iter().flatten().collect::<Vec<_>>(), [Level::High]);
        assert_eq!((pressure.observe(2), pressure.level()), (None, Level::High));
        assert_eq!(pressure.observe(1), Some(Level::Low));
    });
}
