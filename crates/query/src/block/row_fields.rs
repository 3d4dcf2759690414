//! The fields of one row in an order that does not depend on storage: a hot line has its fields as
//! they were sent, a sealed one in the order of its columns. Texts that hold a whole row
//! (`pack_json`, `row_any`) must not change by sealing.

use std::ops::Range;

use crate::base::names::MSG;

/// Names and values of a row's fields, copied.
#[derive(Default)]
pub(crate) struct RowFields {
    bytes: Vec<u8>,
    /// Rank, name and value of each.
    fields: Vec<(usize, Range<usize>, Range<usize>)>,
}

impl RowFields {
    /// The rank of a field by default: time, stream and message come first.
    pub fn usual_rank(name: &str) -> usize {
        ["_time", "_stream", MSG].iter().position(|first| *first == name).unwrap_or(3)
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
    }

    /// Bytes of names and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a field. Fields of lower rank come first; fields of the same rank are sorted by name.
    pub fn add(&mut self, rank: usize, name: &str, value: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(name.as_bytes());
        let between = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.fields.push((rank, from..between, between..self.bytes.len()));
    }

    /// Calls `each` with names and values in order.
    pub fn each(&mut self, mut each: impl FnMut(&str, &[u8])) {
        let RowFields { bytes, fields } = self;
        fields.sort_by(|(rank_a, a, _), (rank_b, b, _)| {
            rank_a.cmp(rank_b).then_with(|| bytes[a.clone()].cmp(&bytes[b.clone()]))
        });
        for (_, name, value) in fields {
            let name = std::str::from_utf8(&bytes[name.clone()]).expect("names are UTF-8");
            each(name, &bytes[value.clone()]);
        }
    }
}
