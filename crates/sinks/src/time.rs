//! Times as destinations write them: RFC 3339 with nanoseconds, and names with a date in them.

use std::fmt::Write as _;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// A time of day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanosecond: u32,
}

impl Civil {
    fn at(time_ns: i64) -> Civil {
        let second = time_ns.div_euclid(SECOND_NS);
        let nanosecond = time_ns.rem_euclid(SECOND_NS) as u32;
        let (year, month, day) = civil_from_days(second.div_euclid(DAY_S));
        let of_day = second.rem_euclid(DAY_S) as u32;
        Civil {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            nanosecond,
        }
    }
}

/// A calendar date from days since 1970-01-01, by Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `2026-01-02T03:04:05.123456789Z`.
pub fn rfc3339_ns(time_ns: i64) -> String {
    rfc3339(time_ns, 9)
}

/// RFC 3339 with this many digits of the second, 1 to 9; further digits are cut off.
pub fn rfc3339(time_ns: i64, digits: usize) -> String {
    let t = Civil::at(time_ns);
    let fraction = format!("{:09}", t.nanosecond);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}Z",
        t.year,
        t.month,
        t.day,
        t.hour,
        t.minute,
        t.second,
        &fraction[..digits]
    )
}

/// `20260102T030405Z`, for names of files.
pub fn compact(time_ns: i64) -> String {
    let t = Civil::at(time_ns);
    let (date, time) = ((t.year, t.month, t.day), (t.hour, t.minute, t.second));
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", date.0, date.1, date.2, time.0, time.1, time.2)
}

/// A name with the date of a document in it, such as `logs-%Y.%m.%d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatePattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Year,
    Month,
    Day,
    Hour,
}

impl DatePattern {
    /// Reads a pattern with `%Y`, `%m`, `%d`, `%H` and `%%`.
    pub fn parse(pattern: &str) -> Result<DatePattern, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let part = match chars.next() {
                Some('Y') => Part::Year,
                Some('m') => Part::Month,
                Some('d') => Part::Day,
                Some('H') => Part::Hour,
                Some('%') => {
                    text.push('%');
                    continue;
                }
                _ => {
                    return Err(format!(
                        "'{pattern}' has a '%' that stands for nothing; use %Y, %m, %d, %H, or %% \
                         for a percent sign"
                    ));
                }
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(DatePattern { parts })
    }

    /// The name for a time.
    pub fn at(&self, time_ns: i64) -> String {
        let t = Civil::at(time_ns);
        let mut name = String::new();
        for part in &self.parts {
            let written = match part {
                Part::Text(text) => name.write_str(text),
                Part::Year => write!(name, "{:04}", t.year),
                Part::Month => write!(name, "{:02}", t.month),
                Part::Day => write!(name, "{:02}", t.day),
                Part::Hour => write!(name, "{:02}", t.hour),
            };
            written.expect("a String takes all text");
        }
        name
    }

    /// The text before the first part that depends on the time.
    pub fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether every document gets the same name.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (time_ns, expected) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_827_696_123_456_789, "2000-02-29T12:34:56.123456789Z"),
            (1_767_323_045_000_000_001, "2026-01-02T03:04:05.000000001Z"),
            (4_102_444_799_999_999_999, "2099-12-31T23:59:59.999999999Z"),
        ] {
            assert_eq!(rfc3339_ns(time_ns), expected);
        }
        assert_eq!(rfc3339(1_767_323_045_987_654_321, 3), "2026-01-02T03:04:05.987Z");
        assert_eq!(compact(1_767_323_045_000_000_000), "20260102T030405Z");
    }

    #[test]
    fn names_follow_the_date() {
        let pattern = DatePattern::parse("logs-%Y.%m.%d-%H%%").unwrap();
        assert_eq!(pattern.at(1_767_323_045_000_000_000), "logs-2026.01.02-03%");
        assert_eq!((pattern.prefix(), pattern.is_fixed()), ("logs-", false));
        assert!(DatePattern::parse("logs").unwrap().is_fixed());
        assert!(DatePattern::parse("logs-%y").is_err());
        assert!(DatePattern::parse("logs-%").is_err());
    }
}
