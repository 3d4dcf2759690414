//! The counts of one type over one bucket while lines arrive.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher as _;

use crate::summary::OTHER;
use crate::summary::counting::{Alike, Fields};
use crate::summary::program::Program;
use crate::summary::row::{SummaryRow, whole_number};
use crate::summary::summariser::{
    FLUSH_BYTES_DUE, FLUSH_BYTES_MAX, FLUSH_NAMES_MAX, VALUE_BYTES_MAX,
};

/// Upper bound of the JSON of one count besides its value: quotes, colon, comma, 20 digits.
const COUNT_JSON_BYTES: usize = 24;
/// Upper bound of the JSON of a row without type, dimensions and sums: fixed keys, numbers,
/// message.
const ROW_JSON_BYTES: usize = 640;

/// How much all open buckets together may still grow.
pub(crate) struct Room {
    /// Upper bound of their JSON. At most [`FLUSH_BYTES_MAX`] and a row.
    json_bytes: usize,
    values_max: usize,
    /// Hashes of the distinct names of counts. Two names with the same hash count as one, which
    /// only leaves more room.
    names: HashSet<u64, foldhash::fast::RandomState>,
    hasher: foldhash::fast::RandomState,
}

impl Room {
    pub(crate) fn new(values_max: usize) -> Self {
        let hasher = foldhash::fast::RandomState::default();
        Room { json_bytes: 0, values_max, names: HashSet::default(), hasher }
    }

    /// Whether `json_bytes` more bytes fit; if so, takes them.
    pub(crate) fn take(&mut self, json_bytes: usize) -> bool {
        let fits = self.json_bytes + json_bytes <= FLUSH_BYTES_MAX;
        if fits {
            self.json_bytes += json_bytes;
        }
        fits
    }

    /// Whether a flush is due to make room.
    pub(crate) fn is_large(&self) -> bool {
        self.json_bytes >= FLUSH_BYTES_DUE || self.names.len() >= FLUSH_NAMES_MAX / 2
    }

    fn take_count(&mut self, dimension: &str, value: &[u8]) -> bool {
        let name = self.hasher.hash_one((dimension, value));
        let is_known = self.names.contains(&name);
        let fits = (is_known || self.names.len() < FLUSH_NAMES_MAX)
            && self.take(text_json_bytes(value) + COUNT_JSON_BYTES);
        if fits && !is_known {
            self.names.insert(name);
        }
        fits
    }
}

/// Counts of one type and bucket.
pub(crate) struct Bucket {
    lines: u64,
    bytes: u64,
    dimensions: Vec<Counter>,
    sums: Vec<u64>,
}

#[derive(Default)]
struct Counter {
    values: HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
    other: u64,
}

impl Bucket {
    pub(crate) fn new(programs: &[&Program]) -> Self {
        let dimensions = programs.iter().map(|p| p.dimensions.len()).sum();
        let sums = programs.iter().map(|p| p.sums.len()).sum();
        Bucket {
            lines: 0,
            bytes: 0,
            dimensions: std::iter::repeat_with(Counter::default).take(dimensions).collect(),
            sums: vec![0; sums],
        }
    }

    /// Counts lines.
    pub(crate) fn add(&mut self, alike: &Alike<'_>, fields: &Fields, room: &mut Room) {
        let &Alike { row, lines, bytes, .. } = alike;
        self.lines += lines;
        self.bytes += bytes;
        for (counter, (dimension, field)) in self.dimensions.iter_mut().zip(&fields.dimensions) {
            let value = field.and_then(|id| row.get(id)).unwrap_or_default();
            if !value.is_empty() {
                counter.add(dimension, value, lines, room);
            }
        }
        for (sum, field) in self.sums.iter_mut().zip(&fields.sums) {
            let number = field.and_then(|id| row.get(id)).and_then(whole_number);
            *sum = sum.saturating_add(number.unwrap_or(0).saturating_mul(lines));
        }
    }

    /// The counts as a row.
    pub(crate) fn row(
        &self,
        time_ns: i64,
        bucket_s: u64,
        summary_of: &str,
        programs: &[&Program],
    ) -> SummaryRow {
        let names = programs.iter().flat_map(|p| p.dimensions).map(|d| d.name);
        let counted = self.dimensions.iter().zip(names).filter_map(|(counter, name)| {
            let values = counter.named();
            (!values.is_empty()).then(|| (name.to_owned(), values))
        });
        let sums = programs.iter().flat_map(|p| p.sums).zip(&self.sums);
        SummaryRow {
            time_ns,
            bucket_s,
            summary_of: summary_of.to_owned(),
            lines: self.lines,
            bytes: self.bytes,
            dimensions: counted.collect(),
            sums: sums.map(|(sum, n)| (sum.name.to_owned(), *n)).collect(),
            rerun: None,
            through: None,
        }
    }
}

impl Counter {
    #[inline]
    fn add(&mut self, dimension: &str, value: &[u8], lines: u64, room: &mut Room) {
        match self.values.get_mut(value) {
            Some(counted) => *counted += lines,
            None => self.add_new(dimension, value, lines, room),
        }
    }

    #[cold]
    fn add_new(&mut self, dimension: &str, value: &[u8], lines: u64, room: &mut Room) {
        let is_named = value.len() <= VALUE_BYTES_MAX
            && self.values.len() < room.values_max
            && room.take_count(dimension, value);
        if is_named {
            self.values.insert(value.into(), lines);
        } else {
            self.other += lines;
        }
    }

    /// The counts by name; bytes that are not UTF-8 are replaced by U+FFFD, and values that become
    /// equal are added up.
    fn named(&self) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (value, lines) in &self.values {
            *named.entry(String::from_utf8_lossy(value).into_owned()).or_default() += lines;
        }
        if self.other > 0 {
            *named.entry(OTHER.to_owned()).or_default() += self.other;
        }
        named
    }
}

/// Upper bound of the JSON of an empty bucket of a type.
pub(crate) fn empty_json_bytes(log_type: &str, programs: &[&Program]) -> usize {
    let names = programs.iter().flat_map(|p| p.dimensions).map(|d| d.name);
    let dimensions = names.map(|n| n.len() + OTHER.len() + 2 * COUNT_JSON_BYTES).sum::<usize>();
    let sums = programs.iter().flat_map(|p| p.sums);
    let sums = sums.map(|s| s.name.len() + COUNT_JSON_BYTES).sum::<usize>();
    // The name of the type is in the key and in the message.
    ROW_JSON_BYTES + 2 * text_json_bytes(log_type.as_bytes()) + dimensions + sums
}

/// Bytes of a text in JSON without its quotes. At most six for each byte (`\u0000`); three where it
/// is not UTF-8.
fn text_json_bytes(text: &[u8]) -> usize {
    text.iter()
        .map(|b| match b {
            0..0x20 => 6,
            b'"' | b'\\' => 2,
            0x80.. => 3,
            _ => 1,
        })
        .sum()
}
