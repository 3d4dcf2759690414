//! Aggregations: [`parse`] reads them, [`run`] answers them.
//!
//! An aggregation with buckets is one `stats by (keys of those above, its own)` over all buckets
//! above at once, with the functions of the metrics inside it. Filters, ranges and the like have no
//! key: each of them is a query with one more filter. So a tree of aggregations takes about as many
//! queries as it has nodes, whatever the number of buckets; `top_hits` takes one for each bucket.
//! All numbers are exact but percentiles, as those of LogsQL are.

mod answer;
mod intervals;
mod metrics;
mod parse;
mod run;
#[cfg(test)]
mod tests;

use query::Filter;
use record::Zone;
use serde_json::Value;

use self::intervals::Interval;
use self::metrics::Metric;
use crate::search::TopHits;

pub use self::parse::{parse, plain_number};
pub use self::run::run;

/// Most aggregations inside each other. Deeper ones are refused.
pub const NESTING_MAX: usize = 10;
/// Most aggregations of a request.
///
/// limits.md, Queries: aggregations of a search of Elasticsearch's API | {} | the request is
/// refused (400)
pub const AGGREGATIONS_MAX: usize = 100;
/// Most buckets of an answer, as in Elasticsearch.
///
/// limits.md, Queries: buckets of an answer of Elasticsearch's API | {} | the request is refused
/// (400)
pub const BUCKETS_MAX: usize = 65_535;

/// An aggregation.
#[derive(Clone, Debug)]
pub struct Aggregation {
    name: String,
    kind: Kind,
    inner: Vec<Aggregation>,
    meta: Option<Value>,
}

#[derive(Clone, Debug)]
enum Kind {
    Metric(Metric),
    TopHits(Box<TopHits>),
    Terms(Terms),
    Dates(Dates),
    Numbers(Numbers),
    /// `filters`, `range`, `date_range`: each with its own filter.
    Parts(Parts),
    /// `filter`, `missing`, `global`, `nested`: one bucket.
    One(One),
    Composite(Composite),
}

#[derive(Clone, Debug)]
struct Terms {
    field: String,
    /// Keys are names of indices.
    is_index: bool,
    /// Keys are texts, also if they are numbers.
    keyword: bool,
    size: usize,
    order: Vec<(OrderBy, bool)>,
    min_doc_count: u64,
    missing: Option<String>,
    /// Selects the values that count.
    only: Filter,
}

#[derive(Clone, Debug, PartialEq)]
enum OrderBy {
    Count,
    Key,
    /// A result of a metric inside: its place among the functions, by the metric and its part.
    Metric(usize, String),
}

#[derive(Clone, Debug)]
struct Dates {
    field: String,
    interval: Interval,
    zone: Zone,
    offset_ns: i64,
    format: Option<String>,
    min_doc_count: u64,
    /// Buckets are added up to these times.
    extended: Option<(i64, i64)>,
    /// Buckets outside of these times are left out.
    hard: Option<(i64, i64)>,
    keyed: bool,
    order: Vec<(OrderBy, bool)>,
}

#[derive(Clone, Debug)]
struct Numbers {
    field: String,
    interval: f64,
    offset: f64,
    min_doc_count: u64,
    extended: Option<(f64, f64)>,
    keyed: bool,
    order: Vec<(OrderBy, bool)>,
}

#[derive(Clone, Debug)]
struct Parts {
    /// Elasticsearch's name of the aggregation.
    kind: &'static str,
    parts: Vec<Part>,
    /// Whether the answer is an object of buckets.
    keyed: bool,
}

#[derive(Clone, Debug)]
struct Part {
    /// The name, if there is one.
    key: Option<String>,
    /// What the bucket has beside its count.
    shown: Vec<(&'static str, Value)>,
    filter: Filter,
}

#[derive(Clone, Debug)]
struct One {
    kind: &'static str,
    filter: Filter,
    /// Whether the query of the request does not count.
    is_global: bool,
}

#[derive(Clone, Debug)]
struct Composite {
    sources: Vec<(String, CompositeSource)>,
    size: usize,
    after: Option<Vec<Value>>,
}

#[derive(Clone, Debug)]
struct CompositeSource {
    field: String,
    /// Keys are names of indices.
    is_index: bool,
    kind: SourceKind,
    descending: bool,
    missing_bucket: bool,
}

#[derive(Clone, Debug)]
enum SourceKind {
    Terms { keyword: bool },
    Dates { interval: Interval, zone: Zone, offset_ns: i64, format: Option<String> },
    Numbers { interval: f64 },
}
