//! Before its first trial a store is asked on a small table of its own: the same requests, in the
//! same words, before and after the data changes, and after the table was made again.
//!
//! The queries of studies have answers that stay right as long as their data stays. So a store that
//! remembers answers by the text of a query would be fast and right; here its answers are wrong,
//! and none of its trials has a number. Each repetition writes the same rows, so a store that keeps
//! them when it makes a table again would have nothing to do. Left out: regular expressions, whose
//! answers come from the same rows.

use std::collections::BTreeMap;

use crate::driver::aggregate::{Aggregate, Aggregation, Function};
use crate::driver::search::{Search, Wanted};
use crate::driver::{Ability, Answer, Driver, Operation, Session, Settle, StoreError};
use crate::row::{Row, Schema, Value};
use crate::workload::lines::line;

/// Name of the table, which is empty afterwards.
const TABLE: &str = "lab_probe";

/// The host of all its lines.
const HOST: &str = "probe";

/// Lines at first.
const LINES: u64 = 8;

/// The length of a bar of lines over time, ms.
const STEP_MS: i64 = 1_000;

/// Asks a store; the message says which answer is wrong.
pub async fn probe(driver: &dyn Driver) -> Result<Option<String>, StoreError> {
    let abilities = driver.abilities();
    let answers = [Ability::Read, Ability::Scan, Ability::Count, Ability::Search];
    if !abilities.contains(&Ability::Insert) || !answers.iter().any(|one| abilities.contains(one)) {
        return Ok(None);
    }
    let schema = line::schema(TABLE);
    driver.create(&schema).await?;
    let session = driver.connect(&schema).await?;
    let mut asked = Asked { driver, schema, session, wrong: None };
    asked.run().await?;
    driver.create(&asked.schema).await?;
    asked.session = driver.connect(&asked.schema).await?;
    asked.compare("after its table was made again", &[], &row(LINES + 1).key).await?;
    Ok(asked.wrong)
}

fn row(number: u64) -> Row {
    let mut row = line::line(number);
    row.values[line::HOST] = Value::Text(HOST.to_owned());
    row
}

struct Asked<'a> {
    driver: &'a dyn Driver,
    schema: Schema,
    session: Box<dyn Session>,
    wrong: Option<String>,
}

impl Asked<'_> {
    async fn run(&mut self) -> Result<(), StoreError> {
        let mut rows: Vec<Row> = (1..=LINES).map(row).collect();
        for row in &rows {
            self.session.execute(&Operation::Insert(row.clone())).await?;
        }
        let newest = row(LINES + 1);
        self.compare("at first", &rows, &newest.key).await?;
        self.session.execute(&Operation::Insert(newest.clone())).await?;
        rows.push(newest.clone());
        self.compare("after a row was inserted", &rows, &newest.key).await?;
        if self.can(Ability::Update) {
            let changed = row(LINES + 2).values[line::MESSAGE].clone();
            let (key, changes) = (newest.key.clone(), vec![(line::MESSAGE, changed.clone())]);
            self.session.execute(&Operation::Update { key, changes }).await?;
            rows[LINES as usize].values[line::MESSAGE] = changed;
            self.compare("after a row was changed", &rows, &newest.key).await?;
        }
        if self.can(Ability::Delete) {
            self.session.execute(&Operation::Delete { key: newest.key.clone() }).await?;
            rows.pop();
            self.compare("after a row was deleted", &rows, &newest.key).await?;
        }
        Ok(())
    }

    fn can(&self, ability: Ability) -> bool {
        self.driver.abilities().contains(&ability)
    }

    /// Asks about all rows, and about the row of `key`.
    async fn compare(&mut self, when: &str, rows: &[Row], key: &Value) -> Result<(), StoreError> {
        if self.wrong.is_some() {
            return Ok(());
        }
        self.driver.settle(&self.schema, Settle::Visible).await?;
        let read = Operation::Read { key: key.clone() };
        let found = rows.iter().find(|row| row.key == *key).cloned();
        let requests = std::iter::once((read, Answer::Row(found))).chain(about_all(rows));
        for (request, expected) in requests {
            if !self.can(request.ability()) {
                continue;
            }
            let got = self.session.execute(&request).await?;
            if got != expected {
                self.wrong = Some(format!(
                    "before its trials it was asked in the same words {when}: {} {}: got {got:?}, expected {expected:?}",
                    request.ability().name(),
                    crate::workload::in_words(&request),
                ));
                return Ok(());
            }
        }
        if self.can(Ability::Scan) {
            let from = rows.first().map_or(key, |row| &row.key).clone();
            let rows_max = rows.len() + 1;
            let got = self.session.execute(&Operation::Scan { from, rows_max }).await?;
            // The first row is not the first of a store with another order.
            if self.driver.scans() != crate::driver::Scans::Unordered
                && got != Answer::Rows(rows.to_vec())
            {
                self.wrong = Some(format!(
                    "before its trials it was asked in the same words {when}: scan of {rows_max} rows: it does not have the rows that are there"
                ));
            }
        }
        Ok(())
    }
}

/// Requests about all lines of the host, and their answers.
fn about_all(rows: &[Row]) -> Vec<(Operation, Answer)> {
    let host = (line::HOST, Value::Text(HOST.to_owned()));
    let groups = |of: &dyn Fn(&Row) -> Value| {
        let mut groups = BTreeMap::new();
        rows.iter().for_each(|row| *groups.entry(of(row)).or_insert(0) += 1);
        Answer::Groups(groups.into_iter().collect())
    };
    let number = |row: &Row, column: usize| match row.values[column] {
        Value::Integer(number) => number,
        Value::Text(_) => unreachable!("it is a column of integers"),
    };
    let severities = rows.iter().map(|row| number(row, line::SEVERITY));
    let sum = (!rows.is_empty()).then(|| severities.sum());
    let count = Answer::Count(rows.len() as u64);
    let bars = groups(&|row| Value::Integer(number(row, line::TIME).div_euclid(STEP_MS) * STEP_MS));
    let search = |wanted| {
        Operation::Search(Search { text: None, equals: vec![host.clone()], time: None, wanted })
    };
    vec![
        (Operation::Count { conditions: vec![host.clone()] }, count.clone()),
        (search(Wanted::Count), count),
        (
            search(Wanted::CountBy { column: line::PROGRAM }),
            groups(&|row| row.values[line::PROGRAM].clone()),
        ),
        (search(Wanted::CountOver { step_ms: STEP_MS }), bars),
        (
            search(Wanted::Latest { rows_max: LINES as usize * 2 }),
            Answer::Rows(rows.iter().rev().cloned().collect()),
        ),
        (
            Operation::Aggregate(Aggregation {
                function: Function::Average,
                column: line::SEVERITY,
                conditions: vec![host.clone()],
                within: None,
            }),
            Answer::Aggregate(Aggregate { rows: rows.len() as u64, value: sum }),
        ),
    ]
}
