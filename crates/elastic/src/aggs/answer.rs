//! Buckets in their order, with those that are empty, and as JSON.

use std::cmp::Ordering;

use query::source::TimeRange;
use query::{Filter, Number, Test};
use serde_json::{Map, Value, json};

use super::metrics::Metric;
use super::parse::plain_number;
use super::{Composite, CompositeSource, Dates, Kind, Numbers, OrderBy, SourceKind, Terms};
use crate::dates::{self, MS_NS};
use crate::error::{Refused, SearchError};
use crate::names::{TIME, index_of};

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The query that found it.
    pub piece: usize,
    /// Its own keys as texts of `stats`.
    pub raw: Vec<String>,
    /// Its rows.
    pub count: u64,
    /// The results of the metrics inside.
    pub results: Vec<String>,
    key: Key,
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Text(String),
    Time(i64),
    Number(f64),
    Several(Vec<Value>),
}

/// The buckets of an answer.
pub struct Filled {
    /// In their order.
    pub buckets: Vec<Bucket>,
    /// Rows in terms that are not shown.
    other: u64,
    /// Whether all keys of terms are numbers.
    are_numbers: bool,
}

/// A bucket that a query found; none if its key is not of the kind.
pub fn bucket(
    kind: &Kind,
    piece: usize,
    fixed: Option<i64>,
    raw: Vec<String>,
    count: u64,
    results: Vec<String>,
) -> Option<Bucket> {
    let key = match kind {
        Kind::Terms(terms) => {
            let text = &raw[0];
            Key::Text(match (text.is_empty(), &terms.missing) {
                (true, Some(missing)) => missing.clone(),
                _ if terms.is_index => index_of(text),
                _ => text.clone(),
            })
        }
        Kind::Dates(dates) => {
            let time_ns = match fixed {
                Some(start_ns) => start_ns,
                None => text::time::parse_timestamp(raw[0].as_bytes())?,
            };
            let is_inside = |(min, max): (i64, i64)| (min..=max).contains(&time_ns);
            if !dates.hard.is_none_or(is_inside) {
                return None;
            }
            Key::Time(time_ns)
        }
        Kind::Numbers(_) => Key::Number(super::metrics::number(&raw[0])?),
        Kind::Composite(composite) => {
            let each = composite.sources.iter().zip(&raw);
            Key::Several(
                each.map(|((_, source), raw)| composite_value(source, raw))
                    .collect::<Option<_>>()?,
            )
        }
        _ => return None,
    };
    Some(Bucket { piece, raw, count, results, key })
}

fn composite_value(source: &CompositeSource, raw: &str) -> Option<Value> {
    if raw.is_empty() {
        return source.missing_bucket.then_some(Value::Null);
    }
    match &source.kind {
        SourceKind::Terms { .. } if source.is_index => Some(index_of(raw).into()),
        SourceKind::Terms { keyword: true } => Some(raw.into()),
        SourceKind::Terms { keyword: false } if source.field == TIME => {
            let time_ns = text::time::parse_timestamp(raw.as_bytes())?;
            Some(time_ns.div_euclid(MS_NS).into())
        }
        SourceKind::Terms { keyword: false } => {
            Some(plain_number(raw).unwrap_or_else(|| raw.into()))
        }
        SourceKind::Numbers { .. } => super::metrics::number(raw).map(Value::from),
        SourceKind::Dates { zone, format, .. } => {
            let time_ns = text::time::parse_timestamp(raw.as_bytes())?;
            Some(match format {
                None => time_ns.div_euclid(MS_NS).into(),
                Some(format) => dates::write(time_ns, Some(format), *zone).into(),
            })
        }
    }
}

/// Numbers before texts, nothing before both.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Number(_) => 1,
        _ => 2,
    };
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (a, b) => a.as_str().unwrap_or_default().cmp(b.as_str().unwrap_or_default()),
    })
}

fn compare_keys(a: &Key, b: &Key) -> Ordering {
    match (a, b) {
        (Key::Time(a), Key::Time(b)) => a.cmp(b),
        (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
        (Key::Text(a), Key::Text(b)) => match (plain_number(a), plain_number(b)) {
            (Some(a), Some(b)) => compare_values(&a, &b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        },
        _ => Ordering::Equal,
    }
}

fn compare(a: &Bucket, b: &Bucket, order: &[(OrderBy, bool)], metrics: &[&Metric]) -> Ordering {
    for (by, descending) in order {
        let found = match by {
            OrderBy::Count => a.count.cmp(&b.count),
            OrderBy::Key => compare_keys(&a.key, &b.key),
            OrderBy::Metric(index, part) => {
                let (one, other) =
                    (result(a, metrics, *index, part), result(b, metrics, *index, part));
                // What has no number comes last, in both directions.
                match (one, other) {
                    (Some(one), Some(other)) => one.total_cmp(&other),
                    (None, None) => Ordering::Equal,
                    (None, Some(_)) => return Ordering::Greater,
                    (Some(_), None) => return Ordering::Less,
                }
            }
        };
        let found = if *descending { found.reverse() } else { found };
        if found != Ordering::Equal {
            return found;
        }
    }
    compare_keys(&a.key, &b.key)
}

fn result(bucket: &Bucket, metrics: &[&Metric], index: usize, part: &str) -> Option<f64> {
    let from: usize = metrics[..index].iter().map(|metric| metric.functions().len()).sum();
    let until = from + metrics[index].functions().len();
    metrics[index].part(part, bucket.results.get(from..until)?)
}

/// Whether rows without the field count as a value that other rows have. Their results cannot be
/// joined.
pub fn is_missing_a_value(kind: &Kind, buckets: &[Bucket]) -> bool {
    let Kind::Terms(Terms { missing: Some(missing), .. }) = kind else { return false };
    let is = |bucket: &&Bucket| matches!(&bucket.key, Key::Text(text) if text == missing);
    buckets.iter().filter(is).count() > 1
}

/// Puts buckets in order, adds empty ones, leaves out those that are not wanted.
pub fn arrange(
    kind: &Kind,
    mut buckets: Vec<Bucket>,
    metrics: &[&Metric],
    buckets_max: usize,
) -> Result<Filled, SearchError> {
    let mut other = 0;
    let mut are_numbers = false;
    match kind {
        Kind::Terms(terms) => {
            if let Some(missing) = &terms.missing {
                join_same(&mut buckets, missing);
            }
            let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
            buckets.retain(|bucket| bucket.count >= terms.min_doc_count);
            buckets.sort_by(|a, b| compare(a, b, &terms.order, metrics));
            buckets.truncate(terms.size);
            other = total - buckets.iter().map(|bucket| bucket.count).sum::<u64>();
            let is_number = |bucket: &Bucket| matches!(&bucket.key, Key::Text(text) if plain_number(text).is_some());
            are_numbers = !terms.keyword && buckets.iter().all(is_number);
        }
        Kind::Dates(dates) => {
            buckets.sort_by(|a, b| compare_keys(&a.key, &b.key));
            if dates.min_doc_count == 0 {
                buckets = with_empty_dates(dates, buckets, buckets_max)?;
            }
            buckets.retain(|bucket| bucket.count >= dates.min_doc_count);
            if dates.order != [(OrderBy::Key, false)] {
                buckets.sort_by(|a, b| compare(a, b, &dates.order, metrics));
            }
        }
        Kind::Numbers(numbers) => {
            buckets.sort_by(|a, b| compare_keys(&a.key, &b.key));
            if numbers.min_doc_count == 0 {
                buckets = with_empty_numbers(numbers, buckets, buckets_max)?;
            }
            buckets.retain(|bucket| bucket.count >= numbers.min_doc_count);
            if numbers.order != [(OrderBy::Key, false)] {
                buckets.sort_by(|a, b| compare(a, b, &numbers.order, metrics));
            }
        }
        Kind::Composite(composite) => {
            let by_sources = |a: &[Value], b: &[Value]| composite_order(composite, a, b);
            let several = |bucket: &Bucket| match &bucket.key {
                Key::Several(values) => values.clone(),
                _ => Vec::new(),
            };
            buckets.sort_by(|a, b| by_sources(&several(a), &several(b)));
            if let Some(after) = &composite.after {
                buckets.retain(|bucket| by_sources(&several(bucket), after).is_gt());
            }
            buckets.truncate(composite.size);
        }
        _ => {}
    }
    Ok(Filled { buckets, other, are_numbers })
}

/// Rows without the field count as a value that rows may have.
fn join_same(buckets: &mut Vec<Bucket>, missing: &str) {
    let is = |bucket: &Bucket| bucket.key == Key::Text(missing.to_owned());
    if buckets.iter().filter(|bucket| is(bucket)).count() < 2 {
        return;
    }
    // There are no results to be joined.
    let extra = buckets.iter().position(|bucket| is(bucket) && bucket.raw[0].is_empty());
    if let Some(extra) = extra {
        let count = buckets.remove(extra).count;
        if let Some(kept) = buckets.iter_mut().find(|bucket| is(bucket)) {
            kept.count += count;
        }
    }
}

fn composite_order(composite: &Composite, a: &[Value], b: &[Value]) -> Ordering {
    for ((_, source), (a, b)) in composite.sources.iter().zip(a.iter().zip(b)) {
        let found = compare_values(a, b);
        let found = if source.descending { found.reverse() } else { found };
        if found != Ordering::Equal {
            return found;
        }
    }
    Ordering::Equal
}

fn too_many(buckets_max: usize) -> SearchError {
    SearchError::Refused(Refused {
        kind: "too_many_buckets_exception",
        ..Refused::argument(format!(
            "the histogram has more than {buckets_max} buckets with the empty ones; use a larger interval or min_doc_count 1"
        ))
    })
}

/// The key of a bucket without rows, in the place of a time or number.
pub const NO_ROWS: &str = "\u{1}";

/// A bucket without rows. No row has its keys.
fn empty(key: Key) -> Bucket {
    let raw = vec![NO_ROWS.to_owned()];
    Bucket { piece: 0, raw, count: 0, results: Vec::new(), key }
}

fn with_empty_dates(
    dates: &Dates,
    buckets: Vec<Bucket>,
    buckets_max: usize,
) -> Result<Vec<Bucket>, SearchError> {
    let start = |time_ns: i64| dates.interval.start(time_ns, dates.zone, dates.offset_ns);
    let time_of = |bucket: &Bucket| match bucket.key {
        Key::Time(time_ns) => time_ns,
        _ => 0,
    };
    let mut low = buckets.first().map(time_of);
    let mut high = buckets.last().map(time_of);
    if let Some((min_ns, max_ns)) = dates.extended {
        if min_ns != i64::MIN {
            low = Some(low.unwrap_or(i64::MAX).min(start(min_ns).unwrap_or(min_ns)));
        }
        if max_ns != i64::MAX {
            high = Some(high.unwrap_or(i64::MIN).max(max_ns));
        }
    }
    let (Some(low), Some(high)) = (low, high) else { return Ok(buckets) };
    let mut filled = Vec::with_capacity(buckets.len());
    let mut found = buckets.into_iter().peekable();
    let mut at_ns = low;
    loop {
        // Whatever lies before the next beginning, even if it is none itself.
        while let Some(bucket) = found.next_if(|bucket| time_of(bucket) <= at_ns) {
            filled.push(bucket);
        }
        if at_ns > high && found.peek().is_none() {
            return Ok(filled);
        }
        if filled.last().is_none_or(|last| time_of(last) != at_ns) && at_ns <= high {
            let hard = dates.hard.is_none_or(|(min, max)| (min..=max).contains(&at_ns));
            if hard {
                filled.push(empty(Key::Time(at_ns)));
            }
        }
        if filled.len() > buckets_max {
            return Err(too_many(buckets_max));
        }
        at_ns = dates
            .interval
            .next(at_ns, dates.zone, dates.offset_ns)
            .filter(|next_ns| *next_ns > at_ns)
            .ok_or_else(|| too_many(buckets_max))?;
    }
}

fn with_empty_numbers(
    numbers: &Numbers,
    buckets: Vec<Bucket>,
    buckets_max: usize,
) -> Result<Vec<Bucket>, SearchError> {
    let step_of = |number: f64| ((number - numbers.offset) / numbers.interval).round();
    let begin_of = |number: f64| ((number - numbers.offset) / numbers.interval).floor();
    let number_of = |bucket: &Bucket| match bucket.key {
        Key::Number(number) => number,
        _ => 0.0,
    };
    let mut low = buckets.first().map(|bucket| step_of(number_of(bucket)));
    let mut high = buckets.last().map(|bucket| step_of(number_of(bucket)));
    if let Some((min, max)) = numbers.extended {
        low = Some(low.unwrap_or(f64::INFINITY).min(begin_of(min)));
        high = Some(high.unwrap_or(f64::NEG_INFINITY).max(begin_of(max)));
    }
    let (Some(low), Some(high)) = (low, high) else { return Ok(buckets) };
    if high - low >= buckets_max as f64 {
        return Err(too_many(buckets_max));
    }
    let mut filled = Vec::with_capacity(buckets.len());
    let mut found = buckets.into_iter().peekable();
    for step in 0..=(high - low) as u64 {
        let step = low + step as f64;
        match found.next_if(|bucket| step_of(number_of(bucket)) <= step) {
            Some(bucket) => filled.push(bucket),
            None => filled.push(empty(Key::Number(numbers.offset + step * numbers.interval))),
        }
    }
    filled.extend(found);
    Ok(filled)
}

/// The answer of an aggregation with keys.
pub fn write(kind: &Kind, filled: Filled, inner: Vec<Map<String, Value>>) -> Value {
    let Filled { buckets, other, are_numbers } = filled;
    let mut after_key = None;
    let mut written = Vec::with_capacity(buckets.len());
    for (bucket, mut answer) in buckets.into_iter().zip(inner) {
        answer.insert("doc_count".to_owned(), bucket.count.into());
        let (key, text) = match (bucket.key, kind) {
            (Key::Time(time_ns), Kind::Dates(dates)) => {
                let text = dates::write(time_ns, dates.format.as_deref(), dates.zone);
                (json!(time_ns.div_euclid(MS_NS)), Some(text))
            }
            (Key::Number(number), _) => (number.into(), None),
            (Key::Several(values), Kind::Composite(composite)) => {
                let names = composite.sources.iter().map(|(name, _)| name.clone());
                let key = Value::Object(names.zip(values).collect());
                after_key = Some(key.clone());
                (key, None)
            }
            (Key::Text(text), _) if are_numbers => (plain_number(&text).unwrap_or_default(), None),
            (Key::Text(text), _) => (text.into(), None),
            (key, _) => unreachable!("{key:?} is no key of that kind"),
        };
        if let Some(text) = &text {
            answer.insert("key_as_string".to_owned(), text.clone().into());
        }
        let name = text.unwrap_or_else(|| key.to_string());
        answer.insert("key".to_owned(), key);
        written.push((name, answer));
    }
    let keyed = match kind {
        Kind::Dates(dates) => dates.keyed,
        Kind::Numbers(numbers) => numbers.keyed,
        _ => false,
    };
    let mut answer = Map::new();
    let listed = match keyed {
        true => written.into_iter().map(|(name, answer)| (name, Value::Object(answer))).collect(),
        false => Value::Array(written.into_iter().map(|(_, answer)| answer.into()).collect()),
    };
    answer.insert("buckets".to_owned(), listed);
    if let Kind::Terms(_) = kind {
        answer.insert("doc_count_error_upper_bound".to_owned(), 0.into());
        answer.insert("sum_other_doc_count".to_owned(), other.into());
    }
    if let Some(after_key) = after_key {
        answer.insert("after_key".to_owned(), after_key);
    }
    Value::Object(answer)
}

/// The answer of an aggregation whose buckets have names of their own.
pub fn parts(buckets: Vec<(Option<String>, Map<String, Value>)>, keyed: bool) -> Value {
    let listed: Value = match keyed {
        true => buckets
            .into_iter()
            .map(|(key, answer)| (key.unwrap_or_default(), Value::Object(answer)))
            .collect(),
        false => buckets
            .into_iter()
            .map(|(key, mut answer)| {
                if let Some(key) = key {
                    answer.insert("key".to_owned(), key.into());
                }
                Value::Object(answer)
            })
            .collect(),
    };
    json!({ "buckets": listed })
}

/// What a name in an answer begins with on request, so that clients know the type.
pub fn type_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Metric(metric) => match metric.kind {
            "percentiles" => "tdigest_percentiles",
            kind => kind,
        },
        Kind::TopHits(_) => "top_hits",
        Kind::Terms(_) => "sterms",
        Kind::Dates(_) => "date_histogram",
        Kind::Numbers(_) => "histogram",
        Kind::Parts(parts) => parts.kind,
        Kind::One(one) => one.kind,
        Kind::Composite(_) => "composite",
    }
}

/// The filter of the rows of a bucket of a fixed length.
pub fn bucket_filter(name: &str, bucket: &str, value: &str) -> Option<Filter> {
    let text = format!("* | stats by ({}{bucket}) count() as n", text::quoted::quote(name));
    let query = query::Query::parse(&text, 0).ok()?;
    let stats = query.pipes().first()?.get::<query::Stats>()?;
    match stats.by[0].bucket.as_ref()? {
        query::Bucket::Time { step_ns, .. } if name == TIME => {
            let start_ns = text::time::parse_timestamp(value.as_bytes())?;
            Some(Filter::Time(TimeRange { start_ns, end_ns: start_ns.checked_add(*step_ns)? }))
        }
        query::Bucket::Number { size, .. } => {
            let low = Number::parse(value)?;
            let high = Number::parse(&(low.value + size.value).to_string())?;
            let test = Test::Range { low, low_inside: true, high, high_inside: false };
            Some(Filter::field(name, test))
        }
        _ => None,
    }
}
