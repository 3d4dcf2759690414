//! Measures the cost of queries that read no line: `loginson-bench unit_cost`.
//!
//! A source of [`UNITS`] units in [`SEGMENTS`] segments, whose lines cannot be read, answers
//! queries from the counts of its segments and the words of its units. Each query runs [`RUNS`]
//! times; the median is reported, in total and per unit. A wrong answer fails the measurement.
//! `valgrind --tool=callgrind` shows where the time goes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use query::source::{
    EachCount, Grouped, Phrases, ScanUnit, Source, SourceError, TimeRange, UnitKey, Whose,
};
use query::{Context, Query, Scratch, run};
use record::{Batch, LineId};

const UNITS: u64 = 1_000;
const SEGMENTS: u64 = 10;
const RUNS: usize = 20;
const LINES_OF_UNIT: u64 = 10_000;
const LEVELS: [&str; 4] = ["debug", "info", "warning", "error"];
/// Buckets of a segment that is counted by time.
const BUCKETS: i64 = 100;
const SECOND_NS: i64 = 1_000_000_000;

struct Units;
struct Unit(u64);

impl Source for Units {
    fn units(
        &self,
        _range: TimeRange,
        _whose: Whose,
    ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Ok((0..UNITS).map(|unit| -> Box<dyn ScanUnit> { Box::new(Unit(unit)) }).collect())
    }

    fn find(&self, _id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        let at = (self.0 as i64) * SECOND_NS;
        Some((at, at + SECOND_NS))
    }

    fn lines(&self) -> u64 {
        LINES_OF_UNIT
    }

    fn bytes(&self) -> u64 {
        200 * LINES_OF_UNIT
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Err(SourceError("no line is to be read".to_owned()))
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        Ok(Some(vec![false; phrases.all().len()]))
    }

    fn key(&self) -> Option<UnitKey> {
        Some((self.0 % SEGMENTS, (self.0 / SEGMENTS) as u32))
    }

    fn segment(&self) -> Option<(u64, usize)> {
        Some((self.0 % SEGMENTS, (UNITS / SEGMENTS) as usize))
    }

    fn count_segment(
        &self,
        grouped: Grouped<'_>,
        each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        let values: &[&str] = match grouped.fields {
            [] => &[""],
            ["level"] => &LEVELS,
            _ => return Ok(false),
        };
        let buckets = if grouped.bucket_ns.is_some() { BUCKETS } else { 1 };
        let lines = UNITS / SEGMENTS * LINES_OF_UNIT / (values.len() as u64 * buckets as u64);
        for bucket in 0..buckets {
            for value in values {
                each(bucket * 60 * SECOND_NS, &[value.as_bytes()][..grouped.fields.len()], lines);
            }
        }
        Ok(true)
    }
}

pub(crate) fn main() {
    let all = UNITS * LINES_OF_UNIT;
    measure("* | stats count() n", all);
    measure("* | stats by (level) count() n", all);
    measure("* | stats by (_time:1m) count() n", all);
    measure("level:error | stats count() n", all / LEVELS.len() as u64);
    measure("absent | stats count() n", 0);
    let many: Vec<String> = (0..1_000).map(|i| format!("id{i}")).collect();
    measure(&format!("id:in({}) | stats count() n", many.join(",")), 0);
}

/// Runs a query and reports its median time. The field `n` of all rows must add up to `expected`.
fn measure(text: &str, expected: u64) {
    let query = Query::parse(text, 0).expect("a query");
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            let mut found = 0;
            let mut scratch = Scratch::default();
            run(&query, &Units, &Context::default(), &mut |rows| {
                for row in 0..rows.len() {
                    let lines = std::str::from_utf8(rows.get(row, "n", &mut scratch));
                    found += lines.expect("digits").parse::<u64>().expect("digits");
                }
                ControlFlow::Continue(())
            })
            .expect("runs");
            assert_eq!(found, expected, "{text}");
            started.elapsed()
        })
        .collect();
    times.sort();
    let whole = times[RUNS / 2];
    let shown: String = text.chars().take(40).collect();
    println!("{shown:<40} {:>9.1} µs {:>7.0} ns a unit", micros(whole), nanos(whole));
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / UNITS as f64
}
