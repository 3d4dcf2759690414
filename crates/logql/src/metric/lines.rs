//! Aggregations over lines: one pass over lines in any order.
//!
//! The pass keeps a state for each series and non-empty bucket ([`super::grid`], [`super::state`]);
//! windows are computed from these. If lines are only counted by their fields, the store counts
//! them, and no line is read here.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::ControlFlow;

use query::{Bucket, By, Context, Function, Pipe, Pulse, Query, Scratch, Stats, StatsFunction};

use super::Evaluation;
use super::grid::ONLY_BUCKET;
use super::series::Series;
use super::state::{Sample, State};
use crate::ast::{Conversion, Grouping, MatchOp, RangeAggregation, RangeOp, Stage, Unwrap};
use crate::error::EvalError;
use crate::push::push;
use crate::stage::{DETECTED_LEVEL, ERROR, Item, Labels, PRESERVE_ERROR};
use crate::stored::{Reader, RowFields, detected_level, fields_of, is_field};
use crate::units::{parse_bytes, parse_number, parse_value_duration_ns};
use crate::{CHECK_BYTES, CHECK_ROWS};

/// Memory of a bucket besides its state: its entry in the map.
const BUCKET_BYTES: usize = 64;
/// Memory of a series besides its labels and buckets.
const SERIES_BYTES: usize = 200;
/// Steps of at least this length are counted by the store if possible: it has counts per second, so
/// a line at exactly the end of a window counts for the next one.
const COUNTED_STEP_NS_MIN: i64 = 60_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The labels that distinguish series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All labels of the output, and these.
    All(Vec<String>),
    /// These labels.
    By(Vec<String>),
    /// These labels, and those of an error: the grouping is that of lines, not of series.
    ByWithErrors(Vec<String>),
    /// The labels of the stream but this one, and the wanted ones.
    OfStream(String, Vec<String>),
    /// All labels except the first list, and the wanted ones in the second list.
    Without(Vec<String>, Vec<String>),
}

impl Keys {
    /// The keys of a grouping; `wanted` are fields that enclosing parts use.
    pub fn of(grouping: &Grouping, wanted: &[String]) -> Keys {
        match grouping.without {
            false => Keys::By(grouping.labels.clone()),
            true => Keys::Without(grouping.labels.clone(), wanted.to_vec()),
        }
    }

    fn labels(&self, item: &Item<'_>, unwrapped: Option<&str>) -> Labels {
        // Series are without the unwrapped label, but lines can be grouped by it.
        let named = |names: &[String], hidden: Option<&str>, labels: &mut Labels| {
            for name in names {
                if Some(name.as_str()) != hidden && !labels.iter().any(|(l, _)| l == name) {
                    let value = item.with_label(name, str::to_owned);
                    if !value.is_empty() || item.has_empty(name) {
                        labels.push((name.clone(), value));
                    }
                }
            }
            labels.sort_unstable();
        };
        let mut labels = Labels::new();
        let is_grouped = matches!(self, Keys::By(_) | Keys::OfStream(..));
        match self {
            Keys::By(names) => named(names, None, &mut labels),
            Keys::ByWithErrors(names) => {
                named(names, None, &mut labels);
                item.push_errors(&mut labels);
                labels.sort_unstable();
            }
            Keys::OfStream(counted, wanted) => {
                item.stream_labels(|name, value| labels.push((name.to_owned(), value.to_owned())));
                labels.retain(|(name, _)| name != counted);
                named(wanted, unwrapped, &mut labels);
            }
            Keys::All(wanted) => {
                labels = item.labels();
                labels.retain(|(name, _)| Some(name.as_str()) != unwrapped);
                named(wanted, unwrapped, &mut labels);
            }
            Keys::Without(names, wanted) => {
                labels = item.labels();
                let goes = |name: &str| Some(name) == unwrapped || names.iter().any(|n| n == name);
                labels.retain(|(name, _)| !goes(name));
                let wanted: Vec<String> = wanted.iter().filter(|n| !goes(n)).cloned().collect();
                named(&wanted, unwrapped, &mut labels);
            }
        }
        if item.has_error() && !is_grouped {
            labels.push((PRESERVE_ERROR.to_owned(), "true".to_owned()));
            labels.sort_unstable();
        }
        labels
    }
}

#[derive(Default)]
struct Collected {
    series: HashMap<
        Labels,
        HashMap<i64, State, foldhash::fast::RandomState>,
        foldhash::fast::RandomState,
    >,
    bytes: usize,
}

impl Collected {
    /// Adds a line; returns the memory that this took.
    fn add(&mut self, op: RangeOp, labels: Labels, bucket: i64, sample: Sample) -> usize {
        let mut taken = 0;
        if !self.series.contains_key(&labels) {
            taken += SERIES_BYTES
                + labels
                    .iter()
                    .map(|(n, v)| n.len() + v.len() + 2 * size_of::<String>())
                    .sum::<usize>();
        }
        let buckets = self.series.entry(labels).or_default();
        match buckets.get_mut(&bucket) {
            Some(state) => {
                let before = state.extra_bytes();
                state.merge(op, &State::new(op, sample));
                taken += state.extra_bytes() - before;
            }
            None => {
                let state = State::new(op, sample);
                taken += BUCKET_BYTES + state.extra_bytes();
                buckets.insert(bucket, state);
            }
        }
        self.bytes += taken;
        taken
    }
}

impl Evaluation<'_> {
    /// Evaluates an aggregation over lines, with series distinguished by `keys`.
    pub(super) fn over_lines(
        &mut self,
        range: &RangeAggregation,
        keys: Keys,
    ) -> Result<Vec<Series>, EvalError> {
        let keys = if range.op == RangeOp::Absent { Keys::By(Vec::new()) } else { keys };
        let collected = match self.counted(range, &keys)? {
            Some(collected) => collected,
            None => self.evaluate_lines(range, &keys)?,
        };
        let bytes = collected.bytes;
        let series = self.windows(range, collected);
        self.give_back(bytes);
        let series = series?;
        Ok(if range.op == RangeOp::Absent { self.absent(range, &series) } else { series })
    }

    /// Passes every line through the stages.
    fn evaluate_lines(
        &mut self,
        range: &RangeAggregation,
        keys: &Keys,
    ) -> Result<Collected, EvalError> {
        let RangeAggregation { op, query, unwrap, range_ns, offset_ns, .. } = range;
        let pushed = Query::new(push(query).filter, Vec::new());
        let mut context = Context {
            range: self.grid.lines_of(*range_ns, *offset_ns),
            limit: None,
            ..self.context.clone()
        };
        // Rows are evaluated here, not sent to the client.
        context.limits.rows_max = u64::MAX;
        // Lines with an error are wanted if a test names the error; otherwise they end the query.
        let tests = query.stages.iter().filter_map(|stage| match stage {
            Stage::Label(test) => Some(test),
            _ => None,
        });
        let behind = unwrap.iter().flat_map(|unwrap| &unwrap.filters);
        let keeps_errors = tests.chain(behind).any(|test| test.names(ERROR));
        // The same for all lines of the query.
        let hasher = foldhash::fast::FixedState::default();
        let mut reader = Reader::default();
        let mut collected = Collected::default();
        let mut failed = None;
        let mut looked = 0;
        let (source, whole, started) = (self.source, self.context, self.started);
        let pulse = Pulse::new(|| whole.check(started));
        query::run(&pushed, source, &context, &mut |rows| {
            for index in 0..rows.len() {
                looked += 1;
                let (batch, place) = rows.line(index).expect("no pipe made rows");
                let row = RowFields::of(batch, place);
                let is_long = row.row.raw().len() > CHECK_BYTES;
                if (is_long || u64::is_multiple_of(looked, CHECK_ROWS))
                    && let Err(error) = self.check()
                {
                    failed = Some(error.into());
                    return ControlFlow::Break(());
                }
                let time_ns = row.row.time_ns().saturating_add(*offset_ns);
                let Some(bucket) = self.grid.bucket(time_ns, *range_ns) else { continue };
                let labels = reader.stream(&row.row);
                let mut item = reader.item(batch, &labels, &row, &pulse);
                let passes = query.stages.iter().all(|stage| item.apply(stage));
                if pulse.is_over() {
                    return ControlFlow::Break(());
                }
                if !passes {
                    continue;
                }
                let value = match unwrap {
                    Some(unwrap) => unwrapped(unwrap, &mut item),
                    None if *op == RangeOp::Distinct => {
                        let counted = range.counted.as_deref().unwrap_or_default();
                        // A line without a value does not count.
                        item.with_label(counted, |value| {
                            (!value.is_empty()).then(|| f64::from_bits(hasher.hash_one(value)))
                        })
                    }
                    None if matches!(op, RangeOp::Bytes | RangeOp::BytesRate) => {
                        Some(item.line.len() as f64)
                    }
                    None => Some(1.0),
                };
                let Some(value) = value else { continue };
                if item.has_error() && !keeps_errors {
                    failed = Some(EvalError::Pipeline {
                        error: item.with_label(ERROR, str::to_owned),
                        series: shown(&item.labels()),
                    });
                    return ControlFlow::Break(());
                }
                let labels = keys.labels(&item, unwrap.as_ref().map(|u| u.label.as_str()));
                let sample = Sample { time_ns, id: row.row.id(), value };
                let taken = collected.add(*op, labels, bucket, sample);
                if taken > 0
                    && let Err(error) = self.take(taken)
                {
                    failed = Some(error.into());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        pulse.end()?;
        failed.map_or(Ok(collected), Err)
    }

    /// Lets the store count lines by fields if possible: no stage changes lines, and series are
    /// distinguished by fields.
    fn counted(
        &mut self,
        range: &RangeAggregation,
        keys: &Keys,
    ) -> Result<Option<Collected>, EvalError> {
        let RangeAggregation { op, query, unwrap, range_ns, offset_ns, .. } = range;
        let counts = matches!(op, RangeOp::Count | RangeOp::Rate | RangeOp::Absent);
        let (true, None, Keys::By(names)) = (counts, unwrap, keys) else { return Ok(None) };
        let pushed = push(query);
        let step_ns = self.grid.step_ns();
        let is_instant = self.grid.steps() == 1;
        let start_ns = self.grid.time_ns(0).saturating_sub(*offset_ns);
        let in_steps = range_ns % step_ns == 0
            && step_ns >= COUNTED_STEP_NS_MIN
            && step_ns % SECOND_NS == 0
            && start_ns % SECOND_NS == 0;
        // A label that may stand for several fields is looked for in each line.
        let are_fields = names.iter().all(|name| is_field(name) && fields_of(name).count() == 1);
        if !pushed.is_whole || !are_fields || !(is_instant || in_steps) {
            return Ok(None);
        }
        let mut fields: Vec<String> = Vec::new();
        for name in names {
            let field = if name == DETECTED_LEVEL { "_level" } else { name };
            if !fields.iter().any(|known| known == field) {
                fields.push(field.to_owned());
            }
        }
        let plain = |name: &String| By { name: name.clone(), bucket: None };
        let mut by: Vec<By> = fields.iter().map(plain).collect();
        let mut lines = self.grid.lines_of(*range_ns, *offset_ns);
        if !is_instant {
            // Counts per second: windows that begin at a second, and end before one.
            lines.start_ns -= 1;
            lines.end_ns -= 1;
            let bucket = Bucket::Time { step_ns, offset_ns: start_ns.rem_euclid(step_ns) };
            by.insert(0, By { name: "_time".to_owned(), bucket: Some(bucket) });
        }
        // A name that no field can have.
        let count = "count\0".to_owned();
        let function = Function::count();
        let functions = vec![StatsFunction { function, filter: None, name: count.clone() }];
        let stats = Query::new(pushed.filter, vec![Pipe::from(Stats { by, functions })]);
        let mut context = Context { range: lines, limit: None, ..self.context.clone() };
        context.limits.rows_max = u64::MAX;
        let mut collected = Collected::default();
        let mut failed = None;
        let mut scratch = Scratch::default();
        let source = self.source;
        query::run(&stats, source, &context, &mut |rows| {
            for index in 0..rows.len() {
                let mut get = |name: &str| {
                    String::from_utf8_lossy(rows.get(index, name, &mut scratch)).into_owned()
                };
                let value: f64 = get(&count).parse().unwrap_or(0.0);
                let bucket = match is_instant {
                    // In the only window, however short it is.
                    true => Some(ONLY_BUCKET),
                    false => {
                        // The bucket that begins there is the step that ends at its end.
                        let begins = text::time::parse_timestamp(get("_time").as_bytes());
                        let ends =
                            begins.map(|ns| ns.saturating_add(*offset_ns).saturating_add(step_ns));
                        ends.and_then(|ns| self.grid.bucket(ns, *range_ns))
                    }
                };
                let Some(bucket) = bucket.filter(|_| value > 0.0) else { continue };
                let mut labels = Labels::new();
                for name in names {
                    let value = match name == DETECTED_LEVEL {
                        true => detected_level(get("_level").as_bytes()).to_owned(),
                        false => get(name),
                    };
                    if !value.is_empty() && !labels.iter().any(|(label, _)| label == name) {
                        labels.push((name.clone(), value));
                    }
                }
                labels.sort_unstable();
                let id = record::LineId { node: 0, sequence: 0, line: 0 };
                let taken = collected.add(*op, labels, bucket, Sample { time_ns: 0, id, value });
                if let Err(error) = self.take(taken) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Some(collected)),
        }
    }

    /// Computes the windows.
    fn windows(
        &mut self,
        range: &RangeAggregation,
        collected: Collected,
    ) -> Result<Vec<Series>, EvalError> {
        let RangeAggregation { op, range_ns, parameter, .. } = range;
        self.take(self.points_bytes(collected.series.len()))?;
        let mut found = Vec::with_capacity(collected.series.len());
        // Sums of integers are exact, so they need not be recomputed for each window.
        let slides =
            matches!(op, RangeOp::Count | RangeOp::Rate | RangeOp::Bytes | RangeOp::BytesRate)
                && range.unwrap.is_none();
        for (labels, buckets) in collected.series {
            self.check()?;
            let mut buckets: Vec<(i64, State)> = buckets.into_iter().collect();
            buckets.sort_unstable_by_key(|(bucket, _)| *bucket);
            let mut points = Vec::with_capacity(self.grid.steps());
            let (mut low, mut high) = (0, 0);
            let mut sum = 0.0;
            for step in 0..self.grid.steps() {
                let (first, last) = self.grid.window(step, *range_ns);
                while high < buckets.len() && buckets[high].0 <= last {
                    if let State::Sum(value) = buckets[high].1 {
                        sum += value;
                    }
                    high += 1;
                }
                while low < high && buckets[low].0 < first {
                    if let State::Sum(value) = buckets[low].1 {
                        sum -= value;
                    }
                    low += 1;
                }
                let inside = &buckets[low..high];
                if inside.is_empty() {
                    points.push(None);
                    continue;
                }
                let mut state = inside[0].1.clone();
                if slides {
                    state = State::Sum(sum);
                } else {
                    for (place, (_, other)) in inside[1..].iter().enumerate() {
                        if place % 1024 == 1023 {
                            self.check()?;
                        }
                        state.merge(*op, other);
                    }
                }
                let end_ns = self.grid.time_ns(step);
                points.push(Some(state.value(*op, *parameter, end_ns, *range_ns)));
            }
            if points.iter().any(Option::is_some) {
                found.push(Series { labels, points });
            }
        }
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(found)
    }

    /// 1 at the times where no series has a point.
    fn absent(&self, range: &RangeAggregation, series: &[Series]) -> Vec<Series> {
        let points: Vec<Option<f64>> = (0..self.grid.steps())
            .map(|step| match series.iter().any(|one| one.points[step].is_some()) {
                true => None,
                false => Some(1.0),
            })
            .collect();
        if points.iter().all(Option::is_none) {
            return Vec::new();
        }
        let matchers = &range.query.matchers;
        let once = |name: &str| matchers.iter().filter(|m| m.name == name).count() == 1;
        let mut labels: Labels = matchers
            .iter()
            .filter(|m| m.op == MatchOp::Equal && !m.value.is_empty() && once(&m.name))
            .map(|m| (m.name.clone(), m.value.clone()))
            .collect();
        labels.sort_unstable();
        vec![Series { labels, points }]
    }
}

/// The value of the unwrapped label; `None` if the line lacks it or does not pass.
fn unwrapped(unwrap: &Unwrap, item: &mut Item<'_>) -> Option<f64> {
    let read = |value: &str| match unwrap.conversion {
        _ if value.is_empty() => None,
        Conversion::Number => Some(parse_number(value)),
        Conversion::Bytes => Some(parse_bytes(value)),
        Conversion::Duration(_) => Some(parse_value_duration_ns(value).map(|ns| ns as f64 / 1e9)),
    };
    let value = item.with_label(&unwrap.label, read)?;
    if value.is_none() {
        let details = format!("label {} is not a number of the kind", unwrap.label);
        item.set_error("SampleExtractionErr", details);
    }
    let passes = unwrap.filters.iter().all(|filter| filter.passes(item));
    passes.then_some(value.unwrap_or(0.0))
}

/// Labels in Loki's format for messages.
pub(crate) fn shown(labels: &Labels) -> String {
    let one = |(name, value): &(String, String)| format!("{name}={}", crate::lex::quote(value));
    format!("{{{}}}", labels.iter().map(one).collect::<Vec<_>>().join(", "))
}
