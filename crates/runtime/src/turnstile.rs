//! Lanes take turns on the one compute team: a lock that goes to whoever is due first. Who has no deadline is due a while after
//! asking, and nobody is due before that: so everybody's turn comes, and two busy models alternate. A plain mutex would let the
//! lane that just released it take it again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a step is due that was promised to nobody, from when it is ready: at least five a second are computed of it, however
/// much was promised to others.
const NO_HURRY: Duration = Duration::from_millis(200);

/// A lock with an order.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    /// When those who wait are due, and the order they came in. As many as there are lanes.
    waiting: Vec<(Instant, u64)>,
    came: u64,
    is_taken: bool,
}

impl Turnstile {
    /// Waits for this caller's turn: when nobody has one and nobody who waits is due earlier. `due`: by when the turn must be
    /// over, if it must. The turn ends when the guard is dropped.
    pub(crate) fn take(&self, due: Option<Instant>) -> Turn<'_> {
        let mut line = self.lock();
        line.came += 1;
        let now = Instant::now();
        // Who is late already is not for ever before the others.
        let mine = (due.map_or(now + NO_HURRY, |due| due.max(now)), line.came);
        line.waiting.push(mine);
        let is_next = |line: &Line| !line.is_taken && line.waiting.iter().min() == Some(&mine);
        let wait = self.moved.wait_while(line, |line| !is_next(line));
        let mut line = wait.unwrap_or_else(PoisonError::into_inner);
        line.waiting.retain(|other| *other != mine);
        line.is_taken = true;
        Turn { turnstile: self }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on the compute team.
pub(crate) struct Turn<'a> {
    turnstile: &'a Turnstile,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turnstile.lock().is_taken = false;
        self.turnstile.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn waiting(turnstile: &Turnstile) -> usize {
        turnstile.lock().waiting.len()
    }

    #[test]
    fn turns_alternate_while_both_want_them() {
        let turnstile = Arc::new(Turnstile::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let held = turnstile.take(None);
        let lane = |lane| {
            let (turnstile, order) = (turnstile.clone(), order.clone());
            std::thread::spawn(move || {
                for i in 0..50 {
                    let _turn = turnstile.take(None);
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

    #[test]
    fn who_is_late_is_late_from_now_on() {
        let long_ago = Instant::now();
        let turnstile = Turnstile::default();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let held = turnstile.take(None);
            let (turnstile, order) = (&turnstile, &order);
            for i in 0..3 {
                scope.spawn(move || {
                    let turn = turnstile.take(Some(long_ago));
                    order.lock().unwrap().push(i);
                    drop(turn);
                });
                while waiting(turnstile) <= i {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn who_is_due_first_is_first() {
        let now = Instant::now();
        let turnstile = Turnstile::default();
        let order = Mutex::new(Vec::new());
        let dues = [Some(80_000), None, Some(30_000), Some(200_000), Some(30_000), Some(60_000)];
        std::thread::scope(|scope| {
            let held = turnstile.take(None);
            for (i, due) in dues.into_iter().enumerate() {
                let (turnstile, order) = (&turnstile, &order);
                scope.spawn(move || {
                    let turn = turnstile.take(due.map(|ms| now + Duration::from_millis(ms)));
                    order.lock().unwrap().push(i);
                    drop(turn);
                });
                // One after the other, so that those who are due alike stand in a known order.
                while waiting(turnstile) <= i {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), [1, 2, 4, 5, 0, 3]);
    }
}
