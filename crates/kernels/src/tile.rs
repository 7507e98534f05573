//! The inner loops of a product: a few rows of activations times one or two panels of weights, held in registers.
//!
//! Every output is summed over its inputs in the same order whatever the tile, so a row's numbers do not depend on the
//! rows beside it.

use crate::activations::View;
use crate::ahead::Ahead;
use crate::simd::{LANES, Simd};

/// Most rows of a tile.
pub(crate) const MAX_ROWS: usize = 6;

/// Panels side by side in a tile, at most.
pub(crate) const MAX_PANELS: usize = 2;

/// Columns of the widest tile.
pub(crate) const MAX_COLUMNS: usize = MAX_PANELS * LANES;

/// f32 of a tile's product.
pub(crate) const TILE: usize = MAX_ROWS * MAX_COLUMNS;

/// One form of packed weights.
pub(crate) trait Panel: Copy {
    /// The panels after this one.
    fn next(self) -> Self;

    /// Writes the products of `R` rows with `P` panels, `out[row][MAX_COLUMNS]`.
    ///
    /// # Safety
    /// The panels and rows `row..row + R` of `x` are readable, and as wide as each other.
    unsafe fn tile<S: Simd, const R: usize, const P: usize>(
        self,
        s: S,
        x: &View,
        row: usize,
        to: (&mut Ahead, &mut [f32]),
    );
}

/// Writes a tile's sums.
#[inline(always)]
pub(crate) fn put<S: Simd, const R: usize, const P: usize>(s: S, sums: [[S::F; P]; R], out: &mut [f32]) {
    for r in 0..R {
        for p in 0..P {
            let to = &mut out[r * MAX_COLUMNS + p * LANES..][..LANES];
            // SAFETY: a vector's lanes.
            unsafe { s.store(to.as_mut_ptr(), sums[r][p]) };
        }
    }
}

/// Calls [`Panel::tile`] for a number of rows known only at run time; `panels` is 1 or 2.
///
/// A lone panel is the rare odd end of a matrix: its rows go one by one, which spares a third of the code.
///
/// # Safety
/// As [`Panel::tile`]; `rows` is from 1 to [`most_rows`].
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd, W: Panel>(
    s: S,
    weights: W,
    x: &View,
    (row, rows): (usize, usize),
    panels: usize,
    (ahead, out): (&mut Ahead, &mut [f32; TILE]),
) {
    // SAFETY: the caller's word.
    unsafe {
        match rows {
            1 => in_turn::<S, W, 1>(s, (weights, panels), x, row, (ahead, out)),
            2 => in_turn::<S, W, 2>(s, (weights, panels), x, row, (ahead, out)),
            3 if S::WIDE => in_turn::<S, W, 3>(s, (weights, panels), x, row, (ahead, out)),
            3 => weights.tile::<S, 3, 2>(s, x, row, (ahead, out)),
            4 if S::WIDE => in_turn::<S, W, 4>(s, (weights, panels), x, row, (ahead, out)),
            5 if S::WIDE => weights.tile::<S, 5, 2>(s, x, row, (ahead, out)),
            6 if S::WIDE => weights.tile::<S, 6, 2>(s, x, row, (ahead, out)),
            _ => unreachable!("{rows} rows in a tile"),
        }
    }
}

/// One panel after the other. With few rows weights are waited for, not computed on: so memory is read front to back, and
/// the hardware sees what comes next. (From two places at a time they came at half the rate.)
///
/// # Safety
/// As [`Panel::tile`], for each of the panels.
#[inline(always)]
unsafe fn in_turn<S: Simd, W: Panel, const R: usize>(
    s: S,
    (mut weights, panels): (W, usize),
    x: &View,
    row: usize,
    (ahead, out): (&mut Ahead, &mut [f32; TILE]),
) {
    for column in (0..panels * LANES).step_by(LANES) {
        // SAFETY: the caller's word.
        unsafe { weights.tile::<S, R, 1>(s, x, row, (&mut *ahead, &mut out[column..])) };
        weights = weights.next();
    }
}

/// Rows that the registers hold sums for.
#[inline(always)]
pub(crate) const fn most_rows<S: Simd>(panels: usize) -> usize {
    match (panels, S::WIDE) {
        (1, _) => 1,
        (_, true) => MAX_ROWS,
        (_, false) => 3,
    }
}
