//! Encodings that `format` can apply to a value.

use text::duration::write_duration;
use text::json::write_text;
use text::time::write_time;
use text::{hex, url};

use crate::base::number::write_number;
use crate::base::time::parse_duration;

/// Appends the encoded value.
pub(super) type Encode = fn(&[u8], &mut Vec<u8>);

/// The encoding for the option of a field; none when there is no such option.
pub(super) fn option(name: &str) -> Option<Encode> {
    Some(match name {
        "" | "plain" => |value, out| out.extend_from_slice(value),
        "q" => |value, out| {
            let from = out.len();
            write_text(value, out);
            escape_for_html(from, out);
        },
        "uc" => |value, out| by_character(value, out, |c| one_of(c.to_uppercase(), c)),
        "lc" => |value, out| by_character(value, out, |c| one_of(c.to_lowercase(), c)),
        "urlencode" => |value, out| url::encode(value, b"-._", out),
        "urldecode" => |value, out| {
            url::decode(value, out);
        },
        "hexencode" => |value, out| value.iter().for_each(|b| out.extend(hex::digits(*b))),
        "hexdecode" => hex_decode,
        "base64encode" => base64_encode,
        "base64decode" => |value, out| or_as_it_is(value, out, base64_decode(value)),
        "hexnumencode" => |value, out| {
            let number = parsed::<u64>(&without_underscores(value));
            or_as_it_is(value, out, number.map(|n| format!("{n:016X}").into_bytes()));
        },
        "hexnumdecode" => |value, out| {
            let digits = std::str::from_utf8(value).ok().filter(|t| !t.starts_with(['+', '-']));
            // As in VictoriaLogs, no digits are 0.
            let number = digits.and_then(|text| match text {
                "" => Some(0),
                text => u64::from_str_radix(text, 16).ok(),
            });
            or_as_it_is(value, out, number.map(|n| n.to_string().into_bytes()));
        },
        "time" => |value, out| match since_1970_ns(value) {
            Some(ns) => write_time(ns, out),
            None => out.extend_from_slice(value),
        },
        "duration" => |value, out| match parsed::<i64>(&without_underscores(value)) {
            Some(ns) => write_duration(ns, out),
            None => out.extend_from_slice(value),
        },
        "duration_seconds" => |value, out| {
            let ns = std::str::from_utf8(value).ok().and_then(parse_duration);
            match ns {
                Some(ns) => write_number(ns as f64 / 1e9, out),
                None => out.extend_from_slice(value),
            }
        },
        "ipv4" => |value, out| {
            let address =
                parsed::<u32>(&without_underscores(value)).map(std::net::Ipv4Addr::from_bits);
            or_as_it_is(value, out, address.map(|a| a.to_string().into_bytes()));
        },
        _ => return None,
    })
}

fn or_as_it_is(value: &[u8], out: &mut Vec<u8>, made: Option<Vec<u8>>) {
    out.extend_from_slice(made.as_deref().unwrap_or(value));
}

fn parsed<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn by_character(value: &[u8], out: &mut Vec<u8>, change: impl Fn(char) -> char) {
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            out.extend_from_slice(change(c).encode_utf8(&mut [0; 4]).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
}

/// A character in another case, where that is one character: `ß` stays.
fn one_of(mut changed: impl Iterator<Item = char>, c: char) -> char {
    let first = changed.next();
    first.filter(|_| changed.next().is_none()).unwrap_or(c)
}

/// Removes the `_` that whole numbers may have between digits.
fn without_underscores(value: &[u8]) -> Vec<u8> {
    value.iter().copied().filter(|byte| *byte != b'_').collect()
}

/// Escapes `<` and `'` in the JSON string that begins at `from`, so that it can stand in HTML, as
/// VictoriaLogs does.
fn escape_for_html(from: usize, out: &mut Vec<u8>) {
    if !out[from..].iter().any(|byte| matches!(byte, b'<' | b'\'')) {
        return;
    }
    for byte in out.split_off(from) {
        match byte {
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'\'' => out.extend_from_slice(b"\\u0027"),
            other => out.push(other),
        }
    }
}

/// Decodes pairs of hexadecimal digits; other text stays.
fn hex_decode(value: &[u8], out: &mut Vec<u8>) {
    for pair in value.chunks(2) {
        match hex::byte(pair) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(pair),
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648, section 4, with padding.
fn base64_encode(value: &[u8], out: &mut Vec<u8>) {
    for three in value.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place > three.len() { b'=' } else { digit });
        }
    }
}

/// None when it is not RFC 4648 with padding.
fn base64_decode(value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(value.len() / 4 * 3);
    let (fours, rest) = value.as_chunks::<4>();
    for (place, four) in fours.iter().enumerate() {
        let is_last = place + 1 == fours.len();
        let padding = four.iter().rev().take_while(|b| **b == b'=').count();
        if padding > 2 || padding > 0 && !is_last {
            return None;
        }
        let mut bits = 0u32;
        for digit in &four[..4 - padding] {
            bits = bits << 6 | BASE64.iter().position(|b| b == digit)? as u32;
        }
        let bytes = (bits << (6 * padding)).to_be_bytes();
        out.extend_from_slice(&bytes[1..4 - padding]);
    }
    rest.is_empty().then_some(out)
}

/// Parses seconds, milliseconds, microseconds or nanoseconds since 1970; the size of the number
/// decides which.
fn since_1970_ns(value: &[u8]) -> Option<i64> {
    let number: f64 = match parsed::<i64>(&without_underscores(value)) {
        Some(whole) => {
            let factor = match whole.unsigned_abs() {
                0..100_000_000_000 => 1_000_000_000,
                100_000_000_000..100_000_000_000_000 => 1_000_000,
                100_000_000_000_000..100_000_000_000_000_000 => 1_000,
                _ => 1,
            };
            return whole.checked_mul(factor);
        }
        // Durations, sizes and addresses are not times.
        None if value.iter().all(|b| b.is_ascii_digit() || b"+-.eE".contains(b)) => parsed(value)?,
        None => return None,
    };
    let factor = match number.abs() {
        size if size < 1e11 => 1e9,
        size if size < 1e14 => 1e6,
        size if size < 1e17 => 1e3,
        _ => 1.0,
    };
    (number.is_finite()).then(|| (number * factor).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(name: &str, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        option(name).expect("an option")(value, &mut out);
        out
    }

    #[test]
    fn values_that_do_not_fit_stay() {
        let check = |name: &str, value: &str, expected: &str| {
            assert_eq!(
                String::from_utf8_lossy(&encoded(name, value.as_bytes())),
                expected,
                "{name} {value}"
            );
        };
        check("base64decode", "YWI=", "ab");
        check("base64decode", "YW=I", "YW=I");
        check("base64decode", "YWI", "YWI");
        check("hexdecode", "61zz62", "azzb");
        check("hexnumdecode", "fF", "255");
        check("hexnumdecode", "+f", "+f");
        check("hexnumdecode", "xyz", "xyz");
        check("urldecode", "a%20b+c%zz%2", "a b c%zz%2");
        check("time", "1717328141123", "2024-06-02T11:35:41.123Z");
        check("time", "1.5", "1970-01-01T00:00:01.5Z");
        check("time", "x", "x");
        check("time", "5s", "5s");
        check("time", "10.0.0.1", "10.0.0.1");
        check("duration", "90000000000", "1m30s");
        check("duration", "1.5", "1.5");
        check("duration_seconds", "1m30.5s", "90.5");
        check("ipv4", "4294967296", "4294967296");
        check("duration", "-1500000001", "-1.500000001s");
        check("duration", "90061000000123", "1d1h1m1.000000123s");
        check("duration", "3600000001000", "1h1µs");
        check("duration", "999999999", "999ms999µs999ns");
        check("duration", "0", "0");
        check("q", "a<b>'c'", "\"a\\u003cb>\\u0027c\\u0027\"");
        check("uc", "Größe", "GRÖßE");
        check("lc", "ÄB", "äb");
        check("q", "\u{1}\t\\", "\"\\u0001\\t\\\\\"");
        assert!(option("nix").is_none());
        assert_eq!(encoded("uc", b"a\xffb"), b"A\xffB");
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(value in prop::collection::vec(any::<u8>(), 0..20)) {
            for (encode, decode) in
                [("base64encode", "base64decode"), ("hexencode", "hexdecode"), ("urlencode", "urldecode")]
            {
                prop_assert_eq!(encoded(decode, &encoded(encode, &value)), value.clone());
            }
        }
    }
}
