//! [`Arena`]: memory for one step, handed out from front to back and taken back all at once.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::{AlignedBuf, Number};

/// A slice starts on a cache line, so that two never share one.
const LINE: usize = 64;
/// What taken-back memory holds in a checked arena: a NaN as `f32` and `f64`, far out of range as an index.
const POISON: u8 = 0xff;

/// The arena had no room for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the arena has no room for {wanted} bytes more: {used} of {capacity} are taken")]
pub struct ArenaFull {
    /// Bytes asked for.
    pub wanted: usize,
    /// Bytes taken already.
    pub used: usize,
    /// Bytes there are.
    pub capacity: usize,
}

/// A fixed block of memory from which one step takes slices of numbers. Nothing is given back on its own:
/// [`Arena::reset`] takes all of it back when the step is over, and the borrow checker sees to it that no slice is left.
///
/// ```
/// let mut arena = plimsoll_pool::Arena::new(1 << 10);
/// let (scores, ids) = (arena.slice::<f32>(10)?, arena.slice::<u32>(20)?);
/// scores[9] = 1.5;
/// ids[0] = 7;
/// arena.reset();
/// assert_eq!((arena.counts().used, arena.counts().high_water), (0, 192));
/// # Ok::<(), plimsoll_pool::ArenaFull>(())
/// ```
pub struct Arena {
    /// Only to be freed: the memory is reached through `start` alone.
    memory: AlignedBuf<u8>,
    start: NonNull<u8>,
    used: Cell<usize>,
    /// What the step asked for so far, refused slices included.
    wanted: Cell<usize>,
    high_water: Cell<usize>,
    refused: Cell<usize>,
    is_checked: bool,
}

// SAFETY: the arena owns its memory, plain bytes. (It is not `Sync`: two threads could be handed the same bytes.)
unsafe impl Send for Arena {}

/// The counts of an [`Arena`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaCounts {
    /// Bytes there are.
    pub capacity: usize,
    /// Bytes taken by this step, each slice rounded up to whole cache lines.
    pub used: usize,
    /// The most that one step ever asked for, in bytes, refused slices included: what the capacity should be.
    pub high_water: usize,
    /// How often there was no room.
    pub refused: usize,
}

impl Arena {
    /// An arena of `capacity` bytes, rounded up to whole cache lines. In debug builds memory that was taken back is
    /// poisoned.
    pub fn new(capacity: usize) -> Self {
        let mut memory = AlignedBuf::zeroed(capacity.next_multiple_of(LINE));
        let start = memory.start();
        let [used, wanted, high_water, refused] = [0; 4].map(Cell::new);
        Self { memory, start, used, wanted, high_water, refused, is_checked: cfg!(debug_assertions) }
    }

    /// `len` zeros.
    ///
    /// # Errors
    /// When there is no room.
    pub fn slice<T: Number>(&self, len: usize) -> Result<&mut [T], ArenaFull> {
        let slice = self.stale(len)?;
        slice.fill(T::default());
        Ok(slice)
    }

    /// `len` numbers of any value, for who writes all of them before reading.
    ///
    /// # Errors
    /// When there is no room.
    #[expect(
        clippy::mut_from_ref,
        reason = "every call hands out other bytes, until `reset` has the arena alone"
    )]
    pub fn stale<T: Number>(&self, len: usize) -> Result<&mut [T], ArenaFull> {
        let at = self.bump(len.saturating_mul(size_of::<T>()))?;
        // SAFETY: `at` is inside the block, and so are the `len` numbers from there on (`bump`). It is a multiple of 64
        // from a start that is one too, so aligned for any number. The bytes are initialized and any value is a `T`. No
        // other slice has them: `used` has moved past them and moves back only in `reset`, which borrows the arena alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.add(at).cast::<T>().as_ptr(), len) })
    }

    /// Takes whole cache lines for `bytes`; says where they start.
    fn bump(&self, bytes: usize) -> Result<usize, ArenaFull> {
        let (used, capacity) = (self.used.get(), self.memory_len());
        let lines = bytes.checked_next_multiple_of(LINE).unwrap_or(usize::MAX);
        self.wanted.set(self.wanted.get().saturating_add(lines));
        self.high_water.set(self.high_water.get().max(self.wanted.get()));
        if lines > capacity - used {
            self.refused.set(self.refused.get() + 1);
            return Err(ArenaFull { wanted: bytes, used, capacity });
        }
        self.used.set(used + lines);
        Ok(used)
    }

    /// Takes everything back: the step is over.
    pub fn reset(&mut self) {
        let used = self.used.replace(0);
        self.wanted.set(0);
        if self.is_checked {
            // SAFETY: the first `used` bytes are inside the block, and as the arena is borrowed alone no slice is left.
            unsafe { self.start.write_bytes(POISON, used) };
        }
    }

    /// The counts, for gauges.
    pub fn counts(&self) -> ArenaCounts {
        ArenaCounts {
            capacity: self.memory_len(),
            used: self.used.get(),
            high_water: self.high_water.get(),
            refused: self.refused.get(),
        }
    }

    fn memory_len(&self) -> usize {
        self.memory.count()
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Arena").field(&self.counts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes slices of these lengths, of bytes and of doubles in turn, and checks that each is where it should be.
    fn check(capacity: usize, lengths: &[usize], fit: usize) {
        let mut arena = Arena::new(capacity);
        for step in 0..3 {
            let mut slices = Vec::new();
            for (at, len) in lengths.iter().copied().enumerate() {
                let (bytes, start) = if at % 2 == 0 {
                    (len, arena.slice::<u8>(len).map(|slice| fill(slice, at as u8)))
                } else {
                    (len.saturating_mul(8), arena.slice::<f64>(len).map(|slice| fill(slice, at as f64)))
                };
                match start {
                    Ok(start) => slices.push((start, bytes)),
                    Err(full) => assert_eq!((full.wanted, full.capacity), (bytes, arena.counts().capacity)),
                }
            }
            assert_eq!(slices.len(), fit, "{lengths:?} in step {step}");
            assert!(slices.iter().all(|(start, _)| start % LINE == 0));
            let apart = |pair: &[(usize, usize)]| pair[0].0 + pair[0].1 <= pair[1].0;
            assert!(slices.windows(2).all(apart), "no two overlap");
            arena.reset();
            let counts = arena.counts();
            assert_eq!((counts.used, counts.refused), (0, (step + 1) * (lengths.len() - fit)));
        }
    }

    fn fill<T: Number>(slice: &mut [T], value: T) -> usize {
        assert!(slice.iter().all(|number| *number == T::default()), "a slice is zero at first");
        slice.fill(value);
        slice.as_ptr().addr()
    }

    #[test]
    fn slices_lie_apart_until_it_is_full() {
        check(640, &[1, 8, 64, 8, 65], 5);
        check(600, &[640], 1);
        check(0, &[0, 0, 1], 2);
        check(128, &[65, 1, 0], 2);
        check(128, &[usize::MAX, usize::MAX / 8 + 1, 128], 1);
    }

    #[test]
    fn the_high_water_mark_is_what_a_step_asked_for() {
        let mut arena = Arena::new(256);
        for (len, is_room, high_water) in
            [(10, true, 64), (128, true, 128), (300, false, 320), (64, true, 320)]
        {
            assert_eq!(arena.stale::<u8>(len).is_ok(), is_room);
            assert_eq!(arena.counts().high_water, high_water);
            arena.reset();
        }
    }

    #[test]
    fn what_was_taken_back_is_poisoned_in_debug_builds() {
        let mut arena = Arena::new(64);
        arena.is_checked = true;
        arena.slice::<f32>(4).expect("there is room")[3] = 1.0;
        arena.reset();
        assert!(arena.stale::<f32>(4).expect("there is room").iter().all(|number| number.is_nan()));
    }
}
