//! Fields of the lines of common servers: lines of each kind, made by a generator that knows the
//! values; single forms; and lines made to deceive.

mod forms;
mod made;

use super::*;

/// Fields that every line has, or that its head gives.
const OF_HEADS: [&str; 13] = [
    "_msg",
    "_type",
    "_level",
    "_remote_ip",
    "_note",
    "hostname",
    "app_name",
    "proc_id",
    "format",
    "priority",
    "facility",
    "facility_keyword",
    "severity",
];

/// The fields of a line that are not those of its head, as `name=value`, in the order of names.
fn own_fields(config: &ParserConfig, origin: &Origin, line: &str) -> Vec<String> {
    let batch = parse_with(config, origin, &[line.as_bytes()]);
    let row = batch.row(0);
    assert_eq!(row.raw(), line.as_bytes());
    assert_eq!(row.get_by_name("_note"), None, "{line}");
    let message = row.get_by_name("_msg").expect("there is a message");
    assert!(!message.is_empty() || line.is_empty());
    let mut fields: Vec<String> = row
        .fields()
        .map(|(id, value)| (batch.name(id), value))
        .filter(|(name, _)| !OF_HEADS.contains(name))
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
        .collect();
    fields.sort();
    fields
}

fn check_own(origin: &Origin, line: &str, expected: &[(&str, &str)]) {
    let mut wanted: Vec<String> =
        expected.iter().map(|(name, value)| format!("{name}={value}")).collect();
    wanted.sort();
    let found = own_fields(&ParserConfig::default(), origin, line);
    assert_eq!(found, wanted, "\nline: {line}");
}

fn check_level(origin: &Origin, line: &str, level: &str) {
    let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
    let found = batch.row(0).get_by_name("_level").map(String::from_utf8_lossy);
    assert_eq!(found.as_deref().unwrap_or(""), level, "{line}");
}
