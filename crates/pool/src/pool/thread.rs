//! A small number for each running thread.
//!
//! A pool finds a thread's magazine by it. Nothing of a pool is kept in thread-local storage, so a pool that dies leaves
//! nothing behind in any thread, and a thread that ends leaves its magazine to the next one with its number.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORDS: usize = 4;
const UNKNOWN: usize = usize::MAX;

/// One bit for each number that a running thread has.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static LEAVING: Leaving = const { Leaving(Cell::new(UNKNOWN)) };
}

/// Returns the thread's number when the thread ends.
struct Leaving(Cell<usize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let number = self.0.get();
        if let Some(word) = TAKEN.get(number / 64) {
            word.fetch_and(!(1 << (number % 64)), Relaxed);
        }
    }
}

/// The calling thread's number: the least that no other running thread has, as of its first call. Beyond the 256th
/// running thread all have the same.
#[inline]
pub(super) fn number() -> usize {
    NUMBER.with(|number| if number.get() == UNKNOWN { claim(number) } else { number.get() })
}

#[cold]
fn claim(number: &Cell<usize>) -> usize {
    let mine = least_free().unwrap_or(64 * WORDS);
    number.set(mine);
    // In the last moments of a thread there is nothing left to return the number: it stays taken.
    let _too_late = LEAVING.try_with(|leaving| leaving.0.set(mine));
    mine
}

fn least_free() -> Option<usize> {
    TAKEN.iter().enumerate().find_map(|(at, word)| {
        let set_lowest = |bits: u64| (bits != u64::MAX).then(|| bits | (bits + 1));
        let before = word.fetch_update(Relaxed, Relaxed, set_lowest).ok()?;
        Some(at * 64 + before.trailing_ones() as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn running_threads_have_different_numbers_and_ended_ones_none() {
        let mine = number();
        assert_eq!(number(), mine);
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            let barrier = Barrier::new(3);
            let numbers = thread::scope(|scope| {
                let threads = [(); 3].map(|()| {
                    scope.spawn(|| {
                        let number = number();
                        barrier.wait();
                        number
                    })
                });
                threads.map(|thread| thread.join().expect("no panic"))
            });
            // Numbers of ended threads come back: in any number of rounds they stay small.
            assert!(numbers.iter().all(|number| *number != mine && *number < 64), "{numbers:?}");
            assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        }
    }
}
