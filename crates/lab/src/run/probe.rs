//! Before its first trial a store is asked on a small table of its own: the same requests, in the
//! same words, before and after the data changes.
//!
//! The queries of studies have answers that stay right as long as their data stays. So a store that
//! remembers answers by the text of a query would be fast and right; here its answers are wrong,
//! and none of its trials has a number. Left out: functions over rows and regular expressions,
//! whose answers come from the same rows.

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
    let Asked { schema, wrong, .. } = asked;
    driver.create(&schema).await?;
    Ok(wrong)
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
        let host = (line::HOST, Value::Text(HOST.to_owned()));
        let search =
            Search { text: None, equals: vec![host.clone()], time: None, wanted: Wanted::Count };
        let found = rows.iter().find(|row| row.key == *key).cloned();
        let count = Answer::Count(rows.len() as u64);
        let requests = [
            (Operation::Read { key: key.clone() }, Answer::Row(found)),
            (Operation::Count { conditions: vec![host] }, count.clone()),
            (Operation::Search(search), count),
        ];
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
            let from = rows[0].key.clone();
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
