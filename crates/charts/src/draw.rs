//! The picture.

use crate::axis::Range;
use crate::chart::{Bar, Chart, Mark, Point, Series};
use crate::number::short;
use crate::style::{self, colour};
use crate::thin::{self, Place};
use crate::xml::Value::{At, Text};
use crate::xml::{coordinate, element, open};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// The plot's edges.
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Lines of so many points show them, with their values.
const FEW: usize = 60;
/// Room in the legend for a letter, about.
const LETTER: f64 = 6.6;

/// Where the values of a chart lie on the paper.
struct Frame {
    x: Range,
    y: Range,
}

impl Frame {
    fn of(chart: &Chart) -> Self {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        for series in &chart.series {
            let (x, y) = series.mark.extents();
            xs.extend(x);
            ys.extend(y);
        }
        ys.extend(chart.limits.iter().map(|limit| limit.at));
        Self { x: Range::over(&chart.x, xs), y: Range::over(&chart.y, ys) }
    }

    fn x(&self, value: f64) -> Option<f64> {
        self.x.place(value).map(|place| LEFT + place * (RIGHT - LEFT))
    }

    fn y(&self, value: f64) -> Option<f64> {
        self.y.place(value).map(|place| BOTTOM - place * (BOTTOM - TOP))
    }

    fn place(&self, (x, y): Point) -> Option<Place> {
        if !(x.is_finite() && y.is_finite()) {
            return None;
        }
        self.x(x).zip(self.y(y))
    }
}

impl Chart {
    /// The chart as one `<svg>` element, styles included, 720 by 320 units unless CSS says otherwise.
    pub fn svg(&self) -> String {
        let chart = self;
        let frame = Frame::of(chart);
        let mut out = String::new();
        let size = format!("0 0 {WIDTH} {HEIGHT}");
        let root = [
            ("xmlns", Text("http://www.w3.org/2000/svg")),
            ("viewBox", Text(&size)),
            ("class", Text("plimsoll-chart")),
            ("role", Text("img")),
            ("aria-label", Text(&chart.title)),
        ];
        open(&mut out, "svg", &root);
        out.push_str("<style>");
        out.push_str(style::CSS);
        out.push_str("</style>");
        element(
            &mut out,
            "text",
            &[("class", Text("title")), ("x", At(LEFT)), ("y", At(18.0))],
            &chart.title,
        );
        axes(&mut out, chart, &frame);
        for (i, series) in chart.series.iter().enumerate() {
            draw_series(&mut out, series, &frame, i);
        }
        limits(&mut out, chart, &frame);
        legend(&mut out, &chart.series);
        out.push_str("</svg>");
        out
    }
}

fn axes(out: &mut String, chart: &Chart, frame: &Frame) {
    for (place, label) in frame.y.ticks() {
        let y = BOTTOM - place * (BOTTOM - TOP);
        straight(out, "grid", (LEFT, y), (RIGHT, y));
        element(
            out,
            "text",
            &[("x", At(LEFT - 6.0)), ("y", At(y + 4.0)), ("text-anchor", Text("end"))],
            &label,
        );
    }
    for (place, label) in frame.x.ticks() {
        let x = LEFT + place * (RIGHT - LEFT);
        straight(out, "grid", (x, BOTTOM), (x, BOTTOM + 5.0));
        element(
            out,
            "text",
            &[("x", At(x)), ("y", At(BOTTOM + 18.0)), ("text-anchor", Text("middle"))],
            &label,
        );
    }
    straight(out, "grid", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    let below = [("x", At((LEFT + RIGHT) / 2.0)), ("y", At(HEIGHT - 8.0)), ("text-anchor", Text("middle"))];
    element(out, "text", &below, &chart.x.caption());
    let turn = format!("rotate(-90 14 {})", (TOP + BOTTOM) / 2.0);
    let middle = (TOP + BOTTOM) / 2.0;
    let beside =
        [("x", At(14.0)), ("y", At(middle)), ("text-anchor", Text("middle")), ("transform", Text(&turn))];
    element(out, "text", &beside, &chart.y.caption());
}

fn straight(out: &mut String, class: &str, from: Place, to: Place) {
    let ends =
        [("class", Text(class)), ("x1", At(from.0)), ("y1", At(from.1)), ("x2", At(to.0)), ("y2", At(to.1))];
    element(out, "line", &ends, "");
}

fn draw_series(out: &mut String, series: &Series, frame: &Frame, i: usize) {
    match &series.mark {
        Mark::Line(points) => {
            path(out, points, frame, i, false);
            if points.len() <= FEW {
                dots(out, points, frame, i);
            }
        }
        Mark::Step(points) => path(out, points, frame, i, true),
        Mark::Dots(points) => dots(out, points, frame, i),
        Mark::Bars(bars) => bars.iter().for_each(|each| bar(out, each, frame, i)),
    }
}

/// Points joined by lines, or by steps; broken where a point cannot be shown.
fn path(out: &mut String, points: &[Point], frame: &Frame, i: usize, steps: bool) {
    let mut data = String::new();
    for run in points.split(|&point| frame.place(point).is_none()) {
        let run: Vec<Place> = run.iter().filter_map(|&point| frame.place(point)).collect();
        let mut pen: Option<Place> = None;
        for place in thin::line(&run) {
            if let (true, Some(pen)) = (steps, pen) {
                move_to(&mut data, 'L', (place.0, pen.1));
            }
            move_to(&mut data, if pen.is_some() { 'L' } else { 'M' }, place);
            pen = Some(place);
        }
    }
    if !data.is_empty() {
        let stroke = colour("stroke", i);
        element(out, "path", &[("class", Text("line")), ("style", Text(&stroke)), ("d", Text(&data))], "");
    }
}

fn move_to(data: &mut String, command: char, (x, y): Place) {
    data.push(command);
    coordinate(data, x);
    data.push(' ');
    coordinate(data, y);
}

fn dots(out: &mut String, points: &[Point], frame: &Frame, i: usize) {
    let fill = colour("fill", i);
    if points.len() > FEW {
        let places: Vec<Place> = points.iter().filter_map(|&point| frame.place(point)).collect();
        for (x, y) in thin::dots(&places) {
            let at = [
                ("class", Text("dot")),
                ("style", Text(&fill)),
                ("cx", At(x)),
                ("cy", At(y)),
                ("r", At(1.8)),
            ];
            element(out, "circle", &at, "");
        }
        return;
    }
    for &point in points {
        let Some((x, y)) = frame.place(point) else { continue };
        let at = [("style", Text(&fill)), ("cx", At(x)), ("cy", At(y)), ("r", At(2.8))];
        open(out, "circle", &at);
        element(out, "title", &[], &format!("{}, {}", short(point.0), short(point.1)));
        out.push_str("</circle>");
    }
}

fn bar(out: &mut String, bar: &Bar, frame: &Frame, i: usize) {
    if !bar.is_finite() || bar.height == 0.0 {
        return;
    }
    let (Some(from), Some(to), Some(y)) = (frame.x(bar.from), frame.x(bar.to), frame.y(bar.height)) else {
        return;
    };
    // A logarithmic axis has no zero; there a bar stands on the edge.
    let zero = frame.y(0.0).unwrap_or(BOTTOM);
    let fill = colour("fill", i);
    let at = [
        ("class", Text("bar")),
        ("style", Text(&fill)),
        ("x", At(from.min(to))),
        ("y", At(y.min(zero))),
        ("width", At(((to - from).abs() - 0.5).max(0.5))),
        ("height", At((zero - y).abs())),
    ];
    open(out, "rect", &at);
    element(out, "title", &[], &format!("{} to {}: {}", short(bar.from), short(bar.to), short(bar.height)));
    out.push_str("</rect>");
}

fn limits(out: &mut String, chart: &Chart, frame: &Frame) {
    for limit in &chart.limits {
        let Some(y) = frame.y(limit.at) else { continue };
        straight(out, "limit", (LEFT, y), (RIGHT, y));
        let at = [
            ("class", Text("limit-name")),
            ("x", At(RIGHT)),
            ("y", At(y - 4.0)),
            ("text-anchor", Text("end")),
        ];
        element(out, "text", &at, &limit.name);
    }
}

/// Names under the title; none for a single series, which the title names.
fn legend(out: &mut String, series: &[Series]) {
    if series.len() < 2 {
        return;
    }
    let mut x = LEFT;
    for (i, series) in series.iter().enumerate() {
        let fill = colour("fill", i);
        let key = [
            ("style", Text(&fill)),
            ("x", At(x)),
            ("y", At(30.0)),
            ("width", At(10.0)),
            ("height", At(10.0)),
        ];
        element(out, "rect", &key, "");
        element(out, "text", &[("x", At(x + 14.0)), ("y", At(39.0))], &series.name);
        x += 30.0 + series.name.chars().count() as f64 * LETTER;
    }
}
