//! YCSB's core workload: reads, updates, inserts, scans and read-modify-writes on records of equal
//! fields, defined by its own property files.
//!
//! Keys are `user` and a number, hashed or in order, as in YCSB. A field is a pure function of its
//! key, its index and a version that is encoded in its first letters: so values are checked whoever
//! wrote them last, without storing what was written. Which versions may be there, the
//! [`Ledger`] says, and which rows a scan has to return, [`scans`]. With `dataintegrity=true`
//! fields are YCSB's own deterministic values, which updates do not change: then a dropped update
//! cannot be found.
//!
//! Differences from YCSB: records inserted by the run are read only once they are acknowledged,
//! under every distribution, and failed inserts are never read; several generators insert different
//! keys. Left out, and refused with a message: reads of single fields, field lengths from a zipfian
//! distribution or a histogram, and retries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::keys::{self, Chooser, Records, Zipfian};
use super::ledger::{Earlier, Ledger, Seen, Version};
use super::writing::{Numbers, Writing};
use super::{
    Expect, Opening, Phase, READ_MODIFY_WRITE, Request, Step, Steps, Then, WorkloadError,
    WorkloadPlan, letters,
};
use crate::driver::{Answer, Operation, Scans};
use crate::row::{Column, ColumnKind, Row, Schema, Value};

mod properties;
mod scans;

pub use properties::{expand, parse};

use properties::{Distribution, Properties};

/// Letters of a field that encode its version, if the field has at least twice as many.
const VERSION_LETTERS: usize = 6;

/// The table of a workload.
pub fn schema(properties: &BTreeMap<String, String>) -> Result<Schema, WorkloadError> {
    let properties = Properties::new(properties)?;
    let column = |place| {
        Column::new(&format!("{}{place}", properties.field_prefix), ColumnKind::Text, false)
    };
    Ok(Schema {
        table: properties.table.clone(),
        key: ColumnKind::Text,
        columns: (0..properties.fields).map(column).collect(),
    })
}

/// A workload prepared for a generator.
pub struct Ycsb {
    data: Arc<Data>,
    phase: Phase,
    opening: Opening,
    chooser: Chooser,
    /// The records that the load phase inserts: this generator's part.
    load: Numbers,
    records: Arc<Records>,
    known: Arc<Known>,
}

/// What the store acknowledged in this trial.
struct Known {
    /// The versions of records; `None` if nothing is updated, or if versions cannot be told apart.
    ledger: Option<Ledger>,
    /// The version that the ledger's first one follows: another one in each trial and generator.
    base: u64,
    /// Whether other generators write versions that nobody here knows.
    is_shared: bool,
    /// What records had before this trial, as far as it is known.
    earlier: Option<Arc<Earlier>>,
    /// The rows of scans; `None` if there are no scans.
    scans: Option<scans::Expected>,
}

impl Known {
    fn new(phase: Phase, data: &Arc<Data>, opening: &Opening) -> Known {
        let [_, update, _, scan, both] = data.properties.shares;
        let runs = phase == Phase::Run;
        let is_shared = opening.share.of > 1;
        // Generators have ranges of versions that do not meet.
        let range = 26u64.pow(VERSION_LETTERS as u32) / u64::from(opening.share.of.max(1));
        let begins = u64::from(opening.share.index) * range;
        let expected = || scans::Expected::new(data.clone(), opening.scans, is_shared);
        Known {
            ledger: (runs && update + both > 0.0 && !data.properties.data_integrity)
                .then(Ledger::default),
            base: begins + letters::mix(opening.seed) % (range / 2).max(1),
            is_shared,
            earlier: opening.earlier.clone().filter(|_| runs && !is_shared),
            scans: (runs && scan > 0.0).then(expected),
        }
    }

    /// Compares a row, which is right by itself, with the versions that it may have.
    fn compare(&self, data: &Data, row: &Row, seen: &Seen) -> Result<(), String> {
        let Value::Text(key) = &row.key else { return Ok(()) };
        if self.ledger.is_none() && self.earlier.is_none() {
            return Ok(());
        }
        let record = letters::number_of(key);
        for (column, value) in row.values.iter().enumerate() {
            let Value::Text(field) = value else { continue };
            let earlier = self.earlier.as_ref();
            let was_there = earlier.and_then(|earlier| earlier.had(record, column, field));
            let is_right = self.ledger.as_ref().map_or(was_there != Some(false), |ledger| {
                let of = data.versions(field.len());
                let number = (data.version(key, column, field) + of - self.base % of) % of;
                let version = Version { number, of };
                ledger.allows(record, seen, column, version, was_there, self.is_shared)
            });
            if is_right {
                continue;
            }
            return Err(match seen.is_replaced(column) {
                true => format!(
                    "row {key} has an old value in column {column}, which an acknowledged update replaced: {value:?}"
                ),
                false => format!(
                    "row {key} has a value in column {column} that is not the one which it had after an earlier trial, and no update replaced that: {value:?}"
                ),
            });
        }
        Ok(())
    }

    /// What may be the value of a record now.
    fn seen(&self, key: &str) -> Seen {
        let ledger = self.ledger.as_ref();
        ledger.map_or_else(Seen::default, |ledger| ledger.seen(letters::number_of(key)))
    }

    /// Acknowledgements of updates until now.
    fn acknowledgements(&self) -> u64 {
        self.ledger.as_ref().map_or(0, Ledger::acknowledgements)
    }

    /// Compares the rows of a scan, which are right by themselves, with the versions that they may
    /// have. Left out is a row with an update that was acknowledged since the scan was sent, after
    /// so many acknowledgements: the scan may have found it before that or afterwards.
    fn compare_scanned(&self, data: &Data, rows: &[Row], since: u64) -> Result<(), String> {
        if self.ledger.is_none() && self.earlier.is_none() {
            return Ok(());
        }
        for row in rows {
            let Value::Text(key) = &row.key else { continue };
            let seen = match &self.ledger {
                Some(ledger) => ledger.seen_since(letters::number_of(key), since),
                None => Some(Seen::default()),
            };
            if let Some(seen) = seen {
                self.compare(data, row, &seen)?;
            }
        }
        Ok(())
    }
}

impl Ycsb {
    /// From its properties.
    pub fn new(
        phase: Phase,
        properties: &BTreeMap<String, String>,
        opening: &Opening,
    ) -> Result<Ycsb, WorkloadError> {
        let properties = Properties::new(properties)?;
        let (first, end) = opening.share.range(properties.insert_count);
        let start = properties.insert_start;
        let chooser = chooser(&properties, opening);
        let data = Arc::new(Data { properties });
        Ok(Ycsb {
            chooser,
            phase,
            opening: opening.clone(),
            load: Numbers::new(start + first, start + end, opening.batch_rows),
            records: Arc::new(Records::new(data.properties.records, opening.share)),
            known: Arc::new(Known::new(phase, &data, opening)),
            data,
        })
    }
}

fn chooser(properties: &Properties, opening: &Opening) -> Chooser {
    let (from, count) = (properties.insert_start, properties.insert_count);
    match properties.distribution {
        Distribution::Uniform => Chooser::Uniform { from, count },
        Distribution::Zipfian => {
            // As in YCSB: twice the expected inserts, so that the most popular records stay the
            // same.
            let operations = opening.operations.unwrap_or(properties.operations);
            let inserts = operations as f64 * properties.insert_share() * 2.0;
            let own = opening.share.part(inserts as u64);
            Chooser::zipfian(from, count + own + 1)
        }
        Distribution::Latest => Chooser::Latest { zipfian: Zipfian::new(properties.records) },
        Distribution::Hotspot { data, operations } => {
            Chooser::Hotspot { from, count, hot: (count as f64 * data) as u64, share: operations }
        }
        Distribution::Sequential => {
            // Each generator begins with its own part.
            let next = Arc::new(AtomicU64::new(opening.share.range(count).0));
            Chooser::Sequential { from, count, next }
        }
        Distribution::Exponential { percentile, fraction } => {
            Chooser::exponential(percentile, properties.records as f64 * fraction)
        }
    }
}

impl WorkloadPlan for Ycsb {
    fn steps(&self, thread: u32) -> Box<dyn Steps> {
        match self.phase {
            Phase::Load => {
                let data = self.data.clone();
                let row = move |number| data.row(data.key(number));
                Box::new(Writing { numbers: self.load.clone(), row })
            }
            Phase::Run => Box::new(RunSteps {
                data: self.data.clone(),
                records: self.records.clone(),
                chooser: self.chooser.clone(),
                scan_lengths: Zipfian::new(
                    self.data.properties.scan_max - self.data.properties.scan_min + 1,
                ),
                random: self.opening.random(thread),
                known: self.known.clone(),
                sees_writes: self.opening.sees_writes,
                scans_see_writes: self.opening.sees_writes && self.opening.scans != Scans::Late,
                inserting: None,
                updating: None,
                seen: Seen::default(),
                scan_seen: 0,
                scan_since: 0,
            }),
        }
    }

    fn row(&self, key: &Value) -> Option<Row> {
        match key {
            Value::Text(key) => Some(self.data.row(key.clone())),
            Value::Integer(_) => None,
        }
    }

    fn verify(&self, row: &Row) -> Result<(), String> {
        self.data.verify(row)
    }

    fn verify_last(&self, row: &Row) -> Result<(), String> {
        if self.known.ledger.is_none() {
            // Nothing changes a row that this trial inserted: an older version is of a table that
            // was emptied.
            return match self.row(&row.key) {
                Some(inserted) => super::compare(row, &inserted),
                None => Err(format!("there is no row {}", row.key)),
            };
        }
        self.verify_before(row)
    }

    fn rows_before(&self) -> u64 {
        match self.phase {
            Phase::Load => 0,
            Phase::Run => self.data.properties.insert_count,
        }
    }

    fn key_before(&self, place: u64) -> Option<Value> {
        let number = self.data.properties.insert_start + place;
        (place < self.rows_before()).then(|| Value::Text(self.data.key(number)))
    }

    fn verify_before(&self, row: &Row) -> Result<(), String> {
        self.data.verify(row)?;
        let Value::Text(key) = &row.key else { return Ok(()) };
        self.known.compare(&self.data, row, &self.known.seen(key))
    }

    fn scans(&self) -> bool {
        self.known.scans.is_some()
    }

    fn verdict(&self) -> Result<(), String> {
        self.known.scans.as_ref().map_or(Ok(()), scans::Expected::verdict)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.data.properties.notes.clone();
        notes.extend(self.known.scans.as_ref().and_then(scans::Expected::note));
        notes
    }

    fn notes_at_end(&self) -> Vec<String> {
        let unwatched = self.known.ledger.as_ref().map_or(0, Ledger::unwatched);
        let note = || {
            format!(
                "{unwatched} updates were of more records than the lab remembers: whether they were kept is not known"
            )
        };
        (unwatched > 0).then(note).into_iter().collect()
    }
}

/// The contents of records.
struct Data {
    properties: Properties,
}

impl Data {
    fn key(&self, number: u64) -> String {
        let number = if self.properties.hashed { keys::hash(number) } else { number };
        format!("user{number:0width$}", width = self.properties.zero_padding)
    }

    fn row(&self, key: String) -> Row {
        let values =
            (0..self.properties.fields).map(|column| Value::Text(self.field(&key, column, 0)));
        Row { values: values.collect(), key: Value::Text(key) }
    }

    /// The place of a number in the order of keys: the digits of its key as a fraction, and their
    /// number.
    fn place(&self, number: u64) -> (u128, usize) {
        /// Digits that fit into the fraction.
        const DIGITS_MAX: usize = 38;
        let number = if self.properties.hashed { keys::hash(number) } else { number };
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        // Zeros before the number do not change the order of keys that all have at least as many.
        let digits = digits.max(self.properties.zero_padding.min(DIGITS_MAX));
        (u128::from(number) * 10u128.pow((DIGITS_MAX - digits) as u32), digits)
    }

    /// The versions that a field of this length can tell apart.
    fn versions(&self, length: usize) -> u64 {
        26u64.pow(VERSION_LETTERS.min(length / 2) as u32)
    }

    /// The value of a field in a version.
    fn field(&self, key: &str, column: usize, version: u64) -> String {
        let properties = &self.properties;
        let own = letters::mix(letters::number_of(key) ^ letters::mix(column as u64));
        let length = match properties.field_length_min {
            Some(min) => min + (own % (properties.field_length - min + 1) as u64) as usize,
            None => properties.field_length,
        };
        if properties.data_integrity {
            return deterministic(key, &format!("{}{column}", properties.field_prefix), length);
        }
        let mut text = String::with_capacity(length);
        let digits = VERSION_LETTERS.min(length / 2);
        let versions = self.versions(length);
        let version = version % versions;
        letters::push_number(&mut text, (version + own) % versions, digits);
        letters::push(&mut text, own ^ letters::mix(version), length - digits);
        text
    }

    /// The version that is encoded in a field.
    fn version(&self, key: &str, column: usize, field: &str) -> u64 {
        let own = letters::mix(letters::number_of(key) ^ letters::mix(column as u64));
        let digits = VERSION_LETTERS.min(field.len() / 2);
        let versions = self.versions(field.len());
        let letters = &field.as_bytes()[..digits];
        let number = letters
            .iter()
            .rev()
            .fold(0u64, |number, letter| number * 26 + u64::from(letter.wrapping_sub(b'a')) % 26);
        (number + versions - own % versions) % versions
    }

    fn verify(&self, row: &Row) -> Result<(), String> {
        let Value::Text(key) = &row.key else {
            return Err(format!("there is no row {}", row.key));
        };
        if row.values.len() != self.properties.fields {
            let (got, expected) = (row.values.len(), self.properties.fields);
            return Err(format!("row {key} has {got} columns, expected {expected}"));
        }
        for (column, value) in row.values.iter().enumerate() {
            let expected = match value {
                Value::Text(field) => self.field(key, column, self.version(key, column, field)),
                Value::Integer(_) => self.field(key, column, 0),
            };
            if !matches!(value, Value::Text(field) if *field == expected) {
                return Err(format!(
                    "row {key} has {value:?} in column {column}, expected a value as {expected:?}"
                ));
            }
        }
        Ok(())
    }
}

/// YCSB's value for checking: the key and the name of the field, followed by hashes of the text so
/// far.
fn deterministic(key: &str, field: &str, length: usize) -> String {
    // Java's String.hashCode, continued from its previous value.
    let hash = |hash: i32, text: &str| {
        text.bytes().fold(hash, |h, byte| h.wrapping_mul(31).wrapping_add(i32::from(byte)))
    };
    let mut text = format!("{key}:{field}");
    let mut hashed = hash(0, &text);
    while text.len() < length {
        text.push(':');
        hashed = hash(hashed, ":");
        let more = hashed.to_string();
        hashed = hash(hashed, &more);
        text.push_str(&more);
    }
    text.truncate(length);
    text
}

struct RunSteps {
    data: Arc<Data>,
    records: Arc<Records>,
    chooser: Chooser,
    scan_lengths: Zipfian,
    random: fastrand::Rng,
    known: Arc<Known>,
    sees_writes: bool,
    /// Whether a scan finds every update that was acknowledged before.
    scans_see_writes: bool,
    inserting: Option<u64>,
    /// The record and the version of the update that is in flight.
    updating: Option<(u64, u32)>,
    /// What the read that is in flight may find.
    seen: Seen,
    /// What the scan that is in flight has to find.
    scan_seen: u64,
    /// The acknowledgements of updates when it was sent.
    scan_since: u64,
}

impl Steps for RunSteps {
    fn next(&mut self) -> Option<Step> {
        let [read, update, insert, scan, both] = self.data.properties.shares;
        let mut at = self.random.f64() * (read + update + insert + scan + both);
        let mut is = |share: f64| {
            at -= share;
            at < 0.0 && share > 0.0
        };
        Some(if is(read) {
            Step::one(self.read())
        } else if is(update) {
            let number = self.chooser.next(&self.records, &mut self.random);
            Step::one(self.update(number))
        } else if is(insert) {
            Step::one(self.insert())
        } else if is(scan) {
            Step::one(self.scan())
        } else if both > 0.0 {
            let number = self.chooser.next(&self.records, &mut self.random);
            let then = Then { label: READ_MODIFY_WRITE, request: self.update(number) };
            Step { request: self.read_of(number), then: Some(Box::new(then)) }
        } else {
            // Because of rounding at the upper end of the sum.
            return self.next();
        })
    }

    fn compare(&mut self, request: &Request, answer: &Answer) -> Result<(), String> {
        match (&request.operation, answer) {
            (Operation::Read { .. }, Answer::Row(Some(row))) if self.sees_writes => {
                self.known.compare(&self.data, row, &self.seen)
            }
            (Operation::Scan { from: Value::Text(from), rows_max }, Answer::Rows(rows)) => {
                if let Some(expected) = &self.known.scans {
                    expected.compare(from, *rows_max, rows, self.scan_seen)?;
                }
                match self.scans_see_writes {
                    true => self.known.compare_scanned(&self.data, rows, self.scan_since),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn ended(&mut self, request: &Request, acknowledged: bool) {
        match &request.operation {
            Operation::Insert(row) => {
                if let (Some(expected), Value::Text(key)) = (&self.known.scans, &row.key)
                    && acknowledged
                {
                    expected.acknowledged(key);
                }
                if let Some(number) = self.inserting.take() {
                    self.records.inserted(number, acknowledged);
                }
            }
            Operation::Update { .. } => {
                if let (Some(ledger), Some((record, version))) =
                    (&self.known.ledger, self.updating.take())
                    && acknowledged
                {
                    ledger.acknowledged(record, version);
                }
            }
            _ => {}
        }
    }
}

impl RunSteps {
    fn read(&mut self) -> Request {
        let number = self.chooser.next(&self.records, &mut self.random);
        self.read_of(number)
    }

    fn read_of(&mut self, number: u64) -> Request {
        let key = self.data.key(number);
        self.seen = self.known.seen(&key);
        Request {
            label: "read",
            operation: Operation::Read { key: Value::Text(key) },
            expect: Expect::Row { loaded: self.records.is_loaded(number) },
        }
    }

    fn update(&mut self, number: u64) -> Request {
        let key = self.data.key(number);
        let column = match self.data.properties.write_all {
            true => None,
            false => Some(self.random.usize(0..self.data.properties.fields)),
        };
        let fields = column.map_or(0..self.data.properties.fields, |field| field..field + 1);
        let record = letters::number_of(&key);
        let next = self.known.ledger.as_ref().and_then(|ledger| ledger.begin(record, column));
        self.updating = next.map(|version| (record, version));
        let version = match next {
            Some(version) => self.known.base + u64::from(version),
            None => self.random.u64(..),
        };
        let changes = fields
            .map(|column| (column, Value::Text(self.data.field(&key, column, version))))
            .collect();
        Request {
            label: "update",
            operation: Operation::Update { key: Value::Text(key), changes },
            expect: Expect::Done,
        }
    }

    fn insert(&mut self) -> Request {
        let number = self.records.insert();
        self.inserting = Some(number);
        let key = self.data.key(number);
        if let Some(expected) = &self.known.scans {
            expected.begins(&key);
        }
        Request {
            label: "insert",
            operation: Operation::Insert(self.data.row(key)),
            expect: Expect::Done,
        }
    }

    fn scan(&mut self) -> Request {
        let number = self.chooser.next(&self.records, &mut self.random);
        let properties = &self.data.properties;
        let rows = match properties.scan_zipfian {
            true => properties.scan_min + self.scan_lengths.next(&mut self.random),
            false => self.random.u64(properties.scan_min..=properties.scan_max),
        };
        self.scan_seen = self.known.scans.as_ref().map_or(0, scans::Expected::seen);
        self.scan_since = self.known.acknowledgements();
        Request {
            label: "scan",
            operation: Operation::Scan {
                from: Value::Text(self.data.key(number)),
                rows_max: rows as usize,
            },
            expect: Expect::Rows { loaded: self.records.is_loaded(number) },
        }
    }
}

/// Rows that all generators insert in the load phase.
pub fn load_rows(properties: &BTreeMap<String, String>) -> Option<u64> {
    Properties::new(properties).ok().map(|properties| properties.insert_count)
}

/// `operationcount`, if it is set.
pub fn operation_count(properties: &BTreeMap<String, String>) -> Option<u64> {
    Properties::new(properties).ok().map(|p| p.operations).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;
    use crate::driver::Answer;
    use crate::sending::Share;
    use crate::workload::{Verdict, check, right_answer};

    fn properties(more: &[(&str, &str)]) -> BTreeMap<String, String> {
        [("recordcount", "100")]
            .iter()
            .chain(more)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    fn run(more: &[(&str, &str)]) -> Ycsb {
        Ycsb::new(Phase::Run, &properties(more), &Opening::of(Share::default())).unwrap()
    }

    #[test]
    fn keys_are_ycsbs() {
        let key = |more: &[(&str, &str)], number| run(more).data.key(number);
        assert_eq!(key(&[], 0), "user6284781860667377211");
        assert_eq!(key(&[], 1), "user8517097267634966620");
        assert_eq!(key(&[("insertorder", "ordered")], 5), "user5");
        assert_eq!(key(&[("insertorder", "ordered"), ("zeropadding", "8")], 5), "user00000005");
    }

    #[test]
    fn deterministic_values_are_ycsbs() {
        // From CoreWorkload.buildDeterministicValue, with String.hashCode computed independently.
        assert_eq!(deterministic("user1", "field0", 12), "user1:field0");
        assert_eq!(deterministic("user1", "field0", 5), "user1");
        assert_eq!(
            deterministic("user1", "field0", 40),
            "user1:field0:-1268391216:957204686:-1707"
        );
    }

    #[test]
    fn proportions_are_kept() {
        let plan = run(&[
            ("readproportion", "0.4"),
            ("updateproportion", "0.2"),
            ("insertproportion", "0.1"),
            ("scanproportion", "0.1"),
            ("readmodifywriteproportion", "0.2"),
            ("maxscanlength", "7"),
        ]);
        let mut steps = plan.steps(0);
        let mut counts = BTreeMap::<&str, u32>::new();
        for _ in 0..10_000 {
            let step = steps.next().unwrap();
            let answer = right_answer(&plan, &step.request);
            assert_eq!(check(&plan, &step.request, &answer), Verdict::Right, "{step:?}");
            steps.ended(&step.request, true);
            *counts.entry(step.then.map_or(step.request.label, |then| then.label)).or_default() +=
                1;
        }
        for (label, share) in [
            ("read", 0.4),
            ("update", 0.2),
            ("insert", 0.1),
            ("scan", 0.1),
            ("read_modify_write", 0.2),
        ] {
            let got = f64::from(counts[label]) / 10_000.0;
            assert!((got - share).abs() < 0.02, "{label}: {got}");
        }
    }

    #[test]
    fn loads_of_all_generators_make_every_record_once() {
        let mut keys = std::collections::BTreeSet::new();
        for (index, batch_rows) in [(0, 1), (1, 7), (2, 100)] {
            let opening = Opening { batch_rows, ..Opening::of(Share { index, of: 3 }) };
            let plan = Ycsb::new(Phase::Load, &properties(&[]), &opening).unwrap();
            let mut steps = plan.steps(0);
            while let Some(step) = steps.next() {
                let rows = match step.request.operation {
                    Operation::Insert(row) => vec![row],
                    Operation::InsertMany(rows) => rows,
                    other => panic!("{other:?}"),
                };
                for row in rows {
                    plan.verify(&row).unwrap();
                    assert!(keys.insert(row.key));
                }
            }
        }
        let plan = run(&[]);
        assert_eq!(keys, (0..100).map(|n| Value::Text(plan.data.key(n))).collect());
    }

    /// What YCSB itself generates: see `reference/YcsbKeys.java`.
    #[derive(serde::Deserialize)]
    struct Theirs {
        keys: BTreeMap<String, Vec<u32>>,
        mix: BTreeMap<String, BTreeMap<String, u32>>,
        scan_rows: BTreeMap<String, Vec<u32>>,
    }

    fn theirs() -> Theirs {
        toml::from_str(include_str!("../../reference/ycsb-keys.toml")).unwrap()
    }

    /// Tests whether two samples have one distribution (Pearson); the draws are seeded, so that it
    /// never fails by chance.
    fn check_same(name: &str, ours: &[u32], theirs: &[u32]) {
        assert_eq!(ours.len(), theirs.len(), "{name}");
        let total = |counts: &[u32]| f64::from(counts.iter().sum::<u32>());
        let ratio = (total(ours) / total(theirs)).sqrt();
        let part = |(ours, theirs): (&u32, &u32)| {
            let (ours, theirs) = (f64::from(*ours), f64::from(*theirs));
            (ours / ratio - theirs * ratio).powi(2) / (ours + theirs)
        };
        let statistic: f64 = ours.iter().zip(theirs).map(part).sum();
        let degrees = (theirs.len() - 1).max(1) as f64;
        let p = 1.0 - ChiSquared::new(degrees).unwrap().cdf(statistic);
        assert!(p > 0.001, "{name}: chi-squared {statistic:.1}, p {p:.5}");
    }

    #[test]
    fn records_are_chosen_as_often_as_by_ycsb_itself() {
        let keys = theirs().keys;
        assert_eq!(keys.len(), 6);
        for (distribution, theirs) in &keys {
            // Under `latest`, YCSB never chooses the oldest record of all.
            let (records, theirs) = match &**distribution {
                "latest" => ("99", &theirs[1..]),
                _ => ("100", &theirs[..]),
            };
            let plan = run(&[("requestdistribution", distribution), ("recordcount", records)]);
            let mut random = fastrand::Rng::with_seed(20);
            let (mut chooser, mut ours) = (plan.chooser.clone(), vec![0_u32; theirs.len()]);
            for _ in 0..200_000 {
                ours[chooser.next(&plan.records, &mut random) as usize] += 1;
            }
            check_same(distribution, &ours, theirs);
        }
    }

    /// The operations of a core workload, each acknowledged.
    fn operations(core: &str, more: &[(&str, &str)], count: usize) -> Vec<Operation> {
        let all = [("core", core)].into_iter().chain(more.iter().copied());
        let mut properties = all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        expand(&mut properties).unwrap();
        let opening = Opening { seed: 20, ..Opening::of(Share::default()) };
        let plan = Ycsb::new(Phase::Run, &properties, &opening).unwrap();
        let (mut steps, mut operations) = (plan.steps(0), Vec::new());
        for _ in 0..count {
            let step = steps.next().unwrap();
            let then = step.then.map(|then| then.request);
            for request in std::iter::once(step.request).chain(then) {
                steps.ended(&request, true);
                operations.push(request.operation);
            }
        }
        operations
    }

    #[test]
    fn core_workloads_send_the_operations_of_ycsb_itself() {
        let mix = theirs().mix;
        assert_eq!(mix.len(), 6);
        for (core, theirs) in &mix {
            let mut ours: BTreeMap<String, u32> = BTreeMap::new();
            for operation in operations(core, &[], 20_000) {
                *ours.entry(operation.ability().name().to_owned()).or_default() += 1;
            }
            assert!(ours.keys().eq(theirs.keys()), "{core}: {ours:?}, {theirs:?}");
            let counts = |of: &BTreeMap<String, u32>| of.values().copied().collect::<Vec<_>>();
            check_same(core, &counts(&ours), &counts(theirs));
        }
    }

    #[test]
    fn scans_are_as_long_as_those_of_ycsb_itself() {
        let scan_rows = theirs().scan_rows;
        assert_eq!(scan_rows.len(), 2);
        for (distribution, theirs) in &scan_rows {
            let mut ours = vec![0_u32; theirs.len()];
            for operation in operations("e", &[("scanlengthdistribution", distribution)], 20_000) {
                if let Operation::Scan { rows_max, .. } = operation {
                    ours[rows_max - 1] += 1;
                }
            }
            check_same(distribution, &ours, theirs);
        }
    }

    #[test]
    fn a_row_that_was_just_inserted_has_no_other_version() {
        let none = [("updateproportion", "0")];
        let load = Ycsb::new(Phase::Load, &properties(&[]), &Opening::of(Share::default()));
        for (plan, may_be_updated) in
            [(load.unwrap(), false), (run(&none), false), (run(&[]), true)]
        {
            let mut row = plan.data.row("user1".to_owned());
            assert_eq!(plan.verify_last(&row), Ok(()));
            row.values[3] = Value::Text(plan.data.field("user1", 3, 7));
            assert_eq!(plan.verify(&row), Ok(()), "an update may have written it");
            assert_eq!(plan.verify_last(&row).is_ok(), may_be_updated);
        }
    }

    #[test]
    fn a_missing_row_is_wrong_only_where_it_was_loaded() {
        let plan = run(&[]);
        let request = |loaded| Request {
            label: "read",
            operation: Operation::Read { key: Value::Text("user1".to_owned()) },
            expect: Expect::Row { loaded },
        };
        assert_eq!(check(&plan, &request(false), &Answer::Row(None)), Verdict::Missing);
        assert!(matches!(check(&plan, &request(true), &Answer::Row(None)), Verdict::Wrong(_)));
    }

    proptest! {
        #[test]
        fn any_version_of_a_field_is_right_and_any_other_letter_is_wrong(
            length in 1usize..40,
            version: u64,
            key in "user[0-9]{1,19}",
            column in 0usize..10,
            integrity: bool,
            at: proptest::sample::Index,
        ) {
            let length_text = length.to_string();
            let integrity_text = integrity.to_string();
            let plan = run(&[("fieldlength", &length_text), ("dataintegrity", &integrity_text)]);
            let mut row = plan.data.row(key.clone());
            let field = plan.data.field(&key, column, version);
            prop_assert_eq!(field.len(), length);
            row.values[column] = Value::Text(field.clone());
            prop_assert_eq!(plan.verify(&row), Ok(()));
            let at = at.index(length);
            let other = if field.as_bytes()[at] == b'z' { "y" } else { "z" };
            let mut damaged = field.clone();
            damaged.replace_range(at..=at, other);
            // A letter of the version changes the following letters; a field with so few letters
            // may be right by chance.
            if integrity || length >= 24 || at >= VERSION_LETTERS.min(length / 2) {
                row.values[column] = Value::Text(damaged);
                prop_assert!(plan.verify(&row).is_err());
            }
            row.values[column] = Value::Text("é".to_owned());
            prop_assert!(plan.verify(&row).is_err());
        }
    }
}
