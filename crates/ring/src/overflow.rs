//! What a push into a full ring does.

/// The policy of one push into a [`Ring`](crate::Ring) that may be full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Wait for room: spin for about a microsecond, then park the thread. Waits for ever when nobody pops, so this is for
    /// threads that may stand still; never for an async task.
    Block,
    /// Hand the new item back.
    Reject,
    /// Take the oldest item out, hand it back, and store the new one.
    EvictOldest,
}

/// What became of a push. An item that is not in the ring is in here: nothing is ever dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a rejected or evicted item must be answered"]
pub enum Pushed<T> {
    /// The item is in the ring.
    Stored,
    /// The item is in the ring, and this one, the oldest, no longer is.
    Evicted(T),
    /// The ring is full and this, the new item, is not in it.
    Rejected(T),
}

impl<T> Pushed<T> {
    /// The item that is left over, if any: the evicted or the rejected one.
    pub fn left_over(self) -> Option<T> {
        match self {
            Self::Stored => None,
            Self::Evicted(item) | Self::Rejected(item) => Some(item),
        }
    }
}
