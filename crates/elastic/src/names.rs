//! Names of fields: Elasticsearch's `@timestamp`, `message`, `_id` and `field.keyword`, and ours.

/// A field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name here.
    pub name: String,
    /// Whether it was written as `name.keyword`: whole values, as texts.
    pub keyword: bool,
    /// Whether it was asked for as the name of an index, which begins with [`INDEX_PREFIX`].
    pub is_index: bool,
}

/// The event time here, and there.
pub const TIME: &str = "_time";
const TIMESTAMP: &str = "@timestamp";
/// The message here, and there.
pub const MSG: &str = "_msg";
const MESSAGE: &str = "message";
/// The name of a line.
pub const ID: &str = "_line_id";
/// The line as it was sent.
pub const LINE: &str = "_line";
/// The type of a line, which is its index.
pub const TYPE: &str = "_type";
/// What the name of an index begins with.
pub const INDEX_PREFIX: &str = "logs-";

impl Field {
    /// The field that a request calls `name`.
    pub fn of(name: &str) -> Field {
        let (name, keyword) = match name.strip_suffix(".keyword") {
            Some(name) if !name.is_empty() => (name, true),
            _ => (name, false),
        };
        let is_index = matches!(name, "_index" | "_data_stream");
        let own = match name {
            TIMESTAMP => TIME,
            MESSAGE => MSG,
            "_id" => ID,
            _ if is_index => TYPE,
            other => other,
        };
        Field { name: own.to_owned(), keyword, is_index }
    }

    /// Whether it is searched by words and without regard to case, as a field of type `text` is.
    pub fn is_text(&self) -> bool {
        self.name == MSG && !self.keyword
    }
}

/// What clients call a field.
pub fn shown(name: &str) -> &str {
    match name {
        TIME => TIMESTAMP,
        MSG => MESSAGE,
        other => other,
    }
}

/// The name of the index of a type.
pub fn index_of(kind: &str) -> String {
    format!("{INDEX_PREFIX}{kind}")
}
