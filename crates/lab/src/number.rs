//! Formats numbers for people: four significant digits, with thousands separators.

/// Above this, the smallest ratio that a test can show is not told.
const DETECTABLE_MAX: f64 = 100.0;

/// A number to four significant digits: `12,272`, `5.622`, `0.01234`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9);
    let text = format!("{:.*}", digits as usize, value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let sign = if value < 0.0 { "−" } else { "" };
    match fraction {
        "" => format!("{sign}{}", grouped(whole)),
        _ => format!("{sign}{}.{fraction}", grouped(whole)),
    }
}

/// A number for programs: nine significant digits, without separators.
pub fn exact(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { String::new() };
    }
    let digits = (8 - value.abs().log10().floor() as i32).clamp(0, 20);
    let text = format!("{value:.*}", digits as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A count with thousands separators.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The ends of an interval.
pub fn interval((low, high): (f64, f64)) -> String {
    format!("{} to {}", plain(low), plain(high))
}

/// A probability with three digits; smaller ones as `< 0.001`.
pub fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".into(),
        p if p > 0.9995 => "1".into(),
        p => format!("{p:.3}"),
    }
}

/// A percentage without the sign.
pub fn percent(share: f64) -> String {
    let value = share.abs() * 100.0;
    if value < 10.0 { format!("{value:.1}%") } else { format!("{}%", plain(value.round())) }
}

/// A ratio to three significant digits; a dash where something was divided by zero.
pub fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = (2 - value.abs().log10().floor().clamp(-6.0, 2.0) as i32).max(0);
    format!("{value:.*}×", digits as usize)
}

/// The smallest ratio that a test can show. A test that shows only very large ratios shows nothing,
/// so such a ratio is not told exactly.
pub fn detectable_ratio(value: f64) -> String {
    match value > DETECTABLE_MAX {
        true => format!("over {DETECTABLE_MAX}×"),
        false => ratio(value),
    }
}

/// Bytes in a suitable unit.
pub fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!(
        "{} {}",
        plain(if unit == 0 { value } else { (value * 10.0).round() / 10.0 }),
        units[unit]
    )
}

/// A value in the unit at the end of its name, such as `delay_ms` or `table_bytes_flushed`.
pub fn of_name(name: &str, value: f64) -> String {
    if name.split('_').any(|word| word == "bytes") {
        return bytes(value);
    }
    // The moment of a size or time may stand behind its unit: `settle_s_flushed`.
    let moments = ["_visible", "_flushed", "_compacted"];
    let name = moments.iter().find_map(|moment| name.strip_suffix(moment)).unwrap_or(name);
    let unit = match name.rsplit_once('_') {
        _ if name.ends_with("_per_s") => " per second",
        _ if name.ends_with("_percent") => "%",
        Some((_, "ms")) => " ms",
        Some((_, "us")) => " µs",
        Some((_, "s")) => " s",
        _ => "",
    };
    format!("{}{unit}", plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        for (value, text) in [
            (12272.28, "12,272"),
            (1234567.0, "1,234,567"),
            (999.96, "1,000"),
            (5.621739, "5.622"),
            (17.8, "17.8"),
            (0.012344, "0.01234"),
            (-546.46, "−546.5"),
            (0.0, "0"),
            (100.0, "100"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(value), text);
        }
        assert_eq!([ratio(1.0), ratio(0.09421), ratio(153.2)], ["1.00×", "0.0942×", "153×"]);
        assert_eq!([detectable_ratio(31.6), detectable_ratio(5e16)], ["31.6×", "over 100×"]);
        assert_eq!([ratio(f64::NAN), ratio(f64::INFINITY)], ["–", "–"]);
        assert_eq!(count(7_495_861), "7,495,861");
        assert_eq!(bytes(2_512_345.0), "2.5 MB");
        assert_eq!(bytes(12.0), "12 B");
        assert_eq!(of_name("delay_ms", 17.8), "17.8 ms");
        assert_eq!(of_name("settle_cpu_s_flushed", 0.25), "0.25 s");
        assert_eq!(of_name("table_bytes_flushed", 1500.0), "1.5 kB");
        assert_eq!(of_name("write_rate_per_s", 2024.75), "2,025 per second");
        assert_eq!(
            (probability(0.0002).as_str(), probability(0.0794).as_str()),
            ("< 0.001", "0.079")
        );
        assert_eq!((percent(0.0712), percent(-1.5)), ("7.1%".into(), "150%".into()));
    }
}
