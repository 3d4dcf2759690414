//! Lines of OpenTelemetry's file exporter: an object `{"resourceLogs":[…]}` with the records of
//! one export, nested in resources and scopes.
//!
//! The first record gives the line its time, level, message and fields, and the attributes of its
//! resource become fields. Left out: further records of the line, which stay in the field
//! `resourceLogs`; a note says so.

use super::json_parts::{JsonKind, json_items, json_members_by};

/// The name of the list.
pub(crate) const NAME: &str = "resourceLogs";
/// Attributes of a resource that become fields.
const ATTRIBUTES_MAX: usize = 64;

/// The first record of an export.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// An object.
    pub record: String,
    /// Name and value.
    pub resource: Vec<(String, String)>,
    /// Whether there are further records.
    pub has_more: bool,
}

/// The first record in the text of the list; `None` if there is none.
pub(crate) fn first_record(list: &[u8]) -> Option<Export> {
    let (mut record, mut resource, mut records) = (None, Vec::new(), 0);
    each(list, |of_resource| {
        let is_first = record.is_none();
        members(of_resource, |name, kind, value| match (name, kind) {
            ("resource", JsonKind::Object) if is_first => {
                members(value.as_bytes(), |name, _, value| {
                    if name == "attributes" {
                        resource = attributes(value.as_bytes());
                    }
                });
            }
            ("scopeLogs", JsonKind::Array) => each(value.as_bytes(), |scope| {
                members(scope, |name, _, value| {
                    if name == "logRecords" {
                        each(value.as_bytes(), |found| {
                            records += 1;
                            if record.is_none() {
                                record = Some(String::from_utf8_lossy(found).into_owned());
                            }
                        });
                    }
                });
            }),
            _ => {}
        });
    });
    Some(Export { record: record?, resource, has_more: records > 1 })
}

/// The objects in a list.
fn each(list: &[u8], mut visit: impl FnMut(&[u8])) {
    json_items(list, |kind, item| {
        if kind == JsonKind::Object {
            visit(item.as_bytes());
        }
    });
}

/// The members of an object, not those of its members.
fn members(object: &[u8], visit: impl FnMut(&str, JsonKind, &str)) {
    let join = |path: &mut String, _: usize, key: &str| path.push_str(key);
    json_members_by(object, 1, join, visit);
}

/// `[{"key":"service.name","value":{"stringValue":"shop"}}]`
fn attributes(list: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    each(list, |attribute| {
        let (mut key, mut text) = (String::new(), None);
        members(attribute, |name, _, value| match name {
            "key" => value.clone_into(&mut key),
            "value" => members(value.as_bytes(), |_, _, value| text = Some(value.to_owned())),
            _ => {}
        });
        if let Some(text) = text.filter(|_| !key.is_empty() && found.len() < ATTRIBUTES_MAX) {
            found.push((key, text));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let record = r#"{"body":{"stringValue":"x"},"severityText":"ERROR"}"#;
        let list = |records: &str| {
            format!(
                r#"[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"pay"}}}},{{"key":"n","value":{{"intValue":"7"}}}}]}},"scopeLogs":[{{"scope":{{}},"logRecords":[{records}]}}]}}]"#
            )
        };
        let resource = vec![("service.name".into(), "pay".into()), ("n".into(), "7".into())];
        let one = Export { record: record.into(), resource, has_more: false };
        assert_eq!(first_record(list(record).as_bytes()), Some(one));
        let two = first_record(list(&format!("{record},{record}")).as_bytes()).unwrap();
        assert!(two.has_more);
        for text in ["", "[]", "[1]", "[{}]", r#"[{"scopeLogs":[{"logRecords":[]}]}]"#, "[{"] {
            assert_eq!(first_record(text.as_bytes()), None, "{text}");
        }
    }
}
