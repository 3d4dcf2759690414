//! The versions of fields that a store acknowledged, so that a read shows whether it is stale.
//!
//! Each update of a record gets the next version of that record, and the version is encoded in the
//! written value. The ledger remembers, for each record and column, the writes that may still be
//! its value: those in flight, those whose end nobody knows, and acknowledged ones that no later
//! write replaced. A write replaces another if it began after the other was acknowledged; two
//! writes at the same time may end in either order.
//!
//! A read compares with a [`Seen`] that was taken before the read was sent: every value in it, and
//! every value that was written since, is right. An acknowledged write replaces whatever was there
//! before, so that data of earlier trials needs no entry; until then the value of the column is the
//! one that was read after the trial before ([`Earlier`]), or any value if nobody knows it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::letters;
use crate::row::{Row, Value};

/// Records whose writes are remembered, each with about 100 bytes and 20 more for each of its
/// columns. Updates of further records are counted, and are not compared.
const RECORDS_MAX: usize = 1 << 20;

/// Writes of one record that may be its value. A record with more, because a store answers none of
/// them, is not compared any more.
const LIVE_MAX: usize = 4_096;

const SHARDS: usize = 16;

/// See the module.
pub struct Ledger {
    shards: [Mutex<HashMap<u64, Record>>; SHARDS],
    records: AtomicUsize,
    unwatched: AtomicU64,
    /// Acknowledgements of all records.
    acknowledgements: AtomicU64,
}

#[derive(Default)]
struct Record {
    /// Counts beginnings and acknowledgements.
    clock: u32,
    /// The last version that was begun; the first is 1.
    begun: u32,
    live: Vec<Write>,
    /// Whether it had more writes than [`LIVE_MAX`].
    is_lost: bool,
    /// The number of its last acknowledgement among those of all records, from 1.
    acknowledged: u64,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    /// `None` for all columns.
    column: Option<usize>,
    version: u32,
    begun_at: u32,
    acknowledged_at: Option<u32>,
}

/// Rows of one table whose values are remembered from trial to trial, each with about 100 bytes and
/// 8 more for each of its columns.
const EARLIER_MAX: usize = 20_000;

/// The values of rows when all writes of a trial had ended: what trials after it find until they
/// write themselves. Of a value a hash is kept.
#[derive(Debug, Default)]
pub struct Earlier(HashMap<u64, Box<[u64]>>);

impl Earlier {
    /// Remembers a row as it is now. Rows with other keys than texts are never updated.
    pub fn add(&mut self, row: &Row) {
        let Value::Text(key) = &row.key else { return };
        let hash = |value: &Value| match value {
            Value::Text(text) => letters::number_of(text),
            Value::Integer(number) => *number as u64,
        };
        if self.0.len() < EARLIER_MAX {
            self.0.insert(letters::number_of(key), row.values.iter().map(hash).collect());
        }
    }

    /// Adds the rows of another one, as far as there is room.
    pub fn merge(&mut self, other: Earlier) {
        let room = EARLIER_MAX.saturating_sub(self.0.len());
        self.0.extend(other.0.into_iter().take(room));
    }

    /// Whether no row is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a column of a record had this text; `None` if nobody knows it.
    pub fn had(&self, record: u64, column: usize, text: &str) -> Option<bool> {
        let known = self.0.get(&record)?.get(column)?;
        Some(*known == letters::number_of(text))
    }
}

/// What may be the value of a record, at the time it was taken.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    begun: u32,
    live: Vec<Write>,
}

impl Seen {
    /// The writes that may be the value of a column.
    fn of(&self, column: usize) -> impl Iterator<Item = &Write> + Clone {
        self.live.iter().filter(move |write| write.column.is_none_or(|own| own == column))
    }

    /// Whether an acknowledged write replaced what a column had before the trial.
    pub fn is_replaced(&self, column: usize) -> bool {
        self.of(column).any(|write| write.acknowledged_at.is_some())
    }
}

/// The version that a value has: its number modulo the versions that its letters can tell apart.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    /// The number.
    pub number: u64,
    /// The versions that can be told apart.
    pub of: u64,
}

impl Version {
    fn is(self, version: u32) -> bool {
        u64::from(version) % self.of == self.number
    }

    /// Whether it is one of `count` versions after `before`.
    fn is_after(self, before: u32, count: u32) -> bool {
        let first = (u64::from(before) + 1) % self.of;
        (self.number + self.of - first) % self.of < u64::from(count)
    }
}

impl Default for Ledger {
    fn default() -> Ledger {
        let shards = std::array::from_fn(|_| Mutex::default());
        let (records, unwatched, acknowledgements) = Default::default();
        Ledger { shards, records, unwatched, acknowledgements }
    }
}

impl Ledger {
    fn shard(&self, record: u64) -> std::sync::MutexGuard<'_, HashMap<u64, Record>> {
        let shard = &self.shards[(record % SHARDS as u64) as usize];
        shard.lock().expect("nothing panics while it remembers")
    }

    /// Begins a write of one column of a record, or of all; returns its version, or `None` if the
    /// record is not watched.
    pub fn begin(&self, record: u64, column: Option<usize>) -> Option<u32> {
        let mut shard = self.shard(record);
        let known = match shard.entry(record) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                if self.records.fetch_add(1, Ordering::Relaxed) >= RECORDS_MAX {
                    self.records.fetch_sub(1, Ordering::Relaxed);
                    self.unwatched.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                place.insert(Record::default())
            }
        };
        if known.live.len() >= LIVE_MAX {
            (known.is_lost, known.live) = (true, Vec::new());
        }
        if known.is_lost {
            self.unwatched.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        (known.clock, known.begun) = (known.clock + 1, known.begun + 1);
        let (begun_at, version) = (known.clock, known.begun);
        known.live.push(Write { column, version, begun_at, acknowledged_at: None });
        Some(version)
    }

    /// The store acknowledged a write.
    pub fn acknowledged(&self, record: u64, version: u32) {
        let mut shard = self.shard(record);
        let Some(known) = shard.get_mut(&record) else { return };
        known.clock += 1;
        known.acknowledged = self.acknowledgements.fetch_add(1, Ordering::Relaxed) + 1;
        let now = known.clock;
        let Some(write) = known.live.iter_mut().find(|write| write.version == version) else {
            return;
        };
        write.acknowledged_at = Some(now);
        let Write { column, begun_at, .. } = *write;
        let is_replaced = |other: &Write| {
            other.column == column && other.acknowledged_at.is_some_and(|at| at < begun_at)
        };
        known.live.retain(|other| !is_replaced(other));
    }

    /// What may be the value of a record now.
    pub fn seen(&self, record: u64) -> Seen {
        let shard = self.shard(record);
        let known = shard.get(&record);
        known.map_or_else(Seen::default, |known| Seen {
            begun: known.begun,
            live: known.live.clone(),
        })
    }

    /// The number of acknowledgements until now, of all records.
    pub fn acknowledgements(&self) -> u64 {
        self.acknowledgements.load(Ordering::Relaxed)
    }

    /// What might be the value of a record when there were so many acknowledgements, for a request
    /// of which nobody knew the records; `None` if a write of it was acknowledged since. Without
    /// one, no write that was possible then is forgotten.
    pub fn seen_since(&self, record: u64, acknowledgements: u64) -> Option<Seen> {
        let shard = self.shard(record);
        let Some(known) = shard.get(&record) else { return Some(Seen::default()) };
        (known.acknowledged <= acknowledgements)
            .then(|| Seen { begun: known.begun, live: known.live.clone() })
    }

    /// Whether a read that was sent after `seen` was taken may find this version in a column;
    /// `was_there` says whether the column had the value before the trial, if that is known, and
    /// `shared` that others write versions of their own, which nobody here knows.
    pub fn allows(
        &self,
        record: u64,
        seen: &Seen,
        column: usize,
        version: Version,
        was_there: Option<bool>,
        shared: bool,
    ) -> bool {
        let is_replaced = seen.is_replaced(column);
        // An update that is not watched may have written what was not there.
        let was_there = was_there.filter(|_| self.unwatched() == 0);
        if !is_replaced && was_there != Some(false) {
            return true;
        }
        if seen.of(column).any(|write| version.is(write.version)) {
            return true;
        }
        let shard = self.shard(record);
        let known = shard.get(&record);
        let begun = known.map_or(0, |known| known.begun);
        let is_lost = known.map_or(is_replaced, |known| known.is_lost);
        is_lost
            || version.is_after(seen.begun, begun - seen.begun)
            || shared && !version.is_after(0, begun)
    }

    /// Updates of records that are not watched.
    pub fn unwatched(&self) -> u64 {
        self.unwatched.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: u64 = 1_000;

    fn version(number: u64) -> Version {
        Version { number, of: OF }
    }

    /// The versions of column 0 that a read may find.
    fn allowed(ledger: &Ledger, seen: &Seen) -> Vec<u64> {
        let allows = |number: &u64| ledger.allows(7, seen, 0, version(*number), None, false);
        (0..6).filter(allows).collect()
    }

    #[test]
    fn only_what_no_acknowledged_write_replaced_is_right() {
        let ledger = Ledger::default();
        assert_eq!(allowed(&ledger, &ledger.seen(7)).len(), 6, "data of earlier trials");
        let first = ledger.begin(7, Some(0)).unwrap();
        assert_eq!(allowed(&ledger, &ledger.seen(7)).len(), 6, "it is in flight");
        ledger.acknowledged(7, first);
        let before = ledger.seen(7);
        assert_eq!(allowed(&ledger, &before), [1]);
        // Two writes at the same time: either may be last.
        let (second, third) =
            (ledger.begin(7, Some(0)).unwrap(), ledger.begin(7, Some(0)).unwrap());
        assert_eq!(allowed(&ledger, &ledger.seen(7)), [1, 2, 3]);
        ledger.acknowledged(7, third);
        assert_eq!(allowed(&ledger, &ledger.seen(7)), [2, 3]);
        ledger.acknowledged(7, second);
        assert_eq!(allowed(&ledger, &ledger.seen(7)), [2, 3]);
        assert_eq!(allowed(&ledger, &before), [1, 2, 3], "a read that was sent before them");
        let fourth = ledger.begin(7, Some(0)).unwrap();
        ledger.acknowledged(7, fourth);
        assert_eq!(allowed(&ledger, &ledger.seen(7)), [4]);
        let allows = |column, number, shared| {
            ledger.allows(7, &ledger.seen(7), column, version(number), None, shared)
        };
        assert!(allows(1, 999, false), "another column");
        assert!(allows(0, 999, true), "another generator's");
        assert!(!allows(0, 3, true), "its own");
    }

    #[test]
    fn a_record_that_was_written_meanwhile_is_not_compared() {
        let ledger = Ledger::default();
        let first = ledger.begin(7, Some(0)).unwrap();
        let since = ledger.acknowledgements();
        assert_eq!(allowed(&ledger, &ledger.seen_since(7, since).unwrap()).len(), 6);
        ledger.acknowledged(7, first);
        assert!(ledger.seen_since(7, since).is_none());
        let since = ledger.acknowledgements();
        assert_eq!(allowed(&ledger, &ledger.seen_since(7, since).unwrap()), [1]);
        // Another record, and a write that is in flight.
        let other = ledger.begin(8, Some(0)).unwrap();
        ledger.acknowledged(8, other);
        ledger.begin(7, Some(0)).unwrap();
        assert_eq!(allowed(&ledger, &ledger.seen_since(7, since).unwrap()), [1, 2]);
        assert!(ledger.seen_since(8, since).is_none());
        assert!(ledger.seen_since(9, since).is_some());
    }

    #[test]
    fn a_column_keeps_what_an_earlier_trial_left_until_it_is_written() {
        let ledger = Ledger::default();
        let allows = |record, number, was_there| {
            let seen = ledger.seen(record);
            ledger.allows(record, &seen, 0, version(number), Some(was_there), false)
        };
        assert!(allows(7, 500, true) && !allows(7, 500, false));
        let before = ledger.seen(7);
        let first = ledger.begin(7, Some(0)).unwrap();
        assert!(allows(7, 500, true) && allows(7, 1, false) && !allows(7, 500, false));
        assert!(ledger.allows(7, &before, 0, version(1), Some(false), false), "it came meanwhile");
        ledger.acknowledged(7, first);
        assert!(!allows(7, 500, true), "it is replaced");
        assert!(allows(7, 1, false));
        ledger.unwatched.store(1, Ordering::Relaxed);
        assert!(allows(8, 500, false), "an update that is not watched may have written it");
    }

    #[test]
    fn values_are_remembered_up_to_a_number_of_rows() {
        let row = |key: &str, text: &str| Row {
            key: Value::Text(key.to_owned()),
            values: vec![Value::Text(text.to_owned())],
        };
        let mut earlier = Earlier::default();
        earlier.add(&Row { key: Value::Integer(1), values: Vec::new() });
        assert!(earlier.is_empty());
        earlier.add(&row("one", "a"));
        let mut others = Earlier::default();
        (0..EARLIER_MAX + 5).for_each(|number| others.add(&row(&number.to_string(), "b")));
        earlier.merge(others);
        assert_eq!(earlier.0.len(), EARLIER_MAX);
        let had = |key: &str, column, text| earlier.had(letters::number_of(key), column, text);
        assert_eq!((had("one", 0, "a"), had("one", 0, "b")), (Some(true), Some(false)));
        assert_eq!((had("one", 1, "a"), had("two", 0, "a")), (None, None));
    }

    #[test]
    fn a_write_that_nobody_answered_may_happen_later() {
        let ledger = Ledger::default();
        let lost = ledger.begin(7, None).unwrap();
        let kept = ledger.begin(7, None).unwrap();
        ledger.acknowledged(7, kept);
        let last = ledger.begin(7, None).unwrap();
        ledger.acknowledged(7, last);
        assert_eq!(allowed(&ledger, &ledger.seen(7)), [u64::from(lost), u64::from(last)]);
    }

    #[test]
    fn records_and_writes_are_bounded_and_the_rest_is_counted() {
        let ledger = Ledger::default();
        ledger.records.store(RECORDS_MAX - 1, Ordering::Relaxed);
        assert!(ledger.begin(1, None).is_some());
        assert!(ledger.begin(2, None).is_none());
        for _ in 1..LIVE_MAX {
            assert!(ledger.begin(1, None).is_some());
        }
        assert!(ledger.begin(1, None).is_none());
        assert_eq!(ledger.unwatched(), 2);
        let seen = ledger.seen(1);
        assert!(ledger.allows(1, &seen, 0, version(999), None, false));
    }

    #[test]
    fn few_letters_tell_versions_apart_only_as_far_as_they_can() {
        let version = Version { number: 1, of: 3 };
        assert!(version.is(1) && version.is(4) && !version.is(3));
        assert!(version.is_after(3, 1) && !version.is_after(4, 2) && version.is_after(4, 3));
        assert!(Version { number: 0, of: 1 }.is_after(9, 1));
        assert!(!Version { number: 0, of: 1 }.is_after(9, 0));
    }
}
