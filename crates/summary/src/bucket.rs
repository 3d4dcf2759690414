//! The counts of one type over one bucket while lines arrive.

use std::collections::{BTreeMap, HashMap};

use record::{Batch, FieldId, Row};

use crate::OTHER;
use crate::program::Program;
use crate::row::{SummaryRow, whole_number};
use crate::summariser::VALUE_BYTES_MAX;

/// Upper bound of the JSON of one count besides its value: quotes, colon, comma, 20 digits.
const COUNT_JSON_BYTES: usize = 24;
/// Upper bound of the JSON of a row without type, dimensions and sums: fixed keys, numbers, message.
const ROW_JSON_BYTES: usize = 640;

/// Places of a type's fields in one batch.
pub(crate) struct Fields {
    dimensions: Vec<Option<FieldId>>,
    sums: Vec<Option<FieldId>>,
}

impl Fields {
    pub(crate) fn resolve(programs: &[&Program], batch: &Batch) -> Self {
        let dimensions = programs.iter().flat_map(|p| p.dimensions);
        let sums = programs.iter().flat_map(|p| p.sums);
        Fields {
            dimensions: dimensions.map(|name| batch.field_id(name)).collect(),
            sums: sums.map(|sum| batch.field_id(sum.field)).collect(),
        }
    }
}

/// What bounds a bucket's growth; see [`SummaryConfig`](crate::SummaryConfig).
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Values of a dimension counted under their own names.
    pub values_max: usize,
    /// JSON bytes that may still be added, by this line, before everything new is [`OTHER`].
    pub json_bytes_left: usize,
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

    /// Counts a line and says by how many bytes, at most, the bucket's JSON grew.
    #[inline]
    pub(crate) fn add(&mut self, row: &Row<'_>, fields: &Fields, limits: Limits) -> usize {
        self.lines += 1;
        self.bytes += row.raw().len() as u64;
        let mut grown = 0;
        for (counter, field) in self.dimensions.iter_mut().zip(&fields.dimensions) {
            let value = field.and_then(|id| row.get(id)).unwrap_or_default();
            if !value.is_empty() {
                let left = limits.json_bytes_left.saturating_sub(grown);
                grown += counter.add(value, limits.values_max, left);
            }
        }
        for (sum, field) in self.sums.iter_mut().zip(&fields.sums) {
            let number = field.and_then(|id| row.get(id)).and_then(whole_number);
            *sum = sum.saturating_add(number.unwrap_or(0));
        }
        grown
    }

    /// The counts as a row.
    pub(crate) fn row(
        &self,
        time_ns: i64,
        bucket_s: u64,
        summary_of: &str,
        programs: &[&Program],
    ) -> SummaryRow {
        let names = programs.iter().flat_map(|p| p.dimensions);
        let counted = self.dimensions.iter().zip(names).filter_map(|(counter, name)| {
            let values = counter.named();
            (!values.is_empty()).then(|| ((*name).to_owned(), values))
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
        }
    }
}

impl Counter {
    #[inline]
    fn add(&mut self, value: &[u8], values_max: usize, json_bytes_left: usize) -> usize {
        if let Some(lines) = self.values.get_mut(value) {
            *lines += 1;
            return 0;
        }
        self.add_new(value, values_max, json_bytes_left)
    }

    #[cold]
    fn add_new(&mut self, value: &[u8], values_max: usize, json_bytes_left: usize) -> usize {
        let grown = text_json_bytes(value) + COUNT_JSON_BYTES;
        let room = self.values.len() < values_max && grown <= json_bytes_left;
        if !room || value.len() > VALUE_BYTES_MAX {
            self.other += 1;
            return 0;
        }
        self.values.insert(value.into(), 1);
        grown
    }

    /// The counts by name; bytes that are not UTF-8 are shown as U+FFFD, and values that then look alike fall
    /// together.
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
    let names = programs.iter().flat_map(|p| p.dimensions);
    let dimensions = names.map(|n| n.len() + OTHER.len() + 2 * COUNT_JSON_BYTES).sum::<usize>();
    let sums = programs.iter().flat_map(|p| p.sums);
    let sums = sums.map(|s| s.name.len() + COUNT_JSON_BYTES).sum::<usize>();
    // The type's name stands in the key and in the message.
    ROW_JSON_BYTES + 2 * text_json_bytes(log_type.as_bytes()) + dimensions + sums
}

/// Bytes of a text in JSON without its quotes. At most six for each byte (`\u0000`); three where it is not
/// UTF-8.
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
