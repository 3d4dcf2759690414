//! The log records of the 2015 study, and the workloads that insert them one by one and read them
//! by key.
//!
//! Record number n (from 1; n is its key) has the columns of table 3.1: a time stamp of 10 digits,
//! a machine and a service of 30 letters, a severity from 0 to 7 and a message of 255 letters. The
//! first four are cyclic ([`History`]); the message is derived from the number. Nothing depends on
//! a seed, so any trial knows the data that another wrote.

use super::writing::{Numbers, Writing};
use super::{Expect, History, Opening, Request, Step, Steps, WorkloadError, WorkloadPlan, letters};
use crate::driver::Operation;
use crate::row::{Column, ColumnKind, Row, Schema, Value};

/// The first time stamp of the cycle.
pub const TIMESTAMP_FROM: i64 = 1_400_000_000;

/// The cycle of severities: 0 and 1 once; 2, 6 and 7 twice; 4 three times; 3 and 5 four times.
pub const SEVERITIES: [i64; 19] = [3, 5, 4, 3, 5, 2, 6, 3, 5, 4, 7, 3, 5, 0, 4, 2, 6, 1, 7];

/// Letters of a machine's and of a service's name.
const NAME_LETTERS: usize = 30;

/// Letters of a name that encode its number.
const NUMBER_LETTERS: usize = 6;

/// Letters of a message.
const MESSAGE_LETTERS: usize = 255;

/// Indexes of the columns in [`schema`].
pub const TIMESTAMP: usize = 0;
/// See [`TIMESTAMP`].
pub const MACHINE: usize = 1;
/// See [`TIMESTAMP`].
pub const SERVICE: usize = 2;
/// See [`TIMESTAMP`].
pub const SEVERITY: usize = 3;

/// The table of log records.
pub fn schema(table: &str, indexed: bool) -> Schema {
    let column = |name: &str, kind, indexed| Column::new(name, kind, indexed);
    Schema {
        table: table.to_owned(),
        key: ColumnKind::Integer,
        columns: vec![
            column("timestamp", ColumnKind::Integer, indexed),
            column("machine", ColumnKind::Text, indexed),
            column("service", ColumnKind::Text, indexed),
            column("severity", ColumnKind::Integer, indexed),
            column("message", ColumnKind::Text, false),
        ],
    }
}

/// The name of a machine.
pub fn machine(number: u64) -> Value {
    name(0x6d61_6368, number)
}

/// The name of a service.
pub fn service(number: u64) -> Value {
    name(0x7365_7276, number)
}

fn name(kind: u64, number: u64) -> Value {
    let mut text = String::with_capacity(NAME_LETTERS);
    letters::push(
        &mut text,
        letters::mix(kind).wrapping_add(number),
        NAME_LETTERS - NUMBER_LETTERS,
    );
    letters::push_number(&mut text, number, NUMBER_LETTERS);
    Value::Text(text)
}

/// The record with number `number`, from 1.
pub fn record(history: &History, number: u64) -> Row {
    let n = number - 1;
    let mut message = String::with_capacity(MESSAGE_LETTERS);
    letters::push(&mut message, letters::mix(n), MESSAGE_LETTERS);
    Row {
        key: Value::Integer(number as i64),
        values: vec![
            Value::Integer(TIMESTAMP_FROM + (n % history.timestamps) as i64),
            machine(n % history.machines),
            service(n % history.services),
            Value::Integer(SEVERITIES[(n % SEVERITIES.len() as u64) as usize]),
            Value::Text(message),
        ],
    }
}

/// The cycles of plain log records: those of the historical data at the paper's scale.
pub fn cycles(records: u64) -> History {
    History { records, timestamps: 1009, machines: 23, services: 17 }
}

/// Inserts records in the order of their keys; each generator inserts its part of the range.
pub struct Writes {
    history: History,
    numbers: Numbers,
}

impl Writes {
    /// This generator's part of the records 1 to `history.records`.
    pub fn new(history: &History, opening: &Opening) -> Result<Writes, WorkloadError> {
        super::history::check_cycles(history)?;
        let numbers = Numbers::share(history.records, opening);
        Ok(Writes { history: history.clone(), numbers })
    }
}

impl WorkloadPlan for Writes {
    fn steps(&self, _thread: u32) -> Box<dyn Steps> {
        let (numbers, history) = (self.numbers.clone(), self.history.clone());
        Box::new(Writing { numbers, row: move |number| record(&history, number) })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        row_of(&self.history, key)
    }
}

/// The record under a key.
pub fn row_of(history: &History, key: &Value) -> Option<Row> {
    match key {
        Value::Integer(number) if *number >= 1 && *number as u64 <= history.records => {
            Some(record(history, *number as u64))
        }
        _ => None,
    }
}

/// Reads records with random keys.
pub struct Reads {
    history: History,
    opening: Opening,
}

impl Reads {
    /// Over the records 1 to `records`.
    pub fn new(records: u64, opening: &Opening) -> Result<Reads, WorkloadError> {
        let history = cycles(records);
        super::history::check_cycles(&history)?;
        Ok(Reads { history, opening: opening.clone() })
    }
}

impl WorkloadPlan for Reads {
    fn steps(&self, thread: u32) -> Box<dyn Steps> {
        Box::new(ReadSteps { records: self.history.records, random: self.opening.random(thread) })
    }

    fn row(&self, key: &Value) -> Option<Row> {
        row_of(&self.history, key)
    }
}

struct ReadSteps {
    records: u64,
    random: fastrand::Rng,
}

impl Steps for ReadSteps {
    fn next(&mut self) -> Option<Step> {
        let key = Value::Integer(self.random.u64(1..=self.records) as i64);
        Some(Step::one(Request {
            label: "read",
            operation: Operation::Read { key },
            expect: Expect::Row { loaded: true },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sending::Share;

    #[test]
    fn records_have_the_form_of_the_study() {
        for number in [1, 2, 1009, 1010, 7_495_861] {
            let row = record(&cycles(7_495_861), number);
            assert_eq!(row.values[TIMESTAMP].to_string().len(), 10);
            assert_eq!(row.values[MACHINE].to_string().len(), 30);
            assert_eq!(row.values[SERVICE].to_string().len(), 30);
            assert_eq!(row.values[SEVERITY].to_string().len(), 1);
            assert_eq!(row.values[4].to_string().len(), 255);
            let schema = schema("logs", true);
            assert_eq!(row.values.len(), schema.columns.len());
            assert!(row.values.iter().zip(&schema.columns).all(|(v, c)| v.kind() == c.kind));
        }
    }

    #[test]
    fn severities_are_those_of_the_study() {
        let times = |severity| SEVERITIES.iter().filter(|s| **s == severity).count();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(times), [1, 1, 2, 4, 3, 4, 2, 2]);
    }

    #[test]
    fn threads_and_generators_write_every_record_once() {
        for (records, of, threads, batch_rows) in
            [(100, 1, 3, 1), (101, 4, 2, 1), (1000, 3, 2, 7), (5, 8, 1, 100)]
        {
            let mut keys = Vec::new();
            for index in 0..of {
                let opening = Opening { batch_rows, ..Opening::of(Share { index, of }) };
                let plan = Writes::new(&cycles(records), &opening).unwrap();
                let mut steps: Vec<_> = (0..threads).map(|t| plan.steps(t)).collect();
                'generator: loop {
                    for steps in &mut steps {
                        match steps.next().map(|step| step.request.operation) {
                            Some(Operation::Insert(row)) => keys.push(row.key),
                            Some(Operation::InsertMany(rows)) => {
                                assert!(rows.len() <= batch_rows as usize);
                                keys.extend(rows.into_iter().map(|row| row.key));
                            }
                            Some(other) => panic!("{other:?}"),
                            None => break 'generator,
                        }
                    }
                }
            }
            keys.sort();
            assert_eq!(keys, (1..=records as i64).map(Value::Integer).collect::<Vec<_>>());
        }
    }

    #[test]
    fn reads_stay_within_the_records_and_depend_on_the_thread() {
        let plan = Reads::new(10, &Opening::of(Share::default())).unwrap();
        let keys = |thread| {
            let mut steps = plan.steps(thread);
            let all: Vec<_> = (0..200)
                .map(|_| match steps.next().unwrap().request.operation {
                    Operation::Read { key } => key,
                    other => panic!("{other:?}"),
                })
                .collect();
            all
        };
        assert!((1..=10).all(|n| keys(0).contains(&Value::Integer(n))));
        assert!(keys(0).iter().all(|key| plan.row(key).is_some()));
        assert_eq!(keys(0), keys(0));
        assert_ne!(keys(0), keys(1));
    }
}
