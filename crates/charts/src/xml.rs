//! Just enough XML.

use std::fmt::Write;

/// Text as it may stand in an element or a quoted attribute. Control characters, which XML cannot say, become `\u{fffd}`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate: one decimal, and finite whatever came in.
pub(crate) fn coordinate(out: &mut String, value: f64) {
    let value = if value.is_finite() { value } else { 0.0 };
    // Writing to a string cannot fail.
    let _ = write!(out, "{value:.1}");
    if out.ends_with(".0") {
        out.truncate(out.len() - 2);
    }
}

/// An element's start: name and attributes, each of them escaped here.
pub(crate) fn open(out: &mut String, name: &str, attributes: &[(&str, Value<'_>)]) {
    out.push('<');
    out.push_str(name);
    for (key, value) in attributes {
        let _ = write!(out, " {key}=\"");
        match value {
            Value::Text(text) => out.push_str(&escape(text)),
            Value::At(value) => coordinate(out, *value),
        }
        out.push('"');
    }
    out.push('>');
}

/// An element with text and nothing else in it.
pub(crate) fn element(out: &mut String, name: &str, attributes: &[(&str, Value<'_>)], text: &str) {
    open(out, name, attributes);
    out.push_str(&escape(text));
    let _ = write!(out, "</{name}>");
}

/// What an attribute says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    At(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_element() {
        assert_eq!(escape("<a b=\"c\" d='e'>&\u{1}"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn coordinates_are_finite() {
        for (value, text) in
            [(1.0, "1"), (1.25, "1.2"), (f64::NAN, "0"), (f64::INFINITY, "0"), (-3.5, "-3.5")]
        {
            let mut out = String::new();
            coordinate(&mut out, value);
            assert_eq!(out, text);
        }
    }
}
