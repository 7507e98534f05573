//! [`AlignedBuf`]: zeroed numbers on a cache line border.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::Number;

/// A cache line, and the widest vector register.
const LINE: usize = 64;
/// The huge page of x86-64, and of aarch64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 << 20;
/// From this many bytes on a buffer starts on a huge page border: up to half of a page of address space is then little.
const LARGE: usize = 2 * HUGE_PAGE;
/// The alignment asked of the allocator. More would make the standard allocator write the zeros itself, touching every
/// page, where it otherwise takes untouched pages from the system. So the border is found inside a longer block.
const BLOCK_ALIGN: usize = 16;

/// The allocator could not give this many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: usize,
}

/// A fixed number of plain numbers, zero at first, starting at a multiple of 64 bytes, or of 2 MiB when there are at
/// least 4 MiB of them (with the advice, on Linux, to use huge pages). The system fills pages in when they are touched.
pub struct AlignedBuf<T: Number> {
    /// The first number. `len` numbers from here on lie inside `block`.
    start: NonNull<T>,
    len: usize,
    /// What was allocated, shared with the buffers carved from it; `None` when nothing was.
    block: Option<Arc<Block>>,
}

/// An allocation, freed with the last buffer in it.
struct Block {
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to no thread; the buffers say who may touch which part of it.
unsafe impl Send for Block {}
// SAFETY: nothing is reached through a shared block.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody has it any more.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

// SAFETY: the buffer alone has its numbers, as a `Box<[T]>` would, and `T` is plain data; the block behind them is only
// counted and freed.
unsafe impl<T: Number> Send for AlignedBuf<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for AlignedBuf<T> {}

impl<T: Number> AlignedBuf<T> {
    /// `len` zeros.
    ///
    /// Aborts when there is no memory, as `Vec` does; for lengths that come from a file see [`AlignedBuf::try_zeroed`].
    pub fn zeroed(len: usize) -> Self {
        match Self::try_zeroed(len) {
            Ok(buffer) => buffer,
            Err(OutOfMemory { bytes }) => {
                handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
            }
        }
    }

    /// `len` zeros.
    ///
    /// # Errors
    /// When the allocator refuses, or `len` numbers are more than the address space.
    pub fn try_zeroed(len: usize) -> Result<Self, OutOfMemory> {
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes == 0 {
            return Ok(Self::empty());
        }
        let align = if bytes >= LARGE { HUGE_PAGE } else { LINE };
        let refused = OutOfMemory { bytes };
        let padded = bytes.checked_add(align - BLOCK_ALIGN).ok_or(refused)?;
        let layout = Layout::from_size_align(padded, BLOCK_ALIGN).map_err(|_| refused)?;
        // SAFETY: `padded` is at least `bytes`, which is not 0.
        let address = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let skip = address.addr().get().next_multiple_of(align) - address.addr().get();
        // SAFETY: the block starts at a multiple of `BLOCK_ALIGN`, so `skip` is at most `align - BLOCK_ALIGN`, by which
        // the block is longer than `bytes`.
        let start = unsafe { address.add(skip) };
        if bytes >= LARGE {
            advise_huge_pages(start, bytes);
        }
        Ok(Self { start: start.cast(), len, block: Some(Arc::new(Block { address, layout })) })
    }

    /// Takes the first `len` numbers off as a buffer of their own, which starts where this one did; this one goes on at
    /// the next multiple of 64 bytes. Many small buffers carved from a large one share its huge pages.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn carve(&mut self, len: usize) -> Self {
        assert!(len <= self.len, "{len} numbers from {}", self.len);
        let carved = Self { start: self.start, len, block: self.block.clone() };
        let taken = len.next_multiple_of(LINE / size_of::<T>()).min(self.len);
        // SAFETY: `taken` numbers from the start on are inside the block, or end where it ends.
        self.start = unsafe { self.start.add(taken) };
        self.len -= taken;
        carved
    }

    /// Where the numbers begin. Whoever reaches them through this must not use the buffer meanwhile.
    pub(crate) fn start(&mut self) -> NonNull<T> {
        self.start
    }

    /// How many there are, without touching them.
    pub(crate) fn count(&self) -> usize {
        self.len
    }

    fn empty() -> Self {
        #[repr(align(64))]
        struct Line;
        Self { start: NonNull::<Line>::dangling().cast(), len: 0, block: None }
    }
}

/// Without huge pages a pass over a gigabyte of weights misses the TLB at every fourth kilobyte. Only advice: a system
/// that has none to give serves plain pages.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    let (start, whole_pages) = (start.as_ptr().cast(), bytes - bytes % HUGE_PAGE);
    // SAFETY: the range is whole pages inside a block that was just allocated; this advice never changes what they hold.
    let _refused = unsafe { madvise(start, whole_pages, Advice::LinuxHugepage) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge_pages(_start: NonNull<u8>, _bytes: usize) {}

impl<T: Number> Deref for AlignedBuf<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` numbers from `start` on lie inside the block (or `len` is 0 and `start` is aligned); they were
        // zeroed, so they are initialized; the border they start at is a multiple of every number's alignment.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for AlignedBuf<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the buffer is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> Default for AlignedBuf<T> {
    /// An empty buffer, which allocates nothing.
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Number> From<&[T]> for AlignedBuf<T> {
    fn from(numbers: &[T]) -> Self {
        let mut buffer = Self::zeroed(numbers.len());
        buffer.copy_from_slice(numbers);
        buffer
    }
}

impl<T: Number> Clone for AlignedBuf<T> {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

impl<T: Number> PartialEq for AlignedBuf<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Number> std::fmt::Debug for AlignedBuf<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuf")
            .field("len", &self.len)
            .field("type", &std::any::type_name::<T>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ViewError, view, view_mut};

    fn check<T: Number>(len: usize, align: usize) {
        let mut buffer = AlignedBuf::<T>::zeroed(len);
        assert_eq!(buffer.len(), len);
        assert_eq!(buffer.as_ptr().addr() % align, 0, "{len} of {}", std::any::type_name::<T>());
        assert!(buffer.iter().all(|number| *number == T::default()));
        let pattern = |index: usize| (index % 251) as u8;
        for (index, byte) in
            view_mut::<T, u8>(&mut buffer).expect("bytes fit anywhere").iter_mut().enumerate()
        {
            *byte = pattern(index);
        }
        let copy = buffer.clone();
        drop(buffer);
        let bytes = view::<T, u8>(&copy).expect("bytes fit anywhere");
        assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == pattern(index)));
    }

    #[test]
    fn starts_on_a_line_and_is_zero() {
        for len in [0, 1, 15, 16, 17, 63, 64, 65, if cfg!(miri) { 130 } else { 4096 }] {
            check::<u8>(len, 64);
            check::<i8>(len, 64);
            check::<u16>(len, 64);
            check::<i32>(len, 64);
            check::<u64>(len, 64);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "megabytes are slow under Miri")]
    fn starts_on_a_huge_page_when_large() {
        for (len, align) in [(LARGE - 1, LINE), (LARGE, HUGE_PAGE), (8 * LARGE + 1, HUGE_PAGE)] {
            let mut buffer = AlignedBuf::<u8>::zeroed(len);
            assert_eq!(buffer.as_ptr().addr() % align, 0, "{len} bytes");
            assert_eq!((buffer[0], buffer[len - 1]), (0, 0));
            buffer[len - 1] = 1;
        }
    }

    #[test]
    fn carved_parts_are_apart_and_outlive_the_rest() {
        let mut whole = AlignedBuf::<u16>::zeroed(200);
        let mut parts: Vec<_> = [3, 0, 40, 70].map(|len| whole.carve(len)).into();
        assert_eq!(whole.len(), 200 - 32 - 64 - 96);
        drop(whole);
        for (i, part) in parts.iter_mut().enumerate() {
            assert_eq!(part.as_ptr().addr() % LINE, 0);
            assert!(part.iter().all(|n| *n == 0), "part {i} overlaps another");
            part.fill(i as u16 + 1);
        }
        let last = parts.pop().unwrap();
        drop(parts);
        assert!(last.iter().all(|n| *n == 4));
    }

    #[test]
    fn refuses_more_than_there_is() {
        for len in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 4] {
            let bytes = len.saturating_mul(4);
            assert_eq!(AlignedBuf::<u32>::try_zeroed(len).err(), Some(OutOfMemory { bytes }));
        }
    }

    #[test]
    fn views_check_alignment_and_length() {
        let mut buffer = AlignedBuf::<u8>::zeroed(16);
        view_mut::<u8, u32>(&mut buffer).expect("aligned and whole")[1] = 0x0102_0304;
        assert_eq!(buffer[4..8], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!(view::<u8, u32>(&buffer[4..8]), Ok(&[0x0102_0304][..]));
        assert_eq!(view::<u8, f32>(&buffer[2..6]), Err(ViewError::Misaligned { off: 2, align: 4 }));
        assert_eq!(view::<u8, u64>(&buffer[8..15]), Err(ViewError::Length { bytes: 7, size: 8 }));
        assert_eq!(view::<u8, u64>(&buffer[..0]), Ok(&[][..]));
        assert_eq!(view::<u8, u64>(&AlignedBuf::<u8>::default()), Ok(&[][..]));
    }
}
