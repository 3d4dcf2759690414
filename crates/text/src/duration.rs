//! Durations: numbers with units, also several in a row, such as `500ms`, `1h30m` and `-1.5s`.
//!
//! There is one parser. A [`Dialect`] says what a place accepts beyond whole numbers with the units
//! `ms`, `s`, `m`, `h`, `d`, `w` and `y` (365 days), which every dialect has. All settings of ours
//! are in one dialect ([`parse_setting`]).

use std::time::Duration;

/// Nanoseconds of a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;
/// Nanoseconds of an hour.
pub const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Nanoseconds of a day.
pub const DAY_NS: i64 = 24 * HOUR_NS;

const MILLISECOND_NS: i64 = 1_000_000;
/// Units from a minute on, longest first; a year is not written.
const LARGE: [(&str, i64); 4] =
    [("w", 7 * DAY_NS), ("d", DAY_NS), ("h", HOUR_NS), ("m", MINUTE_NS)];
/// Digits of a fraction that are read. Later ones are below a nanosecond in every unit.
const FRACTION_DIGITS_MAX: usize = 18;

/// What durations of a place may hold.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// `+` or `-` in front.
    signs: bool,
    /// The units `us` (also with `µ`) and `ns`.
    small_units: bool,
    /// Fractions: `1.5h`.
    fractions: bool,
    /// What a number without a unit means.
    bare: Bare,
    /// Whether a duration beyond 292 years counts as the longest one, or is none.
    saturates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bare {
    Nothing,
    /// `0` is a duration, other numbers are not.
    Zero,
    Seconds,
}

/// Settings and headers of programs: whole numbers.
const SETTING: Dialect = Dialect {
    signs: false,
    small_units: false,
    fractions: false,
    bare: Bare::Nothing,
    saturates: true,
};
/// Rules and notifiers of alerts, as Prometheus and vmalert read them.
pub const PROMETHEUS: Dialect = Dialect { fractions: true, bare: Bare::Seconds, ..SETTING };
/// LogsQL, as VictoriaLogs reads it.
pub const LOGSQL: Dialect = Dialect { signs: true, small_units: true, fractions: true, ..SETTING };
/// LogQL, as Loki and Go read it.
pub const LOGQL: Dialect = Dialect { bare: Bare::Zero, saturates: false, ..LOGSQL };

/// Reads a setting: whole numbers with the units `ms`, `s`, `m`, `h`, `d`, `w` and `y`, also
/// several in a row. The error says what to write.
pub fn parse_setting(text: &str) -> Result<Duration, String> {
    let exact_ms = sum_ns(text.trim(), SETTING).map(|ns| ns / i128::from(MILLISECOND_NS));
    exact_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis).ok_or_else(|| {
        format!("'{text}' is not a duration; write for example 500ms, 30s, 1h30m, 30d or 1w")
    })
}

/// Reads a duration in nanoseconds; none if it is not one of the dialect.
pub fn parse_ns(text: &str, dialect: Dialect) -> Option<i64> {
    let sum_ns = sum_ns(text, dialect)?;
    let longest = i128::from(i64::MAX);
    (dialect.saturates || (-longest..longest).contains(&sum_ns))
        .then(|| sum_ns.clamp(-longest, longest) as i64)
}

/// The nanoseconds of a duration; the largest number if it is longer than 292 years.
pub fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The exact sum of all parts.
fn sum_ns(text: &str, dialect: Dialect) -> Option<i128> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' if dialect.signs => (-1, &text[1..]),
        b'+' if dialect.signs => (1, &text[1..]),
        _ => (1, text),
    };
    let is_of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let mut rest = unsigned;
    let mut sum_ns: i128 = 0;
    loop {
        let (number, behind) = rest.split_at(length(rest, is_of_number));
        let (unit, behind) = behind.split_at(length(behind, |byte| !is_of_number(byte)));
        let unit_ns = match unit {
            "" if number.len() == unsigned.len() => bare_ns(number, dialect)?,
            unit => unit_ns(unit, dialect)?,
        };
        sum_ns = sum_ns.saturating_add(product_ns(number, unit_ns, dialect)?);
        rest = behind;
        if rest.is_empty() {
            return Some(sign * sum_ns);
        }
    }
}

fn length(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| is_part(*byte)).count()
}

fn bare_ns(number: &str, dialect: Dialect) -> Option<i64> {
    match dialect.bare {
        Bare::Seconds => Some(SECOND_NS),
        Bare::Zero if number == "0" => Some(SECOND_NS),
        Bare::Zero | Bare::Nothing => None,
    }
}

fn unit_ns(unit: &str, dialect: Dialect) -> Option<i64> {
    Some(match unit {
        "ms" => MILLISECOND_NS,
        "s" => SECOND_NS,
        "m" => MINUTE_NS,
        "h" => HOUR_NS,
        "d" => DAY_NS,
        "w" => 7 * DAY_NS,
        "y" => 365 * DAY_NS,
        "ns" if dialect.small_units => 1,
        // There are two characters for micro.
        "us" | "µs" | "μs" if dialect.small_units => 1_000,
        _ => return None,
    })
}

/// A number of digits and points times a unit, rounded to a nanosecond.
fn product_ns(number: &str, unit_ns: i64, dialect: Dialect) -> Option<i128> {
    let (whole, fraction) = match number.split_once('.') {
        None => (number, ""),
        Some(parts) if dialect.fractions => parts,
        Some(_) => return None,
    };
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let unit_ns = i128::from(unit_ns);
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<u64>().map_or(i128::MAX, i128::from),
    };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let part = fraction.bytes().fold(0, |n, digit| n * 10 + i128::from(digit - b'0'));
    let scale = 10_i128.pow(fraction.len() as u32);
    Some(whole.saturating_mul(unit_ns).saturating_add((part * unit_ns + scale / 2) / scale))
}

/// Writes a duration so that LogsQL and LogQL read it back: `1h30m`, `-5s`, `0s`.
pub fn format_duration(ns: i64) -> String {
    if ns == 0 {
        return "0s".to_owned();
    }
    let mut out = if ns < 0 { "-" } else { "" }.to_owned();
    let mut rest = ns.unsigned_abs();
    take(&LARGE, &mut rest, &mut out);
    take(
        &[("s", SECOND_NS), ("ms", MILLISECOND_NS), ("us", 1_000), ("ns", 1)],
        &mut rest,
        &mut out,
    );
    out
}

/// Appends a duration as a value is written, as VictoriaLogs does: from a second on with a fraction
/// of seconds, `µs`, and 0 without a unit.
pub fn write_duration(ns: i64, out: &mut Vec<u8>) {
    if ns == 0 {
        return out.push(b'0');
    }
    let mut text = if ns < 0 { "-" } else { "" }.to_owned();
    let mut rest = ns.unsigned_abs();
    if rest >= SECOND_NS as u64 {
        take(&LARGE, &mut rest, &mut text);
    }
    if rest >= SECOND_NS as u64 {
        text.push_str(&format!("{}s", rest as f64 / SECOND_NS as f64));
        rest = 0;
    }
    take(&[("ms", MILLISECOND_NS), ("µs", 1_000), ("ns", 1)], &mut rest, &mut text);
    out.extend_from_slice(text.as_bytes());
}

/// Appends as many of each unit as `rest` holds, and takes them off.
fn take(units: &[(&str, i64)], rest: &mut u64, out: &mut String) {
    for (unit, length_ns) in units {
        let count = *rest / *length_ns as u64;
        *rest %= *length_ns as u64;
        if count > 0 {
            out.push_str(&format!("{count}{unit}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = MILLISECOND_NS;

    #[test]
    fn settings() {
        for (text, expected_ms) in [
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            (" 2d ", Some(172_800_000)),
            ("30d", Some(2_592_000_000)),
            ("1w", Some(604_800_000)),
            ("1y", Some(31_536_000_000)),
            // Longer than nanoseconds in 64 bits can say.
            ("1000y", Some(31_536_000_000_000)),
            ("", None),
            ("5", None),
            ("0", None),
            ("s", None),
            ("5 s", None),
            ("1.5s", None),
            ("-1s", None),
            ("+1s", None),
            ("5us", None),
            ("5x", None),
            ("99999999999999999999s", None),
            ("9999999999999999w", None),
            ("18446744073709551615h", None),
        ] {
            let found = parse_setting(text).ok().map(|d| d.as_millis());
            assert_eq!(found, expected_ms, "{text}");
        }
        assert!(parse_setting("5x").unwrap_err().starts_with("'5x' is not a duration; write"));
    }

    #[test]
    fn dialects_differ_as_their_originals_do() {
        for (text, prometheus, logsql, logql) in [
            ("250ms", Some(250 * MS), Some(250 * MS), Some(250 * MS)),
            ("1.5h", Some(90 * MINUTE_NS), Some(90 * MINUTE_NS), Some(90 * MINUTE_NS)),
            ("1h30m", Some(90 * MINUTE_NS), Some(90 * MINUTE_NS), Some(90 * MINUTE_NS)),
            ("2w", Some(14 * DAY_NS), Some(14 * DAY_NS), Some(14 * DAY_NS)),
            ("1y", Some(365 * DAY_NS), Some(365 * DAY_NS), Some(365 * DAY_NS)),
            ("0", Some(0), None, Some(0)),
            ("15", Some(15 * SECOND_NS), None, None),
            ("1.5", Some(1_500 * MS), None, None),
            ("-5s", None, Some(-5 * SECOND_NS), Some(-5 * SECOND_NS)),
            ("+5s", None, Some(5 * SECOND_NS), Some(5 * SECOND_NS)),
            ("3us", None, Some(3_000), Some(3_000)),
            ("3µs", None, Some(3_000), Some(3_000)),
            ("3μs", None, Some(3_000), Some(3_000)),
            ("0.1us7ns", None, Some(107), Some(107)),
            (".5s", Some(500 * MS), Some(500 * MS), Some(500 * MS)),
            ("5.s", Some(5 * SECOND_NS), Some(5 * SECOND_NS), Some(5 * SECOND_NS)),
            ("999999999y", Some(i64::MAX), Some(i64::MAX), None),
            ("99999999999999999999999999999999999999999y", Some(i64::MAX), Some(i64::MAX), None),
        ] {
            for (dialect, expected) in [(PROMETHEUS, prometheus), (LOGSQL, logsql), (LOGQL, logql)]
            {
                assert_eq!(parse_ns(text, dialect), expected, "{text} in {dialect:?}");
            }
        }
        for text in ["", "m", "5 m", "5x", "1h30", "-", "--5m", "1..5s", ".s", "s5", "5m ", "7 "] {
            for dialect in [PROMETHEUS, LOGSQL, LOGQL] {
                assert_eq!(parse_ns(text, dialect), None, "{text} in {dialect:?}");
            }
        }
    }

    #[test]
    fn values_are_written_as_victorialogs_does() {
        for (ns, expected) in [
            (0, "0"),
            (90 * SECOND_NS, "1m30s"),
            (-1_500_000_001, "-1.500000001s"),
            (3_600_000_001_000, "1h1µs"),
            (999_999_999, "999ms999µs999ns"),
        ] {
            let mut out = Vec::new();
            write_duration(ns, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(ns in any::<i64>(), short_ns in -99 * DAY_NS..99 * DAY_NS) {
            let most = ns.max(-i64::MAX);
            prop_assert_eq!(parse_ns(&format_duration(ns), LOGSQL), Some(most));
            if most.abs() < i64::MAX {
                prop_assert_eq!(parse_ns(&format_duration(ns), LOGQL), Some(ns));
            }
            let ms = short_ns.abs() / MS;
            let text = format_duration(ms * MS);
            prop_assert_eq!(parse_setting(&text), Ok(Duration::from_millis(ms as u64)));
            prop_assert_eq!(parse_ns(&text, PROMETHEUS), Some(ms * MS));
            let mut value = Vec::new();
            write_duration(short_ns, &mut value);
            let value = String::from_utf8(value).unwrap();
            let logql = parse_ns(&value, LOGQL);
            prop_assert_eq!(logql, Some(short_ns), "{}", value);
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.nuµmshdwy ]{0,30}|\\PC{0,20}") {
            let _ = parse_setting(&text);
            for dialect in [PROMETHEUS, LOGSQL, LOGQL] {
                let _ = parse_ns(&text, dialect);
            }
        }
    }
}
