//! What a request has of a pool.

use plimsoll_pool::{Pool, Pooled, Reset};
use std::ops::{Deref, DerefMut};

/// An object of a pool, or one made because the pool had none.
pub(crate) enum Lent<T: Reset> {
    Pooled(Pooled<T>),
    Own(Box<T>),
}

impl<T: Reset> Lent<T> {
    pub(crate) fn of(pool: &Pool<T>, make: impl FnOnce() -> T) -> Self {
        pool.try_take().map_or_else(|| Self::Own(Box::new(make())), Self::Pooled)
    }
}

impl<T: Reset> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Pooled(object) => object,
            Self::Own(object) => object,
        }
    }
}

impl<T: Reset> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::Pooled(object) => object,
            Self::Own(object) => object,
        }
    }
}
