//! Buckets of values: `_time:5m`, `_time:1d offset 2h`, `_time:month`, `size:1KB`, `ip:/24`.
//!
//! `second`, `minute`, `hour`, `day` and `week` are written as the durations they stand for. Weeks
//! begin on Monday; steps of `1w` begin on Thursday, as 1970 did. Months and years follow the
//! calendar. The offset is that of a time zone from UTC, as in VictoriaLogs: with `_time:1d offset
//! 2h`, days begin at 22:00 UTC.

use std::fmt;

use text::civil::{civil_from_days, days_from_civil};
use text::duration::{DAY_NS, format_duration};

use crate::base::time::parse_duration;
use crate::lang::filter::{Number, parse_duration_argument};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// How values of a grouping field form buckets. Buckets begin at multiples of the size, plus a
/// shift, which is the negative of the offset in the query.
#[derive(Clone, Debug, PartialEq)]
pub enum Bucket {
    /// Times in steps of a duration.
    Time {
        /// Length of a bucket; positive.
        step_ns: i64,
        /// Shift of all buckets.
        offset_ns: i64,
    },
    /// Times by calendar months, or years of twelve.
    Months {
        /// Months of a bucket: 1 or 12.
        months: u8,
        /// Shift of all buckets.
        offset_ns: i64,
    },
    /// Numbers in steps of a size.
    Number {
        /// Size of a bucket; positive.
        size: Number,
        /// Shift of all buckets.
        offset: Option<Number>,
    },
    /// IPv4 addresses grouped by network.
    Ipv4 {
        /// Prefix length of the network, bits; up to 32.
        bits: u8,
    },
}

/// Nanoseconds from the beginning of 1970, a Thursday, to its first Monday.
const MONDAY_NS: i64 = 4 * DAY_NS;

/// The text expected behind the colon, for messages.
const SIZE: &str = "the size of buckets, such as 5m, month, 10KB or /24";

/// Parses the text behind the colon.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Bucket, ParseError> {
    let written = cursor.run("(),|", SIZE)?;
    let wrong = cursor.error_at(written.position, &[SIZE], "this is not a size of buckets");
    if let Some(bits) = written.text.strip_prefix('/') {
        let bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or(wrong)?;
        return Ok(Bucket::Ipv4 { bits });
    }
    let steps = |step_ns| Bucket::Time { step_ns, offset_ns: 0 };
    let mut bucket = match written.text.to_ascii_lowercase().as_str() {
        "nanosecond" => steps(1),
        "microsecond" => steps(1_000),
        "millisecond" => steps(1_000_000),
        "second" => steps(1_000_000_000),
        "minute" => steps(60_000_000_000),
        "hour" => steps(DAY_NS / 24),
        "day" => steps(DAY_NS),
        "week" => Bucket::Time { step_ns: 7 * DAY_NS, offset_ns: MONDAY_NS },
        "month" => Bucket::Months { months: 1, offset_ns: 0 },
        "year" => Bucket::Months { months: 12, offset_ns: 0 },
        _ => {
            let step_ns = parse_duration(&written.text).filter(|&step| step > 0);
            let size = Number::parse(&written.text)
                .filter(|size| size.value > 0.0 && size.value.is_finite());
            match (step_ns, size) {
                (Some(step_ns), _) => steps(step_ns),
                (None, Some(size)) => Bucket::Number { size, offset: None },
                (None, None) => return Err(wrong),
            }
        }
    };
    if cursor.eat_keyword("offset") {
        match &mut bucket {
            Bucket::Time { offset_ns, .. } | Bucket::Months { offset_ns, .. } => {
                *offset_ns = offset_ns.saturating_sub(parse_duration_argument(cursor)?);
            }
            Bucket::Number { offset, .. } => {
                let what = "a number to shift the buckets by";
                let written = cursor.run("(),|", what)?;
                let number = Number::parse(&written.text).filter(|n| n.value.is_finite());
                let wrong = cursor.error_at(written.position, &[what], "this is not a number");
                *offset = Some(number.ok_or(wrong)?);
            }
            Bucket::Ipv4 { .. } => unreachable!("networks have no offset"),
        }
    }
    Ok(bucket)
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset_ns = match self {
            Bucket::Time { step_ns, offset_ns } => {
                f.write_str(&format_duration(*step_ns))?;
                *offset_ns
            }
            Bucket::Months { months, offset_ns } => {
                f.write_str(if *months == 12 { "year" } else { "month" })?;
                *offset_ns
            }
            Bucket::Number { size, offset } => {
                f.write_str(&text::quoted::quote(&size.text))?;
                let offset = offset.as_ref().map(|offset| text::quoted::quote(&offset.text));
                return offset.map_or(Ok(()), |offset| write!(f, " offset {offset}"));
            }
            Bucket::Ipv4 { bits } => return write!(f, "/{bits}"),
        };
        match offset_ns {
            0 => Ok(()),
            offset_ns => write!(f, " offset {}", format_duration(offset_ns.saturating_neg())),
        }
    }
}

impl Bucket {
    /// The start of the bucket that holds a time; none for buckets of numbers or addresses.
    #[inline]
    pub(crate) fn start_ns(&self, time_ns: i64) -> Option<i64> {
        match self {
            Bucket::Time { step_ns, offset_ns } => Some(time_bucket(time_ns, *step_ns, *offset_ns)),
            Bucket::Months { months, offset_ns } => {
                Some(months_around(time_ns, *months, *offset_ns).0)
            }
            Bucket::Number { .. } | Bucket::Ipv4 { .. } => None,
        }
    }

    /// Length of the bucket that holds a time, in seconds.
    pub(super) fn seconds(&self, time_ns: i64) -> Option<f64> {
        let length_ns = match self {
            Bucket::Time { step_ns, .. } => *step_ns,
            Bucket::Months { months, offset_ns } => {
                let (start, end) = months_around(time_ns, *months, *offset_ns);
                end.saturating_sub(start)
            }
            Bucket::Number { .. } | Bucket::Ipv4 { .. } => return None,
        };
        Some(length_ns as f64 / 1e9)
    }
}

/// The start of the bucket of `months` months that holds a time, and the start of the next.
fn months_around(time_ns: i64, months: u8, offset_ns: i64) -> (i64, i64) {
    let (months, offset) = (i64::from(months), i128::from(offset_ns));
    // Nanoseconds in 64 bits span some hundred years, so the number of days cannot overflow.
    let days = (i128::from(time_ns) - offset).div_euclid(i128::from(DAY_NS)) as i64;
    let (year, month, _) = civil_from_days(days);
    let first = (year * 12 + i64::from(month) - 1).div_euclid(months) * months;
    let start = |month: i64| {
        let days = days_from_civil(month.div_euclid(12), month.rem_euclid(12) as u32 + 1, 1);
        let days = days.expect("every month has a first day");
        let ns = i128::from(days) * i128::from(DAY_NS) + offset;
        ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    };
    (start(first), start(first + months))
}

/// The start of the bucket that holds a time.
#[inline]
pub(crate) fn time_bucket(time_ns: i64, step_ns: i64, offset_ns: i64) -> i64 {
    let shifted = i128::from(time_ns) - i128::from(offset_ns);
    // Nearly all times are far from the limits of 64 bits.
    match i64::try_from(shifted) {
        Ok(shifted) => time_ns.saturating_sub(shifted.rem_euclid(step_ns)),
        Err(_) => time_ns.saturating_sub(shifted.rem_euclid(i128::from(step_ns)) as i64),
    }
}

#[cfg(test)]
mod tests {
    use text::time::format_time;

    use super::*;
    use crate::base::time::parse_time;

    #[test]
    fn times_fall_into_buckets() {
        let check = |time, step, offset, expected| {
            assert_eq!(time_bucket(time, step, offset), expected, "{time} {step} {offset}");
        };
        check(12, 5, 0, 10);
        check(10, 5, 0, 10);
        check(-1, 5, 0, -5);
        check(12, 5, 3, 8);
        check(13, 5, 3, 13);
        check(13, 5, -2, 13);
        check(i64::MIN, 5, 3, i64::MIN);
        check(i64::MAX, i64::MAX, i64::MIN, i64::MAX - 1);
    }

    #[test]
    fn times_fall_into_weeks_months_and_years() {
        let check = |bucket: &str, time: &str, expected: &str, days: f64| {
            let bucket = parse(&mut Cursor::new(bucket, 0)).unwrap();
            let time_ns = parse_time(time, 0).unwrap().start_ns;
            let start = bucket.start_ns(time_ns).map(format_time);
            assert_eq!(start.as_deref(), Some(expected), "{bucket} {time}");
            assert_eq!(bucket.seconds(time_ns), Some(days * 86_400.0), "{bucket} {time}");
        };
        check("week", "2026-02-01T12:00:00Z", "2026-01-26T00:00:00Z", 7.0);
        check("week", "2026-02-02T00:00:00Z", "2026-02-02T00:00:00Z", 7.0);
        check("1w", "2026-02-02T00:00:00Z", "2026-01-29T00:00:00Z", 7.0);
        check("month", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", 29.0);
        check("month", "1969-12-31T23:59:59Z", "1969-12-01T00:00:00Z", 31.0);
        check("month offset -2h", "2026-02-01T01:00:00Z", "2026-01-01T02:00:00Z", 31.0);
        check("month offset 2h", "2026-01-31T22:00:00Z", "2026-01-31T22:00:00Z", 28.0);
        check("year", "2024-07-01T00:00:00Z", "2024-01-01T00:00:00Z", 366.0);
        // The first year within 64 bits of nanoseconds begins before the least representable time.
        let year = parse(&mut Cursor::new("YEAR", 0)).unwrap();
        assert_eq!(year.start_ns(i64::MIN + 1), Some(i64::MIN));
    }

    #[test]
    fn buckets_are_written_back() {
        for text in [
            "5m",
            "1d offset 2h",
            "month",
            "year offset -3h",
            "\"1KB\"",
            "\"10\" offset \"3\"",
            "/24",
        ] {
            let bucket = parse(&mut Cursor::new(text, 0)).unwrap();
            assert_eq!(bucket.to_string(), text);
        }
        for wrong in ["", "x", "/33", "0", "-5m", "10 offset x", "5m offset 3", "week offset month"]
        {
            assert!(parse(&mut Cursor::new(wrong, 0)).is_err(), "{wrong}");
        }
    }
}
