//! The real-time experiment of the 2015 study: log records with one time stamp are written at a
//! steady rate; from the last acknowledgement on they are counted repeatedly, until all are found.
//!
//! The delay is the time from the last acknowledgement to the answer that counts all records, so it
//! includes at least one count. A store that does not show all of them after the last count has no
//! delay, and a note says so: that is its result and not a wrong answer. More records than were
//! written are a wrong answer. The table is created again for each trial, which corresponds to the
//! study's "deleted in preparation for the next run".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{Duration, Instant, sleep_until};

use super::Lines;
use super::worker::Shared;
use crate::driver::{Answer, Operation, Session, StoreError};
use crate::results::{Line, Outcome};
use crate::row::{Row, Value};
use crate::trial::RealTime;
use crate::workload::{Expect, Plan, Request, Step, Steps, logs};

/// The time stamp of all records: later than all others.
const TIMESTAMP: i64 = 1_500_000_000;

/// What is written.
pub struct Writes {
    records: u64,
    next: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
}

impl Writes {
    /// Together with the counting that follows.
    pub fn new(real: &RealTime, session: Box<dyn Session>) -> (Writes, Counting) {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let next = Arc::new(AtomicU64::new(1));
        let writes = Writes { records: real.records, next, acknowledged: acknowledged.clone() };
        (writes, Counting { real: real.clone(), session, acknowledged })
    }
}

/// The record of a number.
fn record(records: u64, number: u64) -> Row {
    let mut row = logs::record(&logs::cycles(records), number);
    row.values[logs::TIMESTAMP] = Value::Integer(TIMESTAMP);
    row
}

impl Plan for Writes {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        Box::new(WriteSteps {
            records: self.records,
            next: self.next.clone(),
            acknowledged: self.acknowledged.clone(),
        })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        match key {
            Value::Integer(number) if (1..=self.records as i64).contains(number) => {
                Some(record(self.records, *number as u64))
            }
            _ => None,
        }
    }
}

struct WriteSteps {
    records: u64,
    next: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
}

impl Steps for WriteSteps {
    fn next(&mut self) -> Option<Step> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number <= self.records).then(|| {
            Step::one(Request {
                label: "insert",
                operation: Operation::Insert(record(self.records, number)),
                expect: Expect::Done,
            })
        })
    }

    fn ended(&mut self, _request: &Request, acknowledged: bool) {
        self.acknowledged.fetch_add(u64::from(acknowledged), Ordering::Relaxed);
    }
}

/// Counts the written records.
pub struct Counting {
    real: RealTime,
    session: Box<dyn Session>,
    acknowledged: Arc<AtomicU64>,
}

impl Counting {
    /// Begins when everything is written, and returns the delay.
    pub async fn run(mut self, shared: Arc<Shared>, lines: Lines) {
        let records = self.real.records;
        let missing = records - self.acknowledged.load(Ordering::Relaxed).min(records);
        if missing > 0 {
            shared.fail(format_args!(
                "{missing} of {records} records were not acknowledged, so that there is no delay until all are found"
            ));
            return;
        }
        let conditions = vec![(logs::TIMESTAMP, Value::Integer(TIMESTAMP))];
        let operation = Operation::Count { conditions };
        let written = shared.recorder.last().unwrap_or_else(Instant::now);
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
                        format!("count of one time stamp: got {other:?}, expected a count");
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
                let message =
                    format!("count of one time stamp: got {seen} rows, expected {records} at most");
                shared.end(Outcome::Wrong { message });
                return;
            }
            if seen == records {
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
