//! Filters, functions and printing as in Python.

use super::clock;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io;

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(print);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| clock::strftime(&format, clock::now()));
}

/// Prints a value as Python's `str` does.
fn print(out: &mut Output, _: &mut State, value: &Value) -> Result<(), Error> {
    let mut text = String::new();
    match value.kind() {
        ValueKind::Undefined => return Ok(()),
        ValueKind::String => return out.write_str(value.as_str().unwrap_or_default()).map_err(Error::from),
        _ => repr(value, &mut text, 0)?,
    }
    out.write_str(&text).map_err(Error::from)
}

/// Deepest nesting that is printed.
const MAX_DEPTH: usize = 64;

/// Appends a value as Python's `repr` writes it.
fn repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "nested too deep to print"));
    }
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&item, out, depth + 1)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&key, out, depth + 1)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn quote(text: &str, out: &mut String) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == mark => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(mark);
}

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, as transformers defines it.
fn tojson(value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    let invalid = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let indent: Option<usize> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    let ensure_ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    kwargs.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let mut value = serde_json::to_value(&value).map_err(invalid)?;
    if sort_keys == Some(true) {
        value.sort_all_objects();
    }
    let format = PythonFormat { item, key, indent: indent.map(|n| n.min(64)), depth: 0, empty: true };
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, format)).map_err(invalid)?;
    let mut text = String::from_utf8(bytes)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    if ensure_ascii == Some(true) {
        text = escape_non_ascii(&text);
    }
    Ok(Value::from(text))
}

/// Characters past ASCII are in strings only, so they can be escaped wherever they are.
fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// The layout of Python's `json.dumps`.
struct PythonFormat {
    item: String,
    key: String,
    indent: Option<usize>,
    depth: usize,
    /// Nothing was written since the last bracket.
    empty: bool,
}

impl PythonFormat {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.empty {
            self.new_line(writer)?;
        }
        self.empty = false;
        writer.write_all(bracket)
    }

    fn begin<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.empty = false;
        self.new_line(writer)
    }

    fn new_line<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        (0..indent * self.depth).try_for_each(|_| writer.write_all(b" "))
    }
}

impl Formatter for PythonFormat {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin(writer, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }
}
