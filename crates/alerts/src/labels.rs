//! Names and values that identify an alert.

use std::collections::BTreeMap;

use ring::digest;

/// Labels or annotations, by name.
pub type Labels = BTreeMap<String, String>;

/// Bytes of the value of a label. The rest of a longer value, which comes from a log line, is cut
/// off.
///
/// limits.md, Alerts: bytes of a label; of an annotation | {}; {ANNOTATION_BYTES_MAX} | the rest is
/// cut off
pub const LABEL_BYTES_MAX: usize = 4 << 10;
/// Bytes of an annotation; the rest is cut off.
pub const ANNOTATION_BYTES_MAX: usize = 16 << 10;

/// `text`, or its first `bytes_max` bytes, cut between characters and marked.
pub fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('\u{2026}');
    }
    text
}

/// A stable id of some texts: 16 hexadecimal digits, the same on every machine and version.
pub fn id_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for text in texts {
        context.update(&(text.len() as u64).to_le_bytes());
        context.update(text.as_bytes());
    }
    context.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The id of an alert, which is that of its labels.
pub fn fingerprint(labels: &Labels) -> String {
    id_of(labels.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("abc".to_owned(), 3), "abc");
        assert_eq!(cut("abcd".to_owned(), 3), "abc\u{2026}");
        assert_eq!(cut("aää".to_owned(), 2), "a\u{2026}");
    }

    #[test]
    fn ids_depend_on_where_texts_end() {
        assert_ne!(id_of(["ab", "c"]), id_of(["a", "bc"]));
        assert_eq!(id_of(["ab", "c"]).len(), 16);
    }
}
