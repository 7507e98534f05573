//! What a request's headers say of its urgency: `x-priority`, `x-slo-ttft-ms`, `x-slo-itl-ms`, `x-request-timeout-ms`.

use axum::http::{HeaderMap, HeaderValue};
use plimsoll_api::error::Error;
use plimsoll_api::service::{Priority, Urgency};
use std::time::{Duration, Instant};

/// Longest time that may be asked for: a day.
const LONGEST_MS: u64 = 86_400_000;

/// Reads them. `arrived` is when they were parsed.
///
/// # Errors
/// [`plimsoll_api::error::Reason::InvalidRequest`] for a value that is none.
pub fn read(headers: &HeaderMap, arrived: Instant) -> Result<Urgency, Error> {
    Ok(Urgency {
        priority: priority(headers)?,
        arrived: Some(arrived),
        ttft: milliseconds(headers, "x-slo-ttft-ms")?,
        itl: milliseconds(headers, "x-slo-itl-ms")?,
        timeout: milliseconds(headers, "x-request-timeout-ms")?,
    })
}

fn priority(headers: &HeaderMap) -> Result<Option<Priority>, Error> {
    const NAME: &str = "x-priority";
    let Some(value) = only(headers, NAME)? else { return Ok(None) };
    match value.as_bytes().trim_ascii() {
        b"interactive" => Ok(Some(Priority::Interactive)),
        b"standard" => Ok(Some(Priority::Standard)),
        b"batch" => Ok(Some(Priority::Batch)),
        _ => Err(Error::invalid(NAME, format!("`{NAME}` is interactive, standard or batch"))),
    }
}

fn milliseconds(headers: &HeaderMap, name: &'static str) -> Result<Option<Duration>, Error> {
    let Some(value) = only(headers, name)? else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    match number.filter(|number| (1..=LONGEST_MS).contains(number)) {
        Some(number) => Ok(Some(Duration::from_millis(number))),
        None => Err(Error::invalid(
            name,
            format!("`{name}` is a whole number of milliseconds from 1 to {LONGEST_MS}"),
        )),
    }
}

/// The value of a header that may stand once: of two, nobody knows which one a proxy in between would have gone by.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a HeaderValue>, Error> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Error::invalid(name, format!("`{name}` stands there more than once; send it once"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn one(name: &'static str, value: &'static str) -> Result<Urgency, Error> {
        let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
        read(&HeaderMap::from_iter([header]), Instant::now())
    }

    #[test]
    fn what_is_said_is_read() {
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(one("x-slo-ttft-ms", "250").unwrap().ttft, Some(Duration::from_millis(250)));
        assert_eq!(one("x-slo-itl-ms", " 40 ").unwrap().itl, Some(Duration::from_millis(40)));
        assert_eq!(one("x-request-timeout-ms", "86400000").unwrap().timeout, day);
        for (value, expected) in [
            ("interactive", Priority::Interactive),
            ("standard", Priority::Standard),
            ("batch", Priority::Batch),
        ] {
            assert_eq!(one("x-priority", value).unwrap().priority, Some(expected));
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for name in ["x-slo-ttft-ms", "x-slo-itl-ms", "x-request-timeout-ms"] {
            for value in ["0", "-1", "1.5", "soon", "", "86400001"] {
                let error = one(name, value).unwrap_err();
                assert_eq!(error.param.as_deref(), Some(name), "{value}");
            }
        }
        for value in ["urgent", "", "INTERACTIVE", "0"] {
            assert!(one("x-priority", value).is_err(), "{value}");
        }
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        for name in ["x-priority", "x-slo-ttft-ms", "x-slo-itl-ms", "x-request-timeout-ms"] {
            let value = if name == "x-priority" { "batch" } else { "100" };
            let mut headers = HeaderMap::new();
            headers.append(name, HeaderValue::from_static(value));
            assert!(read(&headers, Instant::now()).is_ok(), "{name}");
            headers.append(name, HeaderValue::from_static(value));
            let error = read(&headers, Instant::now()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(name));
        }
    }
}
