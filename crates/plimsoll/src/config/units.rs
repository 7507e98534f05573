//! Sizes and durations with units, the same in a file, a flag and the environment.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

/// Bytes, written `512MiB` or `2GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A span of time, written `500ms` or `30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

const SIZES: [(&str, f64); 7] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1024.0 * 1024.0),
    ("GiB", 1024.0 * 1024.0 * 1024.0),
];
const PERIODS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = parse(text, &SIZES).ok_or_else(|| wrong(text, "size", "512MiB or 2GB", &SIZES))?;
        // Above 2^53 an f64 no longer counts single bytes, and no machine has as many.
        if bytes < 9e15 {
            Ok(Self(bytes as u64))
        } else {
            Err(format!("`{text}` is more than any machine has"))
        }
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds =
            parse(text, &PERIODS).ok_or_else(|| wrong(text, "duration", "500ms or 30s", &PERIODS))?;
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| format!("`{text}` is too long"))
    }
}

/// The number before a unit of `units`, times what the unit stands for. Case does not matter, except that `ms` is not `MS`
/// by accident of another table.
fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let (_, scale) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    Some(number.parse::<f64>().ok()? * scale)
}

fn wrong(text: &str, what: &str, examples: &str, units: &[(&str, f64)]) -> String {
    let names: Vec<_> = units.iter().map(|unit| unit.0).collect();
    format!("`{text}` is no {what}; write {examples} (units: {})", names.join(", "))
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_str(Quoted("a size with its unit in quotes, such as \"512MiB\"", PhantomData))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_str(Quoted("a duration with its unit in quotes, such as \"30s\"", PhantomData))
    }
}

/// Reads text, and says what it wants when there is something else, such as a number without a unit.
struct Quoted<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for Quoted<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scale) = match self.0 {
            0..1024 => ("B", 1.0),
            1024..1_048_576 => ("KiB", 1024.0),
            1_048_576..1_073_741_824 => ("MiB", 1_048_576.0),
            _ => ("GiB", 1_073_741_824.0),
        };
        let value = self.0 as f64 / scale;
        if value.fract() == 0.0 { write!(f, "{value} {name}") } else { write!(f, "{value:.1} {name}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("512MiB", Some(512 << 20)),
            ("2 GB", Some(2_000_000_000)),
            ("1.5KiB", Some(1536)),
            ("7b", Some(7)),
            ("512", None),
            ("MiB", None),
            ("-1GB", None),
            ("1.2.3GB", None),
            ("5M", None),
            ("9999999999999GiB", None),
            ("", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<Size>().ok(), bytes.map(Size), "{text}");
        }
    }

    #[test]
    fn periods() {
        let cases =
            [("500ms", Some(500)), ("1.5s", Some(1500)), ("2min", Some(120_000)), ("1h", Some(3_600_000))];
        let wrong = [("5", None), ("s", None), ("5 weeks", None), ("99999999999999999999h", None)];
        for (text, millis) in cases.into_iter().chain(wrong) {
            assert_eq!(
                text.parse::<Period>().ok(),
                millis.map(|ms| Period(Duration::from_millis(ms))),
                "{text}"
            );
        }
    }

    #[test]
    fn messages_say_what_would_be_right() {
        let message = "512".parse::<Size>().unwrap_err();
        assert_eq!(message, "`512` is no size; write 512MiB or 2GB (units: B, KB, MB, GB, KiB, MiB, GiB)");
    }

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, text) in [(7, "7 B"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB")] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
