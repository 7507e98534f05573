//! From values to places on the paper.

use crate::ticks::{self, Tick};

/// How an axis spreads its values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors; values must be above zero.
    Log,
    /// Quantiles from 0 to below 1, spread so that 90 %, 99 % and 99.9 % lie equally far apart.
    Tail,
}

/// An axis: what it measures, in what unit, and how it is spread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Axis {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) scale: Scale,
    pub(crate) from_zero: bool,
}

impl Axis {
    /// A linear axis that reaches from the least value to the greatest.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Its unit, written behind the name.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// How it spreads its values.
    #[must_use]
    pub fn scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// It includes zero, if it is linear.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    pub(crate) fn caption(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{}, {}", self.name, self.unit) }
    }
}

/// Beyond this a difference of two values may be infinite, so that places are those of this value.
const HUGE: f64 = 1e300;
/// The least span that an axis shows, as a share of its values: less is below what an `f64` tells apart well.
const LEAST_SPAN: f64 = 1e-9;
/// Values from here down are one on an axis that reaches higher. Keeps a logarithmic axis to decades that can be told apart.
const TINY: f64 = 1e-300;
/// The largest quantile of a tail axis: five nines.
const TAIL_END: f64 = 0.99999;

/// An axis with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    scale: Scale,
    /// Ends, after the scale's function; `from < to`, both finite, and so is their difference.
    from: f64,
    to: f64,
}

impl Range {
    /// The range of an axis that shows `values`; from 0 to 1 without any.
    pub fn over(axis: &Axis, values: impl IntoIterator<Item = f64>) -> Self {
        let scale = axis.scale;
        let mut ends: Option<(f64, f64)> = None;
        let zero = (scale == Scale::Tail || (axis.from_zero && scale == Scale::Linear)).then_some(0.0);
        for place in values.into_iter().chain(zero).filter_map(|value| spread(scale, value)) {
            let (from, to) = ends.unwrap_or((place, place));
            ends = Some((from.min(place), to.max(place)));
        }
        let (from, to) = ends.unwrap_or((0.0, if scale == Scale::Linear { 1.0 } else { 2.0 }));
        let (from, to) = widened(from, to);
        let (from, to) = match scale {
            Scale::Linear => ticks::rounded_out(from, to),
            Scale::Log => (from.floor(), to.ceil()),
            Scale::Tail => (0.0, to),
        };
        Self { scale, from, to }
    }

    /// Where a value lies, from 0 to 1; `None` for what this axis cannot show. Values outside the range lie at its ends.
    pub fn place(&self, value: f64) -> Option<f64> {
        let at = spread(self.scale, value)?;
        Some(((at - self.from) / (self.to - self.from)).clamp(0.0, 1.0))
    }

    /// Marks along the axis, at most a dozen, with their places from 0 to 1.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let ticks = match self.scale {
            Scale::Linear => ticks::linear(self.from, self.to),
            Scale::Log => ticks::decades(self.from, self.to),
            Scale::Tail => ticks::tail(),
        };
        let inside = |tick: Tick| {
            let at = spread(self.scale, tick.value)?;
            let place = (at - self.from) / (self.to - self.from);
            (-1e-9..=1.0 + 1e-9).contains(&place).then(|| (place.clamp(0.0, 1.0), tick.label))
        };
        ticks.into_iter().filter_map(inside).collect()
    }
}

/// A value on the straight line that a scale bends to an axis.
fn spread(scale: Scale, value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    match scale {
        Scale::Linear => Some(value.clamp(-HUGE, HUGE)),
        Scale::Log => (value > 0.0).then(|| value.clamp(TINY, HUGE).log10()),
        Scale::Tail => (0.0..=1.0).contains(&value).then(|| -(1.0 - value.min(TAIL_END)).log10()),
    }
}

/// Ends that are far enough apart to be drawn.
fn widened(from: f64, to: f64) -> (f64, f64) {
    let size = from.abs().max(to.abs());
    if to - from > size * LEAST_SPAN && to - from > TINY {
        return (from, to);
    }
    let pad = if size > 1e-6 { size * 0.5 } else { 0.5 };
    (from - pad, to + pad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(axis: &Axis, values: &[f64], places: &[(f64, Option<f64>)]) {
        let range = Range::over(axis, values.iter().copied());
        for &(value, place) in places {
            let got = range.place(value);
            let near = match (got, place) {
                (Some(got), Some(wanted)) => (got - wanted).abs() < 1e-6,
                (got, wanted) => got == wanted,
            };
            assert!(near, "{value} of {values:?} is at {got:?}, not {place:?}");
        }
    }

    #[test]
    fn linear() {
        let axis = Axis::new("x");
        check(
            &axis,
            &[0.0, 10.0],
            &[(0.0, Some(0.0)), (5.0, Some(0.5)), (10.0, Some(1.0)), (11.0, Some(1.0))],
        );
        check(&axis, &[f64::NAN, 2.0, 4.0, f64::INFINITY], &[(3.0, Some(0.5)), (f64::NAN, None)]);
        check(
            &axis,
            &[-f64::MAX, f64::MAX],
            &[(-f64::MAX, Some(0.0)), (0.0, Some(0.5)), (f64::MAX, Some(1.0))],
        );
        check(&axis, &[7.0], &[(7.0, Some(0.5))]);
        check(&axis, &[], &[(0.5, Some(0.5))]);
        check(&Axis::new("x").from_zero(), &[5.0, 10.0], &[(0.0, Some(0.0)), (5.0, Some(0.5))]);
    }

    #[test]
    fn logarithmic() {
        let axis = Axis::new("x").scale(Scale::Log);
        check(&axis, &[1.0, 100.0], &[(10.0, Some(0.5)), (0.0, None), (-1.0, None)]);
        check(&axis, &[0.0, 3.0, 70.0], &[(1.0, Some(0.0)), (100.0, Some(1.0))]);
    }

    #[test]
    fn tail() {
        let axis = Axis::new("x").scale(Scale::Tail);
        let places = [(0.0, Some(0.0)), (0.9, Some(1.0 / 3.0)), (0.99, Some(2.0 / 3.0)), (1.5, None)];
        check(&axis, &[0.999], &places);
    }
}
