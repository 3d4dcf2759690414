//! Lines of the store as lines of Loki: a text, and labels of its stream.
//!
//! The text is the message without its syslog head; for a line that is a JSON object, the whole
//! object, unless the object was made to carry a text (`{"_msg":…`): then it is that text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use query::Pulse;
use record::{Batch, FieldId, Row};

use crate::stage::json::label_name;
use crate::stage::{Fields, Item, Labels};

/// Types whose lines are plain text: those that the parser itself gives to lines that are not JSON.
pub const TEXT_TYPES: [&str; 3] = ["syslog", "plain", "access"];
/// The beginning of an object that carries a text.
const CARRIER: &[u8] = b"{\"_msg\":";
/// Limit of the streams whose labels are cached. Beyond it the cache is cleared.
const STREAMS_KEPT: usize = 10_000;
/// Limit of the text of those streams; likewise. A field of a stream may have megabytes.
const STREAMS_BYTES_KEPT: usize = 4 << 20;

/// Levels as they are stored, with Loki's names.
pub const LEVELS: [(&str, &str); 8] = [
    ("emerg", "critical"),
    ("alert", "critical"),
    ("critical", "critical"),
    ("error", "error"),
    ("warning", "warn"),
    ("notice", "info"),
    ("info", "info"),
    ("debug", "debug"),
];
/// The level of a line without a level.
pub const UNKNOWN_LEVEL: &str = "unknown";

/// Loki's name of a level.
pub fn detected_level(level: &[u8]) -> &'static str {
    let known = LEVELS.iter().find(|(name, _)| name.as_bytes() == level);
    known.map_or(UNKNOWN_LEVEL, |(_, detected)| detected)
}

/// Fields that name streams, or where a line comes from, by the conventions of OpenTelemetry, the
/// Elastic Common Schema and collectors in Kubernetes. A label has `_` for each point of a name, so
/// these are reached by the names of their labels.
const DOTTED_FIELDS: [&str; 28] = [
    "service.namespace",
    "service.name",
    "service.instance.id",
    "deployment.environment.name",
    "deployment.environment",
    "cloud.account.id",
    "cloud.region",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.id",
    "container.name",
    "host.id",
    "host.name",
    "event.dataset",
    "log.file.path",
    "kubernetes.namespace",
    "kubernetes.namespace_name",
    "kubernetes.pod.name",
    "kubernetes.pod_name",
    "kubernetes.pod_namespace",
    "kubernetes.pod_node_name",
    "kubernetes.container.name",
    "kubernetes.container_name",
    "kubernetes.node.name",
    "kubernetes.host",
];

/// The fields that a label may stand for: some with points in their names, and last the one with
/// the name of the label. The first that a line has is the label's.
pub fn fields_of<'l>(label: &'l str) -> impl Iterator<Item = &'l str> {
    let dotted: [&'l str; DOTTED_FIELDS.len()] = DOTTED_FIELDS;
    let is_its = move |field: &&str| {
        let mut pairs = field.bytes().zip(label.bytes());
        field.len() == label.len()
            && pairs.all(|(own, of_label)| own == of_label || own == b'.' && of_label == b'_')
    };
    dotted.into_iter().filter(is_its).chain([label])
}

/// Whether a name in LogQL is that of a field of lines. Loginson's own fields (`_type`, `_level`)
/// are; computed fields, and names with a meaning in Loki, are not.
pub fn is_field(name: &str) -> bool {
    !name.starts_with("__")
        && !matches!(name, "_time" | "_msg" | "_stream" | "_received" | "_line" | "_line_id")
}

/// Makes items of rows; caches what rows have in common.
#[derive(Default)]
pub struct Reader {
    streams: HashMap<String, Arc<Labels>, foldhash::fast::RandomState>,
    streams_bytes: usize,
    text: String,
    batch: Option<(Arc<Batch>, Known)>,
}

#[derive(Clone, Copy)]
struct Known {
    msg: Option<FieldId>,
    log_type: Option<FieldId>,
    level: Option<FieldId>,
}

/// The fields of a row.
pub struct RowFields<'a> {
    batch: &'a Batch,
    /// The row.
    pub row: Row<'a>,
}

impl<'a> RowFields<'a> {
    /// Those of a row of `batch`.
    pub fn of(batch: &'a Batch, place: u32) -> RowFields<'a> {
        RowFields { batch, row: batch.row(place as usize) }
    }
}

impl Fields for RowFields<'_> {
    fn field(&self, name: &str) -> Cow<'_, str> {
        let value = |field: &str| self.row.get_by_name(field).filter(|value| !value.is_empty());
        String::from_utf8_lossy(fields_of(name).find_map(value).unwrap_or_default())
    }

    /// The members of an object that was made to carry a text, besides the text and the labels of
    /// the stream. What Loginson found in the text is no member of the object.
    fn metadata(&self) -> Labels {
        let raw = self.row.raw().trim_ascii();
        let mut found = Labels::new();
        if !raw.starts_with(CARRIER) {
            return found;
        }
        let mut key = Vec::new();
        let mut is_member = |name: &str| {
            key.clear();
            key.push(b',');
            text::json::write_text(name.as_bytes(), &mut key);
            key.push(b':');
            memchr::memmem::find(raw, &key).is_some()
        };
        for (id, value) in self.row.fields() {
            let name = self.batch.name(id);
            if matches!(name, "_msg" | "_time")
                || self.row.stream_fields().any(|of_stream| of_stream == name)
                || found.iter().any(|(other, _)| other == name)
            {
                continue;
            }
            // A name of a nested object is joined from several.
            if is_member(name) || name.split_once('.').is_some_and(|(outer, _)| is_member(outer)) {
                found.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
            }
        }
        found.sort_unstable();
        found
    }
}

impl Reader {
    /// The labels of the row's stream.
    pub fn stream(&mut self, row: &Row<'_>) -> Arc<Labels> {
        self.text.clear();
        row.write_stream(&mut self.text);
        if let Some(known) = self.streams.get(&self.text) {
            return Arc::clone(known);
        }
        if self.streams.len() >= STREAMS_KEPT
            || self.streams_bytes + self.text.len() > STREAMS_BYTES_KEPT
        {
            self.streams.clear();
            self.streams_bytes = 0;
        }
        let mut labels: Labels = row
            .stream_fields()
            .filter_map(|name| {
                let value = String::from_utf8_lossy(row.get_by_name(name)?).into_owned();
                (!value.is_empty()).then(|| (label_name(name), value))
            })
            .collect();
        labels.sort_unstable();
        labels.dedup_by(|a, b| a.0 == b.0);
        let labels = Arc::new(labels);
        if self.text.len() <= STREAMS_BYTES_KEPT {
            self.streams_bytes += self.text.len();
            self.streams.insert(self.text.clone(), Arc::clone(&labels));
        }
        labels
    }

    /// The item of a row of `batch`.
    pub fn item<'a>(
        &mut self,
        batch: &'a Arc<Batch>,
        stream: &'a Labels,
        fields: &'a RowFields<'a>,
        pulse: &'a Pulse<'a>,
    ) -> Item<'a> {
        let known = match &self.batch {
            Some((seen, known)) if Arc::ptr_eq(seen, batch) => *known,
            _ => {
                let id = |name: &str| batch.field_id(name);
                let known = Known { msg: id("_msg"), log_type: id("_type"), level: id("_level") };
                self.batch = Some((Arc::clone(batch), known));
                known
            }
        };
        let row = &fields.row;
        let get = |id: Option<FieldId>| id.and_then(|id| row.get(id)).unwrap_or_default();
        let line = text(row.raw(), get(known.msg), get(known.log_type));
        let level = detected_level(get(known.level));
        Item::new(row.time_ns(), String::from_utf8_lossy(line), stream, level, fields, pulse)
    }
}

/// The text of a line, computed from the raw line, its message and its type.
pub fn text<'a>(raw: &'a [u8], msg: &'a [u8], log_type: &[u8]) -> &'a [u8] {
    if TEXT_TYPES.iter().any(|text| text.as_bytes() == log_type) {
        return msg;
    }
    let raw = raw.trim_ascii();
    if raw.starts_with(CARRIER)
        || (!msg.is_empty() && raw.ends_with(msg))
        || raw.last() != Some(&b'}')
    {
        return msg;
    }
    memchr::memchr(b'{', raw).map_or(msg, |at| &raw[at..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts() {
        for (raw, msg, log_type, expected) in [
            ("<13>Jan 1 00:00:00 h a: hello", "hello", "syslog", "hello"),
            (r#"{"a":1,"msg":"x"}"#, "x", "json", r#"{"a":1,"msg":"x"}"#),
            (r#"{"a":1}"#, r#"{"a":1}"#, "json", r#"{"a":1}"#),
            (r#"<13>1 - h a - - - {"a":1,"msg":"x"}"#, "x", "json", r#"{"a":1,"msg":"x"}"#),
            (
                r#"{"_msg":"pushed \"line\"","job":"x"}"#,
                "pushed \"line\"",
                "json",
                "pushed \"line\"",
            ),
            ("hello", "hello", "mine", "hello"),
        ] {
            let found = super::text(raw.as_bytes(), msg.as_bytes(), log_type.as_bytes());
            assert_eq!(String::from_utf8_lossy(found), expected, "{raw}");
        }
    }
}
