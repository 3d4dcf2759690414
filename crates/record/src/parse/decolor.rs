//! Removes the escape sequences of terminals from the values of the fields that an origin names
//! ([`Hints::decolorize_fields`](crate::Hints)). The raw line stays as it was received.

use crate::batch::BatchBuilder;

/// The start of every escape sequence.
const ESCAPE: &[u8] = b"\x1b[";

/// Appends a text without its terminal escape sequences (ECMA-48, section 5.4).
pub fn decolorize(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memmem::find(rest, ESCAPE) {
        out.extend_from_slice(&rest[..at]);
        let inside = &rest[at + ESCAPE.len()..];
        // Parameters and intermediate bytes, then the final byte.
        let length = inside.iter().take_while(|b| matches!(b, 0x20..=0x3f)).count();
        match inside.get(length) {
            Some(0x40..=0x7e) => rest = &inside[length + 1..],
            _ => {
                out.extend_from_slice(ESCAPE);
                rest = inside;
            }
        }
    }
    out.extend_from_slice(rest);
}

/// Whether a field is in the list; a name that ends in `*` matches all names with that prefix.
fn is_named(names: &[String], field: &str) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(prefix) => field.starts_with(prefix),
        None => field == name,
    })
}

/// Removes escape sequences from the listed fields of the row being built.
pub(super) fn decolorize_row(names: &[String], rows: &mut BatchBuilder) {
    let mut text = Vec::new();
    rows.rewrite_values(|name, value| {
        if memchr::memmem::find(value, ESCAPE).is_none() || !is_named(names, name) {
            return None;
        }
        text.clear();
        decolorize(value, &mut text);
        Some(text.clone())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed_and_other_text_stays() {
        for (value, expected) in [
            (&b""[..], &b""[..]),
            (b"plain", b"plain"),
            (b"\x1b[31;1mred\x1b[0m \x1b[2K.", b"red ."),
            (b"\x1b[x\x1b[\x1b[1", b"\x1b[\x1b[1"),
            (b"\x1b]0;title", b"\x1b]0;title"),
        ] {
            let mut out = Vec::new();
            decolorize(value, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn names_are_whole_or_beginnings() {
        let names = ["_msg".to_owned(), "http.*".to_owned()];
        for (field, expected) in [
            ("_msg", true),
            ("_msg2", false),
            ("http.", true),
            ("http.path", true),
            ("http", false),
        ] {
            assert_eq!(is_named(&names, field), expected, "{field}");
        }
        assert!(is_named(&["*".to_owned()], "any"));
    }
}
