//! Who is told how far a bench is.

/// Hears how far a bench is.
pub trait Progress {
    /// A run of so many requests begins.
    fn begin(&self, what: &str, requests: usize);
    /// So many are over, as many are under way, and as many of the former missed the promise.
    fn at(&self, over: usize, in_flight: usize, missed: usize);
    /// The run is over.
    fn end(&self);
    /// Something worth a line of its own.
    fn note(&self, text: &str);
}

/// Tells nobody.
impl Progress for () {
    fn begin(&self, _: &str, _: usize) {}
    fn at(&self, _: usize, _: usize, _: usize) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}
