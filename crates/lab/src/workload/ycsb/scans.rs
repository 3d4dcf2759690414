//! Which rows a scan has to return: all that were loaded, and all whose insert was acknowledged
//! before the scan was sent, in the order of keys, from the first key on, without a gap. A row
//! whose insert was in flight, or failed, may be there.
//!
//! A store with an order of its own has to keep it: of the rows that were loaded, each is followed
//! by the same one in every scan, follows the same one, and one alone is the last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Data;
use crate::driver::Scans;
use crate::row::{Row, Value};
use crate::workload::letters;

/// Loaded records whose order is computed, at 4 bytes each. With more, scans are compared in
/// number only, which a note says.
const LOADED_MAX: u64 = 20_000_000;

/// Loaded records whose neighbours are remembered where the store has an order of its own, at about
/// 60 bytes each. With more, scans are compared in number only, which a note says.
const NEIGHBOURS_MAX: u64 = 2_000_000;

/// Inserted records that are remembered, at about 100 bytes each. With more, the others are
/// neither missed nor refused.
const INSERTED_MAX: usize = 1 << 20;

/// Records of a table for each row of the longest scan, from which on a scan seldom reaches the
/// end of the table.
const RECORDS_PER_SCANNED_ROW: u64 = 4;

/// See the module.
pub struct Expected {
    data: Arc<Data>,
    scans: Scans,
    /// The loaded numbers in the order of their keys; empty if there are too many, or if the store
    /// has another order.
    loaded: Vec<u32>,
    /// Where the store has an order of its own, and there are not too many records.
    own_order: Option<Mutex<OwnOrder>>,
    /// Whether other generators insert rows that nobody here knows.
    is_shared: bool,
    inserted: Mutex<Inserted>,
    /// Scans that were compared in number only, and those with fewer rows than asked for.
    made: AtomicU64,
    short: AtomicU64,
}

#[derive(Default)]
struct Inserted {
    /// By key: the number of acknowledgements before its own, if it has one.
    keys: BTreeMap<String, Option<u64>>,
    acknowledged: u64,
    is_full: bool,
}

impl Expected {
    /// For the records of `data`.
    pub fn new(data: Arc<Data>, scans: Scans, is_shared: bool) -> Expected {
        let records = data.properties.records;
        let mut loaded = Vec::new();
        if scans != Scans::Unordered && records <= LOADED_MAX {
            loaded = (0..records as u32).collect();
            loaded.sort_unstable_by_key(|number| data.place(u64::from(*number)));
        }
        let own_order = (scans == Scans::Unordered && records <= NEIGHBOURS_MAX)
            .then(|| Mutex::new(OwnOrder::new((0..records).map(|number| data.key(number)))));
        let (made, short, inserted) = Default::default();
        Expected { data, scans, loaded, own_order, is_shared, inserted, made, short }
    }

    fn inserted(&self) -> std::sync::MutexGuard<'_, Inserted> {
        self.inserted.lock().expect("nothing panics while it remembers")
    }

    /// An insert is about to be sent.
    pub fn begins(&self, key: &str) {
        if self.loaded.is_empty() {
            return;
        }
        let mut inserted = self.inserted();
        match inserted.keys.len() < INSERTED_MAX {
            true => drop(inserted.keys.insert(key.to_owned(), None)),
            false => inserted.is_full = true,
        }
    }

    /// The store acknowledged an insert.
    pub fn acknowledged(&self, key: &str) {
        let mut inserted = self.inserted();
        let at = inserted.acknowledged;
        if let Some(known) = inserted.keys.get_mut(key) {
            *known = Some(at);
            inserted.acknowledged += 1;
        }
    }

    /// The number of acknowledgements that a scan which is sent now has to see.
    pub fn seen(&self) -> u64 {
        match self.scans {
            Scans::InOrder => self.inserted().acknowledged,
            Scans::Late | Scans::Unordered => 0,
        }
    }

    /// Compares the rows of a scan that was sent when [`Expected::seen`] was `seen`.
    pub fn compare(
        &self,
        from: &str,
        rows_max: usize,
        rows: &[Row],
        seen: u64,
    ) -> Result<(), String> {
        if self.loaded.is_empty() {
            self.made.fetch_add(1, Ordering::Relaxed);
            self.short.fetch_add(u64::from(rows.len() < rows_max), Ordering::Relaxed);
            return self.own_order.as_ref().map_or(Ok(()), |order| {
                let mut order = order.lock().expect("nothing panics while it remembers");
                order.add(rows, rows.len() < rows_max)
            });
        }
        let first_key = Value::Text(from.to_owned());
        let begins = rows.first().is_none_or(|row| row.key >= first_key);
        if !begins || !rows.is_sorted_by(|one, next| one.key < next.key) {
            return Err("its rows are not in the order of keys".to_owned());
        }
        let inserted = self.inserted();
        let first = self.loaded.partition_point(|number| *self.data.key((*number).into()) < *from);
        let mut loaded = self.loaded[first..].iter().map(|number| self.data.key((*number).into()));
        let range = (Bound::Included(from), Bound::Unbounded);
        let mut newer = inserted.keys.range::<str, _>(range);
        let (mut loaded_next, mut newer_next) = (loaded.next(), newer.next());
        let is_needed = |at: &Option<u64>| at.is_some_and(|at| at < seen);
        // The next row that may follow, and whether it has to.
        let mut next = || match (&loaded_next, newer_next) {
            (Some(old), Some((new, at))) if new < old => {
                newer_next = newer.next();
                Some((new.clone(), is_needed(at)))
            }
            (None, Some((new, at))) => {
                newer_next = newer.next();
                Some((new.clone(), is_needed(at)))
            }
            (Some(_), _) => {
                std::mem::replace(&mut loaded_next, loaded.next()).map(|old| (old, true))
            }
            (None, None) => None,
        };
        let knows_all = !self.is_shared && !inserted.is_full;
        let mut expected = next();
        for row in rows {
            let Value::Text(key) = &row.key else {
                return Err(format!("there is no row {}", row.key));
            };
            while let Some((other, is_needed)) = &expected
                && other < key
            {
                if *is_needed {
                    return Err(format!("row {other} is missing before row {key}"));
                }
                expected = next();
            }
            match &expected {
                Some((other, _)) if other == key => expected = next(),
                _ if knows_all => return Err(format!("row {key} was never written")),
                _ => {}
            }
        }
        if rows.len() < rows_max {
            while let Some((other, is_needed)) = expected {
                if is_needed {
                    return Err(format!(
                        "got {} rows, and row {other}, which follows, is missing",
                        rows.len()
                    ));
                }
                expected = next();
            }
        }
        Ok(())
    }

    /// The verdict over all scans that were compared in number only.
    pub fn verdict(&self) -> Result<(), String> {
        let (made, short) = (self.made.load(Ordering::Relaxed), self.short.load(Ordering::Relaxed));
        let properties = &self.data.properties;
        let is_long = properties.records >= properties.scan_max * RECORDS_PER_SCANNED_ROW;
        match is_long && made >= 20 && short * 2 > made {
            true => Err(format!("{short} of {made} scans returned fewer rows than there are")),
            false => Ok(()),
        }
    }

    /// What a reader has to know.
    pub fn note(&self) -> Option<String> {
        let most = if self.scans == Scans::Unordered { NEIGHBOURS_MAX } else { LOADED_MAX };
        (self.loaded.is_empty() && self.own_order.is_none()).then(|| {
            format!(
                "scans of more than {most} records are compared in the number of their rows, and each row by itself"
            )
        })
    }
}

/// What scans told of a store's own order. Records are known by hashes of their keys.
struct OwnOrder {
    loaded: HashSet<u64>,
    /// The loaded record behind another; none behind the last one.
    next: HashMap<u64, Option<u64>>,
    /// The loaded record before another.
    before: HashMap<u64, u64>,
    last: Option<u64>,
}

impl OwnOrder {
    fn new(loaded: impl Iterator<Item = String>) -> OwnOrder {
        let loaded = loaded.map(|key| letters::number_of(&key)).collect();
        OwnOrder { loaded, next: HashMap::new(), before: HashMap::new(), last: None }
    }

    /// Compares the rows of a scan with those of earlier ones; `has_all` says that no row follows.
    fn add(&mut self, rows: &[Row], has_all: bool) -> Result<(), String> {
        let mut known: Option<(u64, &str)> = None;
        for row in rows {
            let Value::Text(key) = &row.key else {
                return Err(format!("there is no row {}", row.key));
            };
            let hash = letters::number_of(key);
            // Inserted rows may come between.
            if !self.loaded.contains(&hash) {
                continue;
            }
            if let Some((before, before_key)) = known
                && (*self.next.entry(before).or_insert(Some(hash)) != Some(hash)
                    || *self.before.entry(hash).or_insert(before) != before)
            {
                return Err(format!(
                    "row {key} follows row {before_key}, and in another scan there is a row between them"
                ));
            }
            known = Some((hash, key.as_str()));
        }
        if let Some((last, key)) = known.filter(|_| has_all)
            && (self.next.entry(last).or_insert(None).is_some()
                || *self.last.get_or_insert(last) != last)
        {
            return Err(format!(
                "got {} rows up to row {key}, and in another scan there are rows behind it",
                rows.len()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::properties::Properties;
    use super::*;

    fn data(more: &[(&str, &str)]) -> Arc<Data> {
        let all = [("recordcount", "100"), ("maxscanlength", "20")];
        let all = all.iter().chain(more).map(|(name, value)| (name.to_string(), value.to_string()));
        Arc::new(Data { properties: Properties::new(&all.collect()).unwrap() })
    }

    fn keys(data: &Data) -> Vec<String> {
        let mut keys: Vec<String> = (0..100).map(|number| data.key(number)).collect();
        keys.sort();
        keys
    }

    fn rows(keys: &[String]) -> Vec<Row> {
        keys.iter().map(|key| Row { key: Value::Text(key.clone()), values: Vec::new() }).collect()
    }

    #[test]
    fn loaded_records_are_in_the_order_of_keys() {
        for more in [
            &[][..],
            &[("zeropadding", "21")],
            &[("insertorder", "ordered")],
            &[("insertorder", "ordered"), ("zeropadding", "2")],
            &[("zeropadding", "100")],
        ] {
            let data = data(more);
            let expected = Expected::new(data.clone(), Scans::InOrder, false);
            let loaded = expected.loaded.iter().map(|number| data.key(u64::from(*number)));
            assert_eq!(loaded.collect::<Vec<_>>(), keys(&data), "{more:?}");
        }
    }

    #[test]
    fn a_scan_has_all_rows_in_order_without_a_gap() {
        let data = data(&[]);
        let expected = Expected::new(data.clone(), Scans::InOrder, false);
        let keys = keys(&data);
        let check = |from: usize, rows_max, found: &[String], wrong: &str| {
            let said = expected.compare(&keys[from], rows_max, &rows(found), 0);
            match wrong {
                "" => assert_eq!(said, Ok(())),
                _ => assert!(said.clone().is_err_and(|said| said.contains(wrong)), "{said:?}"),
            }
        };
        check(40, 10, &keys[40..50], "");
        check(95, 10, &keys[95..], "");
        check(40, 10, &keys[40..41], "got 1 rows, and row");
        check(95, 10, &keys[95..99], "got 4 rows, and row");
        let gap = [&keys[40..42], &keys[43..51]].concat();
        check(40, 10, &gap, &format!("row {} is missing before row {}", keys[42], keys[43]));
        let mut swapped = keys[40..50].to_vec();
        swapped.swap(3, 4);
        check(40, 10, &swapped, "are not in the order of keys");
        let mut invented = keys[40..50].to_vec();
        invented[3] = format!("{}0", invented[2]);
        check(40, 10, &invented, "was never written");
    }

    #[test]
    fn a_row_is_needed_once_its_insert_was_acknowledged() {
        let data = data(&[]);
        let mut keys = keys(&data);
        let new = data.key(100);
        let place = keys.partition_point(|key| *key < new);
        let from = keys[place - 1].clone();
        let old = rows(&keys[place - 1..place + 1]);
        keys.insert(place, new.clone());
        let with = rows(&keys[place - 1..place + 1]);
        let expected = Expected::new(data, Scans::InOrder, false);
        let compare = |rows: &[Row], seen| expected.compare(&from, 2, rows, seen);
        assert!(compare(&with, expected.seen()).is_err(), "nobody wrote it");
        expected.begins(&new);
        let before = expected.seen();
        assert_eq!(compare(&with, before), Ok(()));
        assert_eq!(compare(&old, before), Ok(()));
        expected.acknowledged(&new);
        assert_eq!(compare(&old, before), Ok(()), "a scan that was sent before");
        assert!(compare(&old, expected.seen()).is_err());
        assert_eq!(compare(&with, expected.seen()), Ok(()));
    }

    #[test]
    fn a_store_keeps_its_own_order() {
        let data = data(&[]);
        let mut order: Vec<String> = (0..100).map(|number| data.key(number)).collect();
        order.sort_by_key(|key| letters::mix(letters::number_of(key)));
        let inserted = data.key(1_000);
        let honest = || {
            let expected = Expected::new(data.clone(), Scans::Unordered, false);
            for from in [0, 7, 14, 90, 99] {
                let mut found = order[from..(from + 20).min(100)].to_vec();
                // Everywhere at once, as a row that was inserted meanwhile.
                found.insert(1, inserted.clone());
                let rows_max = found.len() + usize::from(from >= 90);
                assert_eq!(expected.compare(&found[0], rows_max, &rows(&found), 0), Ok(()));
            }
            expected
        };
        let wrong = |found: &[String], rows_max: usize| {
            honest().compare(&found[0], rows_max, &rows(found), 0).unwrap_err()
        };
        let gap = [&order[5..9], &order[10..15]].concat();
        let named = format!("row {} follows row {}", order[10], order[8]);
        assert!(wrong(&gap, 9).contains(&named));
        assert!(wrong(&order[20..25], 6).contains(&format!("up to row {}", order[24])));
        // A row that no scan passes over, though one can begin at it.
        let gap = [&order[40..42], &order[43..45]].concat();
        let expected = honest();
        assert_eq!(expected.compare(&gap[0], 4, &rows(&gap), 0), Ok(()));
        assert!(expected.compare(&order[42], 2, &rows(&order[42..44]), 0).is_err());
    }

    #[test]
    fn a_store_with_its_own_order_may_not_always_return_too_few() {
        let expected = Expected::new(data(&[("recordcount", "3000000")]), Scans::Unordered, false);
        assert!(expected.note().is_some_and(|note| note.contains("2000000 records")));
        let few = rows(&["a".to_owned()]);
        for _ in 0..19 {
            assert_eq!(expected.compare("a", 20, &few, 0), Ok(()));
        }
        assert_eq!(expected.verdict(), Ok(()));
        let _ = expected.compare("a", 20, &few, 0);
        assert_eq!(
            expected.verdict().unwrap_err(),
            "20 of 20 scans returned fewer rows than there are"
        );
    }
}
