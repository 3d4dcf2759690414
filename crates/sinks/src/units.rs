//! Sizes and durations as people write them in the configuration: `8MiB`, `1h30m`.

use std::time::Duration;

/// Reads a size in bytes: a whole number and `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000) or `KiB`,
/// `MiB`, `GiB`, `TiB` (powers of 1024). A bare number counts bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let error = || format!("'{text}' is not a size; write for example 512KiB or 8MiB");
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
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
        _ => return Err(error()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(error)
}

/// Reads a duration: whole numbers with the units `ms`, `s`, `m`, `h`, `d`, also several in a row.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let error = || format!("'{text}' is not a duration; write for example 500ms, 30s or 1h30m");
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
            _ => return Err(error()),
        };
        rest = &rest[letters..];
        let part_ms = number.checked_mul(unit_ms).ok_or_else(error)?;
        total_ms = total_ms.checked_add(part_ms).ok_or_else(error)?;
    }
    Ok(Duration::from_millis(total_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        for (text, expected) in [
            ("0", Some(0)),
            ("8MiB", Some(8 << 20)),
            (" 10 kB ", Some(10_000)),
            ("1GB", Some(1_000_000_000)),
            ("20000000TiB", None),
            ("MiB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("1 Mib/s", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), expected, "{text}");
        }
        for (text, expected_ms) in [
            ("500ms", Some(500)),
            ("1h30m", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("", None),
            ("30", None),
            ("s", None),
            ("30 s", None),
            ("99999999999999999d", None),
        ] {
            let expected = expected_ms.map(Duration::from_millis);
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
    }
}
