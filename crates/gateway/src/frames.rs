//! Server-sent events, written into one reused buffer.

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_api::error::Error;
use plimsoll_api::openai::response::{Answer, ErrorBody, UsageBody};
use plimsoll_pool::{Pool, Pooled, Reset};
use serde::Serialize;
use std::ops::{Deref, DerefMut};

/// Bytes of a buffer of frames. A frame is 300 or so; whatever is sent by the time the buffer is full makes room in it.
const FRAMES: usize = 4 << 10;

const FINGERPRINT: &str = concat!("plimsoll-", env!("CARGO_PKG_VERSION"));

/// What every chunk of an answer begins with.
pub struct Head {
    pub id: String,
    pub created: u64,
    pub model: String,
}

impl Head {
    /// An answer or a chunk with these choices.
    pub fn answer<C>(
        &self,
        object: &'static str,
        choices: C,
        usage: Option<Option<UsageBody>>,
    ) -> Answer<'_, C> {
        let Self { id, created, model } = self;
        Answer { id, object, created: *created, model, system_fingerprint: FINGERPRINT, choices, usage }
    }
}

/// The memory frames are written into. What is sent of it stays part of it: once sent, there is room for more.
pub struct FrameBuffer(BytesMut);

impl Default for FrameBuffer {
    /// Without memory yet: most of a pool's buffers are for the day when all connections stream.
    fn default() -> Self {
        Self(BytesMut::new())
    }
}

impl Reset for FrameBuffer {
    fn reset(&mut self) {
        self.0.clear();
        if self.0.capacity() > FRAMES {
            self.0 = BytesMut::new();
        }
    }

    fn poison(&mut self) {
        self.0.extend_from_slice(b"poison");
    }

    fn is_clean(&self) -> bool {
        self.0.is_empty()
    }

    fn shrink(&mut self) {
        self.0 = BytesMut::new();
    }
}

/// A buffer of the pool; or of a stream's own, when the pool has none.
pub enum Buffer {
    Pooled(Pooled<FrameBuffer>),
    Own(FrameBuffer),
}

impl Buffer {
    /// A buffer with room for [`FRAMES`] bytes.
    pub fn of(pool: &Pool<FrameBuffer>) -> Self {
        let mut buffer = pool.try_take().map_or_else(|| Self::Own(FrameBuffer::default()), Self::Pooled);
        // Takes its old memory again, if all that was sent of it is gone.
        buffer.reserve(FRAMES);
        buffer
    }
}

impl Deref for Buffer {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        match self {
            Self::Pooled(buffer) => &buffer.0,
            Self::Own(buffer) => &buffer.0,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut BytesMut {
        match self {
            Self::Pooled(buffer) => &mut buffer.0,
            Self::Own(buffer) => &mut buffer.0,
        }
    }
}

/// Frames that have not been sent.
pub struct Frames {
    head: Head,
    object: &'static str,
    /// What chunks say of the usage: nothing, or `null` until the last.
    usage: Option<Option<UsageBody>>,
    buffer: Buffer,
}

impl Frames {
    /// Chunks are called `object`; with `include_usage` each has a field `usage`.
    pub fn new(head: Head, object: &'static str, include_usage: bool, buffer: Buffer) -> Self {
        Self { head, object, usage: include_usage.then_some(None), buffer }
    }

    /// A chunk with one choice.
    pub fn choice<C: Serialize>(&mut self, choice: C) {
        let answer = self.head.answer(self.object, [choice], self.usage);
        write(&mut self.buffer, &answer);
    }

    /// A chunk without choices and with the usage, if those were asked for.
    pub fn usage(&mut self, usage: UsageBody) {
        if self.usage.is_some() {
            let none: [(); 0] = [];
            write(&mut self.buffer, &self.head.answer(self.object, none, Some(Some(usage))));
        }
    }

    /// An error in the midst of a stream.
    pub fn error(&mut self, error: &Error) {
        write(&mut self.buffer, &ErrorBody::from(error));
    }

    /// The end.
    pub fn done(&mut self) {
        self.buffer.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// A sign of life, which clients skip.
    pub fn comment(&mut self) {
        self.buffer.extend_from_slice(b": waiting\n\n");
    }

    /// Bytes written and not taken.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Takes what was written.
    pub fn take(&mut self) -> Option<Bytes> {
        (!self.buffer.is_empty()).then(|| self.buffer.split().freeze())
    }
}

fn write<T: Serialize>(buffer: &mut BytesMut, value: &T) {
    let before = buffer.len();
    buffer.extend_from_slice(b"data: ");
    if let Err(error) = serde_json::to_writer((&mut *buffer).writer(), value) {
        // Our shapes always serialize; half a frame must not be sent if one ever did not.
        tracing::error!(%error, "a chunk could not be written as JSON");
        buffer.truncate(before);
        return;
    }
    buffer.extend_from_slice(b"\n\n");
}
