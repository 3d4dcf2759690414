//! Log lines as real systems write them, and the queries that operators ask of them, with the
//! right answers.
//!
//! [`line`] makes a line from its number; [`queries`] makes queries; [`answers`] has the right
//! answers, which it finds by going through all lines itself.

pub mod answers;
pub mod line;
pub mod queries;
pub mod samples;
pub mod vocabulary;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::writing::{Numbers, Writing};
use super::{Expect, Opening, Request, Step, Steps, WorkloadError, WorkloadPlan};
use crate::driver::search::Search;
use crate::driver::{Answer, Operation};
use crate::row::{Row, Value};
use answers::Answers;
use queries::QueryKind;

/// Lines of a table at most: their answers are found in memory.
pub const RECORDS_MAX: u64 = 1_000_000_000;

/// The slowest rate at which lines arrive: the time until the last is one that clocks can tell.
const PER_S_MIN: f64 = 0.001;

/// Queries of lines 1 to `records`, while more lines may arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// Lines in the table.
    pub records: u64,
    /// Kinds of queries, asked in turn.
    pub kinds: Vec<QueryKind>,
    /// Lines that arrive meanwhile. The queries are about those that were there before.
    #[serde(default)]
    pub arriving: Option<Arriving>,
}

/// Lines that arrive at a steady rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arriving {
    /// Lines per second.
    pub per_s: f64,
    /// Threads that write; the other threads ask.
    pub threads: u32,
    /// Queries per second: every store gets the same queries over the whole trial, none of them
    /// twice. Without a rate, a thread sends its next query when it has the answer to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries_per_s: Option<f64>,
}

fn refused(name: &str, value: impl ToString, takes: &str) -> WorkloadError {
    WorkloadError::Value {
        name: name.to_owned(),
        value: value.to_string(),
        takes: takes.to_owned(),
    }
}

fn check_records(records: u64) -> Result<(), WorkloadError> {
    match (1..=RECORDS_MAX).contains(&records) {
        true => Ok(()),
        false => Err(refused("records", records, "1 to 1,000,000,000")),
    }
}

/// The line under a key, if it is one of the first `records`.
fn row_of(records: u64, key: &Value) -> Option<Row> {
    match key {
        Value::Integer(number) if *number >= 1 && *number as u64 <= records => {
            Some(line::line(*number as u64))
        }
        _ => None,
    }
}

/// Writes the lines 1 to `records`, in their order.
pub struct Writes {
    records: u64,
    numbers: Numbers,
}

impl Writes {
    /// The share of this generator.
    pub fn new(records: u64, opening: &Opening) -> Result<Writes, WorkloadError> {
        check_records(records)?;
        Ok(Writes { records, numbers: Numbers::share(records, opening) })
    }
}

impl WorkloadPlan for Writes {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        Box::new(Writing { numbers: self.numbers.clone(), row: line::line })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        row_of(self.records, key)
    }
}

/// Asks the queries of [`Queries`].
pub struct Asking {
    queries: Queries,
    answers: Arc<Answers>,
    next: Arc<AtomicU64>,
    /// The lines that arrive.
    arriving: Numbers,
    opening: Opening,
}

impl Asking {
    /// Finds the right answers, which goes through all lines.
    pub fn new(queries: &Queries, opening: &Opening) -> Result<Asking, WorkloadError> {
        check_records(queries.records)?;
        if queries.kinds.is_empty() {
            return Err(refused("kinds", "[]", "at least one kind of query"));
        }
        if let Some(Arriving { per_s, threads, queries_per_s }) = &queries.arriving {
            if !(PER_S_MIN..=f64::MAX).contains(per_s) {
                return Err(refused("per_s", per_s, "a number from 0.001 on"));
            }
            if let Some(per_s) =
                queries_per_s.filter(|per_s| !(PER_S_MIN..=f64::MAX).contains(per_s))
            {
                return Err(refused("queries_per_s", per_s, "a number from 0.001 on"));
            }
            if *threads == 0 {
                return Err(refused("threads", threads, "1 and more threads that write"));
            }
        }
        let asked = queries::ask(queries, opening);
        Ok(Asking {
            queries: queries.clone(),
            answers: Answers::of(queries.records, asked),
            next: Arc::new(AtomicU64::new(opening.share.index.into())),
            arriving: Numbers::new(queries.records + 1, RECORDS_MAX, opening.batch_rows),
            opening: opening.clone(),
        })
    }
}

impl WorkloadPlan for Asking {
    fn steps(&self, thread: u32) -> Box<dyn Steps> {
        match &self.queries.arriving {
            Some(arriving) if thread < arriving.threads => Box::new(ArrivingSteps {
                first: self.queries.records + 1,
                per_s: arriving.per_s,
                // Lines of one generator only: others would write the same.
                ended: self.opening.share.index > 0,
                numbers: self.arriving.clone(),
                taken: None,
            }),
            arriving => Box::new(AskSteps {
                kinds: self.queries.kinds.clone(),
                answers: self.answers.clone(),
                next: self.next.clone(),
                of: self.opening.share.of.into(),
                together: arriving.is_some(),
                per_s: arriving.as_ref().and_then(|arriving| arriving.queries_per_s),
                taken: None,
            }),
        }
    }

    fn row(&self, key: &Value) -> Option<Row> {
        row_of(RECORDS_MAX, key)
    }

    fn rows_before(&self) -> u64 {
        self.queries.records
    }

    fn found(&self, search: &Search) -> Option<Answer> {
        self.answers.find(search)
    }
}

struct AskSteps {
    kinds: Vec<QueryKind>,
    answers: Arc<Answers>,
    next: Arc<AtomicU64>,
    of: u64,
    /// Whether all queries have one label, beside that of lines that arrive.
    together: bool,
    /// Queries per second, if they come at a steady rate.
    per_s: Option<f64>,
    /// The number of the next query, once it is taken.
    taken: Option<usize>,
}

impl AskSteps {
    /// The number of the next query.
    fn take(&mut self) -> usize {
        let next = || self.next.fetch_add(self.of, Ordering::Relaxed) as usize;
        *self.taken.get_or_insert_with(next)
    }
}

impl Steps for AskSteps {
    fn due(&mut self) -> Option<Duration> {
        let per_s = self.per_s?;
        let at = self.take();
        // Without a query there is nothing to wait for.
        (at < self.answers.asked().len()).then(|| Duration::from_secs_f64(at as f64 / per_s))
    }

    fn next(&mut self) -> Option<Step> {
        let at = self.take();
        self.taken = None;
        let search = self.answers.asked().get(at)?.clone();
        let label = match self.together {
            true => queries::ANY,
            false => self.kinds[at % self.kinds.len()].label(),
        };
        let operation = Operation::Search(search);
        Some(Step::one(Request { label, operation, expect: Expect::Found }))
    }
}

struct ArrivingSteps {
    first: u64,
    per_s: f64,
    ended: bool,
    numbers: Numbers,
    /// The next batch, once it is taken.
    taken: Option<Range<u64>>,
}

impl Steps for ArrivingSteps {
    fn due(&mut self) -> Option<Duration> {
        if self.taken.is_none() {
            self.taken = self.numbers.take();
        }
        // A batch is sent when its last line has come.
        let lines = self.taken.as_ref()?.end - self.first;
        Some(Duration::from_secs_f64(lines as f64 / self.per_s))
    }

    fn next(&mut self) -> Option<Step> {
        self.due();
        let batch = self.taken.take()?;
        (!self.ended).then(|| Step::one(self.numbers.insert(batch, line::line)))
    }
}

#[cfg(test)]
mod tests;
