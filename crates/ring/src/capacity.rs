//! What a capacity may be.

/// Slots a ring gets that was asked for `wanted`.
///
/// # Panics
/// When `wanted` is 0 or beyond a quarter of the address space.
pub(crate) fn slots_for(wanted: usize) -> usize {
    assert!(wanted > 0, "a ring needs room for at least one item, and 0 was asked for");
    assert!(wanted <= usize::MAX / 8, "a ring of {wanted} slots cannot be indexed");
    wanted.next_power_of_two()
}
