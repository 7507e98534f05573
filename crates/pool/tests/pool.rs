//! The pool against a toy model, and between threads.
#![cfg(not(loom))]

use std::sync::Arc;
use std::thread;

use plimsoll_pool::{Pool, PoolCounts, Reset};
use proptest::prelude::*;

/// Knows whether it was reset, and that nobody else has it.
struct Object {
    is_dirty: bool,
    is_cold: bool,
    alive: Arc<()>,
}

impl Reset for Object {
    fn reset(&mut self) {
        self.is_dirty = false;
    }

    fn shrink(&mut self) {
        self.is_cold = true;
    }

    fn warm(&mut self) {
        self.is_cold = false;
    }
}

fn pool_of(capacity: usize) -> (Pool<Object>, Arc<()>) {
    let alive = Arc::new(());
    (Pool::new(capacity, || Object { is_dirty: false, is_cold: false, alive: Arc::clone(&alive) }), alive)
}

/// What is done to a pool.
#[derive(Debug, Clone)]
enum Act {
    Take,
    /// Gives back the n-th of those taken, if there are so many.
    GiveBack(usize),
    Shrink,
    Prewarm(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => Just(Act::Take),
        8 => (0..40_usize).prop_map(Act::GiveBack),
        1 => Just(Act::Shrink),
        1 => (0..10_usize).prop_map(Act::Prewarm),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn hands_out_what_there_is(capacity in 1..40_usize, acts in prop::collection::vec(act(), 0..200)) {
        let (pool, alive) = pool_of(capacity);
        let mut taken = Vec::new();
        let mut model = PoolCounts { capacity, outstanding: 0, high_water: 0, misses: 0, cold: 0 };
        for act in acts {
            match act {
                Act::GiveBack(index) if index < taken.len() => {
                    drop(taken.swap_remove(index));
                    model.outstanding -= 1;
                }
                Act::GiveBack(_) => {}
                Act::Take => {
                    let object = pool.try_take();
                    prop_assert_eq!(object.is_some(), model.outstanding < capacity);
                    match object {
                        Some(mut object) => {
                            prop_assert!(!object.is_dirty, "an object is as good as new");
                            object.is_dirty = true;
                            // Cold ones come last.
                            let warm = capacity - model.outstanding - model.cold;
                            prop_assert_eq!(object.is_cold, warm == 0);
                            model.cold -= usize::from(std::mem::take(&mut object.is_cold));
                            taken.push(object);
                            model.outstanding += 1;
                            model.high_water = model.high_water.max(model.outstanding);
                        }
                        None => model.misses += 1,
                    }
                }
                Act::Shrink => {
                    prop_assert_eq!(pool.shrink(), capacity - model.outstanding - model.cold);
                    model.cold = capacity - model.outstanding;
                }
                Act::Prewarm(most) => {
                    prop_assert_eq!(pool.prewarm(most), most.min(model.cold));
                    model.cold -= most.min(model.cold);
                }
            }
            prop_assert_eq!(pool.counts(), model);
            prop_assert_eq!(Arc::strong_count(&alive), capacity + 1, "none is made and none is lost");
        }
        drop(pool);
        drop(taken);
        prop_assert_eq!(Arc::strong_count(&alive), 1);
    }
}

/// As many threads as objects, each taking one at a time: nobody may ever miss.
fn check_threads(count: usize) {
    let rounds = if cfg!(miri) { 10 } else { 20_000 };
    let (pool, alive) = pool_of(count);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut object = pool.try_take().expect("one for each thread");
                    assert!(!object.is_dirty);
                    object.is_dirty = true;
                }
            });
        }
    });
    let counts = pool.counts();
    assert_eq!((counts.outstanding, counts.misses), (0, 0));
    assert!(counts.high_water <= count);
    assert_eq!(Arc::strong_count(&alive), count + 1);
}

#[test]
fn threads_never_miss_while_there_is_one_for_each() {
    for count in [1, 2, 3, 4] {
        check_threads(count);
    }
}

/// Guards are taken by one thread and dropped by another, through rings that nobody waits for.
#[test]
fn objects_are_given_back_by_another_thread() {
    let rounds = if cfg!(miri) { 40 } else { 20_000 };
    let (pool, alive) = pool_of(64);
    let (give, take) = std::sync::mpsc::sync_channel(8);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                let mut object = pool.try_take().expect("at most 10 are out");
                assert!(!object.is_dirty);
                object.is_dirty = true;
                give.send(object).expect("the other end is there");
            }
            drop(give);
        });
        scope.spawn(|| take.into_iter().for_each(drop));
    });
    let counts = pool.counts();
    assert_eq!((counts.outstanding, counts.misses), (0, 0));
    assert!((1..=10).contains(&counts.high_water), "{counts:?}");
    assert_eq!(Arc::strong_count(&alive), 65);
}

/// More threads than objects: whoever misses does so because all are handed out, and every miss is counted.
#[test]
fn misses_are_counted_when_there_are_too_few() {
    let rounds = if cfg!(miri) { 10 } else { 5_000 };
    let (pool, _alive) = pool_of(2);
    let work = || (0..rounds).filter(|_| pool.try_take().is_none()).count();
    let missed: usize = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(work));
        threads.map(|thread| thread.join().expect("no panic")).iter().sum()
    });
    let counts = pool.counts();
    assert_eq!((counts.outstanding, counts.misses), (0, missed));
    assert!((1..=2).contains(&counts.high_water));
}

/// The last handle goes while guards come back, in whatever order.
#[test]
fn whoever_is_last_frees_the_memory() {
    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
        let (pool, alive) = pool_of(3);
        let [a, b] = [pool.try_take(), pool.try_take()];
        thread::scope(|scope| {
            scope.spawn(|| drop(a));
            scope.spawn(|| drop(pool));
            scope.spawn(|| drop(b));
        });
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

#[test]
fn a_guard_travels_and_outlives_its_pool() {
    let (pool, alive) = pool_of(1);
    let object = pool.try_take().expect("there is one");
    drop(pool);
    thread::spawn(move || assert_eq!(Arc::strong_count(&object.alive), 2)).join().expect("no panic");
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn vectors_and_strings_keep_their_memory() {
    let pool = Pool::new(1, || Vec::with_capacity(100));
    pool.try_take().expect("there is one").extend([1, 2, 3]);
    let vector = pool.try_take().expect("it came back");
    assert!(vector.is_empty() && vector.capacity() == 100);
    let pool = Pool::new(1, String::new);
    pool.try_take().expect("there is one").push_str("text");
    assert!(pool.try_take().expect("it came back").is_empty());
}

/// Forgets one of its fields when it is reset.
#[derive(Default)]
struct Forgetful {
    remembered: u32,
    forgotten: u32,
}

impl Reset for Forgetful {
    fn reset(&mut self) {
        self.remembered = 0;
    }

    fn poison(&mut self) {
        (self.remembered, self.forgotten) = (u32::MAX, u32::MAX);
    }

    fn is_clean(&self) -> bool {
        self.remembered == 0 && self.forgotten == 0
    }
}

#[test]
fn a_reset_that_forgets_something_fails_a_test() {
    let pool = Pool::checked(1, Forgetful::default);
    // Not even touched: the poison shows what the reset forgets.
    drop(pool.try_take());
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.try_take().map(drop)));
    let message = taken.expect_err("the object is dirty");
    assert!(message.downcast_ref::<String>().is_none_or(|text| text.contains("not as good as new")));
}

/// Panics when it is reset for the n-th time.
struct Fragile {
    resets_left: u32,
    _alive: Arc<()>,
}

impl Reset for Fragile {
    fn reset(&mut self) {
        self.resets_left -= 1;
        assert!(self.resets_left != 0, "this one breaks");
    }
}

#[test]
fn an_object_whose_reset_panics_is_never_handed_out_again() {
    let alive = Arc::new(());
    let pool = Pool::new(1, || Fragile { resets_left: 2, _alive: Arc::clone(&alive) });
    drop(pool.try_take());
    let object = pool.try_take();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(object))).expect_err("it breaks");
    assert!(pool.try_take().is_none());
    assert_eq!((pool.counts().outstanding, pool.counts().misses), (1, 1));
    drop(pool);
    assert_eq!(Arc::strong_count(&alive), 1, "its memory is freed all the same");
}

#[test]
fn shrunk_vectors_have_no_memory() {
    let pool = Pool::new(2, || Vec::<u8>::with_capacity(100));
    let held = pool.try_take();
    assert_eq!((pool.shrink(), pool.counts().cold), (1, 1));
    drop(held);
    let [warm, cold] = [pool.try_take(), pool.try_take()].map(|object| object.expect("there are two"));
    assert_eq!((warm.capacity(), cold.capacity()), (100, 0));
}
