//! Indices: each type of lines is one, `logs-TYPE`. And the fields of lines, with their types.

use std::collections::BTreeMap;

use query::{Filter, Query, Test};
use record::batch::OWN_TYPES;
use serde_json::{Map, Value, json};

use crate::aggs::plain_number;
use crate::error::{Refused, SearchError};
use crate::leaf::{Wild, kind_of};
use crate::names::{MSG, TIME, TYPE, index_of, shown};
use crate::object::cut;
use crate::rows::Runner;

/// Names that stand for all indices.
const ALL: [&str; 6] = ["", "*", "_all", "logs", "logs*", "logs-*"];
/// Most types that are listed.
const TYPES_MAX: usize = 10_000;
/// Most names in a list of indices.
const NAMES_MAX: usize = 1_000;
/// The newest lines whose fields say which fields there are, and of which types.
///
/// limits.md, Queries: newest lines whose fields Elasticsearch's API lists | {} | fields that only
/// older lines have are not listed; searches find them
pub const SAMPLED_LINES: usize = 2_000;
/// Most fields that are listed.
const FIELDS_MAX: usize = 10_000;

/// Most levels of a mapping; further dots of a name are a part of it.
const LEVELS_MAX: usize = 20;

/// A type of lines and the number of its lines.
pub struct Index {
    /// The type.
    pub kind: String,
    /// Number of lines.
    pub lines: u64,
}

/// The types that there are.
pub fn all(runner: &Runner<'_>) -> Result<Vec<Index>, SearchError> {
    let query = Query::new(Filter::All, Vec::new());
    let found =
        query::field_values(&query, runner.source(), runner.context(), TYPE, "", Some(TYPES_MAX))?;
    let mut indices: Vec<Index> =
        found.into_iter().map(|found| Index { kind: found.value, lines: found.hits }).collect();
    indices.sort_by(|a, b| a.kind.cmp(&b.kind));
    Ok(indices)
}

/// Whether an expression such as `logs-*` stands for all indices.
pub fn is_all(expression: &str) -> bool {
    ALL.contains(&expression)
}

/// The types that an expression such as `logs-json,logs-s*,-logs-summary` names. A name without
/// wildcards that is none is an error, unless `lenient`.
pub fn named(
    expression: &str,
    runner: &Runner<'_>,
    lenient: bool,
) -> Result<Vec<Index>, SearchError> {
    let known = all(runner)?;
    if is_all(expression) {
        return Ok(known);
    }
    let mut chosen: Vec<Index> = Vec::new();
    if expression.split(',').count() > NAMES_MAX {
        return Err(Refused::argument(format!("more than {NAMES_MAX} names of indices")).into());
    }
    for name in expression.split(',') {
        let (excludes, name) = match name.strip_prefix('-') {
            Some(name) if !chosen.is_empty() => (true, name),
            _ => (false, name),
        };
        let parts = Wild::parse(name);
        let is_pattern = name.contains('*') || name.contains('?');
        let matches = |kind: &str| {
            is_all(name)
                || Wild::matches(&parts, &index_of(kind))
                || !is_pattern && kind_of(name) == kind
        };
        if excludes {
            chosen.retain(|index| !matches(&index.kind));
            continue;
        }
        let found: Vec<&Index> = known.iter().filter(|index| matches(&index.kind)).collect();
        let own = OWN_TYPES.iter().find(|own| !is_pattern && kind_of(name) == **own);
        if found.is_empty() && !is_pattern && own.is_none() && !lenient {
            return Err(SearchError::Refused(Refused {
                kind: "index_not_found_exception",
                status: 404,
                reason: format!(
                    "no such index [{}]; an index is a type of lines, and there are: {}",
                    cut(name),
                    listed(&known)
                ),
            }));
        }
        for index in found {
            if !chosen.iter().any(|c| c.kind == index.kind) {
                chosen.push(Index { kind: index.kind.clone(), lines: index.lines });
            }
        }
        if let Some(own) = own
            && !chosen.iter().any(|c| c.kind == *own)
        {
            chosen.push(Index { kind: (*own).to_owned(), lines: 0 });
        }
    }
    Ok(chosen)
}

fn listed(known: &[Index]) -> String {
    let names: Vec<String> = known.iter().take(20).map(|index| index_of(&index.kind)).collect();
    if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
}

/// The filter of the lines of an expression.
pub fn filter(expression: &str, runner: &Runner<'_>, lenient: bool) -> Result<Filter, SearchError> {
    if is_all(expression) {
        return Ok(Filter::All);
    }
    let kinds: Vec<String> =
        named(expression, runner, lenient)?.into_iter().map(|index| index.kind).collect();
    Ok(match kinds.len() {
        0 => crate::leaf::none(),
        _ => Filter::field(TYPE, Test::In(kinds)),
    })
}

/// What the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldType {
    /// Times.
    Date,
    /// Whole numbers.
    Long,
    /// Numbers.
    Double,
    /// `true` and `false`.
    Boolean,
    /// The message.
    Text,
    /// Everything else.
    Keyword,
}

impl FieldType {
    /// Elasticsearch's name.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Date => "date",
            FieldType::Long => "long",
            FieldType::Double => "double",
            FieldType::Boolean => "boolean",
            FieldType::Text => "text",
            FieldType::Keyword => "keyword",
        }
    }

    fn of(value: &str) -> FieldType {
        match plain_number(value) {
            Some(number) if number.is_i64() => FieldType::Long,
            Some(_) => FieldType::Double,
            None if value == "true" || value == "false" => FieldType::Boolean,
            None => FieldType::Keyword,
        }
    }

    fn with(self, other: FieldType) -> FieldType {
        match (self, other) {
            (a, b) if a == b => a,
            (FieldType::Long | FieldType::Double, FieldType::Long | FieldType::Double) => {
                FieldType::Double
            }
            _ => FieldType::Keyword,
        }
    }
}

/// The fields of the newest lines that a filter selects, by the names that clients use.
pub fn fields(
    runner: &mut Runner<'_>,
    filter: &Filter,
) -> Result<BTreeMap<String, FieldType>, SearchError> {
    let mut found = BTreeMap::new();
    for row in runner.rows(filter, "", None, Some(SAMPLED_LINES), &[])? {
        for (name, value) in row {
            let kind = match name.as_str() {
                TIME | "_stream" => continue,
                MSG => FieldType::Text,
                TYPE => FieldType::Keyword,
                _ => FieldType::of(&String::from_utf8_lossy(&value)),
            };
            let name = shown(&name).to_owned();
            if let Some(known) = found.get_mut(&name) {
                *known = FieldType::with(*known, kind);
            } else if found.len() < FIELDS_MAX {
                found.insert(name, kind);
            }
        }
    }
    found.insert(shown(TIME).to_owned(), FieldType::Date);
    found.insert(shown(MSG).to_owned(), FieldType::Text);
    Ok(found)
}

/// `field_caps`: the fields whose names match.
pub fn capabilities(fields: &BTreeMap<String, FieldType>, patterns: &[String]) -> Value {
    let patterns: Vec<Vec<Wild>> = patterns.iter().map(|pattern| Wild::parse(pattern)).collect();
    let wanted = |name: &str| patterns.iter().any(|parts| Wild::matches(parts, name));
    let mut answer = Map::new();
    let mut add = |name: &str, kind: &str, is_metadata: bool, can_aggregate: bool| {
        if wanted(name) {
            let one = json!({
                "type": kind, "metadata_field": is_metadata, "searchable": true,
                "aggregatable": can_aggregate,
            });
            answer.insert(name.to_owned(), json!({ kind: one }));
        }
    };
    for (name, kind) in fields {
        add(name, kind.name(), false, *kind != FieldType::Text);
        if *kind == FieldType::Text {
            add(&format!("{name}.keyword"), "keyword", false, true);
        }
    }
    for (name, kind) in [("_index", "_index"), ("_id", "_id"), ("_source", "_source")] {
        add(name, kind, true, name == "_index");
    }
    answer.into()
}

/// `properties` of a mapping: fields with dots inside each other.
pub fn properties(fields: &BTreeMap<String, FieldType>) -> Value {
    let mut root = Map::new();
    for (name, kind) in fields {
        let mut own = json!({ "type": kind.name() });
        if *kind == FieldType::Text {
            own["fields"] = json!({ "keyword": { "type": "keyword" } });
        }
        insert(&mut root, name, own, LEVELS_MAX);
    }
    root.into()
}

fn insert(at: &mut Map<String, Value>, name: &str, own: Value, levels: usize) {
    let is_name = |(first, rest): &(&str, &str)| !first.is_empty() && !rest.is_empty();
    let nested = name.split_once('.').filter(is_name).filter(|_| levels > 0);
    let Some((first, rest)) = nested else {
        let entry = at.entry(name).or_insert_with(|| json!({}));
        if let (Some(entry), Value::Object(own)) = (entry.as_object_mut(), own) {
            entry.extend(own);
        }
        return;
    };
    let entry = at.entry(first).or_insert_with(|| json!({}));
    let Some(entry) = entry.as_object_mut() else { return };
    let inner = entry.entry("properties").or_insert_with(|| json!({}));
    if let Some(inner) = inner.as_object_mut() {
        insert(inner, rest, own, levels - 1);
    }
}
