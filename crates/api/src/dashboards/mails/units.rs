//! Units of numbers, and how a number with a unit is written: as on the page (`lib/chart/units.ts`
//! and `lib/base/format.ts` of `web/src`), for documents that the server writes.

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing that is known.
    Number,
    /// Bytes, shown in powers of 1024.
    Bytes,
    /// A duration, in so many seconds each.
    Nanos,
    /// See [`Unit::Nanos`].
    Micros,
    /// See [`Unit::Nanos`].
    Millis,
    /// See [`Unit::Nanos`].
    Seconds,
    /// From 0 to 100.
    Percent,
    /// From 0 to 1.
    Ratio,
}

impl Unit {
    /// The unit that a panel names.
    pub fn parse(name: &str) -> Option<Unit> {
        Some(match name {
            "number" => Unit::Number,
            "bytes" => Unit::Bytes,
            "ns" => Unit::Nanos,
            "us" => Unit::Micros,
            "ms" => Unit::Millis,
            "s" => Unit::Seconds,
            "percent" => Unit::Percent,
            "ratio" => Unit::Ratio,
            _ => return None,
        })
    }

    /// The unit of a column: by its name, else by the field that its function is about.
    pub fn guess(column: &str, function: Option<&str>, field: Option<&str>) -> Unit {
        let counts = ["count", "count_empty", "count_uniq", "count_uniq_hash", "rate", "histogram"];
        match function {
            Some("sum_len") => return Unit::Bytes,
            Some(name) if counts.contains(&name) || name.starts_with("row_") => {
                return Unit::Number;
            }
            _ => {}
        }
        of_name(column).or_else(|| field.and_then(of_name)).unwrap_or(Unit::Number)
    }

    /// A number where there is room for it.
    pub fn long(self, value: f64) -> String {
        match self {
            Unit::Bytes => bytes(value),
            Unit::Number => number(value),
            _ => self.short(value),
        }
    }

    /// A number for an axis, with three digits.
    pub fn short(self, value: f64) -> String {
        match self {
            Unit::Number if value.abs() < 0.01 && value != 0.0 => format!("{value:.1e}"),
            Unit::Number => short_number(value),
            Unit::Bytes => bytes(value).replace(" B", "").replace(' ', "").replace("iB", ""),
            Unit::Nanos => seconds(value * 1e-9),
            Unit::Micros => seconds(value * 1e-6),
            Unit::Millis => seconds(value * 1e-3),
            Unit::Seconds => seconds(value),
            Unit::Percent => format!("{}%", digits(value)),
            Unit::Ratio => format!("{}%", digits(value * 100.0)),
        }
    }

    /// A distance between ticks of an axis that is round in the unit, and at least `least`.
    pub fn round_step(self, least: f64) -> f64 {
        if self == Unit::Bytes && least > 1.0 {
            return 2f64.powf(least.log2().ceil());
        }
        if self == Unit::Seconds && least > 1.0 {
            let steps = [
                2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
                7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
            ];
            let days = || (least / 86_400.0).ceil() * 86_400.0;
            return steps.into_iter().find(|step| *step >= least).unwrap_or_else(days);
        }
        let power = 10f64.powf(least.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        factors.into_iter().map(|f| f * power).find(|step| *step >= least).unwrap_or(10.0 * power)
    }
}

fn of_name(name: &str) -> Option<Unit> {
    let mut words: Vec<String> = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() && c != 'µ' || c.is_ascii_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if c.is_ascii_alphanumeric() || c == 'µ' {
            words.last_mut()?.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    match words.last()?.as_str() {
        "ns" | "nanos" | "nanosecond" | "nanoseconds" => return Some(Unit::Nanos),
        "us" | "µs" | "micros" | "microsecond" | "microseconds" => return Some(Unit::Micros),
        "ms" | "millis" | "millisecond" | "milliseconds" => return Some(Unit::Millis),
        "s" | "sec" | "secs" | "second" | "seconds" => return Some(Unit::Seconds),
        _ => {}
    }
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    if has(&["byte", "bytes", "octets"]) {
        return Some(Unit::Bytes);
    }
    if has(&["percent", "percentage", "pct"]) {
        return Some(Unit::Percent);
    }
    matches!(words.last()?.as_str(), "ratio" | "share" | "fraction").then_some(Unit::Ratio)
}

/// With so many decimal places at most, without trailing zeros.
fn trimmed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Three digits, without trailing zeros.
fn digits(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if size == 0.0 => 0,
        _ => (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize,
    };
    trimmed(value, places)
}

fn trim(value: f64) -> String {
    let size = value.abs();
    trimmed(
        value,
        if size >= 100.0 {
            0
        } else if size >= 10.0 {
            1
        } else {
            2
        },
    )
}

fn short_number(value: f64) -> String {
    for (size, unit) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= size {
            return format!("{}{unit}", trim(value / size));
        }
    }
    trim(value)
}

fn bytes(value: f64) -> String {
    for (power, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let size = 2f64.powi(power);
        if value.abs() >= size {
            return format!("{} {unit}", trim(value / size));
        }
    }
    format!("{} B", value.round())
}

/// A number in groups of three digits, with two decimal places.
fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e15) {
        return format!("{value:.2e}");
    }
    let text = if value.abs() < 1.0 { digits(value) } else { trimmed(value, 2) };
    let (sign, rest) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, ""), |(whole, f)| (whole, f));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        "" => format!("{sign}{grouped}"),
        _ => format!("{sign}{grouped}.{fraction}"),
    }
}

/// 0.0042 is `4.2 ms`, 90 is `1m 30s`.
fn seconds(value: f64) -> String {
    let size = value.abs();
    for (below, factor, unit) in
        [(0.9995e-6, 1e9, "ns"), (0.9995e-3, 1e6, "µs"), (0.9995, 1e3, "ms"), (59.95, 1.0, "s")]
    {
        if size == 0.0 {
            return "0 s".to_owned();
        }
        if size < below {
            return format!("{} {unit}", digits(value * factor));
        }
    }
    let whole = size.round() as u64;
    let parts = [(86_400, u64::MAX, "d"), (3600, 24, "h"), (60, 60, "m"), (1, 60, "s")];
    let counted = parts.map(|(unit, wrap, name)| (whole / unit % wrap, name));
    let first = counted.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = counted[first..].iter().take(2).filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown.map(|(count, name)| format!("{count}{name}")).collect();
    format!("{}{}", if value < 0.0 { "-" } else { "" }, shown.join(" "))
}

/// The number that a value of an answer stands for: a number, or a duration as `min` and `max` give
/// it (`1m2.5s`), which becomes nanoseconds.
pub fn value_of(text: &str) -> Option<f64> {
    if let Ok(value) = text.parse::<f64>() {
        return value.is_finite().then_some(value);
    }
    if !text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    query::time::parse_duration(text).map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_on_the_page() {
        for (unit, value, long, short) in [
            (Unit::Number, 0.0, "0", "0"),
            (Unit::Number, 1234.5, "1,234.5", "1.23k"),
            (Unit::Number, -1_234_567.0, "-1,234,567", "-1.23M"),
            (Unit::Number, 0.25, "0.25", "0.25"),
            (Unit::Bytes, 1536.0, "1.5 KiB", "1.5K"),
            (Unit::Bytes, 12.0, "12 B", "12"),
            (Unit::Millis, 4.2, "4.2 ms", "4.2 ms"),
            (Unit::Seconds, 90.0, "1m 30s", "1m 30s"),
            (Unit::Seconds, 90_000.0, "1d 1h", "1d 1h"),
            (Unit::Nanos, 1500.0, "1.5 µs", "1.5 µs"),
            (Unit::Percent, 12.345, "12.3%", "12.3%"),
            (Unit::Ratio, 0.5, "50%", "50%"),
        ] {
            assert_eq!((&*unit.long(value), &*unit.short(value)), (long, short), "{unit:?}");
        }
        assert_eq!(
            (value_of("12"), value_of("1.5s"), value_of("a")),
            (Some(12.0), Some(1.5e9), None)
        );
        assert_eq!((value_of("NaN"), value_of("")), (None, None));
    }

    #[test]
    fn units_are_guessed_from_names() {
        for (column, function, field, expected) in [
            ("lines", Some("count"), None, Unit::Number),
            ("bytes", Some("sum"), Some("bytes"), Unit::Bytes),
            ("p99", Some("quantile"), Some("durationMs"), Unit::Millis),
            ("x", Some("sum_len"), Some("_line"), Unit::Bytes),
            ("error_ratio", None, None, Unit::Ratio),
            ("cpu_percent", Some("max"), None, Unit::Percent),
            ("seconds", Some("count"), None, Unit::Number),
        ] {
            assert_eq!(Unit::guess(column, function, field), expected, "{column}");
        }
    }

    #[test]
    fn steps_of_axes_are_round() {
        for (unit, least, expected) in [
            (Unit::Number, 3.0, 5.0),
            (Unit::Number, 0.03, 0.05),
            (Unit::Number, 12.0, 20.0),
            (Unit::Bytes, 1000.0, 1024.0),
            (Unit::Seconds, 40.0, 60.0),
        ] {
            let found = unit.round_step(least);
            assert!((found - expected).abs() < 1e-9, "{unit:?} {least} {found}");
        }
    }
}
