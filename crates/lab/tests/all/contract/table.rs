//! A table whose rows are also kept here, for comparison with the answers of a store.

use std::collections::BTreeMap;

use lab::driver::aggregate::{Aggregate, Aggregation};
use lab::driver::{Answer, Driver, Operation, Session, Settle, StoreError};
use lab::row::{Column, ColumnKind, Row, Schema, Value};

/// Texts that can break stores, their languages and their protocols.
const TEXTS: &[&str] = &[
    "",
    " ",
    "plain",
    "o'Neil said \"no\" \\ to `it`",
    "{\"a\":[1,null]} $1 ? %s %% ; -- /* */ <b>&amp;",
    "Příliš žluťoučký kůň 🐎 ﷽ \u{202e}",
    "null",
    "12",
    "first line\nsecond\r\n\ttab",
];

/// The limits of 64-bit integers, and of the integers that a double represents exactly.
const NUMBERS: &[i64] =
    &[0, -1, i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, 1_427_000_000];

/// The columns of [`Table::schema`].
pub const TIMESTAMP: usize = 0;
pub const MACHINE: usize = 1;
pub const SEVERITY: usize = 2;
pub const MESSAGE: usize = 3;

/// A table and its reference model.
pub struct Table {
    pub schema: Schema,
    pub rows: BTreeMap<Value, Row>,
}

impl Table {
    /// Log records as the 2015 study has them, for the most part.
    pub fn new(name: &str, key: ColumnKind) -> Table {
        let column = |name: &str, kind, indexed| Column::new(name, kind, indexed);
        let columns = vec![
            column("timestamp", ColumnKind::Integer, true),
            column("machine", ColumnKind::Text, true),
            column("severity", ColumnKind::Integer, true),
            column("message", ColumnKind::Text, false),
        ];
        Table { schema: Schema { table: name.to_owned(), key, columns }, rows: BTreeMap::new() }
    }

    /// Rows with few different values in the columns that counts filter by, and difficult values in
    /// all others. Not written yet.
    pub fn random_rows(&self, random: &mut fastrand::Rng, rows: u64) -> Vec<Row> {
        let mut row = |at: u64| {
            let key = match (self.schema.key, TEXTS.get(at as usize)) {
                (ColumnKind::Integer, _) => Value::Integer(at as i64 - rows as i64 / 2),
                // No key is empty or has a line break.
                (ColumnKind::Text, Some(text)) if !text.contains('\n') => {
                    text_value(&format!("x{text}"))
                }
                (ColumnKind::Text, _) => text_value(&format!("user{at:05}")),
            };
            let message = match TEXTS.get(random.usize(..TEXTS.len() * 2)) {
                Some(text) => (*text).to_owned(),
                None => std::iter::repeat_with(|| random.alphanumeric()).take(255).collect(),
            };
            let machine = TEXTS[random.usize(2..6)];
            let values = vec![
                Value::Integer(NUMBERS[random.usize(..NUMBERS.len())]),
                text_value(machine),
                Value::Integer(random.i64(0..8)),
                Value::Text(message),
            ];
            Row { key, values }
        };
        (0..rows).map(&mut row).collect()
    }

    /// Records that these rows are in the store.
    pub fn add(&mut self, rows: &[Row]) {
        self.rows.extend(rows.iter().map(|row| (row.key.clone(), row.clone())));
    }

    /// Rows in which each column has the value.
    pub fn count(&self, conditions: &[(usize, Value)]) -> u64 {
        let holds = |row: &&Row| conditions.iter().all(|(column, v)| row.values[*column] == *v);
        self.rows.values().filter(holds).count() as u64
    }

    /// Conditions on 0 to 3 of the columns that counts filter by; mostly with values of an existing
    /// row.
    pub fn random_conditions(&self, random: &mut fastrand::Rng) -> Vec<(usize, Value)> {
        let mut columns = [TIMESTAMP, MACHINE, SEVERITY];
        random.shuffle(&mut columns);
        let row = self.rows.values().nth(random.usize(..self.rows.len())).expect("a row");
        let mut value = |column: usize| match (random.u8(..8), column) {
            (0, MACHINE) => text_value("nowhere"),
            (0, _) => Value::Integer(-77),
            _ => row.values[column].clone(),
        };
        let mut conditions: Vec<_> =
            columns.iter().map(|column| (*column, value(*column))).collect();
        conditions.truncate(random.usize(0..=3));
        conditions
    }
}

impl Table {
    /// The right answer to an aggregation.
    pub fn aggregate(&self, asked: &Aggregation) -> Aggregate {
        let number = |row: &Row, column: usize| match row.values[column] {
            Value::Integer(number) => number,
            Value::Text(_) => panic!("column {column} is a text"),
        };
        let fits = |row: &&Row| {
            asked.conditions.iter().all(|(column, value)| row.values[*column] == *value)
                && asked.within.is_none_or(|w| w.contains(number(row, w.column)))
        };
        let values = self.rows.values().filter(fits).map(|row| number(row, asked.column));
        let parts = values.map(|value| Aggregate { rows: 1, value: Some(value) });
        asked.function.merge_all(parts).expect("severities are small")
    }
}

pub fn text_value(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// One connection, with answers unwrapped from their enum.
pub struct Client(pub Box<dyn Session>);

impl Client {
    pub async fn new(driver: &dyn Driver, table: &Table) -> Client {
        Client(driver.connect(&table.schema).await.expect("connects"))
    }

    pub async fn ask(&mut self, operation: Operation) -> Result<Answer, StoreError> {
        self.0.execute(&operation).await
    }

    pub async fn done(&mut self, operation: Operation) {
        let answer = self.ask(operation.clone()).await;
        assert!(matches!(answer, Ok(Answer::Done)), "{operation:?}: {answer:?}");
    }

    pub async fn read(&mut self, key: &Value) -> Option<Row> {
        match self.ask(Operation::Read { key: key.clone() }).await {
            Ok(Answer::Row(row)) => row,
            other => panic!("read of {key:?}: {other:?}"),
        }
    }

    pub async fn count(&mut self, conditions: &[(usize, Value)]) -> u64 {
        match self.ask(Operation::Count { conditions: conditions.to_vec() }).await {
            Ok(Answer::Count(count)) => count,
            other => panic!("count of {conditions:?}: {other:?}"),
        }
    }

    pub async fn aggregate(&mut self, asked: &Aggregation) -> Aggregate {
        match self.ask(Operation::Aggregate(asked.clone())).await {
            Ok(Answer::Aggregate(result)) => result,
            other => panic!("{asked:?}: {other:?}"),
        }
    }

    pub async fn scan(&mut self, from: &Value, rows_max: usize) -> Vec<Row> {
        match self.ask(Operation::Scan { from: from.clone(), rows_max }).await {
            Ok(Answer::Rows(rows)) => rows,
            other => panic!("scan from {from:?}: {other:?}"),
        }
    }
}

pub async fn settle(driver: &dyn Driver, table: &Table, settle: Settle) {
    driver.settle(&table.schema, settle).await.unwrap_or_else(|e| panic!("{settle:?}: {e}"));
}
