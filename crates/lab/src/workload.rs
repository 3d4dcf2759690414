//! The operations that are sent to a store: one file for each kind of workload.
//!
//! A [`Workload`] is plain data of a definition. [`Workload::plan`] prepares it for one generator:
//! the result is a [`WorkloadPlan`], from which every thread takes its own [`Steps`]. Each step has
//! the label of the operation, the request, and the [expected](Expect) answer. Rows are a pure
//! function of their number, so that every returned row is checked in all columns ([`check`]), and
//! right answers can be made for the driver that stores nothing ([`right_answer`]).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::driver::aggregate::{Aggregate, Function};
use crate::driver::search::Search;
use crate::driver::{Ability, Answer, Operation, Scans};
use crate::row::{Row, Schema, Value};
use crate::sending::{Load, Share};
pub use ledger::Earlier;
use measurements::{Measurements, Queries};

pub mod apm;
pub mod history;
pub mod keys;
mod ledger;
pub mod letters;
pub mod lines;
pub mod logs;
pub mod measurements;
pub mod stream;
pub mod writing;
pub mod ycsb;

/// The label of a composite operation, which is measured as a whole, and again as its read and its
/// update (YCSB).
pub const READ_MODIFY_WRITE: &str = "read_modify_write";

/// A workload, as a definition names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Workload {
    /// Inserts the log records 1 to `records` of the 2015 study, in the order of their keys.
    LogWrites {
        /// Number of records.
        records: u64,
    },
    /// Reads log records with uniformly random keys from 1 to `records`, and checks every column.
    LogReads {
        /// Number of records.
        records: u64,
    },
    /// Inserts records of the historical data of the 2015 study: four cycles of values with coprime
    /// lengths, so that every count is known.
    HistoryWrites(History),
    /// Runs the queries A, B and C over the historical data, with other values each time, and
    /// checks every count. Labels `query_a`, `query_b`, `query_c`.
    HistoryQueries(History),
    /// Inserts the log lines 1 to `records` of [`lines`], in their order.
    LineWrites {
        /// Number of lines.
        records: u64,
    },
    /// Asks what operators ask of the log lines 1 to `records`, and checks every answer. The labels
    /// are those of the queries.
    LineQueries(lines::Queries),
    /// Sends log lines of one size, as frames of syslog, until the time is over: see [`stream`].
    LineStream {
        /// Size of a line with its line break, bytes.
        line_bytes: u32,
    },
    /// Inserts measurements in the order of time.
    MeasurementWrites(Measurements),
    /// Asks for a maximum and an average over the last minutes of measurements, and checks every
    /// answer. Labels `max_10_min`, `average_15_min`.
    MeasurementWindows(Measurements),
    /// Asks for averages over all measurements of a metric, of one host and of all hosts of a type,
    /// and checks every answer. Labels `average_of_metric`, `average_of_type`.
    MeasurementHistory(Measurements),
    /// A workload of YCSB's core workload.
    Ycsb {
        /// The load phase inserts the records; the run phase works on them.
        phase: Phase,
        /// YCSB's properties (`recordcount`, `readproportion`, …), as in its workload files.
        properties: std::collections::BTreeMap<String, String>,
    },
    /// A workload of the 2012 study of application performance monitoring.
    Apm {
        /// The load phase inserts the records; the run phase works on them.
        phase: Phase,
        /// Rows that the load phase inserts.
        records: u64,
        /// Share of reads, %.
        read: u32,
        /// Share of scans, %.
        scan: u32,
        /// Share of inserts, %.
        insert: u32,
        /// Limit of the rows of a scan, which are 1 or more.
        scan_rows_max: u32,
    },
}

/// The historical data of the 2015 study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Records in the table; at the paper's scale the product of the four cycles.
    pub records: u64,
    /// Different time stamps.
    pub timestamps: u64,
    /// Different machines.
    pub machines: u64,
    /// Different services.
    pub services: u64,
}

/// The two phases of a workload that works on its own data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Inserts the records.
    Load,
    /// Works on them.
    Run,
}

impl Workload {
    /// The abilities that a store needs for it.
    pub fn needs(&self) -> Vec<Ability> {
        match self {
            Workload::LogWrites { .. }
            | Workload::HistoryWrites(_)
            | Workload::MeasurementWrites(_) => vec![Ability::Insert],
            Workload::MeasurementWindows(_) | Workload::MeasurementHistory(_) => {
                vec![Ability::Aggregate]
            }
            Workload::LogReads { .. } => vec![Ability::Read],
            Workload::HistoryQueries(_) => vec![Ability::Count],
            Workload::LineWrites { .. } => vec![Ability::Insert],
            Workload::LineQueries(queries) => line_needs(queries),
            Workload::LineStream { .. } => vec![Ability::Stream],
            Workload::Ycsb { phase: Phase::Load, .. }
            | Workload::Apm { phase: Phase::Load, .. } => {
                vec![Ability::Insert]
            }
            Workload::Ycsb { phase: Phase::Run, properties } => ycsb_needs(properties),
            Workload::Apm { read, scan, insert, .. } => {
                let all =
                    [(*read, Ability::Read), (*scan, Ability::Scan), (*insert, Ability::Insert)];
                all.into_iter().filter(|(share, _)| *share > 0).map(|(_, need)| need).collect()
            }
        }
    }
}

/// The parameters of a plan.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The seed of all choices; the data itself does not depend on it.
    pub seed: u64,
    /// The share of this generator.
    pub share: Share,
    /// Rows per insert.
    pub batch_rows: u32,
    /// Operations of the whole trial, if it has a limit.
    pub operations: Option<u64>,
    /// Whether a read of the store sees every write that was acknowledged before.
    pub sees_writes: bool,
    /// What the store's scans return.
    pub scans: Scans,
    /// What rows of the table have, if nothing but trials of this generator wrote to it.
    pub earlier: Option<Arc<Earlier>>,
}

impl Opening {
    /// For a share, with all other parameters as small as possible.
    pub fn of(share: Share) -> Opening {
        Opening {
            seed: 1,
            share,
            batch_rows: 1,
            operations: None,
            sees_writes: true,
            scans: Scans::InOrder,
            earlier: None,
        }
    }

    /// The random numbers of one thread.
    pub fn random(&self, thread: u32) -> fastrand::Rng {
        let place = u64::from(self.share.index) << 32 | u64::from(thread);
        fastrand::Rng::with_seed(letters::mix(self.seed ^ letters::mix(place)))
    }
}

/// A workload prepared for one generator. Its threads share state such as the next number to
/// insert.
pub trait WorkloadPlan: Send + Sync {
    /// The steps of one thread, numbered from 0.
    fn steps(&self, thread: u32) -> Box<dyn Steps>;

    /// The row under a key as it was inserted; `None` if this workload has no such row.
    fn row(&self, key: &Value) -> Option<Row>;

    /// Checks whether a returned row can be the current one of its key; the error says what is
    /// wrong.
    fn verify(&self, row: &Row) -> Result<(), String> {
        match self.row(&row.key) {
            Some(expected) => compare(row, &expected),
            None => Err(format!("there is no row {}", row.key)),
        }
    }

    /// Checks a row that is read when all operations have ended: it has what was acknowledged last.
    fn verify_last(&self, row: &Row) -> Result<(), String> {
        self.verify(row)
    }

    /// The rows that a table has before these operations, if they are new to it.
    fn rows_before(&self) -> u64 {
        0
    }

    /// The key of one of these rows, by its place from 0 on; `None` if they are not read again.
    fn key_before(&self, place: u64) -> Option<Value> {
        let _ = place;
        None
    }

    /// Checks one of these rows, which is read when all operations have ended.
    fn verify_before(&self, row: &Row) -> Result<(), String> {
        self.verify(row)
    }

    /// Whether scans are among these operations.
    fn scans(&self) -> bool {
        false
    }

    /// What the answers of a whole trial show together, and none of them alone.
    fn verdict(&self) -> Result<(), String> {
        Ok(())
    }

    /// The right answer to a search.
    fn found(&self, search: &Search) -> Option<Answer> {
        let _ = search;
        None
    }

    /// Notes on this workload for the report, for example about ignored properties.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Notes on what the trial showed, for the report.
    fn notes_at_end(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The operations of one thread, in order.
pub trait Steps: Send {
    /// When the next step is due, after the beginning of the measured part; `None` for at once. An
    /// open loop has its own schedule and does not ask.
    fn due(&mut self) -> Option<std::time::Duration> {
        None
    }

    /// The next step, or `None` when the workload is complete.
    fn next(&mut self) -> Option<Step>;

    /// Compares an answer, which is right by itself, with what the store had acknowledged when the
    /// request was made; the error says what is wrong.
    fn compare(&mut self, request: &Request, answer: &Answer) -> Result<(), String> {
        let _ = (request, answer);
        Ok(())
    }

    /// Reports whether the store acknowledged a request of these steps.
    fn ended(&mut self, request: &Request, acknowledged: bool) {
        let _ = (request, acknowledged);
    }
}

/// A step: one operation, or two that are also measured together.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Sent first.
    pub request: Request,
    /// Sent if the first was answered correctly.
    pub then: Option<Box<Then>>,
}

impl Step {
    /// A step with a single operation.
    pub fn one(request: Request) -> Step {
        Step { request, then: None }
    }
}

/// The second half of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Then {
    /// The label of both together.
    pub label: &'static str,
    /// The second operation.
    pub request: Request,
}

/// An operation and its expected answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its label in the report.
    pub label: &'static str,
    /// The request.
    pub operation: Operation,
    /// The right answer.
    pub expect: Expect,
}

/// The right answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// [`Answer::Done`].
    Done,
    /// The requested row, with the right value in every column.
    Row {
        /// Whether it existed before the trial: then it cannot be missing.
        loaded: bool,
    },
    /// At most as many rows as requested, none twice, each right in every column.
    Rows {
        /// Whether the row at which the scan starts existed before the trial: then it is the first.
        loaded: bool,
    },
    /// This number of rows.
    Count(u64),
    /// What [`WorkloadPlan::found`] says.
    Found,
    /// This result of a function.
    Aggregate(Aggregate),
}

/// The verdict on an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The answer is as expected.
    Right,
    /// A row that was acknowledged during the trial is missing: wrong, or counted as the error
    /// `missing` where the store documents that rows become visible later.
    Missing,
    /// The answer is wrong: the request, the answer, and what was expected.
    Wrong(String),
}

/// Compares an answer with what is expected.
pub fn check(plan: &dyn WorkloadPlan, request: &Request, answer: &Answer) -> Verdict {
    let wrong = |what: String| {
        Verdict::Wrong(format!("{} {}: {what}", request.label, in_words(&request.operation)))
    };
    match (request.expect, answer, &request.operation) {
        (Expect::Done, Answer::Done, _) => Verdict::Right,
        (Expect::Count(expected), Answer::Count(count), _) if expected == *count => Verdict::Right,
        (Expect::Count(expected), Answer::Count(count), _) => {
            wrong(format!("got {count} rows, expected {expected}"))
        }
        (Expect::Aggregate(expected), Answer::Aggregate(got), _) if expected == *got => {
            Verdict::Right
        }
        (Expect::Row { loaded }, Answer::Row(None), _) if !loaded => Verdict::Missing,
        (Expect::Row { .. }, Answer::Row(None), _) => wrong("got no row".to_owned()),
        (Expect::Row { .. }, Answer::Row(Some(row)), Operation::Read { key }) => {
            let right = if row.key == *key {
                plan.verify(row)
            } else {
                Err(format!("got the row {}", row.key))
            };
            right.map_or_else(wrong, |()| Verdict::Right)
        }
        (Expect::Rows { loaded }, Answer::Rows(rows), Operation::Scan { from, rows_max }) => {
            check_scan(plan, loaded, rows, from, *rows_max).map_or_else(wrong, |()| Verdict::Right)
        }
        (Expect::Found, answer, Operation::Search(search)) => match plan.found(search) {
            Some(expected) if expected == *answer => Verdict::Right,
            Some(expected) => wrong(difference(answer, &expected)),
            None => wrong("nobody knows the right answer".to_owned()),
        },
        (expected, answer, _) => wrong(format!("got {answer:?}, expected {expected:?}")),
    }
}

/// Describes how an answer to a search differs from the expected one.
fn difference(answer: &Answer, expected: &Answer) -> String {
    match (answer, expected) {
        (Answer::Count(count), Answer::Count(expected)) => {
            format!("got {count} rows, expected {expected}")
        }
        (Answer::Rows(rows), Answer::Rows(expected)) => {
            let at = rows.iter().zip(expected).position(|(row, expected)| row != expected);
            match at {
                Some(at) => compare(&rows[at], &expected[at])
                    .err()
                    .unwrap_or_else(|| format!("got the row {} at place {at}", rows[at].key)),
                None => format!("got {} rows, expected {}", rows.len(), expected.len()),
            }
        }
        (Answer::Groups(groups), Answer::Groups(expected)) => {
            let at = groups.iter().zip(expected).position(|(group, expected)| group != expected);
            match at {
                Some(at) => format!("got {:?}, expected {:?}", groups[at], expected[at]),
                None => format!("got {} groups, expected {}", groups.len(), expected.len()),
            }
        }
        (answer, expected) => format!("got {answer:?}, expected {expected:?}"),
    }
}

fn check_scan(
    plan: &dyn WorkloadPlan,
    loaded: bool,
    rows: &[Row],
    from: &Value,
    rows_max: usize,
) -> Result<(), String> {
    if rows.len() > rows_max {
        return Err(format!("got {} rows, expected at most {rows_max}", rows.len()));
    }
    if loaded && rows.first().map(|row| &row.key) != Some(from) {
        return Err(match rows.first() {
            Some(row) => format!("the first row is {}, expected {from}", row.key),
            None => format!("got no rows, expected {from}"),
        });
    }
    let mut keys = std::collections::BTreeSet::new();
    for row in rows {
        if !keys.insert(&row.key) {
            return Err(format!("the row {} came twice", row.key));
        }
        plan.verify(row)?;
    }
    Ok(())
}

/// Describes the column in which two rows differ.
fn compare(row: &Row, expected: &Row) -> Result<(), String> {
    if row.values.len() != expected.values.len() {
        return Err(format!(
            "row {} has {} columns, expected {}",
            row.key,
            row.values.len(),
            expected.values.len()
        ));
    }
    match row.values.iter().zip(&expected.values).position(|(got, expected)| got != expected) {
        None => Ok(()),
        Some(at) => Err(format!(
            "row {} has {:?} in column {at}, expected {:?}",
            row.key, row.values[at], expected.values[at]
        )),
    }
}

/// The right answer to a request, made from the workload: that of a store with the data. A scan
/// returns the row at which it starts.
pub fn right_answer(plan: &dyn WorkloadPlan, request: &Request) -> Answer {
    match (&request.operation, request.expect) {
        (Operation::Read { key }, _) => Answer::Row(plan.row(key)),
        (Operation::Scan { from, .. }, _) => Answer::Rows(plan.row(from).into_iter().collect()),
        (Operation::Count { .. }, Expect::Count(count)) => Answer::Count(count),
        (Operation::Search(search), _) => plan.found(search).unwrap_or(Answer::Done),
        (Operation::Aggregate(_), Expect::Aggregate(result)) => Answer::Aggregate(result),
        _ => Answer::Done,
    }
}

/// An operation for messages, without the contents of rows.
pub fn in_words(operation: &Operation) -> String {
    match operation {
        Operation::Insert(row) => format!("of row {}", row.key),
        Operation::InsertMany(rows) => format!("of {} rows", rows.len()),
        Operation::Read { key } | Operation::Update { key, .. } | Operation::Delete { key } => {
            format!("of row {key}")
        }
        Operation::Scan { from, rows_max } => format!("of {rows_max} rows from {from}"),
        Operation::Count { conditions } => {
            let all: Vec<_> =
                conditions.iter().map(|(at, value)| format!("column {at} = {value}")).collect();
            format!("where {}", all.join(" and "))
        }
        Operation::Search(search) => format!("for {}", search.in_words()),
        Operation::Aggregate(asked) => {
            let function = match asked.function {
                Function::Max => "max",
                Function::Average => "average",
            };
            let equal = asked.conditions.iter().map(|(at, value)| format!("column {at} = {value}"));
            let range =
                asked.within.map(|w| format!("column {} from {} to {}", w.column, w.from, w.to));
            let all: Vec<_> = equal.chain(range).collect();
            format!("{function} of column {} where {}", asked.column, all.join(" and "))
        }
        Operation::Stream(block) => format!("of {} lines", block.sum().lines),
    }
}

/// The label of inserts.
fn insert_label(operation: &Operation) -> &'static str {
    match operation {
        Operation::InsertMany(_) => "insert_many",
        _ => "insert",
    }
}

/// Why a workload of a definition cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A parameter has an invalid value.
    #[error("{name} = {value}: it takes {takes}")]
    Value {
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
        /// The valid values.
        takes: String,
    },
    /// The trial's table differs from the workload's.
    #[error(
        "the table `{table}` has other columns than this workload: use the schema of the workload"
    )]
    Schema {
        /// Name of the table.
        table: String,
    },
}

impl Workload {
    /// The table that this workload works on.
    pub fn schema(&self) -> Result<Schema, WorkloadError> {
        Ok(match self {
            Workload::LogWrites { .. } | Workload::LogReads { .. } => logs::schema("logs", false),
            Workload::HistoryWrites(_) | Workload::HistoryQueries(_) => {
                logs::schema("history", true)
            }
            Workload::LineWrites { .. }
            | Workload::LineQueries(_)
            | Workload::LineStream { .. } => lines::line::schema("lines"),
            Workload::MeasurementWrites(_)
            | Workload::MeasurementWindows(_)
            | Workload::MeasurementHistory(_) => measurements::schema(),
            Workload::Ycsb { properties, .. } => ycsb::schema(properties)?,
            Workload::Apm { .. } => ycsb::schema(&apm::properties(self)?)?,
        })
    }

    /// Prepares it for one generator. `schema` is the trial's table, which may differ from
    /// [`Workload::schema`] in its name and its indexes.
    pub fn plan(
        &self,
        schema: &Schema,
        opening: &Opening,
    ) -> Result<Box<dyn WorkloadPlan>, WorkloadError> {
        let own = self.schema()?;
        let shape = |schema: &Schema| -> Vec<_> {
            schema.columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
        };
        if shape(&own) != shape(schema) || own.key != schema.key {
            return Err(WorkloadError::Schema { table: schema.table.clone() });
        }
        Ok(match self {
            Workload::LogWrites { records } => {
                Box::new(logs::Writes::new(&logs::cycles(*records), opening)?)
            }
            Workload::LogReads { records } => Box::new(logs::Reads::new(*records, opening)?),
            Workload::HistoryWrites(history) => Box::new(logs::Writes::new(history, opening)?),
            Workload::HistoryQueries(history) => Box::new(history::Queries::new(history, opening)?),
            Workload::LineWrites { records } => Box::new(lines::Writes::new(*records, opening)?),
            Workload::LineQueries(queries) => Box::new(lines::Asking::new(queries, opening)?),
            Workload::LineStream { line_bytes } => Box::new(stream::Streams::new(*line_bytes)?),
            Workload::MeasurementWrites(data) => {
                Box::new(measurements::Writes::new(data, opening)?)
            }
            Workload::MeasurementWindows(data) => {
                Box::new(measurements::Asking::new(data, Queries::Online, opening)?)
            }
            Workload::MeasurementHistory(data) => {
                Box::new(measurements::Asking::new(data, Queries::History, opening)?)
            }
            Workload::Ycsb { phase, properties } => {
                Box::new(ycsb::Ycsb::new(*phase, properties, opening)?)
            }
            Workload::Apm { phase, .. } => {
                Box::new(ycsb::Ycsb::new(*phase, &apm::properties(self)?, opening)?)
            }
        })
    }

    /// Whether it adds rows to its table.
    pub fn inserts(&self) -> bool {
        let adds = |need: &Ability| matches!(need, Ability::Insert | Ability::Stream);
        self.needs().iter().any(adds)
    }

    /// The number of operations of all generators that ends a trial: that of the load, or the
    /// `operationcount` of a workload of YCSB if the load has none.
    pub fn operations_max(&self, load: &Load) -> Option<u64> {
        let silent = load.operations_per_thread.is_none() && load.seconds.is_none();
        load.operations.or_else(|| match self {
            Workload::Ycsb { phase: Phase::Run, properties } if silent => {
                ycsb::operation_count(properties)
            }
            _ => None,
        })
    }

    /// Expected operations of a trial of this workload, of all generators, for showing progress.
    /// `None` if only time ends it.
    pub fn operations(&self, load: &Load) -> Option<u64> {
        let rows = match self {
            Workload::LogWrites { records } | Workload::LineWrites { records } => Some(*records),
            Workload::HistoryWrites(history) => Some(history.records),
            Workload::MeasurementWrites(data) => Some(data.records),
            Workload::Ycsb { phase: Phase::Load, properties } => ycsb::load_rows(properties),
            Workload::Apm { phase: Phase::Load, records, .. } => Some(*records),
            _ => None,
        };
        let own = rows.map(|rows| rows.div_ceil(u64::from(load.batch_rows.max(1))));
        let each = load.operations_per_thread.map(|each| each.saturating_mul(load.threads.into()));
        [own, self.operations_max(load), each].into_iter().flatten().min()
    }
}

fn line_needs(queries: &lines::Queries) -> Vec<Ability> {
    let regex = queries.kinds.contains(&lines::queries::QueryKind::Regex);
    let mut needs = vec![Ability::Search];
    needs.extend(regex.then_some(Ability::Regex));
    needs.extend(queries.arriving.is_some().then_some(Ability::Insert));
    needs
}

fn ycsb_needs(properties: &std::collections::BTreeMap<String, String>) -> Vec<Ability> {
    let share = |name: &str, default: f64| {
        properties.get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
    };
    let both = share("readmodifywriteproportion", 0.0);
    let all = [
        (share("readproportion", 0.95) + both, Ability::Read),
        (share("updateproportion", 0.05) + both, Ability::Update),
        (share("insertproportion", 0.0), Ability::Insert),
        (share("scanproportion", 0.0), Ability::Scan),
    ];
    all.into_iter().filter(|(share, _)| *share > 0.0).map(|(_, need)| need).collect()
}
