//! The pool against a toy model, and between threads.
#![cfg(not(loom))]

use std::sync::Arc;
use std::thread;

use plimsoll_pool::{Pool, PoolCounts, Reset};
use proptest::prelude::*;

/// Knows whether it was reset, and that nobody else has it.
struct Object {
    is_dirty: bool,
    alive: Arc<()>,
}

impl Reset for Object {
    fn reset(&mut self) {
        self.is_dirty = false;
    }
}

fn pool_of(capacity: usize) -> (Pool<Object>, Arc<()>) {
    let alive = Arc::new(());
    (Pool::new(capacity, || Object { is_dirty: false, alive: Arc::clone(&alive) }), alive)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// `Some(n)` gives the n-th object back, `None` takes one.
    #[test]
    fn hands_out_what_there_is(capacity in 1..6_usize, operations in prop::collection::vec(prop::option::of(0..6_usize), 0..60)) {
        let (pool, alive) = pool_of(capacity);
        let mut taken = Vec::new();
        let mut model = PoolCounts { capacity, outstanding: 0, high_water: 0, misses: 0 };
        for operation in operations {
            match operation {
                Some(index) if index < taken.len() => {
                    drop(taken.swap_remove(index));
                    model.outstanding -= 1;
                }
                Some(_) => {}
                None => {
                    let object = pool.try_take();
                    prop_assert_eq!(object.is_some(), model.outstanding < capacity);
                    match object {
                        Some(mut object) => {
                            prop_assert!(!object.is_dirty, "an object is as good as new");
                            object.is_dirty = true;
                            taken.push(object);
                            model.outstanding += 1;
                            model.high_water = model.high_water.max(model.outstanding);
                        }
                        None => model.misses += 1,
                    }
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
