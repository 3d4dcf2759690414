//! The fields of one row, and the fields that all rows of a group have in common.

use std::sync::Arc;

use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};
use crate::lang::pipe::tuples::ENTRY_BYTES;

/// Longest value that can be in common, and that is counted as a value of its field.
pub(super) const VALUE_BYTES_MAX: usize = 128;

/// The fields of a row, with shared names.
#[derive(Default)]
pub(super) struct Row {
    bytes: Vec<u8>,
    fields: Vec<(Arc<str>, usize, usize)>,
}

impl Row {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
    }

    /// Adds a field; those with long values are left out.
    pub fn push(&mut self, name: &Arc<str>, value: &[u8]) {
        if value.len() <= VALUE_BYTES_MAX {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(value);
            self.fields.push((name.clone(), start, self.bytes.len()));
        }
    }

    fn get(&self, name: &Arc<str>) -> Option<&[u8]> {
        // Names are nearly always shared, so that comparing pointers is enough.
        let mut fields = self.fields.iter();
        let found = fields.find(|(own, ..)| Arc::ptr_eq(own, name) || own == name);
        found.map(|&(_, start, end)| &self.bytes[start..end])
    }
}

/// Fields that all rows of a group have, with the same values, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Common(Vec<(Arc<str>, Box<[u8]>)>);

fn entry_bytes(name: &str, value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}

impl Common {
    /// The fields of a group with one row.
    pub fn of(row: &Row, meter: &mut Meter) -> Result<Common, RunError> {
        let mut fields = Vec::with_capacity(row.fields.len());
        for (name, start, end) in &row.fields {
            let value = &row.bytes[*start..*end];
            meter.take(entry_bytes(name, value))?;
            fields.push((name.clone(), value.into()));
        }
        fields.sort_unstable();
        fields.dedup_by(|a, b| a.0 == b.0);
        Ok(Common(fields))
    }

    /// Keeps only the fields that a further row has too.
    pub fn keep_row(&mut self, row: &Row, meter: &mut Meter) {
        self.retain(meter, |name, value| row.get(name) == Some(value));
    }

    /// Keeps only the fields that another group has too.
    pub fn keep(&mut self, other: &Common, meter: &mut Meter) {
        self.retain(meter, |name, value| other.get(name) == Some(value));
    }

    fn retain(&mut self, meter: &mut Meter, mut is_kept: impl FnMut(&Arc<str>, &[u8]) -> bool) {
        self.0.retain(|(name, value)| {
            let kept = is_kept(name, value);
            if !kept {
                meter.give_back(entry_bytes(name, value));
            }
            kept
        });
    }

    /// Memory that is counted for the fields.
    pub fn counted_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| entry_bytes(name, value)).sum()
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let place = self.0.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.0[place].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &[u8])> {
        self.0.iter().map(|(name, value)| (name, &**value))
    }

    /// Format: the number of fields, then each name with its value.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.0.len() as u64)?;
        self.0.iter().try_for_each(|(name, value)| {
            out.bytes(name.as_bytes())?;
            out.bytes(value)
        })
    }

    pub fn decode(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Common, RunError> {
        let mut fields = Vec::new();
        for _ in 0..from.length(2 * size_of::<u32>())? {
            let (name, value) = (from.name(meter)?, from.bytes()?);
            meter.take(entry_bytes(&name, value))?;
            fields.push((name, value.into()));
        }
        fields.sort_unstable();
        Ok(Common(fields))
    }
}
