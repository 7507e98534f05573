//! Every interleaving (up to a bounded number of preemptions) of a few takes and returns.

use loom::cell::Cell;
use loom::model::Builder;
use loom::thread;

use super::*;

/// Tells loom of every access, so that two at once are found.
struct Object(Cell<u32>);

impl Reset for Object {
    fn reset(&mut self) {
        self.0.set(0);
    }

    fn is_clean(&self) -> bool {
        self.0.get() == 0
    }
}

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn pool_of(capacity: usize) -> Pool<Object> {
    Pool::checked(capacity, || Object(Cell::new(0)))
}

fn use_one(pool: &Pool<Object>, as_thread: usize) -> bool {
    let Some(object) = pool.try_take_as(as_thread) else { return false };
    object.0.set(1);
    give_back(object, as_thread);
    true
}

fn give_back(object: Pooled<Object>, as_thread: usize) {
    let mut object = std::mem::ManuallyDrop::new(object);
    object.give_back_as(as_thread);
}

/// As many objects as threads: nobody may miss, whether they have a magazine of their own or share one.
#[test]
fn nobody_misses_while_there_is_one_for_each() {
    for shared_magazine in [false, true] {
        explore(3, move || {
            let pool = pool_of(2);
            let other = {
                let pool = pool.clone();
                thread::spawn(move || assert!(use_one(&pool, 0) && use_one(&pool, 0)))
            };
            assert!(use_one(&pool, usize::from(!shared_magazine)));
            other.join().expect("no panic");
            let counts = pool.counts();
            assert_eq!((counts.outstanding, counts.misses), (0, 0));
            assert!((1..=2).contains(&counts.high_water));
        });
    }
}

/// One object, two threads: it is never in two hands, and every miss is counted.
#[test]
fn one_object_goes_from_hand_to_hand() {
    explore(3, || {
        let pool = pool_of(1);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || usize::from(!use_one(&pool, 0)) + usize::from(!use_one(&pool, 0)))
        };
        let missed = usize::from(!use_one(&pool, 1)) + other.join().expect("no panic");
        let counts = pool.counts();
        assert_eq!((counts.outstanding, counts.high_water, counts.misses), (0, 1, missed));
    });
}

/// The high-water mark when two take at once and hold what they have.
#[test]
fn two_that_take_at_once_are_two() {
    explore(3, || {
        let pool = pool_of(2);
        // Both objects lie in magazines: no word that all share changes any more.
        let both = [pool.try_take_as(0), pool.try_take_as(1)].map(|object| object.expect("there are two"));
        let [a, b] = both;
        give_back(a, 0);
        give_back(b, 1);
        let fresh = pool_of(2);
        let other = {
            let fresh = fresh.clone();
            thread::spawn(move || fresh.try_take_as(0).expect("there are two"))
        };
        let mine = fresh.try_take_as(1).expect("there are two");
        let theirs = other.join().expect("no panic");
        assert_eq!(fresh.counts().high_water, 2);
        give_back(mine, 1);
        give_back(theirs, 0);
    });
}

/// A guard that comes back while the last handle goes: the memory is freed once, by whoever is last.
#[test]
fn the_last_handle_goes_while_a_guard_comes_back() {
    for capacity in [1, 2] {
        explore(3, move || {
            let pool = pool_of(capacity);
            let object = pool.try_take_as(0).expect("there is one");
            let other = thread::spawn(move || give_back(object, 0));
            drop(pool);
            other.join().expect("no panic");
        });
    }
}
