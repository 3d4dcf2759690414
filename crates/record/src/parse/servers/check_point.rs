//! Check Point's log exporter: pairs in the place of structured data.

use super::Found;

/// Whether a text is such pairs: `[action:"Accept"; …`.
pub(crate) fn is_pairs(text: &[u8]) -> bool {
    let Some(inner) = text.strip_prefix(b"[") else { return false };
    let key =
        inner.iter().take(40).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    key > 0 && inner[key..].starts_with(b":\"")
}

/// `[action:"Accept"; src:"192.0.2.8"; dst:"192.0.2.9"]`. Values stay as they are written, also
/// with the backslashes in front of quotes.
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    found.prefix = "check_point.";
    let mut rest = message.strip_prefix(b"[")?;
    loop {
        let colon = memchr::memchr(b':', rest)?;
        let (key, behind) = (&rest[..colon], rest[colon + 1..].strip_prefix(b"\"")?);
        let mut at = 0;
        loop {
            at += memchr::memchr2(b'"', b'\\', behind.get(at..)?)?;
            if behind[at] == b'"' {
                break;
            }
            at += 2;
        }
        found.put_pair(key, &behind[..at])?;
        let behind = behind[at + 1..].strip_prefix(b";").unwrap_or(&behind[at + 1..]);
        rest = behind.trim_ascii_start();
        if rest.first() == Some(&b']') {
            return Some(());
        }
    }
}
