//! [`Reset`]: what can be used again.

/// What can be used again.
///
/// Only [`Reset::reset`] has to be written. The other four are for objects that want to be checked or to give memory back.
pub trait Reset {
    /// Makes the object as good as new while keeping what it has allocated. Runs when the object is given back, on the
    /// thread that gives it back. Must not panic: an object whose reset panics is never handed out again and counts as
    /// outstanding for ever.
    fn reset(&mut self);

    /// Runs before [`Reset::reset`] in a checked pool: writes values into everything that `reset` makes new which nobody
    /// could take for new, so that whatever `reset` forgets shows in the next test that uses the object.
    fn poison(&mut self) {}

    /// Whether the object is as good as new. A checked pool asks before it hands the object out, and panics at a "no".
    fn is_clean(&self) -> bool {
        true
    }

    /// Gives back memory that the object can get again when it is used. Called on idle objects when memory is short.
    fn shrink(&mut self) {}

    /// Gets the memory back that [`Reset::shrink`] gave away, ahead of use.
    fn warm(&mut self) {}
}

impl<T> Reset for Vec<T> {
    fn reset(&mut self) {
        self.clear();
    }

    fn is_clean(&self) -> bool {
        self.is_empty()
    }

    fn shrink(&mut self) {
        self.shrink_to_fit();
    }
}

impl Reset for String {
    fn reset(&mut self) {
        self.clear();
    }

    fn is_clean(&self) -> bool {
        self.is_empty()
    }

    fn shrink(&mut self) {
        self.shrink_to_fit();
    }
}

impl<T: Reset + ?Sized> Reset for Box<T> {
    fn reset(&mut self) {
        (**self).reset();
    }

    fn poison(&mut self) {
        (**self).poison();
    }

    fn is_clean(&self) -> bool {
        (**self).is_clean()
    }

    fn shrink(&mut self) {
        (**self).shrink();
    }

    fn warm(&mut self) {
        (**self).warm();
    }
}
