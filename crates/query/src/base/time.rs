//! Times and durations as they are written in queries, parameters and rows.
//!
//! Instants are nanoseconds since 1970 UTC. A time without zone is UTC (VictoriaLogs takes the
//! server's zone).

use record::civil::{civil_from_days, days_from_civil};

/// Nanoseconds of a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Nanoseconds of a day.
pub const DAY_NS: i64 = 24 * HOUR_NS;

/// The instants that a written time stands for: `2026-01` is a month, `2026-01-31T12:00:00.5Z` one
/// instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// First instant.
    pub start_ns: i64,
    /// First instant behind the period.
    pub end_ns: i64,
}

/// Reads a time: RFC 3339, also shortened down to the year and with or without zone; Unix seconds,
/// milliseconds, microseconds or nanoseconds, told apart by size; or relative to `now_ns`: `now`,
/// `now-1h`, `-15m`, `5m` (a duration means that long ago).
pub fn parse_time(text: &str, now_ns: i64) -> Option<Instants> {
    let instant = |ns: i64| Some(Instants { start_ns: ns, end_ns: ns.saturating_add(1) });
    if let Some(rest) = text.strip_prefix("now") {
        return match rest.as_bytes().first() {
            None => instant(now_ns),
            Some(b'+' | b'-') => instant(now_ns.saturating_add(parse_duration(rest)?)),
            Some(_) => None,
        };
    }
    if let Some(ns) = parse_unix(text) {
        return instant(ns);
    }
    if let Some(period) = parse_rfc3339(text) {
        return Some(period);
    }
    let ago = parse_duration(text.strip_prefix('-').unwrap_or(text)).filter(|&d| d >= 0)?;
    instant(now_ns.saturating_sub(ago))
}

/// Unix time with five or more digits before the point, or 0, which tools write for "from the
/// beginning"; four digits are a year.
fn parse_unix(text: &str) -> Option<i64> {
    if text == "0" {
        return Some(0);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    if digits.len() < 5 || !digits.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let unit: i64 = match digits.len() {
        0..=11 => SECOND_NS,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        _ => 1,
    };
    let whole: i64 = whole.parse().ok()?;
    let (mut part, mut place) = (0i64, unit);
    for digit in fraction.bytes() {
        place /= 10;
        part += i64::from(digit - b'0') * place;
    }
    let part = if text.starts_with('-') { -part } else { part };
    whole.checked_mul(unit)?.checked_add(part)
}

/// Reads `2026`, `2026-01`, … to `2026-01-31T12:00:00.123456789`, followed by `Z`, `+02:00` or
/// nothing (UTC).
fn parse_rfc3339(text: &str) -> Option<Instants> {
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
    // Times out of range count as the first or the last representable instant.
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

/// Reads a duration in nanoseconds: `500ms`, `1h30m`, `-5s`, `2.5d15m42.345s`. Units: ns, us or µs,
/// ms, s, m, h, d, w, y (365 days). A longer duration than 64 bits of nanoseconds counts as the
/// longest possible one.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0f64;
    let mut sum_exact = 0i128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = &rest[..digits];
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit: i64 = match &rest[..unit_end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND_NS,
            "m" => MINUTE_NS,
            "h" => HOUR_NS,
            "d" => DAY_NS,
            "w" => 7 * DAY_NS,
            "y" => 365 * DAY_NS,
            _ => return None,
        };
        rest = &rest[unit_end..];
        match number.parse::<i64>() {
            Ok(whole) => {
                let part = i128::from(whole) * i128::from(unit);
                sum_exact = sum_exact.saturating_add(part);
            }
            Err(_) => sum += number.parse::<f64>().ok()? * unit as f64,
        }
    }
    let total = sum_exact.saturating_add(sum.round() as i128);
    let total = total.min(i64::MAX.into()) as i64;
    Some(if negative { -total } else { total })
}

/// Writes a duration so that [`parse_duration`] reads it back.
pub fn format_duration(ns: i64) -> String {
    if ns == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    if ns < 0 {
        out.push('-');
    }
    let mut rest = ns.unsigned_abs();
    let units = [
        ("w", 7 * DAY_NS),
        ("d", DAY_NS),
        ("h", HOUR_NS),
        ("m", MINUTE_NS),
        ("s", SECOND_NS),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    for (unit, length) in units {
        let count = rest / length as u64;
        rest %= length as u64;
        if count > 0 {
            out.push_str(&format!("{count}{unit}"));
        }
    }
    out
}

/// Appends a duration as it is written in values, as VictoriaLogs does: from one second on, seconds
/// have a fraction; microseconds are `µs`; 0 has no unit.
pub(crate) fn write_duration_value(ns: i64, out: &mut Vec<u8>) {
    if ns == 0 {
        return out.push(b'0');
    }
    out.extend_from_slice(if ns < 0 { b"-" } else { b"" });
    let (mut rest, mut text) = (ns.unsigned_abs(), String::new());
    let (large, small) = (
        [("w", 7 * DAY_NS), ("d", DAY_NS), ("h", HOUR_NS), ("m", MINUTE_NS)],
        [("ms", 1_000_000), ("µs", 1_000), ("ns", 1)],
    );
    let take = |units: &[(&str, i64)], rest: &mut u64, text: &mut String| {
        for (unit, length) in units {
            let count = *rest / *length as u64;
            *rest %= *length as u64;
            if count > 0 {
                text.push_str(&format!("{count}{unit}"));
            }
        }
    };
    if rest >= SECOND_NS as u64 {
        take(&large, &mut rest, &mut text);
        if rest >= SECOND_NS as u64 {
            text.push_str(&format!("{}s", rest as f64 / SECOND_NS as f64));
            return out.extend_from_slice(text.as_bytes());
        }
    }
    take(&small, &mut rest, &mut text);
    out.extend_from_slice(text.as_bytes());
}

/// Appends an instant as RFC 3339 in UTC with as many digits of the second as needed.
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
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_769_860_800 * SECOND_NS; // 2026-01-31T12:00:00Z

    #[test]
    fn times() {
        let check = |text: &str, start: &str, end: &str| {
            let found =
                parse_time(text, NOW).map(|t| (format_time(t.start_ns), format_time(t.end_ns)));
            assert_eq!(found, Some((start.to_owned(), end.to_owned())), "{text}");
        };
        check("2026", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        check("2024-02Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
        check("2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z");
        check("2026-01-31T12Z", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z");
        check("2026-01-31T12:30", "2026-01-31T12:30:00Z", "2026-01-31T12:31:00Z");
        check("2026-01-31T12:30:05Z", "2026-01-31T12:30:05Z", "2026-01-31T12:30:06Z");
        check(
            "2026-01-31T12:30:05.25Z",
            "2026-01-31T12:30:05.25Z",
            "2026-01-31T12:30:05.250000001Z",
        );
        check("2023-04-25+05:30", "2023-04-24T18:30:00Z", "2023-04-25T18:30:00Z");
        check("2023-02-07:00", "2023-02-01T07:00:00Z", "2023-03-01T07:00:00Z");
        check("1769860800", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000001Z");
        check("1769860800.5", "2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500000001Z");
        check("1769860800123", "2026-01-31T12:00:00.123Z", "2026-01-31T12:00:00.123000001Z");
        check("0", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000001Z");
        check("now-1h", "2026-01-31T11:00:00Z", "2026-01-31T11:00:00.000000001Z");
        check("-15m", "2026-01-31T11:45:00Z", "2026-01-31T11:45:00.000000001Z");
        check("5m", "2026-01-31T11:55:00Z", "2026-01-31T11:55:00.000000001Z");
        for wrong in [
            "",
            "x",
            "20260",
            "2026-13",
            "2026-02-30",
            "2026-01-31T24",
            "2026-1-3",
            "now5m",
            "2026-01-31T12:30:05.",
            "--5m",
        ] {
            let unix = wrong == "20260";
            assert_eq!(parse_time(wrong, NOW).is_some(), unix, "{wrong}");
        }
    }

    #[test]
    fn durations() {
        let check = |text: &str, ns: Option<i64>| assert_eq!(parse_duration(text), ns, "{text}");
        check("500ms", Some(500_000_000));
        check("1h30m", Some(90 * MINUTE_NS));
        check("-5s", Some(-5 * SECOND_NS));
        check("1.5s", Some(1_500_000_000));
        check("2.5d15m42.345s", Some(60 * HOUR_NS + 15 * MINUTE_NS + 42_345_000_000));
        check("3µs", Some(3_000));
        check("1y", Some(365 * DAY_NS));
        check("999999999y", Some(i64::MAX));
        for wrong in ["", "5", "s", "5q", "1h30", "-", "1..5s", "5 s"] {
            check(wrong, None);
        }
    }

    proptest! {
        #[test]
        fn times_and_durations_round_trip(ns in any::<i64>()) {
            let read = parse_time(&format_time(ns), 0).unwrap();
            prop_assert_eq!(read.start_ns, ns);
            prop_assert_eq!(parse_duration(&format_duration(ns)), Some(ns.max(-i64::MAX)));
        }

        #[test]
        fn no_text_panics(text in "[-+0-9TZ:.nowsmhdy\u{b5}]{0,30}") {
            let _ = parse_time(&text, NOW);
            let _ = parse_duration(&text);
        }
    }
}
