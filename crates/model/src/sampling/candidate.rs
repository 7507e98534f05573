//! A token that may be drawn.

use std::cmp::Ordering;

/// A token and its weight, `exp((logit - highest) / temperature)`: between 0 and 1, 1 for the likeliest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) weight: f32,
}

/// The likelier first, the lower id among equals.
pub(super) fn likelier(a: &Candidate, b: &Candidate) -> Ordering {
    b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id))
}
