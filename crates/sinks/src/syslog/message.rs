//! A document as a message of RFC 5424.
//!
//! ```text
//! <134>1 2026-01-02T03:04:05.123456Z web1 sshd 42 - [fields@32473 user="root"] Accepted password
//! ```

use std::fmt::Write as _;

use text::time::format_time_digits;

use crate::document::{Document, value_text};

/// RFC 5424 allows six digits of the second.
const TIME_DIGITS: usize = 6;
/// What stands in place of a value that is not there.
const NOTHING: &str = "-";
/// Names in structured data have at most this many characters.
const NAME_CHARS_MAX: usize = 32;

/// Which fields become which parts of a message. A part whose field is missing is `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageOptions {
    /// The facility, 0 to 23.
    pub facility: u8,
    /// The field of the severity: a number from 0 to 7 or a name such as `error`. Without one it is
    /// 6, informational.
    pub severity_field: String,
    /// The field of the host.
    pub hostname_field: String,
    /// The field of the application.
    pub app_name_field: String,
    /// The field of the process id.
    pub proc_id_field: String,
    /// The field of the message; without one the message is empty.
    pub message_field: String,
    /// The id of the structured data that holds all other fields; `None` leaves these out.
    pub data_id: Option<String>,
}

/// The bytes of a message.
pub fn encode(options: &MessageOptions, document: &Document) -> Vec<u8> {
    let field = |name: &str| document.field(name).map(value_text).unwrap_or_default();
    let severity = severity(&field(&options.severity_field));
    let mut text = String::new();
    let header = write!(
        text,
        "<{}>1 {} {} {} {} - ",
        u32::from(options.facility) * 8 + severity,
        format_time_digits(document.time_ns, TIME_DIGITS),
        part(&field(&options.hostname_field), 255),
        part(&field(&options.app_name_field), 48),
        part(&field(&options.proc_id_field), 128),
    );
    header.expect("a String takes all text");
    write_data(options, document, &mut text);
    let message = field(&options.message_field);
    if !message.is_empty() {
        text.push(' ');
        text.push_str(&message);
    }
    text.into_bytes()
}

/// Printable ASCII without spaces, as header fields demand it, or `-`.
fn part(value: &str, chars_max: usize) -> String {
    let chars = value.chars().take(chars_max);
    let part: String = chars.map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect();
    if part.is_empty() { NOTHING.to_owned() } else { part }
}

/// The fields that have no place of their own.
fn write_data(options: &MessageOptions, document: &Document, text: &mut String) {
    let placed = [
        &options.severity_field,
        &options.hostname_field,
        &options.app_name_field,
        &options.proc_id_field,
        &options.message_field,
    ];
    let fields = document.fields.iter().filter(|(name, _)| !placed.contains(&name));
    let mut fields = fields.peekable();
    let Some(id) = options.data_id.as_ref().filter(|_| fields.peek().is_some()) else {
        text.push_str(NOTHING);
        return;
    };
    text.push('[');
    text.push_str(id);
    for (name, value) in fields {
        text.push(' ');
        text.push_str(&data_name(name));
        text.push_str("=\"");
        for c in value_text(value).chars() {
            if matches!(c, '"' | '\\' | ']') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
    }
    text.push(']');
}

fn data_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '=' | ']' | '"');
    let chars = name.chars().take(NAME_CHARS_MAX);
    let name: String = chars.map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

fn severity(text: &str) -> u32 {
    match text.to_ascii_lowercase().as_str() {
        "emerg" | "emergency" | "panic" => 0,
        "alert" => 1,
        "crit" | "critical" | "fatal" => 2,
        "err" | "error" => 3,
        "warn" | "warning" => 4,
        "notice" => 5,
        "debug" | "trace" => 7,
        other => other.parse().ok().filter(|number| *number <= 7).unwrap_or(6),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn encoded(fields: &[(&str, Value)]) -> String {
        let options = MessageOptions {
            facility: 16,
            severity_field: "level".to_owned(),
            hostname_field: "host".to_owned(),
            app_name_field: "app".to_owned(),
            proc_id_field: "pid".to_owned(),
            message_field: "message".to_owned(),
            data_id: Some("fields@32473".to_owned()),
        };
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let document = Document::new("id", 1_767_323_045_123_456_789, fields.collect());
        String::from_utf8(encode(&options, &document)).unwrap()
    }

    #[test]
    fn messages_follow_the_standard() {
        assert_eq!(encoded(&[]), "<134>1 2026-01-02T03:04:05.123456Z - - - - -");
        assert_eq!(
            encoded(&[
                ("host", json!("web 1")),
                ("app", json!("sshd")),
                ("pid", json!(42)),
                ("level", json!("Error")),
                ("message", json!("two\nlines ü")),
                ("user", json!("a\"b\\c]d")),
                ("my key=", json!({"x": 1})),
            ]),
            "<131>1 2026-01-02T03:04:05.123456Z web_1 sshd 42 - \
             [fields@32473 user=\"a\\\"b\\\\c\\]d\" my_key_=\"{\\\"x\\\":1}\"] two\nlines ü"
        );
    }

    #[test]
    fn severities_are_numbers_or_names() {
        for (text, expected) in
            [("", 6), ("7", 7), ("8", 6), ("-1", 6), ("WARN", 4), ("fatal", 2), ("other", 6)]
        {
            assert_eq!(severity(text), expected, "{text}");
        }
    }
}
