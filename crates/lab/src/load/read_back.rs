//! After a trial: whether the store has what it acknowledged. Rows that were acknowledged, whether
//! inserted or updated, are read again and compared in all columns with what was written last, and
//! the rows of the table are counted.
//!
//! Rows that were there before a trial which writes are read again as well: a store may make room
//! by losing old ones. Where a workload scans, scans have to find acknowledged rows, too.
//!
//! Of many rows a random sample is read, so large that a store which loses or changes one row in
//! [`FOUND_ONE_IN`] is found with a probability of 99.9 %. A store that reads rows slowly gets
//! [`READ_BACK_S_MAX`] and [`BEFORE_S_MAX`], and a note says what fewer rows can find. Left out:
//! rows whose write failed, because nobody knows whether they are there, and streams, which are
//! compared as a whole.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::worker::{self, Shared};
use crate::driver::{Ability, Answer, Driver, Operation, Settle, StoreError};
use crate::results::{Line, Outcome, READ_BACK_PLANNED, READ_BACK_ROWS};
use crate::row::{Row, Schema, Value};
use crate::workload::{Earlier, WorkloadPlan, letters};

/// Among so many rows one that is lost or changed is found with a probability of 99.9 %.
const FOUND_ONE_IN: u64 = 10_000;

/// Rows that are read again, or all if there are fewer: ln(0.001) / ln(1 - 1/10,000).
pub(super) const SAMPLE_ROWS: usize = 69_075;

/// Time limit for reading acknowledged rows again.
const READ_BACK_S_MAX: u64 = 10;

/// Time limit for reading them and the rows that were there before.
const BEFORE_S_MAX: u64 = 20;

/// Scans that have to begin at an acknowledged row, and the time limit for them.
const SCANNED_MAX: usize = 200;
const SCANNED_S_MAX: u64 = 1;

/// Connections that read rows again.
const CONNECTIONS_MAX: usize = 16;

/// Rows whose loss or change is found with a probability of 99.9 % if one in so many is lost.
fn one_in(rows: usize) -> u64 {
    (rows as f64 / 1_000_f64.ln()) as u64
}

/// A random sample of the keys of acknowledged rows: those with the least hashes, so that a row
/// that is written again and again is in it only once, and with the same probability as others.
///
/// The hashes depend on a number that is drawn for each sample, and not on the seed of the run: a
/// server that knew which rows are read again could be fast by keeping these alone.
pub struct Sample {
    seed: u64,
    rows_max: usize,
    /// The greatest hash in a full sample.
    below: AtomicU64,
    keys: Mutex<BTreeMap<u64, Value>>,
}

impl Sample {
    /// Empty, for so many rows at most.
    pub fn of(rows_max: usize) -> Sample {
        Sample::seeded(rows_max, fastrand::u64(..))
    }

    fn seeded(rows_max: usize, seed: u64) -> Sample {
        let (below, keys) = (AtomicU64::new(u64::MAX), Mutex::default());
        Sample { seed: letters::mix(seed), rows_max, below, keys }
    }

    /// A row was acknowledged.
    pub fn add(&self, key: &Value) {
        let number = match key {
            Value::Integer(number) => letters::mix(*number as u64),
            Value::Text(text) => letters::number_of(text),
        };
        let hash = letters::mix(number ^ self.seed);
        if hash >= self.below.load(Ordering::Relaxed) {
            return;
        }
        let mut keys = self.keys.lock().expect("nothing panics while it remembers");
        keys.entry(hash).or_insert_with(|| key.clone());
        if keys.len() > self.rows_max {
            keys.pop_last();
            let last = keys.last_key_value().map_or(u64::MAX, |(hash, _)| *hash);
            self.below.store(last, Ordering::Relaxed);
        }
    }

    /// The keys.
    pub fn keys(&self) -> Vec<Value> {
        self.keys.lock().expect("nothing panics while it remembers").values().cloned().collect()
    }
}

/// The keys of rows that were there before a trial, but for those that it acknowledged itself: all,
/// or about `rows_max` at random.
pub fn keys_before<'a>(
    plan: &dyn WorkloadPlan,
    rows_max: usize,
    acknowledged: impl Iterator<Item = &'a Value>,
) -> Vec<Value> {
    let rows = plan.rows_before();
    let places: HashSet<u64> = match rows <= rows_max as u64 {
        true => (0..rows).collect(),
        false => (0..rows_max).map(|_| fastrand::u64(..rows)).collect(),
    };
    let known: HashSet<&Value> = acknowledged.collect();
    let keys = places.into_iter().filter_map(|place| plan.key_before(place));
    let mut keys: Vec<Value> = keys.filter(|key| !known.contains(key)).collect();
    // The time may be over before all are read.
    fastrand::shuffle(&mut keys);
    keys
}

/// The number of all rows of a table, if the store counts rows. A table of streams is not counted.
pub async fn rows_of(driver: &dyn Driver, schema: &Schema) -> Result<Option<u64>, StoreError> {
    if !driver.abilities().contains(&Ability::Count) {
        return Ok(None);
    }
    let all = Operation::Count { conditions: Vec::new() };
    match driver.connect(schema).await?.execute(&all).await {
        Ok(Answer::Count(rows)) => Ok(Some(rows)),
        Ok(_) | Err(StoreError::NotSupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a trial acknowledged, to be read back.
pub struct ReadBack(pub(super) Arc<Shared>);

/// What was read of rows of one kind.
#[derive(Default)]
struct Found {
    rows: usize,
    missing: usize,
    first_missing: Option<Value>,
    /// The rows that are right.
    kept: Earlier,
}

impl Found {
    fn merge(&mut self, other: Found) {
        self.rows += other.rows;
        self.missing += other.missing;
        self.first_missing = self.first_missing.take().or(other.first_missing);
        self.kept.merge(other.kept);
    }

    /// What a reader has to know if fewer than `planned` rows, which are `named` so, were read.
    fn note(&self, planned: usize, named: &str, within_s: u64) -> Option<Line> {
        let rows = self.rows;
        (rows < planned).then(|| Line::Note {
            text: format!(
                "{rows} of {planned} {named} were read again within {within_s} s: a loss of one in {}, not of one in {FOUND_ONE_IN}, would be found with 99.9% probability",
                one_in(rows).max(1)
            ),
        })
    }
}

/// What was read.
#[derive(Default)]
struct Read {
    acknowledged: Found,
    /// Rows that were there before the trial.
    before: Found,
    wrong: Option<String>,
    failed: Option<StoreError>,
}

impl ReadBack {
    /// Whether a row, which is right by itself, has what was acknowledged last.
    pub fn is_as_acknowledged(&self, row: &Row) -> bool {
        self.0.plan.verify_last(row).is_ok()
    }

    /// Reads rows again. The lines are for the results; there is an outcome if the store does not
    /// have what it acknowledged. The rows are for the trials after this one, which find them as
    /// they are now.
    pub async fn run(self) -> (Vec<Line>, Option<Outcome>, Earlier) {
        let (mut lines, mut kept) = (Vec::new(), Earlier::default());
        let outcome = self.check(&mut lines, &mut kept).await.unwrap_or_else(|error| {
            let message = format!("what it acknowledged cannot be read back: {error}");
            Some(Outcome::Failed { message })
        });
        // What was not answered may still be written.
        if outcome.is_some() || self.0.broken.load(Ordering::Relaxed) {
            kept = Earlier::default();
        }
        (lines, outcome, kept)
    }

    async fn check(
        &self,
        lines: &mut Vec<Line>,
        kept: &mut Earlier,
    ) -> Result<Option<Outcome>, StoreError> {
        let shared = &self.0;
        let wrong = |message: String| Ok(Some(Outcome::Wrong { message }));
        lines.extend(shared.plan.notes_at_end().into_iter().map(|text| Line::Note { text }));
        if let Err(message) = shared.plan.verdict() {
            return wrong(message);
        }
        let keys = shared.sample.keys();
        if keys.is_empty() {
            return Ok(None);
        }
        shared.driver.settle(&shared.schema, Settle::Visible).await?;
        match self.miscount().await {
            Ok(None) => {}
            Ok(Some(message)) => return wrong(message),
            Err(error) => lines.push(Line::Note {
                text: format!("its rows could not be counted after the trial: {error}"),
            }),
        }
        let planned = keys.len();
        lines.push(Line::Value { name: READ_BACK_PLANNED.to_owned(), value: planned as f64 });
        if !shared.driver.abilities().contains(&Ability::Read) {
            lines.push(Line::Value { name: READ_BACK_ROWS.to_owned(), value: 0.0 });
            lines.push(Line::Note {
                text: "it does not read rows by their keys, so none that it acknowledged was compared after the trial".to_owned(),
            });
            return Ok(None);
        }
        let scanned: Vec<Value> = match shared.plan.scans() {
            true => keys.iter().take(SCANNED_MAX).cloned().collect(),
            false => Vec::new(),
        };
        let before = keys_before(&*shared.plan, SAMPLE_ROWS, keys.iter());
        let planned_before = before.len();
        let Read { acknowledged, before, wrong: message, failed } = self.read(keys, before).await;
        let value = acknowledged.rows as f64;
        lines.push(Line::Value { name: READ_BACK_ROWS.to_owned(), value });
        if let Some(message) = message {
            return wrong(format!("read again after the trial: {message}"));
        }
        if let Found { rows, missing, first_missing: Some(key), .. } = &acknowledged {
            return wrong(format!(
                "{missing} of {rows} acknowledged rows that were read again after the trial are missing, as the row {key}"
            ));
        }
        if let Found { rows, missing, first_missing: Some(key), .. } = &before {
            return wrong(format!(
                "{missing} of {rows} rows that were there before the trial and were read again after it are missing, as the row {key}"
            ));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some(message) = self.miss(scanned).await? {
            return wrong(format!("scanned again after the trial: {message}"));
        }
        lines.extend(acknowledged.note(planned, "acknowledged rows", READ_BACK_S_MAX));
        let named = "rows that were there before the trial";
        lines.extend(before.note(planned_before, named, BEFORE_S_MAX));
        *kept = acknowledged.kept;
        kept.merge(before.kept);
        Ok(None)
    }

    /// How the number of rows differs from what it should be, if that is known.
    async fn miscount(&self) -> Result<Option<String>, StoreError> {
        let shared = &self.0;
        let Some(before) = shared.rows_before else { return Ok(None) };
        let Some(found) = rows_of(&*shared.driver, &shared.schema).await? else { return Ok(None) };
        let inserted = shared.inserted.load(Ordering::Relaxed);
        let loaded = shared.plan.rows_before();
        if before > loaded {
            // An earlier trial may have inserted the same rows, or the store counts what is not
            // there: it has to have those that were loaded, and those of this trial.
            let least = loaded + inserted;
            return Ok((found < least).then(|| {
                format!(
                    "it counts {found} rows after the trial, expected at least {least}: the {loaded} that were loaded, and those that it acknowledged"
                )
            }));
        }
        let least = before + inserted;
        let most = least + shared.unanswered.load(Ordering::Relaxed);
        Ok((!(least..=most).contains(&found)).then(|| {
            format!(
                "it counts {found} rows after the trial, expected {least}: the {before} that were there, and those that it acknowledged"
            )
        }))
    }

    /// Scans from acknowledged rows on, each of which has to be the first of its scan: what a read
    /// finds by its key may be missing in an index, or be older there.
    async fn miss(&self, keys: Vec<Value>) -> Result<Option<String>, StoreError> {
        if keys.is_empty() {
            return Ok(None);
        }
        let shared = &self.0;
        let until = Instant::now() + Duration::from_secs(SCANNED_S_MAX);
        let mut session = worker::connect(&*shared.driver, &shared.schema, &shared.store).await?;
        for key in keys {
            if Instant::now() >= until {
                break;
            }
            let scan = Operation::Scan { from: key.clone(), rows_max: 1 };
            let what = match session.execute(&scan).await? {
                Answer::Rows(rows) => match rows.first() {
                    Some(row) if row.key == key => match shared.plan.verify_last(row) {
                        Ok(()) => continue,
                        Err(what) => what,
                    },
                    Some(row) => format!(
                        "the row {key} was acknowledged, and a scan from it begins at row {}",
                        row.key
                    ),
                    None => format!("the row {key} was acknowledged, and a scan from it is empty"),
                },
                other => format!("scan from row {key}: got {other:?}"),
            };
            return Ok(Some(what));
        }
        Ok(None)
    }

    /// Reads rows that were acknowledged, and then those that were there before.
    async fn read(&self, keys: Vec<Value>, before: Vec<Value>) -> Read {
        let shared = &self.0;
        let from = Instant::now();
        let connections = CONNECTIONS_MAX.min(shared.threads.max(1) as usize);
        let before = before.into_iter().map(|key| (key, true));
        let keys = keys.into_iter().map(|key| (key, false)).chain(before);
        let keys = Arc::new(Mutex::new(keys));
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let (shared, keys) = (shared.clone(), keys.clone());
            let take = move || keys.lock().expect("nothing panics while it takes").next();
            tasks.spawn(async move {
                let mut read = Read::default();
                read.failed = read.all(&shared, take, from).await.err();
                read
            });
        }
        let mut all = Read::default();
        while let Some(one) = tasks.join_next().await {
            let one = one.expect("it does not panic");
            all.acknowledged.merge(one.acknowledged);
            all.before.merge(one.before);
            all.wrong = all.wrong.or(one.wrong);
            all.failed = all.failed.or(one.failed);
        }
        all
    }
}

impl Read {
    /// Reads keys until there are no more; those beyond the time limit are left out. Each comes
    /// with whether its row was there before the trial.
    async fn all(
        &mut self,
        shared: &Shared,
        take: impl Fn() -> Option<(Value, bool)>,
        from: Instant,
    ) -> Result<(), StoreError> {
        let mut session = worker::connect(&*shared.driver, &shared.schema, &shared.store).await?;
        while self.wrong.is_none()
            && let Some((key, was_before)) = take()
        {
            let limit_s = if was_before { BEFORE_S_MAX } else { READ_BACK_S_MAX };
            if from.elapsed() >= Duration::from_secs(limit_s) {
                continue;
            }
            let answer = session.execute(&Operation::Read { key: key.clone() }).await?;
            self.judge(&*shared.plan, key, was_before, &answer);
        }
        Ok(())
    }

    fn judge(&mut self, plan: &dyn WorkloadPlan, key: Value, was_before: bool, answer: &Answer) {
        let found = if was_before { &mut self.before } else { &mut self.acknowledged };
        found.rows += 1;
        match answer {
            Answer::Row(Some(row)) if row.key == key => {
                let right = match was_before {
                    true => plan.verify_before(row),
                    false => plan.verify_last(row),
                };
                match right {
                    Ok(()) => found.kept.add(row),
                    Err(what) => self.wrong = Some(what),
                }
            }
            Answer::Row(None) => {
                found.missing += 1;
                found.first_missing.get_or_insert(key);
            }
            other => self.wrong = Some(format!("row {key}: got {other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sending::Share;
    use crate::workload::{Opening, Phase, Workload, ycsb};

    #[test]
    fn rows_of_before_are_all_or_some_without_those_of_the_trial() {
        let mut properties = ycsb::parse("core=d\nrecordcount=1000");
        ycsb::expand(&mut properties).unwrap();
        let workload = Workload::Ycsb { phase: Phase::Run, properties };
        let schema = workload.schema().unwrap();
        let plan = workload.plan(&schema, &Opening::of(Share::default())).unwrap();
        let known = [plan.key_before(5).unwrap()];
        let all = keys_before(&*plan, 1_000, known.iter());
        assert_eq!(all.len(), 999);
        assert!(!all.contains(&known[0]));
        // A hundred draws, of which a few are of the same row.
        let some = keys_before(&*plan, 100, std::iter::empty());
        assert!((80..=100).contains(&some.len()), "{}", some.len());
        assert_eq!(plan.key_before(1_000), None);
    }

    #[test]
    fn the_sample_finds_one_lost_row_in_ten_thousand() {
        let overlooked = (1.0 - 1.0 / FOUND_ONE_IN as f64).powi(SAMPLE_ROWS as i32);
        assert!((0.000_999..=0.001).contains(&overlooked), "{overlooked}");
        assert!(one_in(SAMPLE_ROWS).abs_diff(FOUND_ONE_IN) <= 1);
    }

    #[test]
    fn every_row_is_in_the_sample_with_the_same_probability() {
        let mut of_late_rows = 0;
        for seed in 0..100 {
            let sample = Sample::seeded(100, seed);
            // The later half is written again and again.
            for key in (0..1_000).chain((500..1_000).cycle().take(5_000)) {
                sample.add(&Value::Integer(key));
            }
            let keys = sample.keys();
            assert_eq!(keys.len(), 100);
            let distinct: std::collections::BTreeSet<&Value> = keys.iter().collect();
            assert_eq!(distinct.len(), 100);
            of_late_rows += keys.iter().filter(|key| **key >= Value::Integer(500)).count();
        }
        // 10,000 draws at one half: the deviation is 50.
        assert!((4_750..5_250).contains(&of_late_rows), "{of_late_rows}");
    }

    #[test]
    fn nobody_knows_a_sample_before_it_is_read() {
        let sampled = || {
            let sample = Sample::of(100);
            (0..10_000).for_each(|key| sample.add(&Value::Integer(key)));
            sample.keys()
        };
        let (one, other) = (sampled(), sampled());
        let both = one.iter().filter(|key| other.contains(key)).count();
        // One in a hundred is in both by chance.
        assert!(both < 50, "{both} of 100 rows are in two samples of the same rows");
    }
}
