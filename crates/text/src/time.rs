//! Times as RFC 3339 writes them, in nanoseconds since 1970 UTC; a time without zone is UTC.

use crate::civil::{civil_from_days, days_from_civil};
use crate::duration::{DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS};

/// The instants that a written time stands for: `2026-01` is a month, `2026-01-31T12:00:00.5Z` one
/// instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// First instant.
    pub start_ns: i64,
    /// First instant behind it.
    pub end_ns: i64,
}

/// A time in UTC by its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Moment {
    pub year: i64,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub nanosecond: u32,
}

impl Moment {
    /// The parts of an instant.
    pub fn at(time_ns: i64) -> Moment {
        let second = time_ns.div_euclid(SECOND_NS);
        let (year, month, day) = civil_from_days(time_ns.div_euclid(DAY_NS));
        let of_day = second.rem_euclid(DAY_NS / SECOND_NS) as u32;
        Moment {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            nanosecond: time_ns.rem_euclid(SECOND_NS) as u32,
        }
    }
}

/// RFC 3339 with this many digits of the second, 1 to 9; further digits are cut off.
pub fn format_time_digits(time_ns: i64, digits: usize) -> String {
    let t = Moment::at(time_ns);
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

/// Reads `2026`, `2026-01`, … to `2026-01-31T12:00:00.123456789`, followed by `Z`, `+02:00` or
/// nothing (UTC).
pub fn parse_period(text: &str) -> Option<Instants> {
    let (text, zone_ns) = split_zone(text)?;
    let b = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = b.get(from..to).filter(|d| d.iter().all(u8::is_ascii_digit))?;
        Some(digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
    };
    let part = |at: usize, separators: &[u8], low: i64, high: i64| -> Option<Option<i64>> {
        if b.len() < at {
            return Some(None);
        }
        separators.contains(&b[at - 1]).then_some(())?;
        Some(Some(number(at, at + 2).filter(|n| (low..=high).contains(n))?))
    };
    let year = number(0, 4)?;
    let month = part(5, b"-", 1, 12)?;
    let day = part(8, b"-", 1, 31)?;
    let hour = part(11, b"Tt ", 0, 23)?;
    let minute = part(14, b":", 0, 59)?;
    // A leap second counts as the second after it.
    let second = part(17, b":", 0, 60)?;
    let fraction_ns = if b.len() < 20 {
        None
    } else {
        let digits = &b[20..];
        (b[19] == b'.' || b[19] == b',').then_some(())?;
        (!digits.is_empty() && digits.len() <= 9 && digits.iter().all(u8::is_ascii_digit))
            .then_some(())?;
        Some(number(20, b.len())? * 10i64.pow(9 - digits.len() as u32))
    };
    if ![4, 7, 10, 13, 16, 19].contains(&b.len()) && b.len() <= 20 {
        return None;
    }
    let days = days_from_civil(year, month.unwrap_or(1) as u32, day.unwrap_or(1) as u32)?;
    let clock = hour.unwrap_or(0) * HOUR_NS
        + minute.unwrap_or(0) * MINUTE_NS
        + second.unwrap_or(0) * SECOND_NS;
    let nanoseconds = i128::from(days) * i128::from(DAY_NS)
        + i128::from(clock)
        + i128::from(fraction_ns.unwrap_or(0))
        - i128::from(zone_ns);
    let first_of = |year: i64, month: i64| {
        days_from_civil(year, month as u32, 1).expect("every month has a first day")
    };
    let length = match (month, day, hour, minute, second, fraction_ns) {
        (.., Some(_)) => 1,
        (.., Some(_), None) => SECOND_NS,
        (_, _, _, Some(_), ..) => MINUTE_NS,
        (_, _, Some(_), ..) => HOUR_NS,
        (_, Some(_), ..) => DAY_NS,
        (Some(month @ 1..=11), ..) => (first_of(year, month + 1) - days) * DAY_NS,
        _ => (first_of(year + 1, 1) - days) * DAY_NS,
    };
    // Times out of range count as the ends of time.
    let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    Some(Instants { start_ns: clamp(nanoseconds), end_ns: clamp(nanoseconds + i128::from(length)) })
}

/// Splits the zone off; nanoseconds east of UTC.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, 0));
    }
    let b = text.as_bytes();
    let Some(at) = b.len().checked_sub(6) else { return Some((text, 0)) };
    let digits = [at + 1, at + 2, at + 4, at + 5];
    let zone = matches!(b[at], b'+' | b'-')
        && b[at + 3] == b':'
        && digits.iter().all(|&i| b[i].is_ascii_digit());
    if !zone || at < 4 {
        return Some((text, 0));
    }
    let digit = |i: usize| i64::from(b[i] - b'0');
    let (hours, minutes) = (digit(at + 1) * 10 + digit(at + 2), digit(at + 4) * 10 + digit(at + 5));
    if hours > 23 || minutes > 59 {
        return None;
    }
    let east = hours * HOUR_NS + minutes * MINUTE_NS;
    Some((&text[..at], if b[at] == b'-' { -east } else { east }))
}

/// Reads a full RFC 3339 time, as nanoseconds since 1970 UTC; none when it is anything else. As
/// text, times with and without fractions of a second would not be in order.
pub fn parse_timestamp(value: &[u8]) -> Option<i64> {
    let shape = (20..=35).contains(&value.len())
        && value[4] == b'-'
        && matches!(value[10], b'T' | b't' | b' ');
    let text =
        std::str::from_utf8(value).ok().filter(|t| shape && t.as_bytes()[0].is_ascii_digit())?;
    parse_period(text).map(|period| period.start_ns)
}

/// Appends an instant as RFC 3339 in UTC with as many digits behind the point as it needs.
pub fn write_time(ns: i64, out: &mut Vec<u8>) {
    let (days, clock) = (ns.div_euclid(DAY_NS), ns.rem_euclid(DAY_NS));
    let (year, month, day) = civil_from_days(days);
    let seconds = clock / SECOND_NS;
    let two = |n: i64| [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
    let (century, rest) = (two(year / 100), two(year % 100));
    let (month, day) = (two(month.into()), two(day.into()));
    let (hour, minute, second) = (two(seconds / 3600), two(seconds / 60 % 60), two(seconds % 60));
    let mut text = *b"0000-00-00T00:00:00";
    for (at, pair) in
        [(0, century), (2, rest), (5, month), (8, day), (11, hour), (14, minute), (17, second)]
    {
        text[at..at + 2].copy_from_slice(&pair);
    }
    out.extend_from_slice(&text);
    let mut fraction = clock % SECOND_NS;
    if fraction > 0 {
        let mut digits = [b'0'; 10];
        digits[0] = b'.';
        for place in digits[1..].iter_mut().rev() {
            *place = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        let length = digits.iter().rposition(|&d| d != b'0').expect("a point at least") + 1;
        out.extend_from_slice(&digits[..length]);
    }
    out.push(b'Z');
}

/// An instant as RFC 3339 text in UTC.
pub fn format_time(ns: i64) -> String {
    let mut out = Vec::with_capacity(30);
    write_time(ns, &mut out);
    String::from_utf8(out).expect("ASCII")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn periods() {
        let check = |text: &str, start: &str, end: &str| {
            let found =
                parse_period(text).map(|t| (format_time(t.start_ns), format_time(t.end_ns)));
            assert_eq!(found, Some((start.to_owned(), end.to_owned())), "{text}");
        };
        check("2026", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        check("2024-02Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
        check("2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z");
        check("2026-01-31T12Z", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z");
        check("2026-01-31T12:30", "2026-01-31T12:30:00Z", "2026-01-31T12:31:00Z");
        check("2026-01-31T12:30:05Z", "2026-01-31T12:30:05Z", "2026-01-31T12:30:06Z");
        check("2023-04-25+05:30", "2023-04-24T18:30:00Z", "2023-04-25T18:30:00Z");
        for wrong in ["", "x", "20260", "2026-13", "2026-02-30", "2026-01-31T24", "2026-1-3"] {
            assert_eq!(parse_period(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_written_in_utc() {
        for (time_ns, nine, short) in [
            (0, "1970-01-01T00:00:00.000000000Z", "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z"),
            (
                951_827_696_123_456_789,
                "2000-02-29T12:34:56.123456789Z",
                "2000-02-29T12:34:56.123456789Z",
            ),
            (1_709_251_199_500_000_000, "2024-02-29T23:59:59.500000000Z", "2024-02-29T23:59:59.5Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(format_time_digits(time_ns, 9), nine);
            assert_eq!(format_time(time_ns), short);
        }
        assert_eq!(format_time_digits(1_767_323_045_987_654_321, 3), "2026-01-02T03:04:05.987Z");
    }

    #[test]
    fn timestamps_are_whole() {
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(SECOND_NS)),
            ("1970-01-01 00:00:01.5Z", Some(1_500_000_000)),
            ("1970-01-01T02:00:00+02:00", Some(0)),
            ("1970-01-01T00:00:00", None),
            ("1970-01-01", None),
            ("5m", None),
            ("0", None),
        ] {
            assert_eq!(parse_timestamp(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(ns in any::<i64>(), digits in 1..10_usize) {
            let read = |text: &str| parse_timestamp(text.as_bytes());
            prop_assert_eq!(read(&format_time(ns)), Some(ns));
            let cut = ns.saturating_sub(ns.rem_euclid(10_i64.pow(9 - digits as u32)));
            let found = read(&format_time_digits(ns, digits));
            prop_assert_eq!(found, Some(cut));
        }

        #[test]
        fn no_text_panics(text in "[-+0-9TZ:. ]{0,36}|\\PC{0,36}") {
            let _ = (parse_period(&text), parse_timestamp(text.as_bytes()));
        }
    }
}
