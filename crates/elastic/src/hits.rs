//! Hits: lines as documents.
//!
//! The document of a line that was sent as JSON is that JSON; fields that it does not have itself,
//! because a sender or Loginson added them, stand beside it by their names. The document of another
//! line is its fields, by their names, which may have dots; values that are written as numbers are
//! numbers. Every document has `@timestamp`, and `message` if it has one.

use query::{Filter, Test};
use record::Zone;
use serde_json::{Map, Value, json};

use crate::aggs::plain_number;
use crate::dates;
use crate::error::{Refused, SearchError};
use crate::leaf::Wild;
use crate::names::{Field, ID, LINE, MSG, TIME, TYPE, index_of};
use crate::object::{Object, list, text_of};
use crate::rows::{Row, Runner};

/// A line.
pub struct Hit {
    /// Its name.
    pub id: String,
    /// Its time.
    pub time_ns: i64,
    index: String,
    fields: Vec<(String, String)>,
    line: Vec<u8>,
}

/// What of a hit is in the answer.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Which parts of the document.
    pub source: SourceFilter,
    /// `fields` and `docvalue_fields`.
    pub wanted: Vec<WantedField>,
    /// Where words are marked.
    pub highlight: Option<Highlight>,
}

/// `_source`.
#[derive(Clone, Debug, Default)]
pub struct SourceFilter {
    is_off: bool,
    includes: Vec<Vec<Wild>>,
    excludes: Vec<Vec<Wild>>,
}

/// An entry of `fields`.
#[derive(Clone, Debug)]
pub struct WantedField {
    name: Vec<Wild>,
    format: Option<String>,
}

/// `highlight`: the whole value of a field, with the words of the query marked.
#[derive(Clone, Debug)]
pub struct Highlight {
    names: Vec<Vec<Wild>>,
    before: String,
    after: String,
}

impl Hit {
    /// The hit of a row.
    pub fn new(row: Row) -> Hit {
        let mut hit = Hit {
            id: String::new(),
            time_ns: 0,
            index: String::new(),
            fields: Vec::with_capacity(row.len()),
            line: Vec::new(),
        };
        for (name, value) in row {
            match name.as_str() {
                LINE => hit.line = value,
                ID => hit.id = String::from_utf8_lossy(&value).into_owned(),
                TIME => hit.time_ns = text::time::parse_timestamp(&value).unwrap_or(0),
                // What sorting and grouping added.
                name if name.starts_with('\u{1}') => {}
                "_stream" => {}
                name => {
                    let value = String::from_utf8_lossy(&value).into_owned();
                    if name == TYPE {
                        hit.index = index_of(&value);
                    }
                    hit.fields.push((name.to_owned(), value));
                }
            }
        }
        hit
    }

    /// The memory of the hit as a document and as a part of the answer, about.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len() + 100);
        self.line.len() * 6 + fields.sum::<usize>() * 2 + 500
    }

    /// The value of a stored field.
    pub fn value(&self, name: &str) -> Option<String> {
        let found = self.fields.iter().find(|(own, value)| own == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    }

    /// The document.
    fn document(&self) -> Map<String, Value> {
        let mut document = match serde_json::from_slice(&self.line) {
            Ok(Value::Object(sent)) => sent,
            _ => Map::new(),
        };
        let is_sent = !document.is_empty();
        for (name, value) in &self.fields {
            let shown = crate::names::shown(name);
            if document.contains_key(shown) || is_sent && has_path(&document, name) {
                continue;
            }
            let value = match name.as_str() {
                MSG => value.clone().into(),
                _ => plain_number(value).unwrap_or_else(|| value.clone().into()),
            };
            document.insert(shown.to_owned(), value);
        }
        let time = text::time::format_time_digits(
            self.time_ns,
            if self.time_ns % dates::MS_NS == 0 { 3 } else { 9 },
        );
        document.entry("@timestamp").or_insert_with(|| time.into());
        document
    }
}

/// Whether a document has a value at a path with dots, as it is flattened on arrival.
fn has_path(document: &Map<String, Value>, path: &str) -> bool {
    if document.contains_key(path) {
        return true;
    }
    path.match_indices('.').any(|(at, _)| match document.get(&path[..at]) {
        Some(Value::Object(inner)) => has_path(inner, &path[at + 1..]),
        _ => false,
    })
}

fn patterns(value: &Value) -> Vec<Vec<Wild>> {
    list(value).into_iter().filter_map(text_of).map(|text| Wild::parse(&text)).collect()
}

impl SourceFilter {
    /// No document.
    pub fn none() -> SourceFilter {
        SourceFilter { is_off: true, ..SourceFilter::default() }
    }

    /// Reads `_source`.
    pub fn parse(value: &Value) -> Result<SourceFilter, Refused> {
        match value {
            Value::Bool(on) => Ok(SourceFilter { is_off: !on, ..SourceFilter::default() }),
            Value::String(text) if text == "true" || text == "false" => {
                Ok(SourceFilter { is_off: text == "false", ..SourceFilter::default() })
            }
            Value::String(_) | Value::Array(_) => {
                Ok(SourceFilter { includes: patterns(value), ..SourceFilter::default() })
            }
            value => {
                let object = Object::new(value, "_source")?;
                let listed = |first: &'static str, second: &'static str| {
                    object.get(first).or_else(|| object.get(second)).map(patterns)
                };
                let filter = SourceFilter {
                    is_off: false,
                    includes: listed("includes", "include").unwrap_or_default(),
                    excludes: listed("excludes", "exclude").unwrap_or_default(),
                };
                object.finish()?;
                Ok(filter)
            }
        }
    }

    /// The part of a document that is wanted.
    fn apply(&self, document: &Map<String, Value>) -> Map<String, Value> {
        if self.includes.is_empty() && self.excludes.is_empty() {
            return document.clone();
        }
        self.within(document, "", self.includes.is_empty())
    }

    fn within(
        &self,
        document: &Map<String, Value>,
        path: &str,
        included: bool,
    ) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, value) in document {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let is = |patterns: &[Vec<Wild>]| {
                // A name of an object stands for all that is in it, also where it is written with
                // dots.
                let places = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
                let mut begins = places.map(|at| &path[..at]);
                begins.any(|begin| patterns.iter().any(|parts| Wild::matches(parts, begin)))
            };
            if is(&self.excludes) {
                continue;
            }
            let included = included || is(&self.includes);
            match value {
                Value::Object(inner) => {
                    let inner = self.within(inner, &path, included);
                    if included || !inner.is_empty() {
                        kept.insert(name.clone(), inner.into());
                    }
                }
                value if included => {
                    kept.insert(name.clone(), value.clone());
                }
                _ => {}
            }
        }
        kept
    }
}

impl WantedField {
    /// Reads a name, or `{"field": …, "format": …}`.
    pub fn parse(value: &Value) -> Result<WantedField, Refused> {
        if let Value::String(name) = value {
            return Ok(WantedField { name: Wild::parse(name), format: None });
        }
        let object = Object::new(value, "fields")?;
        let name =
            object.text("field")?.ok_or_else(|| Refused::parsing("[fields] needs [field]"))?;
        let format = object.text("format")?;
        object.without_effect(&["include_unmapped"]);
        object.finish()?;
        // Formats of numbers change nothing; those of dates are checked where they are one.
        Ok(WantedField { name: Wild::parse(&name), format })
    }
}

impl Highlight {
    /// Reads `highlight`.
    pub fn parse(value: &Value) -> Result<Highlight, Refused> {
        let object = Object::new(value, "highlight")?;
        let mut names = Vec::new();
        for value in list(object.required("fields")?) {
            let fields = Object::new(value, "highlight")?;
            names.extend(fields.entries().map(|(name, _)| Wild::parse(name)));
        }
        let tag = |name: &'static str, default: &str| {
            let given = object.get(name).map(list).and_then(|tags| tags.first().copied());
            given.and_then(Value::as_str).unwrap_or(default).to_owned()
        };
        let (before, after) = (tag("pre_tags", "<em>"), tag("post_tags", "</em>"));
        // The answer has the whole value as one fragment, whatever the request says about
        // fragments.
        object.without_effect(&[
            "fragment_size",
            "number_of_fragments",
            "type",
            "order",
            "require_field_match",
            "encoder",
            "tags_schema",
            "no_match_size",
            "boundary_scanner",
            "max_analyzed_offset",
        ]);
        if object.get("highlight_query").is_some() {
            return Err(Refused::parsing(
                "[highlight] [highlight_query] is not understood; the words of the query are marked",
            ));
        }
        object.finish()?;
        Ok(Highlight { names, before, after })
    }

    /// The marked values of a hit. Their memory is counted before they are written: a long mark
    /// around each of many short words is much longer than the value.
    fn apply(
        &self,
        hit: &Hit,
        filter: &Filter,
        runner: &mut Runner<'_>,
    ) -> Result<Map<String, Value>, SearchError> {
        let mut marked = Map::new();
        for (name, value) in &hit.fields {
            let shown = crate::names::shown(name);
            if !self.names.iter().any(|parts| Wild::matches(parts, shown)) {
                continue;
            }
            let mut words = Vec::new();
            words_of(filter, name, &mut words);
            words.sort_unstable();
            words.dedup();
            let places = places_of(value, &words);
            if places.is_empty() {
                continue;
            }
            let marks = self.before.len() + self.after.len();
            runner.take(value.len() + places.len().saturating_mul(marks))?;
            marked.insert(shown.to_owned(), json!([self.mark(value, &places)]));
        }
        Ok(marked)
    }

    /// The value with these places marked.
    fn mark(&self, value: &str, places: &[(usize, usize)]) -> String {
        let mut text = String::with_capacity(value.len() + 32);
        let mut from = 0;
        for &(at, end) in places {
            text.push_str(&value[from..at]);
            text.push_str(&self.before);
            text.push_str(&value[at..end]);
            text.push_str(&self.after);
            from = end;
        }
        text.push_str(&value[from..]);
        text
    }
}

/// Where words stand in a value, in order; of places that overlap, the first one.
fn places_of(value: &str, words: &[(String, bool)]) -> Vec<(usize, usize)> {
    // Only where the text in lower case has the same places.
    let lower = value.to_lowercase();
    if lower.len() != value.len() {
        return Vec::new();
    }
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (word, is_prefix) in words {
        if word.is_empty() {
            continue;
        }
        for (at, found) in lower.match_indices(word.as_str()) {
            let end = at + found.len();
            let starts = !is_word(lower[..at].chars().next_back()) || !is_word(word.chars().next());
            let ends = *is_prefix
                || !is_word(lower[end..].chars().next())
                || !is_word(word.chars().next_back());
            if starts && ends && value.is_char_boundary(at) && value.is_char_boundary(end) {
                places.push((at, end));
            }
        }
    }
    places.sort_unstable();
    let mut from = 0;
    places.retain(|&(at, end)| {
        let is_free = at >= from;
        from = if is_free { end } else { from };
        is_free
    });
    places
}

/// The words of a filter's tests of a field, in lower case, and whether they are only a beginning.
fn words_of(filter: &Filter, field: &str, words: &mut Vec<(String, bool)>) {
    let test = match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            return filters.iter().for_each(|filter| words_of(filter, field, words));
        }
        Filter::Field { name, test } if name == field => test,
        Filter::AnyField { beginning, test } if field.starts_with(beginning.as_str()) => test,
        _ => return,
    };
    let (text, is_prefix) = match test {
        Test::Phrase(text) | Test::AnyCasePhrase(text) | Test::Exact(text) => (text, false),
        Test::Prefix(text) | Test::AnyCasePrefix(text) | Test::ExactPrefix(text) => (text, true),
        Test::In(values) => {
            words.extend(values.iter().map(|value| (value.to_lowercase(), false)));
            return;
        }
        _ => return,
    };
    words.push((text.to_lowercase(), is_prefix));
}

impl Shown {
    /// The hit as JSON. What it takes beyond [`Hit::bytes`] is counted.
    pub fn write(
        &self,
        hit: &Hit,
        sort: Option<Vec<Value>>,
        filter: &Filter,
        runner: &mut Runner<'_>,
    ) -> Result<Value, SearchError> {
        let mut written = Map::new();
        written.insert("_index".to_owned(), hit.index.clone().into());
        written.insert("_id".to_owned(), hit.id.clone().into());
        written.insert("_score".to_owned(), Value::Null);
        let document = hit.document();
        if !self.source.is_off {
            written.insert("_source".to_owned(), self.source.apply(&document).into());
        }
        if !self.wanted.is_empty() {
            let fields = self.fields(hit, &document);
            if !fields.is_empty() {
                written.insert("fields".to_owned(), fields.into());
            }
        }
        if let Some(highlight) = &self.highlight {
            let marked = highlight.apply(hit, filter, runner)?;
            if !marked.is_empty() {
                written.insert("highlight".to_owned(), marked.into());
            }
        }
        if let Some(sort) = sort {
            written.insert("sort".to_owned(), sort.into());
        }
        Ok(Value::Object(written))
    }

    fn fields(&self, hit: &Hit, document: &Map<String, Value>) -> Map<String, Value> {
        let mut leaves = Vec::new();
        flatten(document, "", &mut leaves);
        let mut fields = Map::new();
        for WantedField { name, format } in &self.wanted {
            for (path, value) in &leaves {
                let keyword = format!("{path}.keyword");
                let shown = if Wild::matches(name, path) {
                    path
                } else if value.is_string()
                    && Wild::matches(name, &keyword)
                    && !name.contains(&Wild::Any)
                {
                    &keyword
                } else {
                    continue;
                };
                let value = match Field::of(path).name == TIME {
                    true => {
                        let format =
                            format.as_deref().filter(|format| dates::check_format(format).is_ok());
                        dates::write(hit.time_ns, format, Zone::UTC).into()
                    }
                    false => value.clone(),
                };
                let values = if value.is_array() { value } else { json!([value]) };
                fields.insert(shown.clone(), values);
            }
        }
        fields
    }
}

/// The values of a document by their paths.
fn flatten(document: &Map<String, Value>, path: &str, leaves: &mut Vec<(String, Value)>) {
    for (name, value) in document {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Object(inner) => flatten(inner, &path, leaves),
            Value::Null => {}
            value => leaves.push((path, value.clone())),
        }
    }
}
