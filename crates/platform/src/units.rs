//! Sizes and durations as people write them: `100GiB`, `30d`, `1h30m`.

use std::time::Duration;

/// Reads a size in bytes: a whole number and `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000) or `KiB`,
/// `MiB`, `GiB`, `TiB` (powers of 1024). A bare number counts bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000_u64.pow(2),
        "gb" => 1000_u64.pow(3),
        "tb" => 1000_u64.pow(4),
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(format!("'{text}' is not a size; write for example 512MiB or 100GB")),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .ok_or_else(|| format!("'{text}' is not a size; write for example 512MiB or 100GB"))
}

/// Reads a duration: whole numbers with the units `ms`, `s`, `m`, `h`, `d`, `w`, also several in a
/// row.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let error =
        || format!("'{text}' is not a duration; write for example 500ms, 30s, 1h30m or 30d");
    let mut rest = text.trim();
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| error())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit_ms: u64 = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return Err(error()),
        };
        rest = &rest[letters..];
        let part = number.checked_mul(unit_ms).ok_or_else(error)?;
        total_ms = total_ms.checked_add(part).ok_or_else(error)?;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Writes bytes for people: `1.5 GiB`.
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("17B", Some(17)),
            ("1kB", Some(1000)),
            ("1 KiB", Some(1024)),
            ("512MiB", Some(512 << 20)),
            ("100gib", Some(100 << 30)),
            ("2TB", Some(2_000_000_000_000)),
            ("", None),
            ("GiB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("99999999TiB", None),
            ("1 parsec", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected_ms) in [
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("1h30m", Some(5_400_000)),
            ("30d", Some(2_592_000_000)),
            ("1w", Some(604_800_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
            ("5y", None),
            ("99999999999999999999s", None),
            ("9999999999999999w", None),
        ] {
            let found = parse_duration(text).ok().map(|d| d.as_millis());
            assert_eq!(found, expected_ms, "{text}");
        }
    }

    #[test]
    fn shown_bytes() {
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")]
        {
            assert_eq!(show_bytes(bytes), expected);
        }
    }
}
