//! Numbers as Go prints them.

/// `%.Ng`: `precision` significant digits, without zeros at the end.
pub fn general(value: f64, precision: usize) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let precision = precision.max(1);
    let rounded = format!("{:.*e}", precision - 1, value);
    let exponent = exponent_of(&rounded);
    let digits = precision as i32;
    if exponent < -4 || exponent >= digits {
        return scientific(&rounded, true);
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// `%v` and `%g`: the shortest text that reads as the same number. A million and more has an
/// exponent, as in Go.
pub fn shortest(value: f64) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let exact = format!("{value:e}");
    let exponent = exponent_of(&exact);
    if !(-4..6).contains(&exponent) {
        return scientific(&exact, false);
    }
    format!("{value}")
}

/// `%e` with `precision` digits behind the point.
pub fn exponential(value: f64, precision: usize) -> String {
    special(value).unwrap_or_else(|| scientific(&format!("{value:.precision$e}"), false))
}

/// `%f` with `precision` digits behind the point.
pub fn fixed(value: f64, precision: usize) -> String {
    special(value).unwrap_or_else(|| format!("{value:.precision$}"))
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() })
}

fn exponent_of(text: &str) -> i32 {
    text.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Rust's `1.5e7` as Go's `1.5e+07`.
fn scientific(text: &str, trim: bool) -> String {
    let (mantissa, _) = text.rsplit_once('e').unwrap_or((text, ""));
    let mantissa = if trim { trim_zeros(mantissa) } else { mantissa };
    let exponent = exponent_of(text);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those that Go 1.26 printed.
    #[test]
    fn numbers_are_printed_as_go_does() {
        for (value, four, plain) in [
            (0.0, "0", "0"),
            (1.0, "1", "1"),
            (-2.5, "-2.5", "-2.5"),
            (0.1 + 0.2, "0.3", "0.30000000000000004"),
            (1234.5678, "1235", "1234.5678"),
            (12345.0, "1.234e+04", "12345"),
            (100000.0, "1e+05", "100000"),
            (1e6, "1e+06", "1e+06"),
            (1234567.0, "1.235e+06", "1.234567e+06"),
            (123456789.0, "1.235e+08", "1.23456789e+08"),
            (1234567.125, "1.235e+06", "1.234567125e+06"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "1e-05"),
            (1e100, "1e+100", "1e+100"),
            (9999.9, "1e+04", "9999.9"),
            (f64::NAN, "NaN", "NaN"),
            (f64::INFINITY, "+Inf", "+Inf"),
            (f64::NEG_INFINITY, "-Inf", "-Inf"),
        ] {
            assert_eq!(general(value, 4), four);
            assert_eq!(shortest(value), plain);
        }
        assert_eq!(exponential(1500.0, 2), "1.50e+03");
        assert_eq!(fixed(2.345, 1), "2.3");
    }
}
