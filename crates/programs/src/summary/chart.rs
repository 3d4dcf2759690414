//! Turns summary rows into evenly spaced series, and into the list of types: the answers of `GET
//! /api/v1/summary` and `GET /api/v1/summary/types`.
//!
//! Rows may come in any order, and several for one bucket; they are added up. Memory grows with the
//! rows given, not with points times values: counts stay sparse until the values to be shown are
//! chosen.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use text::duration::SECOND_NS;
use text::time::format_time;

use crate::summary::OTHER;
use crate::summary::row::SummaryRow;
use crate::summary::time::bucket_start;

/// Points of a chart. A range and step that give more are refused.
pub const CHART_POINTS_MAX: u64 = 11_000;
/// Points aimed at when no step is requested.
const POINTS_AUTO: u64 = 120;
/// Series of one dimension; the values with the most lines. The rest is added up as `other`.
pub const CHART_SERIES_MAX: usize = 50;
/// Distinct values of one dimension while adding rows. Further ones count as `other`.
pub const CHART_VALUES_MAX: usize = 10_000;
/// Types in the list, those with the most lines. The rest is added up as `other`.
pub const TYPES_LISTED_MAX: usize = 1_000;

/// Steps to choose from when none is requested, in seconds.
const STEPS_S: [u64; 15] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 10_800, 86_400];

/// Why a chart cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChartError {
    /// The range is empty.
    #[error("start must be before end")]
    EmptyRange,
    /// More points than [`CHART_POINTS_MAX`].
    #[error(
        "range and step give {points} points, more than the {CHART_POINTS_MAX} allowed; \
         ask for a step of at least {step_s_min}s or a shorter range"
    )]
    TooManyPoints {
        /// Points requested.
        points: u64,
        /// The smallest step that is allowed for the range, seconds.
        step_s_min: u64,
    },
}

/// Where a chart begins and ends, and its step: checked, and aligned to whole steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChartRange {
    start_ns: i64,
    step_s: u64,
    bucket_s: u64,
    points: u64,
}

impl ChartRange {
    /// The points that cover `start_ns..end_ns`, nanoseconds since 1970 UTC, with `step_s` rounded
    /// up to whole buckets of `bucket_s`, or without it a step that gives about 100 points.
    pub fn new(
        start_ns: i64,
        end_ns: i64,
        step_s: Option<u64>,
        bucket_s: u64,
    ) -> Result<Self, ChartError> {
        assert!(bucket_s > 0, "a bucket has a width");
        if start_ns >= end_ns {
            return Err(ChartError::EmptyRange);
        }
        let range_s = end_ns.abs_diff(start_ns).div_ceil(SECOND_NS as u64);
        let step_s = step_s.unwrap_or_else(|| step_auto_s(range_s));
        let step_s = step_s.max(1).div_ceil(bucket_s).saturating_mul(bucket_s);
        // A step wider than the range of time adds no information.
        let step_s = step_s.min(i64::MAX as u64 / SECOND_NS as u64);
        let step_ns = step_s as i64 * SECOND_NS;
        let start_ns = bucket_start(start_ns, step_ns);
        let points = end_ns.abs_diff(start_ns).div_ceil(step_ns as u64);
        if points > CHART_POINTS_MAX {
            let step_s_min = range_s.div_ceil(CHART_POINTS_MAX - 1).next_multiple_of(bucket_s);
            return Err(ChartError::TooManyPoints { points, step_s_min });
        }
        Ok(ChartRange { start_ns, step_s, bucket_s, points })
    }

    /// The event times of the rows to read (inclusive start, exclusive end): whole steps, so that
    /// every point shows its full count.
    pub fn time_range_ns(&self) -> (i64, i64) {
        (self.start_ns, self.point_ns(self.points))
    }

    /// The distance between points, seconds.
    pub fn step_s(&self) -> u64 {
        self.step_s
    }

    fn point_ns(&self, point: u64) -> i64 {
        let step_ns = i128::from(self.step_s) * i128::from(SECOND_NS);
        let time_ns = i128::from(self.start_ns) + i128::from(point) * step_ns;
        i64::try_from(time_ns).unwrap_or(i64::MAX)
    }

    fn point_of(&self, time_ns: i64) -> Option<usize> {
        if time_ns < self.start_ns {
            return None;
        }
        let point = time_ns.abs_diff(self.start_ns) / (self.step_s * SECOND_NS as u64);
        (point < self.points).then_some(point as usize)
    }
}

/// The smallest usual step that gives no more than [`POINTS_AUTO`] points; beyond a day, whole
/// days.
fn step_auto_s(range_s: u64) -> u64 {
    let least_s = range_s.div_ceil(POINTS_AUTO);
    let usual = STEPS_S.into_iter().find(|&step_s| step_s >= least_s);
    usual.unwrap_or_else(|| least_s.next_multiple_of(86_400))
}

/// Answer of `GET /api/v1/summary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chart {
    /// Type of the lines counted.
    #[serde(rename = "type")]
    pub log_type: String,
    /// Distance between points, seconds.
    pub step_s: u64,
    /// Width of the buckets behind them, seconds.
    pub bucket_s: u64,
    /// Start of each point, RFC 3339.
    pub timestamps: Vec<String>,
    /// Lines of each point.
    pub lines: Vec<u64>,
    /// Bytes of raw lines of each point.
    pub bytes: Vec<u64>,
    /// Lines of each point, by dimension and value.
    pub series: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
    /// Lines of all points, by dimension and value.
    pub totals: BTreeMap<String, BTreeMap<String, u64>>,
    /// Sums of each point, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sums: BTreeMap<String, Vec<u64>>,
}

/// Adds up rows to a [`Chart`].
pub struct ChartBuilder {
    range: ChartRange,
    log_type: String,
    lines: Vec<u64>,
    bytes: Vec<u64>,
    dimensions: BTreeMap<String, HashMap<String, Sparse>>,
    sums: BTreeMap<String, Vec<u64>>,
}

/// Counts of one value at the points that have any, in the order of the rows; a point may occur
/// several times.
#[derive(Default)]
struct Sparse {
    total: u64,
    counts: Vec<(u32, u64)>,
}

impl ChartBuilder {
    /// An empty chart of a type.
    pub fn new(range: ChartRange, log_type: &str) -> Self {
        let zeros = vec![0; range.points as usize];
        ChartBuilder {
            range,
            log_type: log_type.to_owned(),
            lines: zeros.clone(),
            bytes: zeros,
            dimensions: BTreeMap::new(),
            sums: BTreeMap::new(),
        }
    }

    /// Adds a row; skips one of another type or outside the range.
    pub fn add(&mut self, row: &SummaryRow) {
        let Some(point) = self.range.point_of(row.time_ns) else { return };
        if row.summary_of != self.log_type {
            return;
        }
        add_to(&mut self.lines[point], row.lines);
        add_to(&mut self.bytes[point], row.bytes);
        for (name, sum) in &row.sums {
            let zeros = || vec![0; self.range.points as usize];
            add_to(&mut self.sums.entry(name.clone()).or_insert_with(zeros)[point], *sum);
        }
        for (name, counts) in &row.dimensions {
            let values = self.dimensions.entry(name.clone()).or_default();
            for (value, lines) in counts {
                let known = values.len() < CHART_VALUES_MAX || values.contains_key(value);
                let value = if known { value } else { OTHER };
                values.entry(value.to_owned()).or_default().add(point as u32, *lines);
            }
        }
    }

    /// The chart.
    pub fn finish(self) -> Chart {
        let points = self.range.points as usize;
        let mut series = BTreeMap::new();
        let mut totals = BTreeMap::new();
        for (name, values) in self.dimensions {
            let mut values: Vec<(String, Sparse)> = values.into_iter().collect();
            // The values with the most lines first; `other` is always last.
            values.sort_unstable_by(|(a, x), (b, y)| {
                (a == OTHER).cmp(&(b == OTHER)).then(y.total.cmp(&x.total)).then(a.cmp(b))
            });
            let mut shown: BTreeMap<String, Vec<u64>> = BTreeMap::new();
            let mut sum: BTreeMap<String, u64> = BTreeMap::new();
            for (rank, (value, sparse)) in values.into_iter().enumerate() {
                let value = if rank < CHART_SERIES_MAX { value } else { OTHER.to_owned() };
                add_to(sum.entry(value.clone()).or_default(), sparse.total);
                let dense = shown.entry(value).or_insert_with(|| vec![0; points]);
                for (point, lines) in sparse.counts {
                    add_to(&mut dense[point as usize], lines);
                }
            }
            series.insert(name.clone(), shown);
            totals.insert(name, sum);
        }
        Chart {
            log_type: self.log_type,
            step_s: self.range.step_s,
            bucket_s: self.range.bucket_s,
            timestamps: (0..self.range.points)
                .map(|p| format_time(self.range.point_ns(p)))
                .collect(),
            lines: self.lines,
            bytes: self.bytes,
            series,
            totals,
            sums: self.sums,
        }
    }
}

impl Sparse {
    fn add(&mut self, point: u32, lines: u64) {
        add_to(&mut self.total, lines);
        match self.counts.last_mut() {
            Some((last, count)) if *last == point => add_to(count, lines),
            _ => self.counts.push((point, lines)),
        }
    }
}

/// Answer of `GET /api/v1/summary/types`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeList {
    /// Types, most lines first.
    pub types: Vec<TypeSummary>,
}

/// One type over the whole range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TypeSummary {
    /// Name of the type.
    #[serde(rename = "type")]
    pub log_type: String,
    /// Lines.
    pub lines: u64,
    /// Bytes of raw lines.
    pub bytes: u64,
    /// Lines by level.
    pub levels: BTreeMap<String, u64>,
}

/// Adds up rows to a [`TypeList`].
#[derive(Default)]
pub struct TypesBuilder {
    types: HashMap<String, TypeSummary>,
}

impl TypesBuilder {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn add(&mut self, row: &SummaryRow) {
        let known = self.types.len() < TYPES_LISTED_MAX || self.types.contains_key(&row.summary_of);
        let log_type = if known { row.summary_of.as_str() } else { OTHER };
        let sum = self.types.entry(log_type.to_owned()).or_default();
        add_to(&mut sum.lines, row.lines);
        add_to(&mut sum.bytes, row.bytes);
        for (level, lines) in row.dimensions.get("level").into_iter().flatten() {
            let known = sum.levels.len() < CHART_SERIES_MAX || sum.levels.contains_key(level);
            let level = if known { level } else { OTHER };
            add_to(sum.levels.entry(level.to_owned()).or_default(), *lines);
        }
    }

    /// The list.
    pub fn finish(self) -> TypeList {
        let named = |(log_type, sum)| TypeSummary { log_type, ..sum };
        let mut types: Vec<TypeSummary> = self.types.into_iter().map(named).collect();
        types.sort_unstable_by(|a, b| b.lines.cmp(&a.lines).then(a.log_type.cmp(&b.log_type)));
        TypeList { types }
    }
}

/// Stored rows are input: numbers in them may have any value, so sums saturate instead of wrapping.
pub(crate) fn add_to(sum: &mut u64, n: u64) {
    *sum = sum.saturating_add(n);
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND_NS;

    fn row(time_s: i64, log_type: &str, levels: &[(&str, u64)]) -> SummaryRow {
        let levels: BTreeMap<String, u64> =
            levels.iter().map(|(l, n)| ((*l).to_owned(), *n)).collect();
        let lines = levels.values().sum();
        SummaryRow {
            time_ns: time_s * S,
            bucket_s: 10,
            summary_of: log_type.to_owned(),
            lines,
            bytes: 100 * lines,
            sums: BTreeMap::from([("response_bytes".to_owned(), 7)]),
            rerun: None,
            through: None,
            dimensions: BTreeMap::from([("level".to_owned(), levels)]),
        }
    }

    #[test]
    fn rows_add_up_to_the_documented_answer() {
        let range = ChartRange::new(1_769_860_805 * S, 1_769_860_825 * S, Some(10), 10).unwrap();
        assert_eq!(range.time_range_ns(), (1_769_860_800 * S, 1_769_860_830 * S));
        let mut chart = ChartBuilder::new(range, "access");
        chart.add(&row(1_769_860_800, "access", &[("error", 1), ("info", 119)]));
        chart.add(&row(1_769_860_810, "access", &[("error", 2)]));
        chart.add(&row(1_769_860_810, "access", &[("info", 128)]));
        chart.add(&row(1_769_860_810, "syslog", &[("info", 1_000)]));
        chart.add(&row(1_769_860_790, "access", &[("info", 1_000)]));
        chart.add(&row(1_769_860_830, "access", &[("info", 1_000)]));
        assert_eq!(
            serde_json::to_string(&chart.finish()).unwrap(),
            concat!(
                r#"{"type":"access","step_s":10,"bucket_s":10,"timestamps":["2026-01-31T12:00:00Z","#,
                r#""2026-01-31T12:00:10Z","2026-01-31T12:00:20Z"],"lines":[120,130,0],"#,
                r#""bytes":[12000,13000,0],"series":{"level":{"error":[1,2,0],"info":[119,128,0]}},"#,
                r#""totals":{"level":{"error":3,"info":247}},"sums":{"response_bytes":[7,14,0]}}"#
            )
        );
    }

    #[test]
    fn steps() {
        for (start_s, end_s, step_s, bucket_s, expected) in [
            (0, 3_600, None, 10, Ok((30, 120))),
            (0, 60, None, 10, Ok((10, 6))),
            (0, 86_400, None, 10, Ok((900, 96))),
            (0, 400 * 86_400, None, 10, Ok((4 * 86_400, 100))),
            (0, 100, Some(0), 7, Ok((7, 15))),
            (0, 100, Some(8), 7, Ok((14, 8))),
            (-5, 5, Some(10), 10, Ok((10, 2))),
            (0, 110_000, Some(10), 10, Ok((10, 11_000))),
            (
                0,
                110_010,
                Some(10),
                10,
                Err(ChartError::TooManyPoints { points: 11_001, step_s_min: 20 }),
            ),
            (5, 5, None, 10, Err(ChartError::EmptyRange)),
        ] {
            let range = ChartRange::new(start_s * S, end_s * S, step_s, bucket_s);
            assert_eq!(
                range.map(|r| (r.step_s, r.points)),
                expected,
                "{start_s}..{end_s} {step_s:?}"
            );
        }
    }

    #[test]
    fn all_of_time_and_the_widest_step_are_charts() {
        for step_s in [None, Some(u64::MAX), Some(1 << 40)] {
            let range = ChartRange::new(i64::MIN, i64::MAX, step_s, 10).unwrap();
            let mut chart = ChartBuilder::new(range, "x");
            for time_ns in [i64::MIN, -1, 0, i64::MAX - 1] {
                chart.add(&SummaryRow { time_ns, ..row(0, "x", &[("info", 1)]) });
            }
            assert_eq!(chart.finish().lines.iter().sum::<u64>(), 4, "{step_s:?}");
        }
    }

    #[test]
    fn values_beyond_the_limits_are_other() {
        let range = ChartRange::new(0, 10 * S, Some(10), 10).unwrap();
        for (values, series) in [(49, 49), (50, 50), (51, 51), (CHART_VALUES_MAX + 5, 51)] {
            let mut chart = ChartBuilder::new(range, "x");
            let mut types = TypesBuilder::new();
            for value in 0..values {
                let row = row(0, "x", &[(&format!("v{value}"), 1 + (value == 3) as u64)]);
                chart.add(&row);
                types.add(&row);
            }
            let chart = chart.finish();
            assert_eq!(chart.series["level"].len(), series, "{values}");
            assert_eq!(chart.totals["level"]["v3"], 2);
            assert_eq!(chart.totals["level"].values().sum::<u64>(), values as u64 + 1);
            assert_eq!(chart.series["level"].values().flatten().sum::<u64>(), values as u64 + 1);
            assert_eq!(types.finish().types[0].levels.values().sum::<u64>(), values as u64 + 1);
        }
    }

    #[test]
    fn types_are_listed_by_lines() {
        let mut types = TypesBuilder::new();
        types.add(&row(0, "syslog", &[("info", 2)]));
        types.add(&row(0, "access", &[("error", 3), ("info", 247)]));
        types.add(&row(10, "syslog", &[("info", 2)]));
        let list = serde_json::to_string(&types.finish()).unwrap();
        assert_eq!(
            list,
            concat!(
                r#"{"types":[{"type":"access","lines":250,"bytes":25000,"levels":{"error":3,"info":247}},"#,
                r#"{"type":"syslog","lines":4,"bytes":400,"levels":{"info":4}}]}"#
            )
        );
    }
}
