//! Measurements as the 2012 study describes them: the name of a metric, its value with the least
//! and the largest one of an interval, the time, and the length of the interval; and the queries
//! that monitoring asks of them.
//!
//! Each host has all metrics, and each interval has one record of each metric of each host, in the
//! order of time. Record number n (from 1; n is its key) determines everything, so every answer is
//! computed from the definition. A type of hosts stands in a column of its own with the metric
//! ("web07/…"), because the study asks for all hosts of a type and most stores cannot search within
//! a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::writing::{Numbers, Writing};
use super::{Expect, Opening, Request, Step, Steps, WorkloadError, WorkloadPlan, letters};
use crate::driver::Operation;
use crate::driver::aggregate::{Aggregate, Aggregation, Function, Within};
use crate::row::{Column, ColumnKind, Row, Schema, Value};

/// The time of the first interval, s since 1970: that of the example in the study.
const TIME_FROM: i64 = 1_332_988_833;

/// Limit of values; they are below it.
const VALUES: u64 = 1000;

/// Limit of hosts, metrics and of the length of an interval, s.
const PARAMETER_MAX: u64 = 1_000_000;

/// Limit of the records.
const RECORDS_MAX: u64 = 1 << 40;

/// Indexes of the columns in [`schema`].
const METRIC: usize = 0;
const TYPE: usize = 1;
const VALUE: usize = 2;
const MAX: usize = 4;
const TIMESTAMP: usize = 5;

/// The windows of the study's on-line queries, s.
const MAX_WINDOW_S: i64 = 600;
const AVERAGE_WINDOW_S: i64 = 900;

/// The measurements of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Records in the table.
    pub records: u64,
    /// Hosts.
    pub hosts: u64,
    /// Types of hosts, at most as many as hosts.
    pub types: u64,
    /// Metrics of each host.
    pub metrics: u64,
    /// Length of an interval, s.
    pub interval_s: u64,
}

/// The queries of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Over the last 10 and 15 minutes.
    Online,
    /// Over the whole data.
    History,
}

/// The table of measurements.
pub fn schema() -> Schema {
    let column = |name: &str, kind, indexed| Column::new(name, kind, indexed);
    Schema {
        table: "measurements".to_owned(),
        key: ColumnKind::Integer,
        columns: vec![
            column("metric", ColumnKind::Text, true),
            column("type_metric", ColumnKind::Text, true),
            column("value", ColumnKind::Integer, false),
            column("min", ColumnKind::Integer, false),
            column("max", ColumnKind::Integer, false),
            column("timestamp", ColumnKind::Integer, true),
            column("duration", ColumnKind::Integer, false),
        ],
    }
}

impl Measurements {
    fn check(&self) -> Result<(), WorkloadError> {
        let parameters = [
            ("records", self.records, RECORDS_MAX),
            ("hosts", self.hosts, PARAMETER_MAX),
            ("types", self.types, self.hosts),
            ("metrics", self.metrics, PARAMETER_MAX),
            ("interval_s", self.interval_s, PARAMETER_MAX),
        ];
        for (name, value, most) in parameters {
            if value == 0 || value > most {
                return Err(WorkloadError::Value {
                    name: name.to_owned(),
                    value: value.to_string(),
                    takes: format!("1 to {most}"),
                });
            }
        }
        Ok(())
    }

    /// Records of one interval.
    fn series(&self) -> u64 {
        self.hosts * self.metrics
    }

    fn metric(&self, host: u64, metric: u64) -> Value {
        let (kind, agent) = (host % self.types, host % 4);
        Value::Text(format!(
            "web{kind:02}-host{host:05}/agent{agent}/servlet{metric:04}/AverageResponseTime"
        ))
    }

    fn type_metric(&self, kind: u64, metric: u64) -> Value {
        Value::Text(format!("web{kind:02}/servlet{metric:04}/AverageResponseTime"))
    }

    fn time(&self, interval: u64) -> i64 {
        TIME_FROM + (interval * self.interval_s) as i64
    }

    /// The value, the least and the largest of a record, by its position from 0.
    fn values(&self, position: u64) -> [i64; 3] {
        let random = letters::mix(position);
        let value = random % VALUES;
        let (below, above) = ((random >> 16) % (value + 1), (random >> 32) % VALUES);
        [value, value - below, value + above].map(|number| number as i64)
    }

    /// The record with number `number`, from 1.
    fn record(&self, number: u64) -> Row {
        let position = number - 1;
        let (interval, place) = (position / self.series(), position % self.series());
        let (host, metric) = (place / self.metrics, place % self.metrics);
        let [value, min, max] = self.values(position).map(Value::Integer);
        Row {
            key: Value::Integer(number as i64),
            values: vec![
                self.metric(host, metric),
                self.type_metric(host % self.types, metric),
                value,
                min,
                max,
                Value::Integer(self.time(interval)),
                Value::Integer(self.interval_s as i64),
            ],
        }
    }

    /// The end of the last interval.
    fn end(&self) -> i64 {
        self.time((self.records - 1) / self.series() + 1)
    }

    /// The positions of the records of a metric on these hosts, from the time `from` on.
    fn positions(
        &self,
        hosts: impl Iterator<Item = u64> + Clone,
        metric: u64,
        from: i64,
    ) -> impl Iterator<Item = u64> {
        let series = self.series();
        let intervals = self.records.div_ceil(series);
        let skipped = u64::try_from(from - TIME_FROM).unwrap_or(0).div_ceil(self.interval_s);
        let (metrics, records) = (self.metrics, self.records);
        (skipped..intervals)
            .flat_map(move |interval| {
                hosts.clone().map(move |host| interval * series + host * metrics + metric)
            })
            .filter(move |position| *position < records)
    }

    /// The query with this number: those of a trial differ in hosts and metrics.
    fn query(&self, queries: Queries, turn: u64, seed: u64) -> Request {
        let draw =
            |below: u64, salt: u64| letters::mix(seed ^ letters::mix(turn * 8 + salt)) % below;
        let (host, metric) = (draw(self.hosts, 1), draw(self.metrics, 2));
        let kind = host % self.types;
        let of_host = (METRIC, self.metric(host, metric));
        let of_type = (TYPE, self.type_metric(kind, metric));
        let one = host..host + 1;
        let all = (kind..self.hosts).step_by(self.types as usize);
        let end = self.end();
        match (queries, turn % 2) {
            (Queries::Online, 0) => {
                let from = end - MAX_WINDOW_S;
                let positions = self.positions(one, metric, from);
                let values = positions.map(|position| self.values(position)[2]);
                request("max_10_min", (Function::Max, MAX), of_host, Some(from..end), values)
            }
            (Queries::Online, _) => {
                let from = end - AVERAGE_WINDOW_S;
                let positions = self.positions(all, metric, from);
                let values = positions.map(|position| self.values(position)[0]);
                let what = (Function::Average, VALUE);
                request("average_15_min", what, of_type, Some(from..end), values)
            }
            (Queries::History, 0) => {
                let positions = self.positions(one, metric, TIME_FROM);
                let values = positions.map(|position| self.values(position)[0]);
                request("average_of_metric", (Function::Average, VALUE), of_host, None, values)
            }
            (Queries::History, _) => {
                let positions = self.positions(all, metric, TIME_FROM);
                let values = positions.map(|position| self.values(position)[0]);
                request("average_of_type", (Function::Average, VALUE), of_type, None, values)
            }
        }
    }
}

fn request(
    label: &'static str,
    (function, column): (Function, usize),
    condition: (usize, Value),
    times: Option<std::ops::Range<i64>>,
    values: impl Iterator<Item = i64>,
) -> Request {
    let within = times.map(|t| Within { column: TIMESTAMP, from: t.start, to: t.end });
    let rows = values.map(|value| Aggregate { rows: 1, value: Some(value) });
    let expected = function.merge_all(rows).expect("values are below 2,000, and rows below 2^40");
    Request {
        label,
        operation: Operation::Aggregate(Aggregation {
            function,
            column,
            conditions: vec![condition],
            within,
        }),
        expect: Expect::Aggregate(expected),
    }
}

/// Inserts records in the order of time; each generator inserts its part of the range.
pub struct Writes {
    data: Measurements,
    numbers: Numbers,
}

impl Writes {
    /// This generator's part of the records.
    pub fn new(data: &Measurements, opening: &Opening) -> Result<Writes, WorkloadError> {
        data.check()?;
        Ok(Writes { data: *data, numbers: Numbers::share(data.records, opening) })
    }
}

impl WorkloadPlan for Writes {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        let (numbers, data) = (self.numbers.clone(), self.data);
        Box::new(Writing { numbers, row: move |number| data.record(number) })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        row_of(&self.data, key)
    }
}

fn row_of(data: &Measurements, key: &Value) -> Option<Row> {
    match key {
        Value::Integer(number) => {
            let number = u64::try_from(*number).ok()?;
            (1..=data.records).contains(&number).then(|| data.record(number))
        }
        Value::Text(_) => None,
    }
}

/// Asks the queries of one kind in turn.
pub struct Asking {
    data: Measurements,
    queries: Queries,
    opening: Opening,
    turns_taken: Arc<AtomicU64>,
}

impl Asking {
    /// Queries about the whole table.
    pub fn new(
        data: &Measurements,
        queries: Queries,
        opening: &Opening,
    ) -> Result<Asking, WorkloadError> {
        data.check()?;
        let turns_taken = Arc::new(AtomicU64::new(0));
        Ok(Asking { data: *data, queries, opening: opening.clone(), turns_taken })
    }
}

impl WorkloadPlan for Asking {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        Box::new(AskingSteps {
            data: self.data,
            queries: self.queries,
            opening: self.opening.clone(),
            turns_taken: self.turns_taken.clone(),
        })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        row_of(&self.data, key)
    }
}

struct AskingSteps {
    data: Measurements,
    queries: Queries,
    opening: Opening,
    turns_taken: Arc<AtomicU64>,
}

impl Steps for AskingSteps {
    fn next(&mut self) -> Option<Step> {
        let share = self.opening.share;
        let own = self.turns_taken.fetch_add(1, Ordering::Relaxed);
        let turn = own * u64::from(share.of) + u64::from(share.index);
        Some(Step::one(self.data.query(self.queries, turn, self.opening.seed)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sending::Share;

    fn data(records: u64) -> Measurements {
        Measurements { records, hosts: 5, types: 2, metrics: 3, interval_s: 10 }
    }

    #[test]
    fn records_look_like_the_studys() {
        let row = data(100).record(1 + 15 + 3 * 2 + 1);
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(
            row.values[METRIC],
            text("web00-host00002/agent2/servlet0001/AverageResponseTime")
        );
        assert_eq!(row.values[TYPE], text("web00/servlet0001/AverageResponseTime"));
        assert_eq!(row.values[TIMESTAMP], Value::Integer(TIME_FROM + 10));
        for number in 1..=100 {
            let row = data(100).record(number);
            let [Value::Integer(value), Value::Integer(min), Value::Integer(max)] =
                &row.values[2..5]
            else {
                panic!("{row:?}")
            };
            assert!(0 <= *min && min <= value && value <= max, "{row:?}");
        }
    }

    #[test]
    fn all_records_are_written_once() {
        for batch_rows in [1, 7] {
            let opening = Opening { batch_rows, ..Opening::of(Share::default()) };
            let plan = Writes::new(&data(100), &opening).unwrap();
            let mut steps = plan.steps(0);
            let mut rows = Vec::new();
            while let Some(step) = steps.next() {
                match step.request.operation {
                    Operation::Insert(row) => rows.push(row),
                    Operation::InsertMany(more) => rows.extend(more),
                    other => panic!("{other:?}"),
                }
            }
            let expected: Vec<Row> = (1..=100).map(|n| data(100).record(n)).collect();
            assert_eq!(rows, expected);
            assert_eq!(plan.row(&Value::Integer(100)), Some(expected[99].clone()));
            assert_eq!(plan.row(&Value::Integer(101)), None);
        }
        let opening = Opening::of(Share::default());
        assert!(Writes::new(&Measurements { types: 6, ..data(9) }, &opening).is_err());
        assert!(Writes::new(&data(0), &opening).is_err());
    }

    proptest! {
        #[test]
        fn answers_are_those_of_the_rows(
            records in 1u64..3000,
            hosts in 1u64..6,
            types in 1u64..4,
            metrics in 1u64..5,
            interval_s in prop::sample::select(vec![1u64, 7, 10, 400, 700]),
            turn in 0u64..50,
            seed: u64,
        ) {
            let types = types.min(hosts);
            let data = Measurements { records, hosts, types, metrics, interval_s };
            for queries in [Queries::Online, Queries::History] {
                let request = data.query(queries, turn, seed);
                let Operation::Aggregate(asked) = &request.operation else { panic!() };
                let number = |row: &Row, column: usize| match row.values[column] {
                    Value::Integer(number) => number,
                    Value::Text(_) => panic!("column {column} is a text"),
                };
                let values = (1..=records).map(|n| data.record(n)).filter(|row| {
                    asked.conditions.iter().all(|(at, value)| row.values[*at] == *value)
                        && asked.within.is_none_or(|w| w.contains(number(row, w.column)))
                }).map(|row| number(&row, asked.column));
                let values: Vec<i64> = values.collect();
                let expected = Aggregate {
                    rows: values.len() as u64,
                    value: match asked.function {
                        Function::Max => values.iter().max().copied(),
                        Function::Average if values.is_empty() => None,
                        Function::Average => Some(values.iter().sum()),
                    },
                };
                prop_assert_eq!(request.expect, Expect::Aggregate(expected));
            }
        }
    }
}
