//! Names of fields: those with a meaning of their own, and patterns of names.

/// The field that a filter without a field name tests.
pub const MSG: &str = "_msg";
/// The event time.
pub(crate) const TIME: &str = "_time";
/// The stream of a line: its fields that name where it comes from.
pub(crate) const STREAM: &str = "_stream";
/// Computed fields that are shown only on request: the arrival time, the line as it was sent, and
/// its id.
pub(crate) const HIDDEN: [&str; 3] = ["_received", LINE, LINE_ID];
/// The line as it was sent.
pub(crate) const LINE: &str = "_line";
/// The id of a line.
pub(crate) const LINE_ID: &str = "_line_id";
/// As [`LINE`], for filters that test the line as it was sent even if it brings a field `_line`. No
/// field can have this name.
pub const RAW_LINE: &str = "_line\0";
/// The arrival time, for filters that test it even if the line brings a field `_received`. No field
/// can have this name.
pub const RAW_RECEIVED: &str = "_received\0";

/// Whether a field of this name is stored with the line, rather than computed.
pub(crate) fn is_stored(name: &str) -> bool {
    !matches!(name, "_time" | "_received" | LINE | LINE_ID | RAW_LINE | RAW_RECEIVED | "_stream")
}

/// Stored fields that Loginson adds to lines by itself.
const ADDED: [&str; 6] = ["_type", "_level", "_remote_ip", "_file", "_note", "_tenant"];

/// Whether Loginson adds the field of this name to lines by itself.
pub(crate) fn is_added(name: &str) -> bool {
    ADDED.contains(&name)
}

/// A field name, or the beginning of field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// The name or its beginning.
    pub name: String,
    /// Whether `name` is only a beginning.
    pub prefix: bool,
}

impl NamePattern {
    /// All names.
    pub const ANY: NamePattern = NamePattern { name: String::new(), prefix: true };

    /// One name.
    pub fn exact(name: &str) -> NamePattern {
        NamePattern { name: name.to_owned(), prefix: false }
    }

    /// Whether a field name equals `self.name`, or begins with it if it is a prefix.
    pub fn matches(&self, name: &str) -> bool {
        if self.prefix { name.starts_with(&self.name) } else { name == self.name }
    }

    /// The new name of a field that this pattern matches, when `to` replaces the pattern.
    pub(crate) fn replaced(&self, name: &str, to: &NamePattern) -> String {
        if self.prefix {
            format!("{}{}", to.name, &name[self.name.len()..])
        } else {
            to.name.clone()
        }
    }
}
