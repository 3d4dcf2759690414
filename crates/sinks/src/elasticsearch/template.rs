//! The index template: mappings derived from the types of fields.
//!
//! Text becomes `keyword`, whole numbers `long`, other numbers `double`, the time `date` or
//! `date_nanos`. Fields of the first documents are mapped by name; fields that come later are
//! mapped by the same rules as they come (`dynamic_templates`).
//!
//! A template that an administrator made is left alone: only one whose mappings carry our `_meta`
//! is replaced, and fields it maps already keep their mapping.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::destination::{Delivered, Fault};
use crate::document::Document;
use crate::elasticsearch::{ElasticsearchOptions, Server, Target, TimeType};
use crate::http::compress::Encoding;
use crate::http::{Client, Method, Reply, Request, judge};

/// Who made a template, in `_meta`.
const MANAGER: &str = "loginson";
/// Fields that are mapped by name. Further ones are mapped as they come.
const FIELDS_MAX: usize = 500;
/// Statuses of a request for a template that say that something is wrong with it.
const REFUSING: [u16; 1] = [400];

/// How the template is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateOptions {
    /// Its name.
    pub name: String,
    /// Of several templates that match an index, the one with the highest priority counts.
    pub priority: u32,
    /// Shards of each index; `None` for the server's default.
    pub shards: Option<u32>,
    /// Copies of each shard; `None` for the server's default.
    pub replicas: Option<u32>,
    /// Longer texts are stored, and not indexed. Lucene refuses terms above 32,766 bytes.
    pub ignore_above_chars: u32,
}

/// Creates the template, or brings ours up to date.
pub fn ensure(
    client: &mut Client,
    server: &Server,
    options: &ElasticsearchOptions,
    documents: &[Document],
) -> Result<(), Delivered> {
    let Some(template) = &options.template else { return Ok(()) };
    let is_composable = server.has_composable_templates();
    let kind = if is_composable { "_index_template" } else { "_template" };
    let path = format!("/{kind}/{}", template.name);
    let mut properties = properties(options, template, documents);
    let found = request(client, Method::Get, &path, &[])?;
    if found.status != 404 {
        if let Some(failure) = judge::failure(client, &found, &[]) {
            return Err(failure);
        }
        let found: Value = serde_json::from_str(&found.body).unwrap_or_default();
        let mappings = match is_composable {
            true => &found["index_templates"][0]["index_template"]["template"]["mappings"],
            false => &found[template.name.as_str()]["mappings"],
        };
        if mappings["_meta"]["managed_by"] != MANAGER {
            return Ok(());
        }
        for (name, mapping) in mappings["properties"].as_object().into_iter().flatten() {
            properties.insert(name.clone(), mapping.clone());
        }
    }
    let body = body(options, template, is_composable, properties).to_string();
    let made = request(client, Method::Put, &path, body.as_bytes())?;
    match judge::failure(client, &made, &REFUSING) {
        None => Ok(()),
        // Documents are not at fault here, so they are not rejected.
        Some(Delivered::Refused(fault)) => Err(Delivered::unavailable(Fault::new(
            format!("the index template was refused: {}", fault.what),
            "give another `priority` or name, or make the template yourself and set \
             `template.enabled = false`",
        ))),
        Some(failure) => Err(failure),
    }
}

fn request(
    client: &mut Client,
    method: Method,
    path: &str,
    body: &[u8],
) -> Result<Reply, Delivered> {
    let encoding = Encoding::Plain;
    let content_type = "application/json";
    Ok(client.send(Request { method, path, content_type, encoding, body })?)
}

fn body(
    options: &ElasticsearchOptions,
    template: &TemplateOptions,
    is_composable: bool,
    properties: Map<String, Value>,
) -> Value {
    let pattern = match &options.target {
        Target::Index(pattern) if pattern.is_fixed() => pattern.at(0),
        Target::Index(pattern) => format!("{}*", pattern.prefix()),
        Target::DataStream(name) => name.clone(),
    };
    let mut settings = Map::new();
    if let Some(shards) = template.shards {
        settings.insert("index.number_of_shards".to_owned(), json!(shards));
    }
    if let Some(replicas) = template.replicas {
        settings.insert("index.number_of_replicas".to_owned(), json!(replicas));
    }
    let keyword = keyword(template);
    let mappings = json!({
        "_meta": {"managed_by": MANAGER},
        "date_detection": false,
        "numeric_detection": false,
        "dynamic_templates": [
            {"text": {"match_mapping_type": "string", "mapping": keyword}},
            {"whole": {"match_mapping_type": "long", "mapping": {"type": "long"}}},
            {"fractions": {"match_mapping_type": "double", "mapping": {"type": "double"}}},
        ],
        "properties": properties,
    });
    if !is_composable {
        return json!({
            "index_patterns": [pattern],
            "order": template.priority,
            "settings": settings,
            "mappings": mappings,
        });
    }
    let mut body = json!({
        "index_patterns": [pattern],
        "priority": template.priority,
        "template": {"settings": settings, "mappings": mappings},
    });
    if matches!(options.target, Target::DataStream(_)) {
        body["data_stream"] = json!({});
    }
    body
}

/// The mapping of each field of the documents, as far as its values agree on a type.
fn properties(
    options: &ElasticsearchOptions,
    template: &TemplateOptions,
    documents: &[Document],
) -> Map<String, Value> {
    let mut types: BTreeMap<&str, FieldType> = BTreeMap::new();
    for (name, value) in documents.iter().flat_map(|document| &document.fields) {
        // Names with dots are objects for Elasticsearch; they are mapped as they come.
        let is_plain = !name.is_empty() && !name.contains('.') && !name.starts_with('_');
        let Some(found) = FieldType::of(value).filter(|_| is_plain) else { continue };
        let is_full = types.len() >= FIELDS_MAX;
        match types.get_mut(name.as_str()) {
            Some(known) => *known = known.and(found),
            None if !is_full => {
                types.insert(name, found);
            }
            None => {}
        }
    }
    let mut properties = Map::new();
    for (name, found) in types {
        let mapping = match found {
            FieldType::Text => keyword(template),
            FieldType::Whole => json!({"type": "long"}),
            FieldType::Fraction => json!({"type": "double"}),
            FieldType::Bool => json!({"type": "boolean"}),
            FieldType::Nested => continue,
        };
        properties.insert(name.to_owned(), mapping);
    }
    let time = match options.time_type {
        TimeType::Date => "date",
        TimeType::DateNanos => "date_nanos",
    };
    properties.insert(options.time_field.clone(), json!({ "type": time }));
    properties
}

fn keyword(template: &TemplateOptions) -> Value {
    json!({"type": "keyword", "ignore_above": template.ignore_above_chars})
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Text,
    Whole,
    Fraction,
    Bool,
    Nested,
}

impl FieldType {
    /// The type of a value; `None` if the value says nothing about it.
    fn of(value: &Value) -> Option<FieldType> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(FieldType::Bool),
            Value::Number(number) if number.is_i64() => Some(FieldType::Whole),
            Value::Number(_) => Some(FieldType::Fraction),
            Value::String(_) => Some(FieldType::Text),
            Value::Array(values) => values.iter().find_map(FieldType::of),
            Value::Object(_) => Some(FieldType::Nested),
        }
    }

    /// The type that takes values of both.
    fn and(self, other: FieldType) -> FieldType {
        match (self, other) {
            (a, b) if a == b => a,
            (FieldType::Nested, _) | (_, FieldType::Nested) => FieldType::Nested,
            (FieldType::Whole, FieldType::Fraction) | (FieldType::Fraction, FieldType::Whole) => {
                FieldType::Fraction
            }
            _ => FieldType::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_fields_are_merged() {
        for (values, expected) in [
            (vec![json!(1), json!(-2)], Some(FieldType::Whole)),
            (vec![json!(1), json!(1.5)], Some(FieldType::Fraction)),
            (vec![json!(u64::MAX)], Some(FieldType::Fraction)),
            (vec![json!(null), json!("x")], Some(FieldType::Text)),
            (vec![json!(1), json!("x")], Some(FieldType::Text)),
            (vec![json!(true)], Some(FieldType::Bool)),
            (vec![json!([null, 2])], Some(FieldType::Whole)),
            (vec![json!({"a": 1}), json!(1)], Some(FieldType::Nested)),
            (vec![json!(null), json!([])], None),
        ] {
            let found = values.iter().filter_map(FieldType::of).reduce(FieldType::and);
            assert_eq!(found, expected, "{values:?}");
        }
    }
}
