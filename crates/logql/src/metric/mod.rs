//! Queries for samples: each aggregation over lines is one pass over the store; its result, series
//! of points on a grid of times, is combined in memory.
//!
//! Limits: the memory of buckets, series and points counts as memory of the query; the number of
//! points per series and of series is limited as in Loki.

mod binary;
mod grid;
mod lines;
mod series;
mod state;
mod vector;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use query::source::Source;
use query::{Context, Pulse, RunError};

use crate::ast::{Grouping, Metric, RangeAggregation, RangeOp, VectorOp};
use crate::error::EvalError;
use crate::stage::Labels;
pub use grid::Grid;
pub use lines::Keys;
pub use series::{Series, Value};

/// Limit of the points of a series, as in Loki. A finer step is refused.
pub const POINTS_MAX: i64 = 11_000;
/// Limit of the series of an answer. Beyond it, the error says what to change.
pub const SERIES_MAX: usize = 5_000;

/// The parameters and the counters of an evaluation.
pub struct Evaluation<'a> {
    source: &'a dyn Source,
    context: &'a Context,
    grid: Grid,
    started: Instant,
    held_bytes: u64,
}

/// Evaluates `metric` at the times of `grid`.
pub fn run(
    metric: &Metric,
    source: &dyn Source,
    context: &Context,
    grid: Grid,
) -> Result<Value, EvalError> {
    let mut evaluation =
        Evaluation { source, context, grid, started: Instant::now(), held_bytes: 0 };
    let value = evaluation.value(metric, &mut Vec::new())?;
    if let Value::Series(series) = &value
        && series.len() > SERIES_MAX
    {
        return Err(EvalError::Refused(format!(
            "maximum number of series ({SERIES_MAX}) reached for a single query; consider reducing query cardinality by \
             adding more specific stream selectors, reducing the time range, or aggregating results with functions like \
             sum, count or topk"
        )));
    }
    Ok(value)
}

/// Whether series are grouped by the label whose values are their samples. They lack it; only the
/// lines of a sum have it still.
fn groups_by_unwrapped(grouping: Option<&Grouping>, range: &RangeAggregation) -> bool {
    match (grouping, &range.unwrap) {
        (Some(grouping), Some(unwrap)) => {
            !grouping.without && grouping.labels.contains(&unwrap.label)
        }
        _ => false,
    }
}

impl Evaluation<'_> {
    /// Evaluates a part. `wanted` are labels named by enclosing parts, so that fields of lines can
    /// be used as labels.
    fn value(&mut self, metric: &Metric, wanted: &mut Vec<String>) -> Result<Value, EvalError> {
        self.check()?;
        match metric {
            Metric::Literal(value) => Ok(Value::Scalar(*value)),
            Metric::VectorLiteral(value) => {
                self.take(self.points_bytes(1))?;
                let points = vec![Some(*value); self.grid.steps()];
                Ok(Value::Series(vec![Series { labels: Labels::new(), points }]))
            }
            Metric::Range(range) => {
                let keys = match (&range.grouping, &range.counted) {
                    (Some(grouping), _) if !grouping.without => {
                        Keys::ByWithErrors(grouping.labels.clone())
                    }
                    (Some(grouping), _) => Keys::of(grouping, wanted),
                    (None, Some(counted)) => Keys::OfStream(counted.clone(), wanted.clone()),
                    (None, None) => Keys::All(wanted.clone()),
                };
                self.over_lines(range, keys).map(Value::Series)
            }
            Metric::Vector { op, parameter, grouping, inner } => {
                // Lines can be counted per group directly, instead of per series first.
                let at_once = match (op, &**inner) {
                    (VectorOp::Sum, Metric::Range(r)) => matches!(
                        r.op,
                        RangeOp::Count
                            | RangeOp::Rate
                            | RangeOp::Bytes
                            | RangeOp::BytesRate
                            | RangeOp::Sum
                    ),
                    (VectorOp::Max, Metric::Range(r)) => {
                        r.op == RangeOp::Max
                            && r.grouping.is_none()
                            && !groups_by_unwrapped(grouping.as_ref(), r)
                    }
                    (VectorOp::Min, Metric::Range(r)) => {
                        r.op == RangeOp::Min
                            && r.grouping.is_none()
                            && !groups_by_unwrapped(grouping.as_ref(), r)
                    }
                    _ => false,
                };
                if let (true, Metric::Range(range)) = (at_once, &**inner) {
                    let keys = match grouping {
                        Some(grouping) => Keys::of(grouping, wanted),
                        None => Keys::By(Vec::new()),
                    };
                    return self.over_lines(range, keys).map(Value::Series);
                }
                let before = wanted.len();
                if let Some(grouping) = grouping.as_ref().filter(|g| !g.without) {
                    wanted.extend(grouping.labels.iter().cloned());
                }
                let value = self.value(inner, wanted)?;
                wanted.truncate(before);
                let Value::Series(series) = value else {
                    return Err(EvalError::Refused(format!(
                        "{} needs series, not a number",
                        op.name()
                    )));
                };
                self.over_series(*op, *parameter, grouping.as_ref(), series).map(Value::Series)
            }
            Metric::Binary { op, modifier, left, right } => {
                let before = wanted.len();
                if let Some(matching) = modifier.matching.as_ref().filter(|m| !m.without) {
                    wanted.extend(matching.labels.iter().cloned());
                }
                let left = self.value(left, wanted)?;
                let right = self.value(right, wanted)?;
                wanted.truncate(before);
                self.between(*op, modifier, left, right)
            }
            Metric::LabelReplace { inner, to, replacement, from, regex, .. } => {
                wanted.push(from.clone());
                let value = self.value(inner, wanted)?;
                wanted.pop();
                let Value::Series(mut series) = value else {
                    return Err(EvalError::Refused(
                        "label_replace needs series, not a number".to_owned(),
                    ));
                };
                let pulse = Pulse::new(|| self.check());
                for one in &mut series {
                    let value = series::label(&one.labels, from).to_owned();
                    let mut replaced = Vec::new();
                    let (value, new) = (value.as_bytes(), replacement.as_bytes());
                    if regex.pattern().expand_first(value, new, &mut replaced, &pulse) {
                        let replaced = String::from_utf8_lossy(&replaced);
                        series::set_label(&mut one.labels, to, &replaced);
                    }
                    if pulse.is_over() {
                        break;
                    }
                }
                pulse.end()?;
                series.sort_by(|a, b| a.labels.cmp(&b.labels));
                if series.windows(2).any(|pair| pair[0].labels == pair[1].labels) {
                    return Err(EvalError::Refused(
                        "label_replace: two series would have the same labels".to_owned(),
                    ));
                }
                Ok(Value::Series(series))
            }
        }
    }

    /// An error if the query has to stop.
    fn check(&self) -> Result<(), RunError> {
        if self.context.cancelled.load(Relaxed) {
            return Err(RunError::Cancelled);
        }
        let run_time = self.context.limits.run_time;
        match self.started.elapsed() > run_time {
            true => Err(RunError::TimeLimit(run_time.as_secs_f64())),
            false => Ok(()),
        }
    }

    /// Counts memory before it is allocated.
    fn take(&mut self, bytes: usize) -> Result<(), RunError> {
        self.held_bytes += bytes as u64;
        self.context.progress.memory_bytes.store(self.held_bytes, Relaxed);
        let max = self.context.limits.memory_bytes_max;
        if self.held_bytes > max { Err(RunError::MemoryLimit(max)) } else { Ok(()) }
    }

    /// Counts memory that was freed.
    fn give_back(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes as u64);
        self.context.progress.memory_bytes.store(self.held_bytes, Relaxed);
    }

    /// Memory of the points of `series` series.
    fn points_bytes(&self, series: usize) -> usize {
        series.saturating_mul(self.grid.steps() * size_of::<Option<f64>>() + 64)
    }
}
