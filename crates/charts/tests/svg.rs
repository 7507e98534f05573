//! What a chart's SVG holds: well-formed, values where they belong, whatever numbers come in.

use plimsoll_charts::{Axis, Bar, Chart, Mark, Point, Scale, distribution};
use proptest::prelude::*;

/// The elements of a document, as `(name, attributes)` in order. Panics unless it is well-formed: every tag closed in its
/// turn, attributes quoted, no bare `&` or `<` in text.
fn elements(svg: &str) -> Vec<(String, Vec<(String, String)>)> {
    let (mut open, mut found, mut rest) = (Vec::new(), Vec::new(), svg);
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag is not closed");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of turn");
            assert!(!open.is_empty() || rest.is_empty(), "text after the end");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        open.push(name.to_owned());
        found.push((name.to_owned(), attributes_of(attributes)));
    }
    assert!(open.is_empty(), "left open: {open:?}");
    found
}

fn attributes_of(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("an attribute without a quoted value");
        let (value, rest) = rest.split_once('"').expect("an attribute that does not end");
        check_text(value);
        found.push((name.trim().to_owned(), value.to_owned()));
        text = rest;
    }
    found
}

fn check_text(text: &str) {
    for (at, _) in text.match_indices('&') {
        let entity = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(entity.iter().any(|entity| text[at..].starts_with(entity)), "a bare & in {text}");
    }
}

/// Attribute `key` of every element called `name`.
fn all<'a>(found: &'a [(String, Vec<(String, String)>)], name: &str, key: &str) -> Vec<&'a str> {
    let of = |(tag, attributes): &'a (String, Vec<(String, String)>)| {
        let value = attributes.iter().find(|attribute| attribute.0 == key)?;
        (tag == name).then_some(value.1.as_str())
    };
    found.iter().filter_map(of).collect()
}

fn plain(mark: Mark) -> Chart {
    Chart::new("t", Axis::new("x"), Axis::new("y").from_zero()).with("a", mark)
}

#[test]
fn a_line_runs_through_its_values() {
    let svg = plain(Mark::Line(vec![(0.0, 0.0), (5.0, 10.0), (10.0, 5.0)])).svg();
    let found = elements(&svg);
    // The plot is from 64 to 704 across and from 274 up to 54.
    assert_eq!(all(&found, "path", "d"), ["M64 274L384 54L704 164"]);
    assert_eq!(all(&found, "circle", "cx"), ["64", "384", "704"]);
}

#[test]
fn a_step_holds_its_value() {
    let svg = plain(Mark::Step(vec![(0.0, 10.0), (10.0, 0.0)])).svg();
    assert_eq!(all(&elements(&svg), "path", "d"), ["M64 54L704 54L704 274"]);
}

#[test]
fn a_line_breaks_where_there_is_no_value() {
    let svg = plain(Mark::Line(vec![(0.0, 0.0), (1.0, f64::NAN), (2.0, 0.0), (10.0, 10.0)])).svg();
    assert_eq!(all(&elements(&svg), "path", "d"), ["M64 274M192 274L704 54"]);
}

#[test]
fn bars_stand_on_zero() {
    let bars = vec![Bar { from: 0.0, to: 5.0, height: 10.0 }, Bar { from: 5.0, to: 10.0, height: 5.0 }];
    let found = elements(&plain(Mark::Bars(bars)).svg());
    assert_eq!(all(&found, "rect", "height"), ["220", "110"]);
    assert_eq!(all(&found, "rect", "x"), ["64", "384"]);
}

#[test]
fn limits_are_in_sight_and_named() {
    let svg = plain(Mark::Line(vec![(0.0, 1.0), (1.0, 2.0)])).limit("promise <500 ms>", 10.0).svg();
    assert!(svg.contains(">promise &lt;500 ms&gt;</text>"), "{svg}");
    let limit = elements(&svg)
        .into_iter()
        .find(|(_, attributes)| attributes.contains(&("class".into(), "limit".into())));
    assert!(limit.unwrap().1.contains(&("y1".into(), "54".into())));
}

#[test]
fn a_legend_names_series_when_there_are_several() {
    let one = plain(Mark::Dots(vec![(1.0, 1.0)]));
    assert!(!one.svg().contains(">a</text>"));
    let two = one.with("b & c", Mark::Dots(vec![(2.0, 2.0)])).svg();
    assert!(two.contains(">a</text>") && two.contains(">b &amp; c</text>"));
}

#[test]
fn nothing_comes_from_outside() {
    let svg = plain(Mark::Line(vec![(0.0, 1.0)])).svg();
    assert!(svg.contains("prefers-color-scheme:dark"));
    for word in ["url(", "href", "@import", "<script", "src="] {
        assert!(!svg.contains(word), "{word}");
    }
}

#[test]
fn many_points_make_a_small_picture() {
    let points = |y: fn(i32) -> f64| (0..100_000).map(|i| (f64::from(i), y(i))).collect::<Vec<_>>();
    let wave = |i: i32| f64::from(i * 7919 % 1000);
    for mark in [Mark::Line(points(wave)), Mark::Step(points(wave))] {
        let size = plain(mark).svg().len();
        assert!(size < 100_000, "{size}");
    }
}

/// Numbers of every size and kind.
fn number() -> impl Strategy<Value = f64> {
    let odd = [
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    prop_oneof![
        any::<f64>(),
        -1e6..1e6_f64,
        0.999_999..1.0_f64,
        1e15..1e15 + 8.0,
        prop::sample::select(odd.to_vec())
    ]
}

fn points() -> impl Strategy<Value = Vec<Point>> {
    prop::collection::vec((number(), number()), 0..80)
}

fn scale() -> impl Strategy<Value = Scale> {
    prop::sample::select(vec![Scale::Linear, Scale::Log, Scale::Tail])
}

proptest! {
    #[test]
    fn any_numbers_make_a_sound_picture(
        points in points(),
        x in scale(),
        y in scale(),
        limit in number(),
        from_zero: bool,
        name in ".*",
    ) {
        let mut axis = Axis::new(name.clone()).unit("s").scale(y);
        if from_zero {
            axis = axis.from_zero();
        }
        let samples: Vec<f64> = points.iter().map(|point| point.1).collect();
        let chart = Chart::new(name.clone(), Axis::new("x").scale(x), axis)
            .with(name, Mark::Line(points.clone()))
            .with("step", Mark::Step(points.clone()))
            .with("dots", Mark::Dots(points))
            .with("bars", distribution::histogram(&samples, 7))
            .with("curve", distribution::percentiles(&samples))
            .with("share", distribution::cumulative(&samples))
            .limit("limit", limit);
        let found = elements(&chart.svg());
        for (name, attributes) in &found {
            for (key, value) in attributes {
                let places = ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "d"];
                if places.contains(&key.as_str()) {
                    within_the_paper(name, key, value)?;
                }
            }
        }
    }
}

/// Every coordinate is a number on the paper.
fn within_the_paper(name: &str, key: &str, value: &str) -> Result<(), TestCaseError> {
    for part in value.split(|c: char| c == ' ' || c.is_ascii_uppercase()).filter(|part| !part.is_empty()) {
        let at: Result<f64, _> = part.parse();
        let inside = at.as_ref().is_ok_and(|at| (0.0..=2000.0).contains(at));
        prop_assert!(inside, "{name} {key}={part}");
    }
    Ok(())
}
