//! Until when a certificate is valid: the one thing about certificates that the TLS library does
//! not tell.
//!
//! X.509 (RFC 5280, §4.1) in DER: `notAfter` is the second time in the fifth or sixth member of the
//! first member. Nothing is checked that does not lie on the way there. Left out: every other
//! field.

use record::civil::days_from_civil;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, which only the version has.
const VERSION: u8 = 0xa0;

/// `notAfter` in seconds since 1970; `None` when this is not a certificate.
pub fn not_after_s(certificate: &[u8]) -> Option<i64> {
    let (certificate, _) = take(certificate, SEQUENCE)?;
    let (mut members, _) = take(certificate, SEQUENCE)?;
    if members.first() == Some(&VERSION) {
        members = take_any(members)?.2;
    }
    for _serial_algorithm_issuer in 0..3 {
        members = take_any(members)?.2;
    }
    let (validity, _) = take(members, SEQUENCE)?;
    let (_, _, behind_not_before) = take_any(validity)?;
    let (tag, text, _) = take_any(behind_not_before)?;
    time_s(tag, text)
}

/// Tag, content and rest of the element that the bytes begin with.
fn take_any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // Lengths of more than four bytes would be gigabytes.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Content and rest, when the tag is as expected.
fn take(bytes: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    take_any(bytes).filter(|element| element.0 == expected).map(|element| (element.1, element.2))
}

/// `YYMMDDHHMMSSZ`, of which years from 50 on are of the last century, or `YYYYMMDDHHMMSSZ`
/// (§4.1.2.5).
fn time_s(tag: u8, text: &[u8]) -> Option<i64> {
    let text = text.strip_suffix(b"Z")?;
    if text.len() % 2 != 0 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let pairs: Vec<u8> = text.chunks(2).map(|two| (two[0] - b'0') * 10 + two[1] - b'0').collect();
    let (year, rest) = match (tag, pairs.as_slice()) {
        (UTC_TIME, [year, rest @ ..]) => {
            (if *year < 50 { 2000 } else { 1900 } + i64::from(*year), rest)
        }
        (GENERALIZED_TIME, [century, year, rest @ ..]) => {
            (i64::from(*century) * 100 + i64::from(*year), rest)
        }
        _ => return None,
    };
    let &[month, day, hour, minute, second] = rest else { return None };
    let days = days_from_civil(year, month.into(), day.into())?;
    Some(days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |tag, text: &str, expected| {
            assert_eq!(time_s(tag, text.as_bytes()), expected, "{text}");
        };
        check(UTC_TIME, "700101000000Z", Some(0));
        check(UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(UTC_TIME, "500101000000Z", Some(-631_152_000));
        check(GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000));
        check(GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799));
        check(UTC_TIME, "20500101000000Z", None);
        check(GENERALIZED_TIME, "500101000000Z", None);
        for wrong in ["", "Z", "7001010000Z", "700101000000", "7O0101000000Z", "701301000000Z"] {
            check(UTC_TIME, wrong, None);
        }
    }

    #[test]
    fn of_certificates_and_of_what_is_left_of_them() {
        let key = rcgen::KeyPair::generate().unwrap();
        for (not_after, expected) in [
            ((2031, 2, 3), 1_927_843_200),
            ((2049, 12, 31), 2_524_521_600),
            ((4096, 1, 1), 67_090_118_400),
        ] {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
            params.not_after = rcgen::date_time_ymd(not_after.0, not_after.1, not_after.2);
            let certificate = params.self_signed(&key).unwrap();
            let der = certificate.der();
            assert_eq!(not_after_s(der), Some(expected));
            for length in 0..der.len() {
                assert_eq!(not_after_s(&der[..length]), None, "cut at {length}");
            }
            for flipped in 0..der.len() {
                let mut damaged = der.to_vec();
                damaged[flipped] ^= 0xff;
                not_after_s(&damaged);
            }
        }
    }
}
