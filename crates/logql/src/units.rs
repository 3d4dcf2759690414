//! Durations and sizes in LogQL's syntax.

use text::{duration, size};

/// A duration such as `5m`, `1h30m`, `1.5s`, `-2d`, in nanoseconds. `None` if it is not a duration
/// or too long.
pub fn parse_duration_ns(text: &str) -> Option<i64> {
    duration::parse_ns(text, duration::LOGQL)
}

/// A duration in a value, as Go's `time.ParseDuration` reads it: the units end with `h`, so `1d` is
/// none, while a query may be written with `1d`.
pub fn parse_value_duration_ns(text: &str) -> Option<i64> {
    match text.contains(['d', 'w', 'y']) {
        true => None,
        false => parse_duration_ns(text),
    }
}

/// A size such as `10KB`, `1.5 MiB`, `2G`, `17`; whole bytes.
pub fn parse_bytes(text: &str) -> Option<f64> {
    size::parse_bytes(text, size::LOGQL).map(f64::trunc)
}

/// A number in the syntax of Go's `strconv.ParseFloat`.
pub fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| parse_hexadecimal(text))
}

/// A hexadecimal number, whose exponent of two has to be there: `0x1p3` is 8, `-0x1.8p-1` -0.75.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let (mantissa, exponent) = digits.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let is_exponent = exponent.trim_start_matches(['+', '-']).bytes().all(|b| b.is_ascii_digit());
    // Exponents far beyond those of a number are all the same.
    let exponent = match is_exponent {
        true => exponent.parse::<i32>().ok()?.clamp(-100_000, 100_000),
        false => return None,
    };
    // In two steps, because a number may be too large only before it is made small.
    if value == 0.0 {
        return Some(if negative { -0.0 } else { 0.0 });
    }
    let exponent = exponent.saturating_sub(4 * i32::try_from(fraction.len()).ok()?);
    let half = exponent / 2;
    let value = value * 2f64.powi(half) * 2f64.powi(exponent - half);
    Some(if negative { -value } else { value })
}

/// A number in Loki's format: no exponent, `NaN`, `+Inf`, `-Inf`.
pub fn format_number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    // Rust writes `-0` as Go does.
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("5m", Some(300_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("250ms", Some(250_000_000)),
            ("1d", Some(86_400_000_000_000)),
            ("-2s", Some(-2_000_000_000)),
            ("0", Some(0)),
            ("7", None),
            ("m", None),
            ("", None),
            ("5x", None),
            ("99999999999y", None),
        ] {
            assert_eq!(parse_duration_ns(text), expected, "{text}");
        }
        for ns in [1, 999, 1_000_000, 90_000_000_000, 86_400_000_000_000, -5_000_000_000, 0] {
            assert_eq!(parse_duration_ns(&text::duration::format_duration(ns)), Some(ns));
        }
    }

    #[test]
    fn durations_in_values_have_the_units_of_go() {
        for (text, expected) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("3µs", Some(3_000)),
            ("7ns", Some(7)),
            ("0", Some(0)),
            ("1d", None),
            ("1w", None),
            ("1y", None),
            ("1h1d", None),
            ("90", None),
        ] {
            assert_eq!(parse_value_duration_ns(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_and_numbers() {
        for (text, expected) in [
            ("10KB", Some(10_000.0)),
            ("1.5MiB", Some(1_572_864.0)),
            ("2 gb", Some(2e9)),
            ("17", Some(17.0)),
            ("1,024", Some(1024.0)),
            ("x", None),
            ("5 parsecs", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
        for (text, expected) in [("1.5B", Some(1.0)), ("1.9", Some(1.0))] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("+Inf", Some(f64::INFINITY)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("0x1p3", Some(8.0)),
            ("-0X1.8P-1", Some(-0.75)),
            ("0x.8p1", Some(1.0)),
            ("0x1p-1074", Some(f64::from_bits(1))),
            ("0x1p99999", Some(f64::INFINITY)),
            ("0x10", None),
            ("0xp1", None),
            ("0x1p", None),
            ("0x1p+-1", None),
            ("0xgp1", None),
            (" 5", None),
            ("", None),
        ] {
            assert_eq!(parse_number(text), expected, "{text}");
        }
        assert!(parse_number("NaN").is_some_and(f64::is_nan));
        assert_eq!(format_number(0.1), "0.1");
        assert_eq!(format_number(1e21), "1000000000000000000000");
        assert_eq!(format_number(f64::NAN), "NaN");
        assert_eq!(format_number(f64::NEG_INFINITY), "-Inf");
    }
}
