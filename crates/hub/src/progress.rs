//! Who is told how far a pull is.

/// Hears how far a pull is. Called from the pulling thread, a few times per megabyte.
pub trait Progress {
    /// A stretch of work begins ("download model.safetensors"), of `total` bytes if known, `done` of them done before.
    fn begin(&self, what: &str, done: u64, total: Option<u64>);
    /// Bytes done so far in this stretch.
    fn at(&self, done: u64);
    /// The stretch is over, well or not.
    fn end(&self);
    /// Something worth a line of its own ("waiting for process 12").
    fn note(&self, text: &str);
}

/// Tells nobody.
impl Progress for () {
    fn begin(&self, _: &str, _: u64, _: Option<u64>) {}
    fn at(&self, _: u64) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}
