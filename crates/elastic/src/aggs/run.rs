//! Runs aggregations, level by level.

use std::collections::HashMap;

use query::source::TimeRange;
use query::{Filter, Test};
use serde_json::{Map, Value, json};

use super::answer::{self, Bucket, Filled};
use super::parse::among;
use super::{
    Aggregation, BUCKETS_MAX, Composite, CompositeSource, Dates, Kind, Numbers, SourceKind, Terms,
};
use crate::error::{Refused, SearchError};
use crate::leaf::all;
use crate::names::TIME;
use crate::object::cut;
use crate::rows::{By, Runner};
use crate::search::hits_of;

/// What the buckets above select.
#[derive(Clone)]
struct Scope {
    filter: Filter,
    keys: Vec<By>,
}

/// A bucket with its key, if it has one.
type Keyed = (Option<String>, Map<String, Value>);

/// A part of an aggregation's buckets that one query finds.
struct Piece {
    filter: Filter,
    by: Vec<By>,
    /// The key of the only bucket, where it has none of its own.
    fixed: Option<i64>,
}

/// Rows of one aggregation by the buckets above: values of their keys, number of rows, results.
type Counted = HashMap<Vec<String>, (u64, Vec<String>)>;

struct Run<'r, 'q> {
    runner: &'r mut Runner<'q>,
    /// The filter of the indices alone, for `global`.
    outer: &'r Filter,
    buckets_left: usize,
    typed: bool,
}

/// Answers aggregations over the rows of `filter`; `outer` is the filter without the query. With
/// `typed`, names in the answer begin with the type.
pub fn run(
    aggregations: &[Aggregation],
    runner: &mut Runner<'_>,
    filter: &Filter,
    outer: &Filter,
    typed: bool,
) -> Result<Map<String, Value>, SearchError> {
    let mut run = Run { runner, outer, buckets_left: BUCKETS_MAX, typed };
    let scope = Scope { filter: filter.clone(), keys: Vec::new() };
    let metrics = functions_of(aggregations);
    let counted = match metrics.is_empty() {
        true => Counted::new(),
        false => run.counted(&scope, &metrics)?,
    };
    let found = run.level(aggregations, &scope, &[Vec::new()], &counted)?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// The functions of the metrics directly among some aggregations.
fn functions_of(aggregations: &[Aggregation]) -> Vec<String> {
    let metrics = aggregations.iter().filter_map(|aggregation| match &aggregation.kind {
        Kind::Metric(metric) => Some(metric.functions()),
        _ => None,
    });
    metrics.flatten().collect()
}

impl Run<'_, '_> {
    fn counted(&mut self, scope: &Scope, functions: &[String]) -> Result<Counted, SearchError> {
        let groups = self.runner.groups(&scope.filter, &scope.keys, functions)?;
        Ok(groups.into_iter().map(|g| (g.keys, (g.count, g.results))).collect())
    }

    /// The answers of some aggregations for each of the buckets `parents`, of which `counted` has
    /// the results of metrics.
    fn level(
        &mut self,
        aggregations: &[Aggregation],
        scope: &Scope,
        parents: &[Vec<String>],
        counted: &Counted,
    ) -> Result<Vec<Map<String, Value>>, SearchError> {
        let mut answers = vec![Map::new(); parents.len()];
        let nothing: Vec<String> =
            functions_of(aggregations).iter().map(|_| String::new()).collect();
        let mut from = 0;
        for aggregation in aggregations {
            self.runner.take(repeated_bytes(aggregation).saturating_mul(parents.len()))?;
            let found: Vec<Value> = match &aggregation.kind {
                Kind::Metric(metric) => {
                    let until = from + metric.functions().len();
                    let results = |parent: &Vec<String>| {
                        let results = counted.get(parent).map_or(&nothing, |(_, found)| found);
                        metric.answer(&results[from..until])
                    };
                    let found = parents.iter().map(results).collect();
                    from = until;
                    found
                }
                Kind::TopHits(wanted) => {
                    let mut found = Vec::new();
                    for parent in parents {
                        let hits = match bucket_filter(&scope.keys, parent)? {
                            Some(own) => {
                                let filter = all(vec![scope.filter.clone(), own]);
                                hits_of(self.runner, &filter, wanted)?
                            }
                            None => no_hits(),
                        };
                        found.push(json!({ "hits": hits }));
                    }
                    found
                }
                Kind::One(one) => {
                    let filter = match one.is_global {
                        true => self.outer.clone(),
                        false => all(vec![scope.filter.clone(), one.filter.clone()]),
                    };
                    let scope = Scope { filter, keys: scope.keys.clone() };
                    let parts = self.part(aggregation, &scope, parents)?;
                    parts.into_iter().map(Value::Object).collect()
                }
                Kind::Parts(listed) => {
                    let mut found: Vec<Vec<Keyed>> = vec![Vec::new(); parents.len()];
                    for part in &listed.parts {
                        let filter = all(vec![scope.filter.clone(), part.filter.clone()]);
                        let scope = Scope { filter, keys: scope.keys.clone() };
                        self.take_buckets(parents.len())?;
                        let answers = self.part(aggregation, &scope, parents)?;
                        for (found, mut answer) in found.iter_mut().zip(answers) {
                            for (name, value) in &part.shown {
                                answer.insert((*name).to_owned(), value.clone());
                            }
                            found.push((part.key.clone(), answer));
                        }
                    }
                    let keyed = listed.keyed;
                    found.into_iter().map(|buckets| answer::parts(buckets, keyed)).collect()
                }
                Kind::Terms(_) | Kind::Dates(_) | Kind::Numbers(_) | Kind::Composite(_) => {
                    self.buckets(aggregation, scope, parents)?
                }
            };
            let name = match self.typed {
                true => format!("{}#{}", answer::type_of(&aggregation.kind), aggregation.name),
                false => aggregation.name.clone(),
            };
            for (answer, mut value) in answers.iter_mut().zip(found) {
                if let (Some(meta), Some(object)) = (&aggregation.meta, value.as_object_mut()) {
                    object.insert("meta".to_owned(), meta.clone());
                }
                answer.insert(name.clone(), value);
            }
        }
        Ok(answers)
    }

    fn take_buckets(&mut self, count: usize) -> Result<(), SearchError> {
        match self.buckets_left.checked_sub(count) {
            Some(left) => {
                self.buckets_left = left;
                // What a bucket's answer takes, about.
                self.runner.take(count.saturating_mul(200))
            }
            None => Err(SearchError::Refused(Refused {
                kind: "too_many_buckets_exception",
                ..Refused::argument(format!(
                    "the answer has more than {BUCKETS_MAX} buckets; use a larger interval, a smaller size or a narrower range"
                ))
            })),
        }
    }

    /// The bucket that all rows of a scope are, for each of the buckets above.
    fn part(
        &mut self,
        aggregation: &Aggregation,
        scope: &Scope,
        parents: &[Vec<String>],
    ) -> Result<Vec<Map<String, Value>>, SearchError> {
        let counted = self.counted(scope, &functions_of(&aggregation.inner))?;
        let mut answers = self.level(&aggregation.inner, scope, parents, &counted)?;
        for (answer, parent) in answers.iter_mut().zip(parents) {
            let count = counted.get(parent).map_or(0, |(count, _)| *count);
            answer.insert("doc_count".to_owned(), count.into());
        }
        Ok(answers)
    }

    /// Aggregations whose buckets have keys.
    fn buckets(
        &mut self,
        aggregation: &Aggregation,
        scope: &Scope,
        parents: &[Vec<String>],
    ) -> Result<Vec<Value>, SearchError> {
        let functions = functions_of(&aggregation.inner);
        let pieces = self.pieces(&aggregation.kind, scope)?;
        let places: HashMap<&[String], usize> =
            parents.iter().enumerate().map(|(index, parent)| (&parent[..], index)).collect();
        let mut found: Vec<Vec<Bucket>> = vec![Vec::new(); parents.len()];
        let above = scope.keys.len();
        for (piece_index, piece) in pieces.iter().enumerate() {
            let filter = all(vec![scope.filter.clone(), piece.filter.clone()]);
            let by: Vec<By> = scope.keys.iter().chain(&piece.by).cloned().collect();
            for group in self.runner.groups(&filter, &by, &functions)? {
                let Some(&place) = places.get(&group.keys[..above]) else { continue };
                // A single bucket has no rows where `stats` has one group for nothing.
                if group.count == 0 {
                    continue;
                }
                let raw = group.keys[above..].to_vec();
                found[place].extend(answer::bucket(
                    &aggregation.kind,
                    piece_index,
                    piece.fixed,
                    raw,
                    group.count,
                    group.results,
                ));
            }
        }
        let metrics: Vec<&super::Metric> = aggregation
            .inner
            .iter()
            .filter_map(|inner| match &inner.kind {
                Kind::Metric(metric) => Some(metric),
                _ => None,
            })
            .collect();
        let mut arranged: Vec<Filled> = Vec::new();
        for buckets in found {
            if !aggregation.inner.is_empty()
                && answer::is_missing_a_value(&aggregation.kind, &buckets)
            {
                return Err(SearchError::Refused(Refused::argument(format!(
                    "[terms] [missing] of [{}] is a value that the field has, so what is inside cannot be told; use another one",
                    cut(&aggregation.name)
                ))));
            }
            let filled = answer::arrange(&aggregation.kind, buckets, &metrics, self.buckets_left)?;
            self.take_buckets(filled.buckets.len())?;
            let names = key_bytes(&aggregation.kind);
            self.runner.take(names.saturating_mul(filled.buckets.len()))?;
            arranged.push(filled);
        }
        let inner = self.inner(aggregation, scope, parents, &pieces, &arranged)?;
        let written = arranged.into_iter().zip(inner);
        Ok(written.map(|(filled, inner)| answer::write(&aggregation.kind, filled, inner)).collect())
    }

    /// The answers inside the buckets, for each of the buckets above.
    fn inner(
        &mut self,
        aggregation: &Aggregation,
        scope: &Scope,
        parents: &[Vec<String>],
        pieces: &[Piece],
        arranged: &[Filled],
    ) -> Result<Vec<Vec<Map<String, Value>>>, SearchError> {
        let mut inner: Vec<Vec<Map<String, Value>>> =
            arranged.iter().map(|filled| vec![Map::new(); filled.buckets.len()]).collect();
        if aggregation.inner.is_empty() {
            return Ok(inner);
        }
        for (piece_index, piece) in pieces.iter().enumerate() {
            let mut places = Vec::new();
            let mut tuples = Vec::new();
            let mut counted = Counted::new();
            for (parent, filled) in arranged.iter().enumerate() {
                for (index, bucket) in filled.buckets.iter().enumerate() {
                    if bucket.piece != piece_index {
                        continue;
                    }
                    let tuple: Vec<String> =
                        parents[parent].iter().chain(&bucket.raw).cloned().collect();
                    if bucket.count > 0 {
                        counted.insert(tuple.clone(), (bucket.count, bucket.results.clone()));
                    }
                    places.push((parent, index));
                    tuples.push(tuple);
                }
            }
            if tuples.is_empty() {
                continue;
            }
            let mut filter = all(vec![scope.filter.clone(), piece.filter.clone()]);
            if let Kind::Terms(terms) = &aggregation.kind {
                // Only of the terms that are shown.
                let last = piece.by.len();
                let mut values: Vec<String> = tuples
                    .iter()
                    .filter_map(|tuple| tuple.get(tuple.len().checked_sub(last)?).cloned())
                    .collect();
                values.sort_unstable();
                values.dedup();
                filter = all(vec![filter, among(&terms.field, values)]);
            }
            let keys = scope.keys.iter().chain(&piece.by).cloned().collect();
            let scope = Scope { filter, keys };
            let answers = self.level(&aggregation.inner, &scope, &tuples, &counted)?;
            for ((parent, index), answer) in places.into_iter().zip(answers) {
                inner[parent][index] = answer;
            }
        }
        Ok(inner)
    }

    fn pieces(&mut self, kind: &Kind, scope: &Scope) -> Result<Vec<Piece>, SearchError> {
        let exists = |field: &str| match field {
            TIME => Filter::All,
            field => Filter::field(field, Test::Prefix(String::new())),
        };
        Ok(match kind {
            Kind::Terms(Terms { field, only, missing, .. }) => {
                let exists = if missing.is_some() { Filter::All } else { exists(field) };
                let filter = all(vec![exists, only.clone()]);
                let by = vec![By { name: field.clone(), bucket: String::new() }];
                vec![Piece { filter, by, fixed: None }]
            }
            Kind::Numbers(Numbers { field, interval, offset, .. }) => {
                let by =
                    vec![By { name: field.clone(), bucket: number_bucket(*interval, *offset) }];
                vec![Piece { filter: exists(field), by, fixed: None }]
            }
            Kind::Dates(dates) => self.date_pieces(dates, scope, exists(&dates.field))?,
            Kind::Composite(Composite { sources, .. }) => {
                let mut by = Vec::new();
                let mut filters = Vec::new();
                for (_, CompositeSource { field, kind, missing_bucket, .. }) in sources {
                    let bucket = match kind {
                        SourceKind::Terms { .. } => String::new(),
                        SourceKind::Numbers { interval } => number_bucket(*interval, 0.0),
                        SourceKind::Dates { interval, zone, offset_ns, .. } => {
                            let range = self.range_of(scope, *zone, false)?;
                            let spans = interval.spans(range, *zone, *offset_ns)?;
                            match spans.as_slice() {
                                [] => String::new(),
                                [one] if one.bucket.is_some() => {
                                    one.bucket.clone().unwrap_or_default()
                                }
                                _ => {
                                    return Err(SearchError::Refused(Refused::argument(
                                        "[composite] takes no quarters, and no time_zone whose clocks change within the range; narrow the \
                                         range, or use [date_histogram]",
                                    )));
                                }
                            }
                        }
                    };
                    by.push(By { name: field.clone(), bucket });
                    if !missing_bucket {
                        filters.push(exists(field));
                    }
                }
                vec![Piece { filter: all(filters), by, fixed: None }]
            }
            _ => Vec::new(),
        })
    }

    fn date_pieces(
        &mut self,
        dates: &Dates,
        scope: &Scope,
        exists: Filter,
    ) -> Result<Vec<Piece>, SearchError> {
        let is_quarter = dates.interval == super::Interval::Calendar('q');
        let range = self.range_of(scope, dates.zone, is_quarter)?;
        let spans = dates.interval.spans(range, dates.zone, dates.offset_ns)?;
        if dates.field != TIME && (spans.len() != 1 || spans[0].bucket.is_none()) {
            return Err(SearchError::Refused(Refused::argument(
                "[date_histogram] of other fields than @timestamp takes no quarters, and no time_zone whose clocks change \
                 within the range",
            )));
        }
        let is_whole = spans.len() == 1;
        let piece = |span: super::intervals::Span| {
            let by = span
                .bucket
                .iter()
                .map(|bucket| By { name: dates.field.clone(), bucket: bucket.clone() });
            let fixed = span.bucket.is_none().then_some(span.range.start_ns);
            let by = by.collect();
            let filter = match is_whole && fixed.is_none() {
                true => exists.clone(),
                false => all(vec![exists.clone(), Filter::Time(span.range)]),
            };
            Piece { filter, by, fixed }
        };
        Ok(spans.into_iter().map(piece).collect())
    }

    /// The range of times of a scope, where it matters: for zones whose clocks change, and for
    /// quarters.
    fn range_of(
        &mut self,
        scope: &Scope,
        zone: record::Zone,
        always: bool,
    ) -> Result<TimeRange, SearchError> {
        let range = scope.filter.time_range();
        let is_open = range.start_ns == i64::MIN || range.end_ns == i64::MAX;
        if matches!(zone, record::Zone::Fixed(_)) && !always || !is_open {
            return Ok(range);
        }
        let functions = ["min", "max"].map(|function| format!("{function}(\"{TIME}\")"));
        let groups = self.runner.groups(&scope.filter, &[], &functions)?;
        let time = |index: usize| {
            let text = groups.first()?.results.get(index)?;
            text::time::parse_timestamp(text.as_bytes())
        };
        Ok(match (time(0), time(1)) {
            (Some(min_ns), Some(max_ns)) => TimeRange { start_ns: min_ns, end_ns: max_ns + 1 },
            _ => TimeRange { start_ns: 0, end_ns: 1 },
        })
    }
}

fn number_bucket(interval: f64, offset: f64) -> String {
    match offset == 0.0 {
        true => format!(":\"{interval}\""),
        false => format!(":\"{interval}\" offset \"{offset}\""),
    }
}

/// Bytes of the texts of a request that the answer has once in each bucket above.
fn repeated_bytes(aggregation: &Aggregation) -> usize {
    let of_kind = match &aggregation.kind {
        Kind::Parts(listed) => {
            let keys = listed.parts.iter().filter_map(|part| part.key.as_ref());
            keys.map(String::len).sum()
        }
        Kind::Terms(Terms { missing: Some(missing), .. }) => missing.len(),
        _ => 0,
    };
    let meta = aggregation.meta.as_ref().map_or(0, |meta| meta.to_string().len());
    of_kind + aggregation.name.len() + meta
}

/// Bytes of the texts of a request that each key has.
fn key_bytes(kind: &Kind) -> usize {
    match kind {
        Kind::Composite(composite) => composite.sources.iter().map(|(name, _)| name.len()).sum(),
        _ => 0,
    }
}

/// `hits` of a bucket without rows.
fn no_hits() -> Value {
    json!({ "total": { "value": 0, "relation": "eq" }, "max_score": null, "hits": [] })
}

/// The filter of the rows of a bucket, for `top_hits`; none if it has no rows.
fn bucket_filter(keys: &[By], values: &[String]) -> Result<Option<Filter>, SearchError> {
    // The only bucket of a query has no key, and a bucket without rows has one all the same.
    let is_empty =
        |(By { bucket, .. }, value): (&By, &String)| !bucket.is_empty() && value == answer::NO_ROWS;
    if values.len() > keys.len() || keys.iter().zip(values).any(is_empty) {
        return Ok(None);
    }
    let each = keys.iter().zip(values).map(|(By { name, bucket }, value)| {
        if bucket.is_empty() {
            return Ok(among(name, vec![value.clone()]));
        }
        answer::bucket_filter(name, bucket, value).ok_or_else(|| {
            SearchError::Refused(Refused::argument(
                "[top_hits] is not understood inside buckets of months and years; use terms, ranges, or steps of a fixed length",
            ))
        })
    });
    Ok(Some(all(each.collect::<Result<_, _>>()?)))
}
