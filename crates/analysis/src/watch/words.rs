//! Numbers and times in reasons.

/// A number with at most three significant digits, such as `1230`, `12.3` or `0.012`.
pub(crate) fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let digits = 2 - number.abs().log10().floor() as i32;
    if digits <= 0 {
        let unit = 10f64.powi(-digits);
        return format!("{:.0}", (number / unit).round() * unit);
    }
    let text = format!("{number:.*}", digits.min(12) as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An interval of counts in words: `a minute`, `in 10 minutes`.
pub(crate) fn per(step_ns: i64) -> String {
    match step_ns / 1_000_000_000 {
        60 => "a minute".to_owned(),
        3_600 => "an hour".to_owned(),
        seconds if seconds % 60 == 0 => format!("in {} minutes", seconds / 60),
        seconds => format!("in {seconds} seconds"),
    }
}

/// A duration in words: `45m`, `2h30m`, `20s`.
pub(crate) fn lasting(ns: i64) -> String {
    let seconds = ns / 1_000_000_000;
    match (seconds / 3_600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (1.0, "1"),
            (12.34, "12.3"),
            (999.6, "1000"),
            (1_234.0, "1230"),
            (123_456.0, "123000"),
            (f64::NAN, "0"),
            (1e-30, "0"),
        ] {
            assert_eq!(short(number), expected, "{number}");
        }
        let minute = 60_000_000_000;
        assert_eq!([per(minute), per(10 * minute)], ["a minute", "in 10 minutes"]);
        let spans = [minute / 3, 45 * minute, 60 * minute, 150 * minute].map(lasting);
        assert_eq!(spans, ["20s", "45m", "1h", "2h30m"]);
    }
}
