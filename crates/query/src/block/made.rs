//! Rows that hold their own bytes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Each;
use super::change::{Change, Named, NewNames};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Meter, RunError};

/// Bytes and fields of a row up to which its memory is counted once at the end, not while it grows.
const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
const UNCOUNTED_FIELDS_MAX: usize = 1 << 10;

/// Bytes of the values of a row, since offsets have 32 bits. Beyond it the query fails.
pub(crate) const ROW_BYTES_MAX: usize = 2 << 30;

/// A row that a pipe made, or a copy of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeRow {
    fields: Vec<MadeField>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct MadeField {
    name: Arc<str>,
    at: u32,
    length: u32,
    hidden: bool,
}

impl Named for MadeField {
    fn name(&self) -> &Arc<str> {
        &self.name
    }
    fn set_name(&mut self, name: Arc<str>) {
        self.name = name;
    }
    fn hidden(&self) -> bool {
        self.hidden
    }
    fn set_hidden(&mut self, hidden: bool) {
        self.hidden = hidden;
    }
}

impl MadeRow {
    /// Reserves room for more fields and more bytes of values.
    pub fn reserve(&mut self, fields: usize, bytes: usize) {
        self.fields.reserve_exact(fields);
        self.bytes.reserve_exact(bytes);
    }

    /// Copies the fields that `visit` shows, without those named in `without`. The
    /// [`MadeRow::memory_bytes`] are counted while the row grows, and stay counted.
    pub fn copy_without(
        without: &[String],
        meter: &mut Meter,
        visit: impl FnOnce(Each<'_>),
    ) -> Result<MadeRow, RunError> {
        let mut copy = MadeRow::default();
        let mut counted = 0;
        let mut result = Ok(());
        visit(&mut |name, value, hidden| {
            if result.is_err() || without.iter().any(|w| **w == **name) && !hidden {
                return;
            }
            result = copy.make_room(value.len(), &mut counted, meter);
            if result.is_ok() {
                copy.push(name.clone(), value);
                copy.fields.last_mut().expect("just pushed").hidden = hidden;
            }
        });
        result?;
        copy.bytes.shrink_to_fit();
        copy.fields.shrink_to_fit();
        let bytes = copy.memory_bytes();
        match bytes > counted {
            true => meter.take(bytes - counted)?,
            false => meter.give_back(counted - bytes),
        }
        Ok(copy)
    }

    /// Encodes the row: the number of fields, then each with its name, whether it is hidden, and
    /// its value.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.fields.len() as u64)?;
        self.fields.iter().try_for_each(|field| {
            out.bytes(field.name.as_bytes())?;
            out.flag(field.hidden)?;
            out.bytes(self.value(field))
        })
    }

    /// Decodes a row of [`MadeRow::encode`]; its memory is counted as in [`MadeRow::copy_without`].
    pub fn decode(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<MadeRow, RunError> {
        let fields = from.length(2 * size_of::<u32>() + 1)?;
        let mut names = meter.clone();
        let mut result = Ok(());
        let row = MadeRow::copy_without(&[], meter, |each| {
            result = (0..fields).try_for_each(|_| {
                let name = from.name(&mut names)?;
                let is_hidden = from.flag()?;
                each(&name, from.bytes()?, is_hidden);
                Ok(())
            });
        })?;
        result.map(|()| row)
    }

    /// Makes room for one more value, and counts it unless it is small; `counted` is the number of
    /// bytes counted so far.
    #[inline]
    pub fn make_room(
        &mut self,
        more: usize,
        counted: &mut usize,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let needed = self.bytes.len() + more;
        if needed <= UNCOUNTED_BYTES_MAX && self.fields.len() < UNCOUNTED_FIELDS_MAX {
            return Ok(());
        }
        if needed > ROW_BYTES_MAX {
            return Err(RunError::RowBytesLimit(ROW_BYTES_MAX));
        }
        let needed = needed.max(self.bytes.capacity());
        let fields = (self.fields.len() + 1).next_power_of_two() * size_of::<MadeField>();
        if needed + fields > *counted {
            let bytes = needed + needed / 4 + fields;
            meter.take(bytes - *counted)?;
            *counted = bytes;
        }
        // Growing by a quarter means that appending value by value copies each byte only a few
        // times.
        if needed > self.bytes.capacity() {
            self.grow(needed + needed / 4, meter)?;
        }
        Ok(())
    }

    /// Moves the values to a larger allocation, which the caller has counted. The old one exists
    /// until all is copied and is counted meanwhile.
    fn grow(&mut self, capacity: usize, meter: &mut Meter) -> Result<(), RunError> {
        let old = self.bytes.capacity();
        meter.take(old)?;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        meter.give_back(old);
        Ok(())
    }

    /// Names and values of the fields.
    pub fn fields(&self) -> impl Iterator<Item = (&Arc<str>, &[u8])> {
        self.fields.iter().map(|field| (&field.name, self.value(field)))
    }

    /// Renames each field.
    pub fn rename(&mut self, mut name: impl FnMut(&str) -> Arc<str>) {
        self.fields.iter_mut().for_each(|field| field.name = name(&field.name));
    }

    /// Applies a change to the fields. Returns the memory counted for the growth of the row.
    pub fn change(
        &mut self,
        change: &Change,
        names: &mut NewNames,
        meter: &mut Meter,
    ) -> Result<usize, RunError> {
        let before = self.memory_bytes();
        let counted = change.apply(&mut self.fields, names, meter)?;
        let more = self.memory_bytes().saturating_sub(before);
        match more.cmp(&counted) {
            Ordering::Greater => meter.take(more - counted)?,
            Ordering::Equal => {}
            Ordering::Less => meter.give_back(counted - more),
        }
        Ok(more)
    }

    /// Sets the value of a field; a new field comes behind the other visible ones.
    pub fn set(&mut self, name: &Arc<str>, value: &[u8]) {
        let (at, length) = (self.bytes.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(value);
        match self.fields.iter_mut().find(|f| !f.hidden && *f.name == **name) {
            Some(field) => (field.at, field.length) = (at, length),
            None => {
                // Hidden fields come last, so that a visible field of the same name is found first.
                self.fields.sort_by_key(|f| f.hidden);
                let place = self.fields.partition_point(|f| !f.hidden);
                let field = MadeField { name: name.clone(), at, length, hidden: false };
                self.fields.insert(place, field);
            }
        }
    }

    /// As [`MadeRow::set`], after counting the memory.
    pub fn set_counted(
        &mut self,
        name: &Arc<str>,
        value: &[u8],
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let needed = self.bytes.len() + value.len();
        if needed > ROW_BYTES_MAX {
            return Err(RunError::RowBytesLimit(ROW_BYTES_MAX));
        }
        let before = self.memory_bytes();
        if needed > self.bytes.capacity() {
            let capacity = needed + needed / 4;
            meter.take(capacity - self.bytes.capacity())?;
            self.grow(capacity, meter)?;
        }
        let counted = self.memory_bytes();
        self.set(name, value);
        meter.take(self.memory_bytes().saturating_sub(counted.max(before)))
    }

    /// As [`MadeRow::set`], for values that may together exceed [`ROW_BYTES_MAX`].
    pub fn set_within(&mut self, name: &Arc<str>, value: &[u8]) -> Result<(), RunError> {
        if self.bytes.len() + value.len() > ROW_BYTES_MAX {
            return Err(RunError::RowBytesLimit(ROW_BYTES_MAX));
        }
        self.set(name, value);
        Ok(())
    }

    /// Appends a field.
    pub fn push(&mut self, name: Arc<str>, value: &[u8]) {
        let (at, length) = (self.bytes.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(value);
        self.fields.push(MadeField { name, at, length, hidden: false });
    }

    /// The value of a field; empty when the row does not have it.
    pub fn get(&self, name: &str) -> &[u8] {
        self.fields.iter().find(|f| *f.name == *name).map_or(&[], |f| self.value(f))
    }

    /// The value of a field that the row has, even if it is empty.
    pub fn stored(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|f| *f.name == *name).map(|f| self.value(f))
    }

    fn value(&self, field: &MadeField) -> &[u8] {
        &self.bytes[field.at as usize..][..field.length as usize]
    }

    pub(crate) fn visit(&self, include: &[String], each: Each<'_>) {
        for field in &self.fields {
            let value = self.value(field);
            let shown = !field.hidden || include.iter().any(|i| **i == *field.name);
            if shown && (field.length > 0 || field.hidden) {
                each(&field.name, value, field.hidden);
            }
        }
    }

    /// Number of fields, and bytes of their values; shared bytes count for each field.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.fields.len(), self.bytes.len())
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.fields.capacity() * size_of::<MadeField>() + self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Limits;
    use crate::lang::context::Context;

    /// The old allocation exists until its bytes are copied: both together stay within the limit.
    #[test]
    fn what_is_copied_while_a_row_grows_is_counted() {
        let limit = 16 << 20;
        let limits = Limits { memory_bytes_max: limit as u64, ..Limits::default() };
        let mut meter = Context { limits, ..Context::default() }.meter();
        let value = vec![b'x'; 1 << 20];
        let (mut row, mut counted, mut moved) = (MadeRow::default(), 0, 0);
        let error = loop {
            let before = row.bytes.capacity();
            match row.make_room(value.len(), &mut counted, &mut meter) {
                Ok(()) => row.push("field".into(), &value),
                Err(error) => break error,
            }
            if row.bytes.capacity() > before {
                moved = before + row.bytes.capacity();
                assert!(moved <= limit, "{moved} bytes while it grows");
            }
        };
        assert!(matches!(error, RunError::MemoryLimit(_)), "{error}");
        assert!(moved > limit / 2, "it ended at {moved} bytes, long before the limit");
        assert!(meter.held() >= row.memory_bytes() as u64, "{} counted", meter.held());
    }
}
