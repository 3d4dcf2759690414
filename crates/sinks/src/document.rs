//! Documents, and batches of them: what a sink delivers.
//!
//! Invariant: the id of a document is derived from what the document stands for, so that the same
//! document has the same id after a crash. Destinations that know ids store it once, however often
//! it is sent. A document that deletes carries the id of the one that it deletes.

use std::borrow::Cow;

pub use serde_json::Value;

use text::time::format_time_digits;

use crate::destination::Outcome;

/// Bytes that a document or field is counted with besides its text: allocations and pointers.
const OVERHEAD_BYTES: usize = 32;

/// One row or line, as destinations receive it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Identifies the document at its destination, for good.
    pub id: String,
    /// Nanoseconds since 1970, UTC.
    pub time_ns: i64,
    /// Names and values, in the order in which they are written. A name should occur once.
    pub fields: Vec<(String, Value)>,
    /// What happens at the destination.
    pub change: Change,
}

/// What a document does to the one with the same id at its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Change {
    /// The destination receives the fields.
    #[default]
    Write,
    /// The destination deletes the document with this id, if it has one. Such a document has no
    /// fields, and the time of the document that it deletes: a dated index is named after it.
    Delete,
}

/// Documents in order, and the cursor that may be stored once all of them are dealt with.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// May be empty: the cursor is then acknowledged behind the batches before it.
    pub documents: Vec<Document>,
    /// Where reading resumes behind this batch. Its text means nothing to this crate.
    pub cursor: String,
}

impl Document {
    /// A document with fields.
    pub fn new(id: impl Into<String>, time_ns: i64, fields: Vec<(String, Value)>) -> Document {
        Document { id: id.into(), time_ns, fields, change: Change::Write }
    }

    /// Deletes the document that has this id and this time.
    pub fn delete(id: impl Into<String>, time_ns: i64) -> Document {
        Document { id: id.into(), time_ns, fields: Vec::new(), change: Change::Delete }
    }

    /// Whether this document deletes another one.
    pub fn is_delete(&self) -> bool {
        self.change == Change::Delete
    }

    /// The memory of this document, estimated.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| OVERHEAD_BYTES + name.len() + value_bytes(value));
        OVERHEAD_BYTES + self.id.len() + fields.sum::<usize>()
    }

    /// The value of a field, if the document has it.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// Appends a line of JSON with the time and the id. A deletion is a line with
    /// `"deleted":true` in place of fields; without a field for the id nobody could tell what it
    /// deletes, so nothing is appended, and the outcome is [`Outcome::Ignored`].
    pub(crate) fn write_line(
        &self,
        time_field: &str,
        id_field: Option<&str>,
        into: &mut Vec<u8>,
    ) -> Outcome {
        let time = format_time_digits(self.time_ns, 9);
        let mut own = vec![(time_field, time.as_str())];
        own.extend(id_field.map(|name| (name, self.id.as_str())));
        if self.is_delete() {
            if id_field.is_none() {
                return Outcome::Ignored;
            }
            let fields = vec![("deleted".to_owned(), Value::Bool(true))];
            Document::new("", self.time_ns, fields).write_json(&own, |_| true, into);
        } else {
            self.write_json(&own, |_| true, into);
        }
        into.push(b'\n');
        Outcome::Accepted
    }

    /// Appends the document as a JSON object without a newline: first the pairs `own`, then the
    /// fields with other names that `is_kept` selects.
    pub fn write_json(
        &self,
        own: &[(&str, &str)],
        is_kept: impl Fn(&str) -> bool,
        into: &mut Vec<u8>,
    ) {
        self.write_json_as(own, |name| is_kept(name).then_some(Cow::Borrowed(name)), into);
    }

    /// The same; `name_of` gives the name under which a field is written, or none to leave it out.
    pub fn write_json_as(
        &self,
        own: &[(&str, &str)],
        name_of: impl Fn(&str) -> Option<Cow<'_, str>>,
        into: &mut Vec<u8>,
    ) {
        into.push(b'{');
        let mut is_first = true;
        let mut name_it = |name: &str, into: &mut Vec<u8>| {
            if !std::mem::take(&mut is_first) {
                into.push(b',');
            }
            write_value(name, into);
            into.push(b':');
        };
        for (name, text) in own {
            name_it(name, into);
            write_value(text, into);
        }
        for (name, value) in &self.fields {
            if own.iter().all(|(own, _)| own != name)
                && let Some(name) = name_of(name)
            {
                name_it(&name, into);
                write_value(value, into);
            }
        }
        into.push(b'}');
    }
}

impl Batch {
    /// The memory of all documents, estimated.
    pub fn bytes(&self) -> usize {
        self.documents.iter().map(Document::bytes).sum()
    }
}

/// Appends a value as JSON.
pub(crate) fn write_value<V: serde::Serialize + ?Sized>(value: &V, into: &mut Vec<u8>) {
    serde_json::to_writer(into, value).expect("text, numbers and JSON can be written to memory");
}

/// A value as text: text as it is, everything else as JSON.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => {
            values.iter().map(|value| OVERHEAD_BYTES + value_bytes(value)).sum()
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            fields.map(|(name, value)| OVERHEAD_BYTES + name.len() + value_bytes(value)).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_keeps_the_order_and_own_names_win() {
        let fields = vec![
            ("z".to_owned(), json!("line\n\"")),
            ("_time".to_owned(), json!("overwritten")),
            ("a".to_owned(), json!({"b": [1, 2.5, null, true]})),
            ("left out".to_owned(), json!(1)),
        ];
        let document = Document::new("a", 0, fields);
        let mut bytes = Vec::new();
        document.write_json(&[("_time", "t")], |name| name != "left out", &mut bytes);
        let expected = r#"{"_time":"t","z":"line\n\"","a":{"b":[1,2.5,null,true]}}"#;
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let mut bytes = Vec::new();
        Document { fields: Vec::new(), ..document }.write_json(&[], |_| true, &mut bytes);
        assert_eq!(bytes, b"{}");
    }

    #[test]
    fn memory_grows_with_every_part() {
        let document = |value| Document::new("id", 0, vec![("name".to_owned(), value)]);
        let small = document(json!("")).bytes();
        assert!(document(json!("x".repeat(1000))).bytes() >= small + 1000);
        assert!(document(json!({"a": ["x".repeat(1000)]})).bytes() >= small + 1000);
    }
}
