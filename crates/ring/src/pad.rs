//! Keeping two hot words off each other's cache line.

use std::ops::Deref;

/// A value alone on its cache line, and on the neighbour that x86-64 and big ARM cores fetch with it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
