//! Sizes in bytes as people write them: `512MiB`, `100GB`, `1.5 KiB`.
//!
//! There is one parser. A [`Dialect`] says what a place accepts beyond numbers with the units `B`,
//! `kB`, `MB`, `GB` and `TB` (powers of 1000) and `KiB`, `MiB`, `GiB` and `TiB` (powers of 1024),
//! which every dialect has.

/// What sizes of a place may hold.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The characters of numbers.
    number: &'static str,
    /// The letters of units, by powers.
    powers: &'static [u8],
    /// Blanks around the whole and between number and unit.
    blanks: bool,
    /// Units in any case: `gib`.
    any_case: bool,
    /// Units without `B`: `10K`, `10Ki`.
    short: bool,
    /// A number without a unit, which counts bytes.
    bare: bool,
}

/// Settings: whole numbers.
const SETTING: Dialect = Dialect {
    number: "0123456789",
    powers: b"KMGT",
    blanks: true,
    any_case: true,
    short: false,
    bare: true,
};
/// Values in LogsQL, as VictoriaLogs reads them.
pub const LOGSQL: Dialect = Dialect {
    number: "0123456789.+-",
    powers: b"KMGT",
    blanks: false,
    any_case: false,
    short: true,
    bare: false,
};
/// LogQL, as Loki reads sizes.
pub const LOGQL: Dialect =
    Dialect { number: "0123456789.,", powers: b"KMGTP", short: true, ..SETTING };

/// Reads a setting: a whole number and a unit; a bare number counts bytes. The error says what to
/// write.
pub fn parse_setting(text: &str) -> Result<u64, String> {
    let exact = split(text, SETTING).and_then(|(number, factor)| {
        let number: u64 = number.parse().ok()?;
        number.checked_mul(factor)
    });
    exact.ok_or_else(|| format!("'{text}' is not a size; write for example 512MiB or 100GB"))
}

/// Reads a size with or without a fraction; none if it is not one of the dialect.
pub fn parse_bytes(text: &str, dialect: Dialect) -> Option<f64> {
    let (number, factor) = split(text, dialect)?;
    let number: f64 = match number.contains(',') {
        true => number.replace(',', "").parse().ok()?,
        false => number.parse().ok()?,
    };
    Some(number * factor as f64)
}

/// The number, and the bytes of the unit.
fn split(text: &str, dialect: Dialect) -> Option<(&str, u64)> {
    let text = if dialect.blanks { text.trim() } else { text };
    let at = text.find(|c| !dialect.number.contains(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = if dialect.blanks { unit.trim_start() } else { unit };
    Some((number, unit_bytes(unit.as_bytes(), dialect)?))
}

fn unit_bytes(unit: &[u8], dialect: Dialect) -> Option<u64> {
    let is = |found: u8, letter: u8| {
        found == letter || (dialect.any_case && found.eq_ignore_ascii_case(&letter))
    };
    let (first, rest) = match unit {
        [] => return dialect.bare.then_some(1),
        [byte] if is(*byte, b'B') => return Some(1),
        // A thousand is written small in SI.
        [b'k', rest @ ..] if rest == b"B" => (b'K', rest),
        [first, rest @ ..] => (*first, rest),
    };
    let power = dialect.powers.iter().position(|letter| is(first, *letter))? as u32 + 1;
    let base: u64 = match rest {
        [] if dialect.short => 1000,
        [byte] if is(*byte, b'B') => 1000,
        [i] if dialect.short && is(*i, b'i') => 1024,
        [i, byte] if is(*i, b'i') && is(*byte, b'B') => 1024,
        _ => return None,
    };
    Some(base.pow(power))
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn settings() {
        for (text, expected) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("17B", Some(17)),
            ("1kB", Some(1000)),
            ("1 KiB", Some(1024)),
            (" 10 kB ", Some(10_000)),
            ("8MiB", Some(8 << 20)),
            ("512MiB", Some(512 << 20)),
            ("1GB", Some(1_000_000_000)),
            ("100gib", Some(100 << 30)),
            ("2TB", Some(2_000_000_000_000)),
            ("", None),
            ("GiB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("+1", None),
            ("1K", None),
            ("20000000TiB", None),
            ("99999999TiB", None),
            ("99999999999999999999", None),
            ("1 parsec", None),
            ("1 Mib/s", None),
        ] {
            assert_eq!(parse_setting(text).ok(), expected, "{text}");
        }
        assert!(parse_setting("5x").unwrap_err().starts_with("'5x' is not a size; write"));
    }

    #[test]
    fn dialects_differ_as_their_originals_do() {
        for (text, logsql, logql) in [
            ("10KB", Some(10_000.0), Some(10_000.0)),
            ("10kB", Some(10_000.0), Some(10_000.0)),
            ("1.5MiB", Some(1_572_864.0), Some(1_572_864.0)),
            ("10Ki", Some(10_240.0), Some(10_240.0)),
            ("2G", Some(2e9), Some(2e9)),
            ("7B", Some(7.0), Some(7.0)),
            ("-1K", Some(-1000.0), None),
            ("10k", None, Some(10_000.0)),
            ("2 gb", None, Some(2e9)),
            ("17", None, Some(17.0)),
            ("1,024", None, Some(1024.0)),
            ("1PiB", None, Some(1_125_899_906_842_624.0)),
        ] {
            assert_eq!(parse_bytes(text, LOGSQL), logsql, "{text}");
            assert_eq!(parse_bytes(text, LOGQL), logql, "{text}");
        }
        for text in ["", "x", "B", "1e3KB", "5 parsecs", "1KiBB", "1.2.3KB", "1iB", "1_000KB"] {
            assert_eq!(parse_bytes(text, LOGSQL), None, "{text}");
            assert_eq!(parse_bytes(text, LOGQL), None, "{text}");
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

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_about_the_same(bytes in any::<u64>()) {
            let read = parse_bytes(&show_bytes(bytes), LOGQL).unwrap();
            let off = (read - bytes as f64).abs();
            prop_assert!(off <= bytes as f64 / 20.0, "{} {}", bytes, read);
        }

        #[test]
        fn a_size_with_a_unit_is_that_number_of_them(number in 0..1_000_000_u64, power in 1..5_u32) {
            let letter = ["", "K", "M", "G", "T"][power as usize];
            for (unit, base) in [("B", 1000_u64), ("iB", 1024)] {
                let (text, expected) = (format!("{number}{letter}{unit}"), number * base.pow(power));
                prop_assert_eq!(parse_setting(&text), Ok(expected));
                prop_assert_eq!(parse_bytes(&text, LOGSQL), Some(expected as f64));
                prop_assert_eq!(parse_bytes(&text, LOGQL), Some(expected as f64));
            }
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.,kKmMgtTpPiB ]{0,12}|\\PC{0,12}") {
            let _ = parse_setting(&text);
            let _ = (parse_bytes(&text, LOGSQL), parse_bytes(&text, LOGQL));
        }
    }
}
