//! What the gate predicts from: the lane as the planner saw it last, published as a whole.

use crate::load::Rates;
use crate::promise::Class;
use crate::sync::{AtomicU64, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Powers of two in [`View::ends`].
pub const ENDS: usize = 10;

/// The state of a lane that predictions start from. Times are in seconds since the lane's start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// When the step in hand should be over.
    pub free_at: f64,
    /// What steps cost now.
    pub rates: Rates,
    /// What they cost when nothing else runs on the machine.
    pub best: Rates,
    /// What steps are cut to.
    pub budget: f64,
    /// What they are cut to when nobody runs who was promised a gap, or an end that is near.
    pub idle_budget: f64,
    /// The longest mean step under which everybody who runs keeps the promised gap, and the end.
    pub tightest: f64,
    /// Sequences that decode.
    pub decodes: f64,
    /// Tokens that those read from the cache in a step.
    pub kv: f64,
    /// Sequences that have a place in the batch.
    pub active: f64,
    /// Those of them that have not had all of their prompt computed.
    pub entering: f64,
    /// Prompt tokens still to be computed, by class, in the batch and before it.
    pub pending: [f64; Class::COUNT],
    /// Sequences that wait for a place, by class.
    pub waiting: [f64; Class::COUNT],
    /// How long those waiting may still be held up, by class: the least of them.
    pub slack: [f64; Class::COUNT],
    /// By when the last of those waiting must have its first token, or its last, by which it stands in line; by class.
    pub latest: [f64; Class::COUNT],
    /// Places that make way for a waiting sequence, by the class of that one.
    pub yielding: [f64; Class::COUNT],
    /// Share of the time that more urgent classes took lately, by class.
    pub above: [f64; Class::COUNT],
    /// Active sequences that have ended, most likely, after 1, 2, 4, ... steps.
    pub ends: [f64; ENDS],
    /// How far predictions of the first token are raised, by class: seconds, and seconds for each second predicted.
    pub allowance: [[f64; Class::COUNT]; 2],
    /// What the gap between tokens is aimed at, as a share of what is promised.
    pub aim: f64,
    /// What the time to the last token is aimed at, as a share of what is left of it after the first, by class.
    pub aim_last: [f64; Class::COUNT],
    /// Tokens of an output: half of them are not longer, and nine of ten.
    pub output: [f64; 2],
    /// Share of the prompt tokens that had to be computed lately.
    pub fresh: f64,
}

/// Words that a view is stored in.
const WORDS: usize = 12 + 8 + 9 * Class::COUNT + ENDS;

impl Default for View {
    fn default() -> Self {
        let none = Rates { base: 0.0, prefill: 0.0, decode: 0.0, kv: 0.0 };
        Self {
            free_at: 0.0,
            rates: none,
            best: none,
            budget: 0.05,
            idle_budget: 0.05,
            tightest: f64::INFINITY,
            decodes: 0.0,
            kv: 0.0,
            active: 0.0,
            entering: 0.0,
            pending: [0.0; Class::COUNT],
            waiting: [0.0; Class::COUNT],
            slack: [f64::INFINITY; Class::COUNT],
            latest: [0.0; Class::COUNT],
            yielding: [0.0; Class::COUNT],
            above: [0.0; Class::COUNT],
            ends: [0.0; ENDS],
            allowance: [[0.0; Class::COUNT]; 2],
            aim: 1.0,
            aim_last: [1.0; Class::COUNT],
            output: [f64::INFINITY; 2],
            fresh: 1.0,
        }
    }
}

impl View {
    fn write(&self, words: &mut [f64; WORDS]) {
        let (now, best) = (self.rates, self.best);
        let single =
            [self.free_at, self.budget, self.tightest, self.decodes, self.kv, self.active, self.entering];
        let more = [self.aim, self.output[0], self.output[1], self.fresh, self.idle_budget];
        let rates =
            [now.base, now.prefill, now.decode, now.kv, best.base, best.prefill, best.decode, best.kv];
        let [near, far] = self.allowance;
        let (slack, latest, aim) = (self.slack, self.latest, self.aim_last);
        let lists = [self.pending, self.waiting, slack, latest, self.yielding, self.above, near, far, aim];
        let all = single.iter().chain(&more).chain(&rates).chain(lists.iter().flatten()).chain(&self.ends);
        words.iter_mut().zip(all).for_each(|(word, value)| *word = *value);
    }

    fn read(words: &[f64; WORDS]) -> Self {
        let mut rest = words.iter().copied();
        let mut next = || rest.next().unwrap_or_default();
        let [free_at, budget, tightest, decodes, kv, active, entering] = [(); 7].map(|()| next());
        let [aim, half, most, fresh, idle_budget] = [(); 5].map(|()| next());
        let mut rates = || Rates { base: next(), prefill: next(), decode: next(), kv: next() };
        let (rates, best) = (rates(), rates());
        let mut list = || [(); Class::COUNT].map(|()| next());
        let (pending, waiting, slack) = (list(), list(), list());
        let (latest, yielding, above, allowance) = (list(), list(), list(), [list(), list()]);
        let aim_last = list();
        let ends = [(); ENDS].map(|()| next());
        Self {
            free_at,
            rates,
            best,
            budget,
            idle_budget,
            tightest,
            decodes,
            kv,
            active,
            entering,
            pending,
            waiting,
            slack,
            latest,
            yielding,
            above,
            ends,
            allowance,
            aim,
            aim_last,
            output: [half, most],
            fresh,
        }
    }
}

/// A view that one thread writes and any number read, none of them waiting for another: a sequence lock whose data are
/// atomics, as in Boehm, "Can seqlocks get along with programming language memory models?" (2012).
#[derive(Debug)]
pub(crate) struct Published {
    words: Words<WORDS>,
}

impl Published {
    pub(crate) fn new() -> Self {
        let published = Self { words: Words::new() };
        published.set(&View::default());
        published
    }

    pub(crate) fn set(&self, view: &View) {
        let mut words = [0.0; WORDS];
        view.write(&mut words);
        self.words.store(&words.map(f64::to_bits));
    }

    pub(crate) fn get(&self) -> View {
        View::read(&self.words.load().map(f64::from_bits))
    }
}

/// `N` words that are read as they were written together. One writer.
#[derive(Debug)]
pub(crate) struct Words<const N: usize> {
    /// Odd while the words are being written.
    version: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Words<N> {
    /// How often a reader that meets the writer tries again, before it takes what it gets: each figure is right by
    /// itself, and the writer, which may have been put to sleep half-way, must not hold up a door.
    const TRIES: usize = 64;

    pub(crate) fn new() -> Self {
        Self { version: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    pub(crate) fn store(&self, values: &[u64; N]) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        for (word, value) in self.words.iter().zip(values) {
            word.store(*value, Relaxed);
        }
        self.version.store(version.wrapping_add(2), Release);
    }

    pub(crate) fn load(&self) -> [u64; N] {
        let mut values = [0; N];
        for _ in 0..Self::TRIES {
            if self.try_load(&mut values) {
                break;
            }
            std::hint::spin_loop();
        }
        values
    }

    /// Whether what was read belongs together.
    pub(crate) fn try_load(&self, values: &mut [u64; N]) -> bool {
        let before = self.version.load(Acquire);
        for (value, word) in values.iter_mut().zip(&self.words) {
            *value = word.load(Relaxed);
        }
        fence(Acquire);
        before.is_multiple_of(2) && self.version.load(Relaxed) == before
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_view_comes_back_as_it_was() {
        let rates = |by: f64| Rates { base: by, prefill: by + 1.0, decode: by + 2.0, kv: by + 3.0 };
        let list = |by: f64| [by, by + 1.0, by + 2.0];
        let view = View {
            free_at: 1.0,
            rates: rates(10.0),
            best: rates(20.0),
            budget: 2.0,
            idle_budget: 2.5,
            tightest: 3.0,
            decodes: 4.0,
            kv: 5.0,
            active: 6.0,
            entering: 7.0,
            pending: list(30.0),
            waiting: list(40.0),
            slack: list(50.0),
            latest: list(55.0),
            yielding: list(60.0),
            above: list(70.0),
            ends: std::array::from_fn(|i| 80.0 + i as f64),
            allowance: [list(75.0), list(76.5)],
            aim: 9.0,
            aim_last: list(9.5),
            output: [90.0, 91.0],
            fresh: 92.0,
        };
        let published = Published::new();
        assert_eq!(published.get(), View::default());
        published.set(&view);
        assert_eq!(published.get(), view);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Words;
    use loom::thread;

    #[test]
    fn what_is_read_was_written_together() {
        loom::model(|| {
            let words = loom::sync::Arc::new(Words::<2>::new());
            let writer = words.clone();
            let thread = thread::spawn(move || writer.store(&[1, 1]));
            let mut values = [0; 2];
            if words.try_load(&mut values) {
                assert_eq!(values[0], values[1]);
            }
            thread.join().unwrap();
            assert!(words.try_load(&mut values));
            assert_eq!(values, [1, 1]);
        });
    }
}
