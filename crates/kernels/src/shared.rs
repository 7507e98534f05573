//! A mutable slice that the workers of a team write disjoint parts of.

use std::marker::PhantomData;

/// A slice whose borrow checker is the caller: workers take parts that do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a `&mut [T]` whose parts go to several threads; every access is `unsafe` and says why no two
// threads touch one element.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Stands for `slice` as long as it is borrowed.
    #[inline]
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// `len` elements from `at`.
    ///
    /// # Panics
    /// When they are not all inside.
    ///
    /// # Safety
    /// No other thread may touch these elements while the part lives.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "disjointness is the caller's proof, that is what this type is for"
    )]
    pub(crate) unsafe fn part(&self, at: usize, len: usize) -> &mut [T] {
        assert!(at <= self.len && len <= self.len - at, "part {at}+{len} of {}", self.len);
        // SAFETY: inside the slice by the assertion; exclusive by the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }

    /// Writes the element at `at`: where the elements of several threads lie between each other, none can take a part.
    ///
    /// # Panics
    /// When it is not inside.
    ///
    /// # Safety
    /// No other thread may touch this element meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, at: usize, value: T)
    where
        T: Copy,
    {
        assert!(at < self.len, "element {at} of {}", self.len);
        // SAFETY: inside the slice by the assertion; this thread's by the caller's word.
        unsafe { self.start.add(at).write(value) };
    }
}

impl<'a> Shared<'a, u16> {
    /// The same memory as bytes.
    #[inline(always)]
    pub(crate) fn bytes(self) -> Shared<'a, u8> {
        Shared { start: self.start.cast(), len: 2 * self.len, life: PhantomData }
    }
}
