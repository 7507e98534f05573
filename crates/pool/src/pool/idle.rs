//! [`Idle`]: which objects of a pool are idle, and where they lie.
//!
//! An object is handed out, or in exactly one stack: a magazine (one for each running thread, as long as there are no more
//! threads than magazines), the depot, or the cold stack, whose objects have given their memory back. Taking looks in that
//! order, then in the other magazines. Giving back fills the giver's magazine, then the depot. No thread ever has an idle
//! object in its hands, so an object that is in no stack is handed out.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::stack::{Look, MOST, Not, Stack};
use crate::sync::{AtomicU32, AtomicUsize, spin_loop};

/// Most magazines of a pool. More threads than that share them.
const MAGAZINES: usize = 16;
/// Objects a magazine holds.
const MAGAZINE: usize = 16;
/// How often [`Idle::outstanding`] tries to catch a moment at which nobody moves an object.
const TRIES: usize = 16;

pub(super) struct Idle {
    /// As many as a power of two.
    magazines: Box<[Stack]>,
    depot: Stack,
    cold: Stack,
    next: Box<[AtomicU32]>,
    high_water: AtomicUsize,
    misses: AtomicUsize,
}

impl Idle {
    /// All of `capacity` objects are idle, in the depot.
    pub(super) fn new(capacity: usize) -> Self {
        assert!((1..=MOST).contains(&capacity), "a pool of {capacity} objects: from 1 to {MOST} is possible");
        let magazines = capacity.min(MAGAZINES).next_power_of_two();
        let idle = Self {
            magazines: (0..magazines).map(|_| Stack::new()).collect(),
            depot: Stack::new(),
            cold: Stack::new(),
            next: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
            high_water: AtomicUsize::new(0),
            misses: AtomicUsize::new(0),
        };
        for index in (0..capacity as u32).rev() {
            let put = idle.put_warm(index);
            debug_assert_eq!(put, Ok(()));
        }
        idle
    }

    pub(super) fn capacity(&self) -> usize {
        self.next.len()
    }

    /// An object for the thread of this number; `None`, and one more miss, when all are handed out.
    #[inline]
    pub(super) fn take(&self, thread: usize) -> Option<u32> {
        let index = match self.magazine(thread).take(&self.next) {
            Some(index) => index,
            None => self.take_elsewhere()?,
        };
        self.raise_high_water(thread);
        Some(index)
    }

    #[inline(never)]
    fn take_elsewhere(&self) -> Option<u32> {
        loop {
            let found = self.depot.take(&self.next).or_else(|| self.cold.take(&self.next));
            if let Some(index) = found.or_else(|| self.take_from_a_magazine()) {
                return Some(index);
            }
            if self.settled_idle() == Some(0) {
                self.misses.fetch_add(1, Relaxed);
                return None;
            }
            // Somebody gave one back meanwhile.
            spin_loop();
        }
    }

    fn take_from_a_magazine(&self) -> Option<u32> {
        self.magazines.iter().find_map(|magazine| magazine.take(&self.next))
    }

    /// Gives the object back. `Err` when the pool is closed.
    ///
    /// # Safety
    /// `idle` is alive at least until the object is back, after which another thread may free it.
    #[inline]
    pub(super) unsafe fn give_back(idle: NonNull<Self>, thread: usize, index: u32) -> Result<(), Not> {
        // SAFETY: alive by the caller's word; these references are used no more once the object is in a stack.
        let (magazine, depot, next) = unsafe {
            let idle = idle.as_ref();
            (NonNull::from(idle.magazine(thread)), NonNull::from(&idle.depot), NonNull::from(&*idle.next))
        };
        // SAFETY: as above.
        match unsafe { Stack::put(magazine, next, index, MAGAZINE) } {
            // SAFETY: as above; the object is not back yet.
            Err(Not::Full) => unsafe { Stack::put(depot, next, index, MOST) },
            done => done,
        }
    }

    #[inline]
    fn magazine(&self, thread: usize) -> &Stack {
        &self.magazines[thread & (self.magazines.len() - 1)]
    }

    /// Takes an object that is not cold, to make it cold. It counts as handed out until then.
    pub(super) fn take_warm(&self) -> Option<u32> {
        self.depot.take(&self.next).or_else(|| self.take_from_a_magazine())
    }

    /// Takes an object that is cold, to make it warm.
    pub(super) fn take_cold(&self) -> Option<u32> {
        self.cold.take(&self.next)
    }

    pub(super) fn put_cold(&self, index: u32) -> Result<(), Not> {
        self.put(&self.cold, index)
    }

    pub(super) fn put_warm(&self, index: u32) -> Result<(), Not> {
        self.put(&self.depot, index)
    }

    fn put(&self, stack: &Stack, index: u32) -> Result<(), Not> {
        // SAFETY: both are borrowed.
        unsafe { Stack::put(NonNull::from(stack), NonNull::from(&*self.next), index, MOST) }
    }

    /// Nothing can be given back from now on. Returns how many objects were idle: they stay out of every stack.
    pub(super) fn close(&self) -> usize {
        self.stacks().for_each(Stack::close);
        self.stacks().map(|stack| std::iter::from_fn(|| stack.take(&self.next)).count()).sum()
    }

    /// Raises the high-water mark if it was passed by the take that just ended.
    ///
    /// Objects outside of depot and cold stack are at least as many as are handed out, and are known from two words that
    /// change rarely. Only when they are more than the mark does it pay to look at the magazines. Of threads that take at
    /// the same moment the last one sees the takes of all others: all of this is sequentially consistent.
    #[inline]
    fn raise_high_water(&self, thread: usize) {
        let outside = self.capacity().saturating_sub(self.depot.len() + self.cold.len());
        let surplus = outside.saturating_sub(self.high_water.load(Relaxed));
        if surplus > 0 {
            self.count_high_water(thread, surplus);
        }
    }

    #[inline(never)]
    fn count_high_water(&self, thread: usize, surplus: usize) {
        if !self.have_idle(surplus, thread) {
            self.high_water.fetch_max(self.outstanding(), SeqCst);
        }
    }

    /// Whether `count` idle objects were in magazines at some moment during this call. Looks only at as many as it takes,
    /// the caller's first. May say no if some of them changed.
    fn have_idle(&self, count: usize, thread: usize) -> bool {
        let mut sum = Look::default();
        for far in 0..self.magazines.len() {
            sum = sum + self.magazine(thread + far).look();
            if sum.len >= count {
                return sum == (0..=far).map(|far| self.magazine(thread + far).look()).sum();
            }
        }
        false
    }

    /// Objects handed out. Exact if there is a moment at which nobody takes or gives back, otherwise operations that are
    /// under way may count or not.
    pub(super) fn outstanding(&self) -> usize {
        let settled = (0..TRIES).find_map(|_| self.settled_idle());
        self.capacity().saturating_sub(settled.unwrap_or_else(|| self.look().len))
    }

    /// Idle objects at some moment during this call; `None` when they changed.
    ///
    /// Two looks at all stacks, one after the other: how often a stack was put into and taken from only grows, so if the
    /// sums are the same, so is every stack, and at the moment between the two looks all of them were like that.
    fn settled_idle(&self) -> Option<usize> {
        let look = self.look();
        (look == self.look()).then_some(look.len)
    }

    fn look(&self) -> Look {
        self.stacks().map(Stack::look).sum()
    }

    pub(super) fn high_water(&self) -> usize {
        self.high_water.load(Relaxed)
    }

    pub(super) fn misses(&self) -> usize {
        self.misses.load(Relaxed)
    }

    pub(super) fn cold(&self) -> usize {
        self.cold.len()
    }

    fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.magazines.iter().chain([&self.depot, &self.cold])
    }
}
