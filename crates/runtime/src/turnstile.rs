//! Lanes take turns on the one compute team: a lock that goes to whoever is due first. Nobody is due before he asked, nor later
//! than a while after that, whatever his deadline: so everybody's turn comes, and two busy models alternate. A plain mutex would
//! let the lane that just released it take it again.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a step is due at the latest, from when it is ready: at least some five a second are computed of any model, however much
/// of others was promised and however late its own is due. (A prompt due in a minute takes more than the one step before that.)
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
    /// over, if it must. The turn ends when the guard is dropped, by a panic, too.
    pub(crate) fn take(&self, due: Option<Instant>) -> Turn<'_> {
        self.take_at(place(Instant::now(), due))
    }

    fn take_at(&self, due: Instant) -> Turn<'_> {
        let mut line = self.lock();
        line.came += 1;
        let mine = (due, line.came);
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

/// When a step that is ready `now` is due. Who is late already is late from now on, not for ever before the others.
fn place(now: Instant, due: Option<Instant>) -> Instant {
    let latest = now + NO_HURRY;
    due.map_or(latest, |due| due.clamp(now, latest))
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
    fn nobody_is_due_before_he_asks_nor_long_after() {
        let now = Instant::now() + Duration::from_secs(3600);
        let (before, after) =
            (|ms| Some(now - Duration::from_millis(ms)), |ms| Some(now + Duration::from_millis(ms)));
        for (due, ms) in [
            (before(3_000_000), 0),
            (before(1), 0),
            (after(0), 0),
            (after(60), 60),
            (after(200), 200),
            (after(201), 200),
            (after(86_400_000), 200),
            (None, 200),
        ] {
            assert_eq!(place(now, due) - now, Duration::from_millis(ms), "{due:?}");
        }
    }

    /// In which order those get their turns who ask one after the other, due so many milliseconds from now.
    fn order(dues: &[u64]) -> Vec<usize> {
        let now = Instant::now();
        let turnstile = Turnstile::default();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let held = turnstile.take(None);
            for (i, &due) in dues.iter().enumerate() {
                let (turnstile, order) = (&turnstile, &order);
                scope.spawn(move || {
                    let turn = turnstile.take_at(now + Duration::from_millis(due));
                    order.lock().unwrap().push(i);
                    drop(turn);
                });
                while waiting(turnstile) <= i {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        order.into_inner().unwrap()
    }

    #[test]
    fn who_is_due_first_is_first() {
        assert_eq!(order(&[80, 30, 200, 30, 60]), [1, 3, 4, 0, 2]);
        assert_eq!(order(&[0, 0, 0]), [0, 1, 2]);
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let turnstile = Turnstile::default();
        let lane = || {
            let _turn = turnstile.take(None);
            panic!("a step fails");
        };
        assert!(std::thread::scope(|scope| scope.spawn(lane).join()).is_err());
        drop(turnstile.take(None));
        assert_eq!(waiting(&turnstile), 0);
    }
}
