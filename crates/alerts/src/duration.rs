//! Durations as rule files have them: `30s`, `1h30m`, `2w`.

use std::time::Duration;

use text::duration::{DAY_NS, PROMETHEUS, parse_ns};

/// A longer duration is a mistake in the file: ten years.
const LONGEST_NS: i64 = 10 * 365 * DAY_NS;

/// Reads a duration as Prometheus and vmalert do: numbers with the units `ms`, `s`, `m`, `h`, `d`,
/// `w` and `y`, also several in a row. A bare number counts seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let ns = parse_ns(text.trim(), PROMETHEUS)
        .ok_or_else(|| format!("'{text}' is not a duration; write for example 30s, 5m or 1h30m"))?;
    if ns > LONGEST_NS {
        return Err(format!("'{text}' is longer than ten years; write a shorter duration"));
    }
    Ok(Duration::from_nanos(ns.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected_ms) in [
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("1w", Some(604_800_000)),
            ("0", Some(0)),
            ("15", Some(15_000)),
            ("10y", Some(315_360_000_000)),
            ("10y1ms", None),
            ("", None),
            ("m", None),
            ("5 m", None),
            ("5x", None),
            ("1h30", None),
            ("-5m", None),
            ("1..5s", None),
            ("999999999999999999999999999999999y", None),
        ] {
            let expected = expected_ms.map(Duration::from_millis);
            assert_eq!(parse(text).ok(), expected, "{text}");
        }
    }
}
