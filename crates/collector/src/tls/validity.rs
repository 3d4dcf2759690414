//! Reads the expiry time of a certificate, which the TLS library does not report. Left out: every
//! other field.

use x509_parser::certificate::X509CertificateParser;
use x509_parser::nom::Parser;

/// `notAfter` (RFC 5280, section 4.1.2.5) of a certificate in DER, in seconds since 1970; `None`
/// when the bytes are not a certificate.
pub fn not_after_s(certificate: &[u8]) -> Option<i64> {
    // Extensions are not parsed, so that an unusual one does not fail a certificate that `rustls`
    // accepts.
    let mut parser = X509CertificateParser::new().with_deep_parse_extensions(false);
    let (_, certificate) = parser.parse(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::FromDer;
    use x509_parser::time::ASN1Time;

    use super::*;

    /// Tags of the two forms of a time.
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;

    fn time_s(tag: u8, text: &[u8]) -> Option<i64> {
        let der = [&[tag, text.len() as u8], text].concat();
        ASN1Time::from_der(&der).ok().map(|(_, time)| time.timestamp())
    }

    /// How the library parses times: two-digit years, and invalid texts.
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
        // RFC 5280 requires seconds; the library treats a time without them as the full minute.
        check(UTC_TIME, "7001010000Z", Some(0));
        for wrong in ["", "Z", "700101000000", "7O0101000000Z", "701301000000Z"] {
            check(UTC_TIME, wrong, None);
        }
    }

    #[test]
    fn certificates_whole_and_truncated() {
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
