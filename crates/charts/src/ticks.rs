//! Round marks along an axis.

use crate::number;

/// Marks that a linear axis wants, about.
const WANTED: f64 = 6.0;
/// Most marks of any axis.
const MOST: usize = 12;

/// A mark: a value and how it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// The step between marks: 1, 2 or 5 times a power of ten.
fn step(from: f64, to: f64) -> f64 {
    let rough = (to - from) / WANTED;
    let power = 10f64.powi(rough.log10().floor() as i32);
    let times = rough / power;
    power
        * if times <= 1.0 {
            1.0
        } else if times <= 2.0 {
            2.0
        } else if times <= 5.0 {
            5.0
        } else {
            10.0
        }
}

/// A range that begins and ends at marks.
pub(crate) fn rounded_out(from: f64, to: f64) -> (f64, f64) {
    let step = step(from, to);
    // A value that is a mark but for rounding must not cost a whole step of empty paper.
    let ends = (((from / step) + 1e-9).floor() * step, ((to / step) - 1e-9).ceil() * step);
    if ends.0.is_finite() && ends.1.is_finite() && ends.0 < ends.1 { ends } else { (from, to) }
}

/// Marks of a linear axis.
pub(crate) fn linear(from: f64, to: f64) -> Vec<Tick> {
    let step = step(from, to);
    let (first, last) = ((from / step - 1e-9).ceil(), (to / step + 1e-9).floor());
    if !(first.is_finite() && last.is_finite() && last - first <= MOST as f64) {
        return Vec::new();
    }
    let mark = |i: usize| {
        let value = (first + i as f64) * step;
        Tick { value, label: number::stepped(value, step) }
    };
    (0..=(last - first) as usize).map(mark).collect()
}

/// Marks of a logarithmic axis from `10^from` to `10^to`: every decade, or every so many; with 2 and 5 between when there
/// are few.
pub(crate) fn decades(from: f64, to: f64) -> Vec<Tick> {
    let (first, last) = (from.floor() as i32, to.ceil() as i32);
    let times: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (last - first).max(0) as usize / MOST + 1;
    let marks = (first..=last).step_by(every);
    marks
        .flat_map(|decade| times.iter().map(move |times| times * 10f64.powi(decade)))
        .map(|value| Tick { value, label: number::short(value) })
        .collect()
}

/// Marks of a quantile axis.
pub(crate) fn tail() -> Vec<Tick> {
    let marks = [
        (0.0, "0"),
        (0.5, "50"),
        (0.9, "90"),
        (0.95, "95"),
        (0.99, "99"),
        (0.999, "99.9"),
        (0.9999, "99.99"),
    ];
    marks.into_iter().map(|(value, label)| Tick { value, label: label.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn linear_marks_are_round() {
        let cases: [(f64, f64, &[&str]); 5] = [
            (0.0, 10.0, &["0", "2", "4", "6", "8", "10"]),
            (0.0, 0.5, &["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]),
            (-1.0, 1.0, &["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
            (0.0, 60_000.0, &["0", "10k", "20k", "30k", "40k", "50k", "60k"]),
            (990.0, 1010.0, &["990", "995", "1000", "1005", "1010"]),
        ];
        for (from, to, wanted) in cases {
            assert_eq!(labels(&linear(from, to)), wanted, "{from} to {to}");
        }
    }

    #[test]
    fn ends_are_rounded_out() {
        assert_eq!(rounded_out(0.3, 9.7), (0.0, 10.0));
        assert_eq!(rounded_out(0.0, 10.0), (0.0, 10.0));
    }

    #[test]
    fn decades_thin_out() {
        assert_eq!(labels(&decades(0.0, 1.0)), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(&decades(0.0, 3.0)), ["1", "10", "100", "1000"]);
        assert!(decades(-300.0, 300.0).len() <= MOST + 1);
    }
}
