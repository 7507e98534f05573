//! Times as traces write them.

/// `2023-11-16 18:15:46.6805900`, with `T` for the space and `Z` or `+00:00` at the end if it likes, as seconds since 1970.
pub(super) fn date_and_time(text: &str) -> Option<f64> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00")).unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T'])?;
    let [year, month, day] = parts(date, '-')?;
    let [hour, minute, second] = parts(time, ':')?;
    let year = within(year, 0, 9999)?;
    let month = within(month, 1, 12)?;
    let day = within(day, 1, 31)?;
    let second = seconds(second).filter(|second| *second < 61.0)?;
    let minutes = within(hour, 0, 23)? * 60 + within(minute, 0, 59)?;
    Some((days(year, month, day) * 86_400 + minutes * 60) as f64 + second)
}

/// Seconds, from 0 up.
pub(super) fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

fn parts(text: &str, by: char) -> Option<[&str; 3]> {
    let mut parts = text.split(by);
    let three = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(three)
}

fn within(text: &str, least: i64, most: i64) -> Option<i64> {
    text.parse().ok().filter(|value| (least..=most).contains(value))
}

/// Days from 1970-01-01 in the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let cases = [
            ("1970-01-01 00:00:00", Some(0.0)),
            ("2000-02-29 12:00:00.5", Some(951_825_600.5)),
            ("2023-11-16 18:15:46.6805900", Some(1_700_158_546.680_59)),
            ("2024-05-10T00:00:00.25Z", Some(1_715_299_200.25)),
            ("2024-05-10 00:00:00.25+00:00", Some(1_715_299_200.25)),
            ("2024-05-10", None),
            ("2024-05-10 25:00:00", None),
            ("2024-00-10 00:00:00", None),
            ("2024-05-10 00:00:nan", None),
            ("9223372036854775807-05-10 00:00:00", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(date_and_time(text), wanted, "{text}");
        }
    }
}
