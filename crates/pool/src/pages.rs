//! Giving pages back to the system, and getting them again.

use std::ops::Range;

use crate::{AlignedBuf, Number};

impl<T: Number> AlignedBuf<T> {
    /// Zeros a range of numbers and gives the pages that lie wholly inside it back to the system, which fills them in again
    /// (with zeros) when they are touched. Returns the bytes of those pages. 0 when the range holds no whole page, or the
    /// system does not take pages back; the numbers are zero all the same.
    ///
    /// Costs a system call, and page faults later: for ranges that will be idle for seconds, of many pages. Only part of a
    /// huge page is given back by splitting it.
    ///
    /// # Panics
    /// When the range is not inside the buffer.
    pub fn release_range(&mut self, range: Range<usize>) -> usize {
        let numbers = &mut self[range];
        let size = size_of::<T>();
        let (start, bytes) = (numbers.as_ptr().addr(), size_of_val(numbers));
        let page = system::page_size();
        let (first, last) = (start.next_multiple_of(page), (start + bytes) / page * page);
        if first >= last {
            numbers.fill(T::default());
            return 0;
        }
        // Both are at multiples of a page from address 0, of which `size` is a divisor, as it is of `start`.
        let (head, rest) = numbers.split_at_mut((first - start) / size);
        let (pages, tail) = rest.split_at_mut((last - first) / size);
        head.fill(T::default());
        tail.fill(T::default());
        if system::release(pages) {
            return last - first;
        }
        pages.fill(T::default());
        0
    }

    /// Writes one number of each page as it is, so that the system fills all pages in now, and on the NUMA node of the core
    /// that the calling thread runs on (unless a memory policy says otherwise): call it on a thread that is pinned there,
    /// before anybody else touches the buffer.
    pub fn touch(&mut self) {
        let stride = system::page_size() / size_of::<T>();
        for number in self.iter_mut().step_by(stride) {
            // SAFETY: a number that is borrowed for writing gets the value it has. (Volatile: otherwise it would be
            // optimized away.)
            unsafe { std::ptr::write_volatile(number, *number) };
        }
    }
}

/// Makes the standard allocator give free pages back to the system, in all of its arenas. Returns whether it could give
/// any. Takes a millisecond or so for a large heap, during which other threads that allocate may have to wait; the
/// system then has to fill pages in again. For a process that is short of memory.
///
/// Does nothing, and returns false, where the standard allocator is not glibc's. A binary with another global allocator asks
/// that one instead.
pub fn trim_heap() -> bool {
    system::trim_heap()
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use rustix::mm::{Advice, madvise};

    pub(super) fn page_size() -> usize {
        rustix::param::page_size()
    }

    /// Gives back the pages that `numbers` consists of; says whether it did. They are zero then.
    pub(super) fn release<T: crate::Number>(numbers: &mut [T]) -> bool {
        let (start, bytes) = (numbers.as_mut_ptr().cast(), size_of_val(numbers));
        // SAFETY: whole pages inside a buffer that is borrowed for writing. They are private and anonymous, as all memory
        // is that an allocator hands out, so that they read as zeros afterwards: numbers, and valid ones.
        // (`MADV_FREE` would leave the old values there until the system is short of memory.)
        unsafe { madvise(start, bytes, Advice::LinuxDontNeed) }.is_ok()
    }

    #[cfg(target_env = "gnu")]
    pub(super) fn trim_heap() -> bool {
        unsafe extern "C" {
            /// `malloc.h` of glibc.
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0) != 0
    }

    #[cfg(not(target_env = "gnu"))]
    pub(super) fn trim_heap() -> bool {
        false
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    pub(super) fn page_size() -> usize {
        4096
    }

    pub(super) fn release<T: crate::Number>(_numbers: &mut [T]) -> bool {
        false
    }

    pub(super) fn trim_heap() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(len: usize, range: Range<usize>, pages: Range<usize>) {
        let mut buffer = AlignedBuf::<u32>::zeroed(len);
        buffer.fill(7);
        let released = buffer.release_range(range.clone());
        assert!(pages.contains(&(released / system::page_size())), "{released} bytes of {range:?}");
        for (at, number) in buffer.iter().enumerate() {
            assert_eq!(*number, if range.contains(&at) { 0 } else { 7 }, "{at} of {range:?}");
        }
        buffer.fill(9);
        buffer.touch();
        assert!(buffer.iter().all(|number| *number == 9));
    }

    #[test]
    fn a_released_range_is_zero_and_the_rest_is_as_it_was() {
        let (page, is_linux) = (system::page_size() / 4, cfg!(all(target_os = "linux", not(miri))));
        let pages = |count: Range<usize>| if is_linux { count } else { 0..1 };
        check(10, 0..0, 0..1);
        check(0, 0..0, 0..1);
        check(10, 3..10, 0..1);
        check(page, 0..page, 0..2);
        check(5 * page, 1..5 * page - 1, pages(3..5));
        check(5 * page, page / 2..page, 0..2);
        if !cfg!(miri) {
            // Large enough for huge pages: starts on a page.
            let large = 4 * (1 << 20);
            check(large, 0..large, pages(4 * large / (4 * page)..4 * large / (4 * page) + 1));
            check(large, page + 1..large, pages(large / page - 2..large / page - 1));
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_range_outside_is_refused() {
        AlignedBuf::<u8>::zeroed(10).release_range(5..11);
    }

    #[test]
    fn trimming_is_possible_at_any_time() {
        trim_heap();
        let kept = vec![1_u8; 1 << 16];
        drop(vec![2_u8; 1 << 16]);
        trim_heap();
        assert!(kept.iter().all(|byte| *byte == 1));
    }
}
