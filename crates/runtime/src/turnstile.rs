//! Lanes take turns on the one compute team: a fair lock, so that the steps of two busy models alternate. A plain mutex
//! would let the lane that just released it take it again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A ticket lock.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    numbers: Mutex<Numbers>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Numbers {
    /// The next number to give out.
    next: u64,
    /// Whose turn it is.
    serving: u64,
}

impl Turnstile {
    /// Waits for this caller's turn, in the order of the calls. The turn ends when the guard is dropped.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut numbers = self.lock();
        let mine = numbers.next;
        numbers.next += 1;
        drop(self.moved.wait_while(numbers, |n| n.serving != mine).unwrap_or_else(PoisonError::into_inner));
        Turn { turnstile: self }
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on the compute team.
pub(crate) struct Turn<'a> {
    turnstile: &'a Turnstile,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turnstile.lock().serving += 1;
        self.turnstile.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn turns_alternate_while_both_want_them() {
        let turnstile = Arc::new(Turnstile::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting = |turnstile: &Turnstile| {
            let numbers = turnstile.lock();
            numbers.next - numbers.serving - 1
        };
        let held = turnstile.take();
        let lane = |lane| {
            let (turnstile, order) = (turnstile.clone(), order.clone());
            std::thread::spawn(move || {
                for i in 0..50 {
                    let _turn = turnstile.take();
                    order.lock().unwrap().push(lane);
                    // The turn is held until the other stands in line again; he does not after his last.
                    while i < 49 && waiting(&turnstile) == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        };
        let lanes = [lane(0), lane(1)];
        while waiting(&turnstile) < 2 {
            std::thread::yield_now();
        }
        drop(held);
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        let order = order.lock().unwrap();
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
    }
}
