//! Converts one journal entry from the JSON that `journalctl` writes to the JSON line that is kept,
//! which [`line_of`] makes.
//!
//! `journalctl` writes a value that is not valid text as an array of numbers, and a field with
//! several values as an array; both are converted to text.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::body::journal::line_of;

/// A converted journal entry.
#[derive(Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The line, a JSON object without newline.
    pub line: Vec<u8>,
    /// Its cursor in the journal.
    pub cursor: String,
}

/// Parses the JSON of one entry; `None` when it is not an entry.
pub fn parse(json: &[u8]) -> Option<JournalEntry> {
    let fields: BTreeMap<String, Value> = serde_json::from_slice(json).ok()?;
    let cursor = fields.get("__CURSOR")?.as_str()?.to_owned();
    let fields: BTreeMap<String, String> =
        fields.into_iter().map(|(name, value)| (name, text(value))).collect();
    fields.get("__REALTIME_TIMESTAMP")?.parse::<u64>().ok()?;
    Some(JournalEntry { line: line_of(fields), cursor })
}

/// The cursor in the first bytes of an entry; `None` when it is not within them. Within a value the
/// quotation marks would be escaped.
pub fn cursor(json: &[u8]) -> Option<String> {
    let name = b"\"__CURSOR\"";
    let rest = &json[memchr::memmem::find(json, name)? + name.len()..];
    let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let value = value.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', value)?;
    Some(std::str::from_utf8(&value[..end]).ok()?.to_owned())
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(values) => {
            let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
            match values.iter().map(byte).collect::<Option<Vec<u8>>>() {
                Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                None => values.into_iter().map(text).collect::<Vec<_>>().join("\n"),
            }
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &str, expected: &str) {
        let json =
            format!(r#"{{"__CURSOR":"c","__REALTIME_TIMESTAMP":"1700000000000001"{fields}}}"#);
        let entry = parse(json.as_bytes()).unwrap();
        assert_eq!(entry.cursor, "c");
        let found: Value = serde_json::from_slice(&entry.line).unwrap();
        let expected = format!(r#"{{"_time":1700000000000001{expected}}}"#);
        assert_eq!(found, serde_json::from_str::<Value>(&expected).unwrap());
        assert!(!entry.line.contains(&b'\n'));
    }

    #[test]
    fn fields_get_the_names_of_syslog() {
        check(
            r#","MESSAGE":"hello","PRIORITY":"3","_HOSTNAME":"h","SYSLOG_IDENTIFIER":"a","_COMM":"b","_PID":"7"
              ,"_SYSTEMD_UNIT":"x.service","__MONOTONIC_TIMESTAMP":"1","__SEQNUM":"2""#,
            r#","_msg":"hello","severity":"3","level":"error","hostname":"h","app_name":"a","_COMM":"b",
               "proc_id":"7","_SYSTEMD_UNIT":"x.service""#,
        );
        check(r#","_COMM":"b","PRIORITY":"9""#, r#","app_name":"b","severity":"9""#);
        // Invalid text, several values, values too long for journalctl, and names that are already
        // used.
        check(r#","MESSAGE":[104,105,10,255]"#, ",\"_msg\":\"hi\\n\u{fffd}\"");
        check(r#","MESSAGE":["one",[116,119,111]]"#, r#","_msg":"one\ntwo""#);
        check(r#","MESSAGE":null,"_msg":"x""#, r#","_msg":"""#);
    }

    #[test]
    fn the_cursor_of_the_start_of_an_entry() {
        for (json, expected) in [
            (r#"{"__CURSOR":"s=1;i=2","MESSAGE":"x"#, Some("s=1;i=2")),
            (r#"{ "PRIORITY" : "3", "__CURSOR" : "c", "#, Some("c")),
            (r#"{"MESSAGE":"\"__CURSOR\":\"x\"","__CURSOR":"c""#, Some("c")),
            (r#"{"__CURSOR":"not all of i"#, None),
            (r#"{"__CURSOR":1"#, None),
            (r#"{"MESSAGE":"x"#, None),
        ] {
            assert_eq!(cursor(json.as_bytes()).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn invalid_entries_are_none() {
        for text in ["", "-- No entries --", "{}", "[]", r#"{"__CURSOR":"c"}"#, r#"{"__CURSOR":1}"#]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
