//! Reads aggregations.

use query::{Filter, Number, Test};
use serde_json::{Map, Value, json};

use super::intervals::{self, Interval};
use super::metrics::{self, Metric};
use super::{
    AGGREGATIONS_MAX, Aggregation, Composite, CompositeSource, Dates, Kind, NESTING_MAX, Numbers,
    One, OrderBy, Part, Parts, SourceKind, Terms,
};
use crate::dates::{self, MS_NS, Reading};
use crate::dsl;
use crate::error::Refused;
use crate::leaf::{End, Leaves, RangeOf, Target, all, any, not};
use crate::names::{Field, TIME};
use crate::object::{Object, cut, list, shown, text_of};
use crate::search::TopHits;

/// Terms of an answer by default.
const TERMS_DEFAULT: u64 = 10;
/// The aggregations that there are, for messages.
const KNOWN: &str = "terms, date_histogram, histogram, range, date_range, filters, filter, missing, global, nested, composite, \
                     top_hits, avg, sum, min, max, stats, extended_stats, percentiles, cardinality, value_count";

/// Reads the aggregations of a request.
pub fn parse(value: &Value, leaves: &mut Leaves) -> Result<Vec<Aggregation>, Refused> {
    let mut left = AGGREGATIONS_MAX;
    level(value, leaves, 0, &mut left)
}

fn level(
    value: &Value,
    leaves: &mut Leaves,
    depth: usize,
    left: &mut usize,
) -> Result<Vec<Aggregation>, Refused> {
    if depth == NESTING_MAX {
        return Err(Refused::parsing(format!(
            "more than {NESTING_MAX} aggregations in each other"
        )));
    }
    let object = Object::new(value, "aggs")?;
    object.entries().map(|(name, body)| one(name, body, leaves, depth, left)).collect()
}

fn one(
    name: &str,
    body: &Value,
    leaves: &mut Leaves,
    depth: usize,
    left: &mut usize,
) -> Result<Aggregation, Refused> {
    *left = left.checked_sub(1).ok_or_else(|| {
        Refused::argument(format!("the request has more than {AGGREGATIONS_MAX} aggregations"))
    })?;
    let object = Object::new(body, name)?;
    let mut inner = Vec::new();
    let mut found = None;
    let mut meta = None;
    for (key, value) in object.entries() {
        match key {
            "aggs" | "aggregations" => inner = level(value, leaves, depth + 1, left)?,
            "meta" => meta = Some(value.clone()),
            kind => {
                if found.replace((kind, value)).is_some() {
                    return Err(Refused::parsing(format!(
                        "the aggregation [{}] has two types; it takes one",
                        cut(name)
                    )));
                }
            }
        }
    }
    let (kind, value) = found.ok_or_else(|| {
        Refused::parsing(format!("the aggregation [{}] has no type; there are: {KNOWN}", cut(name)))
    })?;
    let kind = kind_of(kind, value, leaves, &inner)?;
    if matches!(kind, Kind::Metric(_) | Kind::TopHits(_)) && !inner.is_empty() {
        return Err(Refused::parsing(format!(
            "the aggregation [{}] cannot have others inside",
            cut(name)
        )));
    }
    if matches!(kind, Kind::Composite(_)) && depth > 0 {
        return Err(Refused::parsing("[composite] stands at the top only"));
    }
    if matches!(&kind, Kind::One(one) if one.is_global) && depth > 0 {
        return Err(Refused::parsing("[global] stands at the top only"));
    }
    Ok(Aggregation { name: name.to_owned(), kind, inner, meta })
}

fn kind_of(
    kind: &str,
    body: &Value,
    leaves: &mut Leaves,
    inner: &[Aggregation],
) -> Result<Kind, Refused> {
    if let Some(kind) = metrics::KINDS.into_iter().find(|known| *known == kind) {
        return Ok(Kind::Metric(Metric::parse(kind, body)?));
    }
    match kind {
        "top_hits" => Ok(Kind::TopHits(Box::new(TopHits::parse(body)?))),
        "terms" => terms(&Object::new(body, "terms")?, leaves, inner),
        "date_histogram" => dates_of(&Object::new(body, "date_histogram")?, leaves, inner),
        "histogram" => numbers(&Object::new(body, "histogram")?, inner),
        "range" => ranges(&Object::new(body, "range")?, leaves, false),
        "date_range" => ranges(&Object::new(body, "date_range")?, leaves, true),
        "filters" => filters(&Object::new(body, "filters")?, leaves),
        "filter" => {
            let filter = dsl::parse(body, leaves)?;
            Ok(Kind::One(One { kind: "filter", filter, is_global: false }))
        }
        "missing" => {
            let object = Object::new(body, "missing")?;
            let field = object.text("field")?;
            let field = field.ok_or_else(|| Refused::parsing("[missing] needs [field]"))?;
            object.finish()?;
            let filter = not(leaves.exists(&Target::of(&field)?)?);
            Ok(Kind::One(One { kind: "missing", filter, is_global: false }))
        }
        "global" => Ok(Kind::One(One { kind: "global", filter: Filter::All, is_global: true })),
        "nested" | "reverse_nested" => {
            let object = Object::new(body, kind)?;
            object.without_effect(&["path"]);
            object.finish()?;
            let kind = if kind == "nested" { "nested" } else { "reverse_nested" };
            Ok(Kind::One(One { kind, filter: Filter::All, is_global: false }))
        }
        "composite" => composite(&Object::new(body, "composite")?),
        other => Err(Refused::parsing(format!(
            "unknown aggregation [{}]; there are: {KNOWN}",
            cut(other)
        ))),
    }
}

fn field(object: &Object<'_>, what: &str) -> Result<Field, Refused> {
    let name = object.text("field")?;
    let name = name.ok_or_else(|| {
        Refused::parsing(format!("[{what}] needs [field]; scripts are not understood"))
    })?;
    Ok(Field::of(&name))
}

/// Reads `order`; the second of a pair says whether it descends.
fn order(
    object: &Object<'_>,
    inner: &[Aggregation],
    default: (OrderBy, bool),
) -> Result<Vec<(OrderBy, bool)>, Refused> {
    let mut found = Vec::new();
    for value in object.get("order").map(list).unwrap_or_default() {
        let entry = Object::new(value, "order")?;
        for (name, direction) in entry.entries() {
            let descending = match direction.as_str() {
                Some("asc") => false,
                Some("desc") => true,
                _ => {
                    return Err(Refused::parsing(format!(
                        "[order] takes asc or desc, not {}",
                        shown(direction)
                    )));
                }
            };
            let by = match name {
                "_count" => OrderBy::Count,
                "_key" | "_term" | "_time" => OrderBy::Key,
                path => metric_path(path, inner)?,
            };
            found.push((by, descending));
        }
    }
    if found.is_empty() {
        found.push(default);
    }
    Ok(found)
}

/// `mean`, `numbers.max`, `latency.95`, `latency[95]`: a metric inside.
fn metric_path(path: &str, inner: &[Aggregation]) -> Result<OrderBy, Refused> {
    let metrics: Vec<&Aggregation> =
        inner.iter().filter(|a| matches!(a.kind, Kind::Metric(_))).collect();
    for (index, metric) in metrics.into_iter().enumerate() {
        let Some(rest) = path.strip_prefix(metric.name.as_str()) else { continue };
        let part = match rest {
            "" => "value",
            rest => match rest.strip_prefix('.') {
                Some(part) => part,
                None => match rest.strip_prefix('[').and_then(|part| part.strip_suffix(']')) {
                    Some(part) => part,
                    None => continue,
                },
            },
        };
        return Ok(OrderBy::Metric(index, part.to_owned()));
    }
    Err(Refused {
        kind: "aggregation_execution_exception",
        ..Refused::argument(format!(
            "[order] [{}] is not _count, _key or a metric directly inside the aggregation",
            cut(path)
        ))
    })
}

fn terms(object: &Object<'_>, leaves: &mut Leaves, inner: &[Aggregation]) -> Result<Kind, Refused> {
    let field = field(object, "terms")?;
    let size = object.whole("size")?.unwrap_or(TERMS_DEFAULT);
    let min_doc_count = object.whole("min_doc_count")?.unwrap_or(1);
    let order = order(object, inner, (OrderBy::Count, true))?;
    let missing = object.text("missing")?;
    let target = Target::One(Field { keyword: true, ..field.clone() });
    let mut only = Vec::new();
    for (name, includes) in [("include", true), ("exclude", false)] {
        let filter = match object.get(name) {
            None => continue,
            Some(Value::String(pattern)) => leaves.regexp(&target, pattern, false)?,
            Some(Value::Array(values)) => {
                let values = values.iter().filter_map(text_of).collect();
                leaves.terms(&target, values)?
            }
            Some(other) => {
                return Err(Refused::parsing(format!(
                    "[terms] [{name}] takes a regular expression or a list of values, not {}",
                    shown(other)
                )));
            }
        };
        only.push(if includes { filter } else { not(filter) });
    }
    // Terms are exact here, however many there are.
    object.without_effect(&[
        "shard_size",
        "show_term_doc_count_error",
        "shard_min_doc_count",
        "execution_hint",
        "collect_mode",
        "value_type",
    ]);
    object.finish()?;
    if min_doc_count == 0 {
        return Err(Refused::parsing(
            "[terms] [min_doc_count] takes numbers from 1; values without rows are not known",
        ));
    }
    Ok(Kind::Terms(Terms {
        keyword: field.keyword,
        is_index: field.is_index,
        field: field.name,
        size: usize::try_from(size).unwrap_or(usize::MAX).max(1),
        order,
        min_doc_count,
        missing,
        only: all(only),
    }))
}

/// `{"min": …, "max": …}` as times.
fn date_bounds(
    object: &Object<'_>,
    name: &'static str,
    reading: Reading<'_>,
) -> Result<Option<(i64, i64)>, Refused> {
    let Some(value) = object.get(name) else { return Ok(None) };
    let bounds = Object::new(value, name)?;
    let one = |key: &'static str| -> Result<Option<i64>, Refused> {
        let Some(text) = bounds.text(key)? else { return Ok(None) };
        // Milliseconds, whatever the format of the answer is.
        if let Ok(ms) = text.parse::<i64>() {
            return Ok(Some(ms.saturating_mul(MS_NS)));
        }
        Ok(Some(dates::parse(&text, reading)?.start_ns))
    };
    let found = (one("min")?, one("max")?);
    bounds.finish()?;
    Ok(match found {
        (None, None) => None,
        (min, max) => Some((min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX))),
    })
}

fn dates_of(
    object: &Object<'_>,
    leaves: &mut Leaves,
    inner: &[Aggregation],
) -> Result<Kind, Refused> {
    let field = field(object, "date_histogram")?;
    let interval = Interval::parse(object, "date_histogram")?;
    let zone = object.text("time_zone")?.map(|zone| dates::zone(&zone)).transpose()?;
    let zone = zone.unwrap_or_default();
    let offset_ns = object.text("offset")?.map_or(Ok(0), |text| intervals::offset(&text))?;
    let format = object.text("format")?;
    if let Some(format) = &format {
        dates::check_format(format)?;
    }
    let reading = Reading { format: None, zone, now_ns: leaves.now_ns };
    let extended = date_bounds(object, "extended_bounds", reading)?;
    let hard = date_bounds(object, "hard_bounds", reading)?;
    let min_doc_count = object.whole("min_doc_count")?.unwrap_or(0);
    let keyed = object.flag("keyed")?.unwrap_or(false);
    let order = order(object, inner, (OrderBy::Key, false))?;
    object.finish()?;
    Ok(Kind::Dates(Dates {
        field: field.name,
        interval,
        zone,
        offset_ns,
        format,
        min_doc_count,
        extended,
        hard,
        keyed,
        order,
    }))
}

fn interval_of(object: &Object<'_>, what: &str) -> Result<f64, Refused> {
    let interval = object.number("interval")?;
    // Beyond these, a bucket would be written with more digits than numbers have.
    let interval = interval.filter(|interval| (1e-15..=1e18).contains(interval));
    interval
        .ok_or_else(|| Refused::parsing(format!("[{what}] needs an [interval] from 1e-15 to 1e18")))
}

fn numbers(object: &Object<'_>, inner: &[Aggregation]) -> Result<Kind, Refused> {
    let field = field(object, "histogram")?;
    let interval = interval_of(object, "histogram")?;
    let offset = object.number("offset")?.unwrap_or(0.0).rem_euclid(interval);
    let min_doc_count = object.whole("min_doc_count")?.unwrap_or(0);
    let keyed = object.flag("keyed")?.unwrap_or(false);
    let order = order(object, inner, (OrderBy::Key, false))?;
    let extended = match object.get("extended_bounds") {
        None => None,
        Some(value) => {
            let bounds = Object::new(value, "extended_bounds")?;
            let found = (bounds.number("min")?, bounds.number("max")?);
            bounds.finish()?;
            match found {
                (Some(min), Some(max)) => Some((min, max)),
                _ => return Err(Refused::parsing("[extended_bounds] needs [min] and [max]")),
            }
        }
    };
    object.finish()?;
    if field.name == TIME {
        return Err(Refused::argument("[histogram] of @timestamp: use [date_histogram]"));
    }
    let field = field.name;
    Ok(Kind::Numbers(Numbers { field, interval, offset, min_doc_count, extended, keyed, order }))
}

fn ranges(object: &Object<'_>, leaves: &mut Leaves, is_date: bool) -> Result<Kind, Refused> {
    let what = if is_date { "date_range" } else { "range" };
    let field = field(object, what)?;
    let target = Target::One(field);
    let format = if is_date { object.text("format")? } else { None };
    if let Some(format) = &format {
        dates::check_format(format)?;
    }
    let zone = match is_date {
        true => object.text("time_zone")?.map(|zone| dates::zone(&zone)).transpose()?,
        false => None,
    };
    let zone = zone.unwrap_or_default();
    let keyed = object.flag("keyed")?.unwrap_or(false);
    let listed = list(object.required("ranges")?);
    object.finish()?;
    let mut parts = Vec::new();
    for value in listed {
        let range = Object::new(value, "ranges")?;
        let key = range.text("key")?;
        let (from, to) = (range.text("from")?, range.text("to")?);
        range.finish()?;
        let mut shown: Vec<(&'static str, Value)> = Vec::new();
        let mut names = Vec::new();
        let mut ends = Vec::new();
        for (end, name, as_text) in [(from, "from", "from_as_string"), (to, "to", "to_as_string")] {
            let Some(text) = end else {
                names.push("*".to_owned());
                ends.push(None);
                continue;
            };
            let (number, name_of) = match is_date {
                true => {
                    let reading =
                        Reading { format: format.as_deref(), zone, now_ns: leaves.now_ns };
                    let time_ns = dates::parse(&text, reading)?.start_ns;
                    let written = dates::write(time_ns, format.as_deref(), zone);
                    (time_ns.div_euclid(MS_NS) as f64, written)
                }
                false => {
                    let number =
                        text.parse::<f64>().ok().or_else(|| Some(Number::parse(&text)?.value));
                    let number = number.filter(|number| number.is_finite()).ok_or_else(|| {
                        Refused::parsing(format!(
                            "[range] [{name}] [{}] is not a number",
                            cut(&text)
                        ))
                    })?;
                    (number, decimal(number))
                }
            };
            shown.push((name, number.into()));
            if is_date {
                shown.push((as_text, name_of.clone().into()));
            }
            names.push(name_of);
            ends.push(Some(text));
        }
        let low = ends[0].clone().map(|value| End { value, inside: true });
        let high = ends[1].clone().map(|value| End { value, inside: false });
        let of = RangeOf { format: format.as_deref(), zone };
        let filter = leaves.range(&target, low, high, of)?;
        let key = key.unwrap_or_else(|| names.join("-"));
        parts.push(Part { key: Some(key), shown, filter });
    }
    Ok(Kind::Parts(Parts { kind: what, parts, keyed }))
}

/// A number as Elasticsearch writes it in keys: `100.0`.
fn decimal(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.1}") } else { number.to_string() }
}

fn filters(object: &Object<'_>, leaves: &mut Leaves) -> Result<Kind, Refused> {
    let listed = object.required("filters")?;
    let other_key = object.text("other_bucket_key")?;
    let other = object.flag("other_bucket")?.unwrap_or(other_key.is_some());
    let keyed = object.flag("keyed")?;
    object.finish()?;
    let (mut parts, is_named) = match listed {
        Value::Array(queries) => {
            let part = |query| {
                Ok(Part { key: None, shown: Vec::new(), filter: dsl::parse(query, leaves)? })
            };
            (queries.iter().map(part).collect::<Result<Vec<_>, Refused>>()?, false)
        }
        value => {
            let named = Object::new(value, "filters")?;
            let part = |(name, query): (&str, &Value)| {
                let filter = dsl::parse(query, leaves)?;
                Ok(Part { key: Some(name.to_owned()), shown: Vec::new(), filter })
            };
            (named.entries().map(part).collect::<Result<Vec<_>, Refused>>()?, true)
        }
    };
    if other {
        let filter = not(any(parts.iter().map(|part| part.filter.clone()).collect()));
        let key = is_named.then(|| other_key.unwrap_or_else(|| "_other_".to_owned()));
        parts.push(Part { key, shown: Vec::new(), filter });
    }
    Ok(Kind::Parts(Parts { kind: "filters", parts, keyed: keyed.unwrap_or(true) && is_named }))
}

fn composite(object: &Object<'_>) -> Result<Kind, Refused> {
    let size = object.whole("size")?.unwrap_or(10).max(1);
    let mut sources = Vec::new();
    for value in list(object.required("sources")?) {
        let named = Object::new(value, "sources")?;
        let (name, body) = named.only()?;
        let typed = Object::new(body, name)?;
        let (kind, body) = typed.only()?;
        let own = Object::new(body, kind)?;
        let field = field(&own, kind)?;
        let descending = match own.text("order")?.as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(Refused::parsing("[order] of [composite] takes asc or desc")),
        };
        let missing_bucket = own.flag("missing_bucket")?.unwrap_or(false);
        let source_kind = match kind {
            "terms" => SourceKind::Terms { keyword: field.keyword },
            "histogram" => SourceKind::Numbers { interval: interval_of(&own, "histogram")? },
            "date_histogram" => {
                let interval = Interval::parse(&own, "date_histogram")?;
                let zone = own.text("time_zone")?.map(|zone| dates::zone(&zone)).transpose()?;
                let offset_ns =
                    own.text("offset")?.map_or(Ok(0), |text| intervals::offset(&text))?;
                let format = own.text("format")?;
                if let Some(format) = &format {
                    dates::check_format(format)?;
                }
                SourceKind::Dates { interval, zone: zone.unwrap_or_default(), offset_ns, format }
            }
            other => {
                return Err(Refused::parsing(format!(
                    "[composite] takes sources of terms, histogram and date_histogram, not [{}]",
                    cut(other)
                )));
            }
        };
        own.finish()?;
        let source = CompositeSource {
            is_index: field.is_index,
            field: field.name,
            kind: source_kind,
            descending,
            missing_bucket,
        };
        sources.push((name.to_owned(), source));
    }
    let after = match object.get("after") {
        None => None,
        Some(value) => {
            let empty = Map::new();
            let after = value.as_object().unwrap_or(&empty);
            let each = sources.iter().map(|(name, _)| {
                after.get(name).cloned().ok_or_else(|| {
                    Refused::parsing(format!(
                        "[composite] [after] needs a value of [{}]",
                        cut(name)
                    ))
                })
            });
            Some(each.collect::<Result<Vec<Value>, _>>()?)
        }
    };
    object.finish()?;
    if sources.is_empty() {
        return Err(Refused::parsing("[composite] needs [sources]"));
    }
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    Ok(Kind::Composite(Composite { sources, size, after }))
}

/// The filter of rows that have one of these values.
pub(super) fn among(field: &str, values: Vec<String>) -> Filter {
    let test = match values.as_slice() {
        [value] if value.is_empty() => Test::Phrase(String::new()),
        [value] => Test::Exact(value.clone()),
        _ => Test::In(values),
    };
    Filter::field(field, test)
}

/// The number of a text that is written as JSON writes it, so that no other text is that number.
pub fn plain_number(text: &str) -> Option<Value> {
    if text.len() > 24 || !text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    if let Ok(number) = text.parse::<i64>() {
        return (number.to_string() == text).then(|| json!(number));
    }
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && text.contains('.') && number.to_string() == text).then(|| json!(number))
}
