//! Frames of varying size inside one block of memory, one producer, one consumer.
//!
//! [`ring`] makes the two ends. The writer asks for a [`Grant`] of so many bytes, writes into it and commits what it used;
//! the reader looks at the oldest [`Frame`] where it lies and releases it. Nothing is copied and nothing allocates.
//!
//! In the block, positions being bytes: a frame is a header of 8 bytes (the payload's length), the payload, and padding
//! up to the next multiple of 8. Frames never wrap. One that does not fit before the end of the block starts at its
//! beginning, and a header that says [`SKIP`] covers what is left at the end; it is published together with the frame
//! after it, so the reader never sees one without the other.
//!
//! The order between the two sides is that of `spsc::cursor`, which `loom` checks for the value rings; the bytes
//! themselves are checked by Miri.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::task::Waker;

use crate::capacity::slots_for;
use crate::spsc::cursor::{Cursors, ReadCursor, WriteCursor};
use crate::sync::Arc;

/// Bytes of a header, and what everything is aligned to.
const HEADER: usize = size_of::<u64>();
/// In place of a payload length: the rest of the block is empty.
const SKIP: u64 = u64::MAX;

/// Bytes of block that a payload of `len` bytes takes.
fn framed(len: usize) -> usize {
    HEADER + len.next_multiple_of(HEADER)
}

struct Shared {
    cursors: Cursors,
    block: Box<[UnsafeCell<u64>]>,
}

// SAFETY: bytes are plain data, and each is touched only by the side that `cursors` says owns its position.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Where the byte of `position` lies. Valid up to the end of the block.
    fn at(&self, position: usize) -> *mut u8 {
        // SAFETY: the block has as many bytes as one lap has positions.
        unsafe { self.block.as_ptr().cast_mut().cast::<u8>().add(self.offset(position)) }
    }

    fn offset(&self, position: usize) -> usize {
        position & self.cursors.mask()
    }

    fn to_end(&self, position: usize) -> usize {
        self.cursors.capacity() - self.offset(position)
    }

    /// # Safety
    /// `position` is a multiple of 8 and the caller owns its 8 bytes.
    unsafe fn set_header(&self, position: usize, header: u64) {
        // SAFETY: aligned, inside the block (whose size is a multiple of 8 too), and nobody else touches it.
        unsafe { self.at(position).cast::<u64>().write(header) };
    }

    /// # Safety
    /// As [`Shared::set_header`].
    unsafe fn header(&self, position: usize) -> u64 {
        // SAFETY: aligned, inside the block, and nobody writes to it; the block was zeroed, so it is initialized.
        unsafe { self.at(position).cast::<u64>().read() }
    }
}

/// A ring over a block of `capacity` bytes, rounded up to a power of two and to at least 64.
///
/// # Panics
/// When `capacity` is 0.
pub fn ring(capacity: usize) -> (ByteWriter, ByteReader) {
    let capacity = slots_for(capacity).max(64);
    let shared = Arc::new(Shared {
        cursors: Cursors::new(capacity),
        block: (0..capacity / HEADER).map(|_| UnsafeCell::new(0)).collect(),
    });
    let writer = ByteWriter { shared: Arc::clone(&shared), cursor: WriteCursor::default() };
    (writer, ByteReader { shared, cursor: ReadCursor::default() })
}

/// Why there is no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Not now: the reader has to release frames first.
    Full,
    /// Never: the frame is longer than [`ByteWriter::max_frame`].
    TooLong,
}

/// The end that frames go into. Dropping it wakes the reader.
pub struct ByteWriter {
    shared: Arc<Shared>,
    cursor: WriteCursor,
}

impl ByteWriter {
    /// The longest payload there can be, in bytes: with its header it takes half of the block, so that wherever the
    /// last frame ended there is room for it once the ring is empty.
    pub fn max_frame(&self) -> usize {
        self.shared.cursors.capacity() / 2 - HEADER
    }

    /// `len` contiguous bytes to write to, 8-byte aligned. They hold whatever was there a lap ago. A grant that is
    /// dropped without [`Grant::commit`] leaves the ring as it was.
    ///
    /// # Errors
    /// When there is no room now, or never will be.
    pub fn grant(&mut self, len: usize) -> Result<Grant<'_>, Refused> {
        if len > self.max_frame() {
            return Err(Refused::TooLong);
        }
        let to_end = self.shared.to_end(self.cursor.tail);
        let skipped = if framed(len) > to_end { to_end } else { 0 };
        if !self.cursor.has_room(&self.shared.cursors, skipped + framed(len)) {
            return Err(Refused::Full);
        }
        if skipped > 0 {
            // SAFETY: frames are multiples of 8 bytes, and the position was just found to be free.
            unsafe { self.shared.set_header(self.cursor.tail, SKIP) };
        }
        Ok(Grant { skipped, len, writer: self })
    }

    /// Whether the reader was dropped: nobody will read what is written.
    pub fn is_abandoned(&self) -> bool {
        self.shared.cursors.is_consumer_gone()
    }
}

impl Drop for ByteWriter {
    fn drop(&mut self) {
        self.shared.cursors.producer_leaves();
    }
}

/// Bytes to write to, not visible to the reader before they are committed.
#[must_use = "dropping a grant gives it back unused"]
pub struct Grant<'a> {
    writer: &'a mut ByteWriter,
    skipped: usize,
    len: usize,
}

impl Grant<'_> {
    /// Publishes the first `used` bytes as one frame and wakes the reader.
    ///
    /// # Panics
    /// When `used` is more than was granted.
    pub fn commit(self, used: usize) {
        assert!(used <= self.len, "{used} bytes cannot be committed of {} granted", self.len);
        let ByteWriter { shared, cursor } = self.writer;
        // SAFETY: granted, so free, and a multiple of 8 as every frame is.
        unsafe { shared.set_header(cursor.tail.wrapping_add(self.skipped), used as u64) };
        cursor.publish(&shared.cursors, self.skipped + framed(used));
        shared.cursors.wake();
    }

    fn payload(&self) -> *mut u8 {
        self.writer.shared.at(self.writer.cursor.tail.wrapping_add(self.skipped + HEADER))
    }
}

impl Deref for Grant<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the grant's `len` bytes are free, so the producer's alone; they do not cross the end of the block, and
        // the block was zeroed, so they are initialized. A grant of 0 bytes may point one past the end, which is allowed.
        unsafe { std::slice::from_raw_parts(self.payload(), self.len) }
    }
}

impl DerefMut for Grant<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the grant is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.payload(), self.len) }
    }
}

/// The end that frames come out of.
pub struct ByteReader {
    shared: Arc<Shared>,
    cursor: ReadCursor,
}

impl ByteReader {
    /// The oldest frame, where it lies. It stays the oldest until it is [released](Frame::release).
    pub fn read(&mut self) -> Option<Frame<'_>> {
        if !self.cursor.has_item(&self.shared.cursors) {
            return None;
        }
        // SAFETY: a published position, at which a header lies.
        let mut header = unsafe { self.shared.header(self.cursor.head) };
        if header == SKIP {
            self.cursor.advance(self.shared.to_end(self.cursor.head));
            // SAFETY: a frame is published together with the skip before it.
            header = unsafe { self.shared.header(self.cursor.head) };
        }
        Some(Frame { len: header as usize, reader: self })
    }

    /// Whether the writer was dropped: once the ring is empty too, nothing will come.
    pub fn is_abandoned(&self) -> bool {
        self.shared.cursors.is_producer_gone()
    }

    /// Leaves `waker` for the next commit. Look once more afterwards, before sleeping.
    pub fn register(&self, waker: &Waker) {
        self.shared.cursors.register(waker);
    }
}

impl Drop for ByteReader {
    fn drop(&mut self) {
        self.shared.cursors.consumer_leaves();
    }
}

/// One frame in the ring.
#[must_use = "a frame that is not released stays and is read again"]
pub struct Frame<'a> {
    reader: &'a mut ByteReader,
    len: usize,
}

impl Frame<'_> {
    /// Gives the frame's bytes back to the writer.
    pub fn release(self) {
        let ByteReader { shared, cursor } = self.reader;
        cursor.advance(framed(self.len));
        cursor.release(&shared.cursors);
    }
}

impl Deref for Frame<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let payload = self.reader.shared.at(self.reader.cursor.head.wrapping_add(HEADER));
        // SAFETY: a published frame of this length lies here, contiguous and initialized; the writer leaves it alone
        // until it is released, which needs the frame by value.
        unsafe { std::slice::from_raw_parts(payload, self.len) }
    }
}
