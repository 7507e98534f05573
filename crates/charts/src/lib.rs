//! Charts for reports, and the pages they stand on: numbers in, SVG and HTML out. One [`Chart`] has two axes, series of one [`Mark`] each, and limit lines.
//!
//! Never here: I/O, clocks, scripts, fonts or anything else from outside; what comes out stands by itself, in a file or
//! inside HTML, and follows the reader's light or dark scheme.
//!
//! Any number may come in. What is not finite is left out and breaks a line; on a logarithmic axis so is what is not above
//! zero. No coordinate that comes out is ever NaN or infinite.
//!
//! - [`chart`]: what a chart is made of. [`distribution`]: from samples to histograms and percentile curves.
//! - [`percentile`]: the figures that tables beside them show. [`Page`]: the HTML that both stand on.
//! - `axis`, `ticks`, `number`: from values to places and labels. `thin`: no more points than pixels.
//! - `draw`, `style`, `xml`: the picture.

mod axis;
mod chart;
pub mod distribution;
mod draw;
mod number;
mod page;
pub mod percentile;
mod style;
mod thin;
mod ticks;
mod xml;

pub use axis::{Axis, Scale};
pub use chart::{Bar, Chart, Limit, Mark, Point, Series};
pub use number::short;
pub use page::Page;
pub use xml::escape;
