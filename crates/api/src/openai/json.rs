//! JSON whose errors say which field, what is wrong and what would be right.

use crate::error::{Error, Reason};
use serde::Deserialize;

/// Longest piece of a client's own text that an error repeats, in characters.
const QUOTED: usize = 200;

/// Reads a JSON object. Fields that `T` does not have are ignored.
///
/// # Errors
/// [`Reason::InvalidRequest`], with the path of the field at fault where there is one.
pub fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let place = error.valid_up_to();
        Error::new(Reason::InvalidRequest, format!("the body is not UTF-8: wrong byte at offset {place}"))
    })?;
    // serde would take an array for a struct, field by field.
    if !text.trim_start().starts_with('{') {
        return Err(Error::new(
            Reason::InvalidRequest,
            "the body must be a JSON object, such as {\"model\": …}",
        ));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| explain(&error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

/// Refuses a body of more than `most` JSON values. A value kept as JSON takes some 80 bytes where `0,` takes two: a body
/// within its limit of bytes would take a gigabyte once it is read.
///
/// # Errors
/// [`Reason::BodyTooLarge`].
pub fn check_values(body: &[u8], most: usize) -> Result<(), Error> {
    // No value takes less than a byte.
    if body.len() <= most || values(body) <= most {
        return Ok(());
    }
    let message = format!("the body has more than {most} JSON values; send fewer fields and elements");
    Err(Error::new(Reason::BodyTooLarge, message))
}

/// At least as many as there are values: each is the first of an array or object, or follows a comma.
fn values(body: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (0, false, false);
    for &byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

fn explain(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let path = error.path().to_string();
    let inner = error.inner();
    if !inner.is_data() || path == "." {
        return malformed(inner);
    }
    let text = inner.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(head, _)| head);
    // A path may hold a client's own key, of any length.
    let path = shorten(&path);
    let message = format!("`{path}`: {}", shorten(&in_json_terms(text)));
    Error::invalid(path, message)
}

fn malformed(error: &serde_json::Error) -> Error {
    Error::new(
        Reason::InvalidRequest,
        format!("the body is not the JSON expected: {}", shorten(&error.to_string())),
    )
}

/// serde speaks of Rust's types; clients know JSON's.
fn in_json_terms(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" => "an object",
        other => other,
    };
    format!("{}, expected {expected}", shorten(found))
}

/// `text`, cut to a length fit for an error message.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
