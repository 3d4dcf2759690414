//! Durations and sizes in LogQL's syntax.

const SECOND_NS: f64 = 1e9;

/// Units of durations, in nanoseconds.
const DURATIONS: [(&str, f64); 10] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", SECOND_NS),
    ("m", 60.0 * SECOND_NS),
    ("h", 3_600.0 * SECOND_NS),
    ("d", 86_400.0 * SECOND_NS),
    ("w", 604_800.0 * SECOND_NS),
    ("y", 31_536_000.0 * SECOND_NS),
];

/// Units of sizes, lower case, in bytes.
const SIZES: [(&str, f64); 20] = [
    ("b", 1.0),
    ("k", 1e3),
    ("kb", 1e3),
    ("kib", 1024.0),
    ("ki", 1024.0),
    ("m", 1e6),
    ("mb", 1e6),
    ("mib", 1048576.0),
    ("mi", 1048576.0),
    ("g", 1e9),
    ("gb", 1e9),
    ("gib", 1073741824.0),
    ("gi", 1073741824.0),
    ("t", 1e12),
    ("tb", 1e12),
    ("tib", 1099511627776.0),
    ("ti", 1099511627776.0),
    ("pb", 1e15),
    ("pib", 1125899906842624.0),
    ("", 1.0),
];

/// A duration such as `5m`, `1h30m`, `1.5s`, `-2d`, in nanoseconds. `None` if it is not a duration
/// or too long.
pub fn parse_duration_ns(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum_ns = 0.0;
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, unit_ns) = DURATIONS.iter().find(|(name, _)| *name == &rest[..letters])?;
        sum_ns += number * unit_ns;
        rest = &rest[letters..];
        any = true;
    }
    let value_ns = sign * sum_ns;
    (any && value_ns.abs() < i64::MAX as f64).then_some(value_ns.round() as i64)
}

/// A size such as `10KB`, `1.5 MiB`, `2G`, `17`; bytes.
pub fn parse_bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    let number: f64 = text[..digits].replace(',', "").parse().ok()?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let (_, bytes) = SIZES.iter().find(|(name, _)| *name == unit)?;
    Some(number * bytes)
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
            assert_eq!(parse_duration_ns(&query::time::format_duration(ns)), Some(ns));
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
