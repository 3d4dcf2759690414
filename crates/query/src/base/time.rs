//! Times and durations as they are written in queries and parameters.
//!
//! Instants are nanoseconds since 1970 UTC. A time without zone is UTC (VictoriaLogs takes the
//! server's zone).

use text::duration::{self, SECOND_NS};
use text::time::{Instants, parse_period};

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
    if let Some(period) = parse_period(text) {
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

/// Reads a duration of LogsQL in nanoseconds: `500ms`, `1h30m`, `-5s`, `2.5d15m42.345s`. Too long
/// ones count as the longest.
pub fn parse_duration(text: &str) -> Option<i64> {
    duration::parse_ns(text, duration::LOGSQL)
}

#[cfg(test)]
mod tests {
    use text::duration::{DAY_NS, HOUR_NS, MINUTE_NS, format_duration};
    use text::time::format_time;

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
