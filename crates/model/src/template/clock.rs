//! The calendar behind `strftime_now`, in UTC.

use std::fmt::Write as _;
use std::time::SystemTime;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Seconds of the Unix epoch, now.
pub(super) fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// A second of the calendar.
struct Moment {
    year: u64,
    /// From 1.
    month: usize,
    /// From 1.
    day: u64,
    /// From 1.
    day_of_year: u64,
    /// 0 is Sunday.
    weekday: usize,
    second: u64,
}

impl Moment {
    /// Civil date of a day count, after Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2013.
    fn new(seconds: u64) -> Self {
        let days = seconds / 86_400;
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let of_era = shifted % 146_097;
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        // Days since the first of March.
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let day_of_year = if month <= 2 { of_year - 305 } else { of_year + 60 + u64::from(leap) };
        Self {
            year,
            month: month as usize,
            day,
            day_of_year,
            weekday: ((days + 4) % 7) as usize,
            second: seconds % 86_400,
        }
    }

    /// The value of one directive; `None` when it is not known.
    fn directive(&self, directive: char) -> Option<String> {
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let hour12 = if hour.is_multiple_of(12) { 12 } else { hour % 12 };
        Some(match directive {
            'Y' => format!("{:04}", self.year),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'j' => format!("{:03}", self.day_of_year),
            'H' => format!("{hour:02}"),
            'I' => format!("{hour12:02}"),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'B' => MONTHS[self.month - 1].to_owned(),
            'b' | 'h' => MONTHS[self.month - 1][..3].to_owned(),
            'A' => DAYS[self.weekday].to_owned(),
            'a' => DAYS[self.weekday][..3].to_owned(),
            'w' => self.weekday.to_string(),
            'z' => "+0000".to_owned(),
            'Z' => "UTC".to_owned(),
            'F' => format!("{:04}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// `seconds` of the Unix epoch as `format` says, with the directives of C's `strftime`; `%-d` drops leading zeros. Unknown
/// directives stay as they are.
pub(super) fn strftime(format: &str, seconds: u64) -> String {
    let moment = Moment::new(seconds);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut rest = chars.clone();
        let mut directive = rest.next();
        let trim = directive == Some('-');
        if trim {
            directive = rest.next();
        }
        match directive.and_then(|directive| moment.directive(directive)) {
            Some(value) => {
                let shorter = value.trim_start_matches(['0', ' ']);
                let value = if trim { if shorter.is_empty() { "0" } else { shorter } } else { &value };
                let _ = out.write_str(value);
                chars = rest;
            }
            None => out.push('%'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds, format, want| assert_eq!(strftime(format, seconds), want, "{seconds} {format}");
        check(0, "%Y-%m-%d %H:%M:%S %A %j", "1970-01-01 00:00:00 Thursday 001");
        check(951_782_400, "%d %b %Y %a %j", "29 Feb 2000 Tue 060");
        check(1_735_603_199, "%F %T %j", "2024-12-30 23:59:59 365");
        check(1_735_689_599, "%F %j %p %I", "2024-12-31 366 PM 11");
        check(1_709_251_200, "%B %-d, %Y (%e) %j", "March 1, 2024 ( 1) 061");
        check(1_709_251_200, "%-H 100%% %Q %", "0 100% %Q %");
        check(1_677_628_800, "%j %w %y", "060 3 23");
    }
}
