//! What a chart is made of.

use crate::axis::Axis;

/// A value on the x axis and one on the y axis, in the units of the axes.
pub type Point = (f64, f64);

/// A bar from `from` to `to` on the x axis, `height` high from zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// How high it is.
    pub height: f64,
}

/// How a series is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// Points joined by lines; few points are also marked, and say their values under the pointer.
    Line(Vec<Point>),
    /// A value that holds until the next point.
    Step(Vec<Point>),
    /// Points alone.
    Dots(Vec<Point>),
    /// Bars, such as a histogram's.
    Bars(Vec<Bar>),
}

/// One named set of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its numbers, and how they are drawn.
    pub mark: Mark,
}

/// A line across the chart, such as a promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// What is written beside it.
    pub name: String,
    /// Where it crosses the y axis.
    pub at: f64,
}

/// A chart; [`Chart::svg`] draws it.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) limits: Vec<Limit>,
}

impl Chart {
    /// A chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), limits: Vec::new() }
    }

    /// Adds a series. Colours repeat after eight.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, mark: Mark) -> Self {
        self.series.push(Series { name: name.into(), mark });
        self
    }

    /// Adds a limit line; the y axis reaches it.
    #[must_use]
    pub fn limit(mut self, name: impl Into<String>, at: f64) -> Self {
        self.limits.push(Limit { name: name.into(), at });
        self
    }
}

impl Mark {
    /// Every x and y that is drawn, as far as it is finite; bars stand on zero.
    pub(crate) fn extents(&self) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Line(points) | Self::Step(points) | Self::Dots(points) => {
                points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).copied().unzip()
            }
            Self::Bars(bars) => {
                let drawn = || bars.iter().filter(|bar| bar.is_finite());
                let xs = drawn().flat_map(|bar| [bar.from, bar.to]).collect();
                (xs, drawn().flat_map(|bar| [0.0, bar.height]).collect())
            }
        }
    }
}

impl Bar {
    pub(crate) fn is_finite(&self) -> bool {
        self.from.is_finite() && self.to.is_finite() && self.height.is_finite()
    }
}
