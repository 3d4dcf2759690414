//! Durations and sizes in LogQL's syntax.

use text::{duration, size};

/// A duration such as `5m`, `1h30m`, `1.5s`, `-2d`, in nanoseconds. `None` if it is not a duration
/// or too long.
pub fn parse_duration_ns(text: &str) -> Option<i64> {
    duration::parse_ns(text, duration::LOGQL)
}

/// A size such as `10KB`, `1.5 MiB`, `2G`, `17`; bytes.
pub fn parse_bytes(text: &str) -> Option<f64> {
    size::parse_bytes(text, size::LOGQL)
}

/// A number in the syntax of Go's `strconv.ParseFloat`, except hexadecimals.
pub fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok()
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
        assert_eq!(format_number(0.1), "0.1");
        assert_eq!(format_number(1e21), "1000000000000000000000");
        assert_eq!(format_number(f64::NAN), "NaN");
        assert_eq!(format_number(f64::NEG_INFINITY), "-Inf");
    }
}
