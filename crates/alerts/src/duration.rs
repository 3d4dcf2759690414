//! Durations as rule files have them: `30s`, `1h30m`, `2w`.

use std::time::Duration;

/// A longer duration is a mistake in the file: ten years.
const SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;

/// Reads a duration as Prometheus and vmalert do: numbers with the units `ms`, `s`, `m`, `h`, `d`,
/// `w` and `y`, also several in a row. A bare number counts seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let error = || format!("'{text}' is not a duration; write for example 30s, 5m or 1h30m");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(error());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest[..digits].parse().map_err(|_| error())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "" if digits == text.trim().len() => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            "w" => 7.0 * 86_400.0,
            "y" => 365.0 * 86_400.0,
            _ => return Err(error()),
        };
        rest = &rest[letters..];
        seconds += number * unit;
    }
    if seconds > SECONDS_MAX {
        return Err(format!("'{text}' is longer than ten years; write a shorter duration"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The nanoseconds of a duration; the largest number if it is longer.
pub fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
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
