//! The real-time experiment of the 2015 study: log records with one time stamp, or log lines of one
//! host, are written at a steady rate; from the last acknowledgement on they are counted
//! repeatedly, until all are found.
//!
//! The delay is the time from the last acknowledgement to the answer that counts all records, so it
//! includes at least one count. A store that does not show all of them after the last count has no
//! delay, and a note says so: that is its result and not a wrong answer. More records than were
//! written are a wrong answer, and so are counted records that are not found when they are read
//! right after that. The table is created again for each trial, which corresponds to the
//! study's "deleted in preparation for the next run".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{Duration, Instant, sleep_until};

use super::LineSender;
use super::worker::Shared;
use crate::driver::{Answer, Operation, Session, StoreError};
use crate::results::{Line, Outcome};
use crate::row::{Row, Schema, Value};
use crate::trial::RealTime;
use crate::workload::writing::{Numbers, Writing};
use crate::workload::{Request, Step, Steps, WorkloadPlan, lines, logs};

/// The time stamp of all records: later than all others.
const TIMESTAMP: i64 = 1_500_000_000;

/// The host of all log lines: no other line has it.
const HOST: &str = "tail";

/// The written rows, which have one value in common.
#[derive(Clone)]
struct Rows {
    records: u64,
    /// Whether they are log lines, rather than log records of the study.
    lines: bool,
}

impl Rows {
    /// The row of a number, from 1.
    fn row(&self, number: u64) -> Row {
        let mut row = match self.lines {
            true => lines::line::line(number),
            false => logs::record(&logs::cycles(self.records), number),
        };
        let (column, value) = self.common();
        row.values[column] = value;
        row
    }

    /// The column and the value that all rows have.
    fn common(&self) -> (usize, Value) {
        match self.lines {
            true => (lines::line::HOST, Value::Text(HOST.to_owned())),
            false => (logs::TIMESTAMP, Value::Integer(TIMESTAMP)),
        }
    }
}

/// Writes the rows.
pub struct Writes {
    rows: Rows,
    numbers: Numbers,
    acknowledged: Arc<AtomicU64>,
}

impl Writes {
    /// Together with the counting that follows.
    pub fn new(real: &RealTime, schema: &Schema, session: Box<dyn Session>) -> (Writes, Counting) {
        let rows = Rows { records: real.records, lines: schema.time().is_some() };
        let acknowledged = Arc::new(AtomicU64::new(0));
        let counting = Counting {
            real: real.clone(),
            common: rows.common(),
            session,
            acknowledged: acknowledged.clone(),
        };
        let numbers = Numbers::new(1, real.records + 1, real.batch_rows);
        (Writes { rows, numbers, acknowledged }, counting)
    }
}

impl WorkloadPlan for Writes {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        let (rows, numbers) = (self.rows.clone(), self.numbers.clone());
        let writing = Writing { numbers, row: move |number| rows.row(number) };
        Box::new(CountedWriting { writing, acknowledged: self.acknowledged.clone() })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        match key {
            Value::Integer(number) if (1..=self.rows.records as i64).contains(number) => {
                Some(self.rows.row(*number as u64))
            }
            _ => None,
        }
    }
}

/// Writes rows, and counts those that the store acknowledges. The label is that of single rows,
/// also for batches.
struct CountedWriting<F> {
    writing: Writing<F>,
    acknowledged: Arc<AtomicU64>,
}

impl<F> Steps for CountedWriting<F>
where
    F: Fn(u64) -> Row + Send,
{
    fn next(&mut self) -> Option<Step> {
        let insert = self.writing.next()?.request;
        Some(Step::one(Request { label: "insert", ..insert }))
    }

    fn ended(&mut self, request: &Request, acknowledged: bool) {
        let rows = match &request.operation {
            Operation::InsertMany(rows) => rows.len() as u64,
            _ => 1,
        };
        self.acknowledged.fetch_add(if acknowledged { rows } else { 0 }, Ordering::Relaxed);
    }
}

/// Counts the written records.
pub struct Counting {
    real: RealTime,
    /// The column and the value that are counted.
    common: (usize, Value),
    session: Box<dyn Session>,
    acknowledged: Arc<AtomicU64>,
}

impl Counting {
    /// Begins when everything is written, and returns the delay.
    pub async fn run(mut self, shared: Arc<Shared>, lines: LineSender) {
        let records = self.real.records;
        let missing = records - self.acknowledged.load(Ordering::Relaxed).min(records);
        if missing > 0 {
            shared.fail(format_args!(
                "{missing} of {records} records were not acknowledged, so that there is no delay until all are found"
            ));
            return;
        }
        let operation = Operation::Count { conditions: vec![self.common.clone()] };
        let written = shared.recorder.last(None).unwrap_or_else(Instant::now);
        let mut seen = 0;
        for k in 0..self.real.counts_max {
            sleep_until(written + Duration::from_secs_f64(self.real.interval_s * f64::from(k)))
                .await;
            let begun = Instant::now();
            let answer = self.session.execute(&operation).await;
            let now = Instant::now();
            match answer {
                Ok(Answer::Count(count)) => {
                    seen = if shared.imagined { records } else { count };
                    shared.recorder.right(0, "count", now, now - begun);
                }
                Ok(other) => {
                    shared.recorder.error(0, "count", now, "wrong");
                    let message =
                        format!("count of the written rows: got {other:?}, expected a count");
                    shared.end(Outcome::Wrong { message });
                    return;
                }
                Err(StoreError::NotSupported { ability, .. }) => {
                    shared.end(Outcome::NotSupported { ability: ability.name().to_owned() });
                    return;
                }
                Err(error @ StoreError::Unreachable { .. }) => {
                    shared.recorder.error(0, "count", now, error.kind());
                    shared.fail(format_args!(
                        "{error}. Start {} again, and resume with --retry-failed",
                        shared.store
                    ));
                    return;
                }
                Err(error) => shared.recorder.error(0, "count", now, error.kind()),
            }
            if seen > records {
                let message = format!(
                    "count of the written rows: got {seen} rows, expected {records} at most"
                );
                shared.end(Outcome::Wrong { message });
                return;
            }
            if seen == records {
                shared.has_all.store(true, Ordering::Relaxed);
                let value = (now - written).as_secs_f64() * 1000.0;
                let _ = lines.send(Line::Value { name: "delay_ms".to_owned(), value }).await;
                return;
            }
        }
        let text = format!(
            "{} showed {seen} of {records} records after {} counts: its delay is longer than that",
            shared.store, self.real.counts_max
        );
        let _ = lines.send(Line::Note { text }).await;
        let value = seen as f64;
        let _ = lines.send(Line::Value { name: "found_records".to_owned(), value }).await;
    }
}
