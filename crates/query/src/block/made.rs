//! Rows with bytes of their own.

use std::sync::Arc;

use super::Each;
use super::change::{Change, Named};

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
    /// With room for so many fields and bytes of values; there may be more of both.
    pub fn with_room(fields: usize, bytes: usize) -> MadeRow {
        MadeRow { fields: Vec::with_capacity(fields), bytes: Vec::with_capacity(bytes) }
    }

    /// A copy of the visible fields of a row of a block, and of the hidden ones in `include`.
    pub(super) fn copy_of(visit: impl FnOnce(Each<'_>)) -> MadeRow {
        MadeRow::copy_without(&[], visit)
    }

    /// A copy without some fields.
    pub fn copy_without(without: &[String], visit: impl FnOnce(Each<'_>)) -> MadeRow {
        let mut copy = MadeRow::default();
        visit(&mut |name, value, hidden| {
            if without.iter().any(|w| **w == **name) && !hidden {
                return;
            }
            copy.push(name.clone(), value);
            copy.fields.last_mut().expect("just pushed").hidden = hidden;
        });
        copy.bytes.shrink_to_fit();
        copy.fields.shrink_to_fit();
        copy
    }

    /// Names and values of the fields.
    pub fn fields(&self) -> impl Iterator<Item = (&Arc<str>, &[u8])> {
        self.fields.iter().map(|field| (&field.name, self.value(field)))
    }

    /// Changes which fields there are.
    pub fn change(&mut self, change: &Change) {
        change.apply(&mut self.fields);
    }

    /// Gives a field a value, behind the other visible ones if it was not there.
    pub fn set(&mut self, name: &Arc<str>, value: &[u8]) {
        let (at, length) = (self.bytes.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(value);
        match self.fields.iter_mut().find(|f| !f.hidden && *f.name == **name) {
            Some(field) => (field.at, field.length) = (at, length),
            None => {
                // Hidden ones are last, so that a visible one of the same name is found first.
                self.fields.sort_by_key(|f| f.hidden);
                let place = self.fields.partition_point(|f| !f.hidden);
                let field = MadeField { name: name.clone(), at, length, hidden: false };
                self.fields.insert(place, field);
            }
        }
    }

    /// Adds a field behind the others.
    pub fn push(&mut self, name: Arc<str>, value: &[u8]) {
        let (at, length) = (self.bytes.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(value);
        self.fields.push(MadeField { name, at, length, hidden: false });
    }

    /// The value of a field; empty when there is none.
    pub fn get(&self, name: &str) -> &[u8] {
        self.fields.iter().find(|f| *f.name == *name).map_or(&[], |f| self.value(f))
    }

    /// The value of a field that is there, empty or not.
    pub fn stored(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|f| *f.name == *name).map(|f| self.value(f))
    }

    fn value(&self, field: &MadeField) -> &[u8] {
        &self.bytes[field.at as usize..][..field.length as usize]
    }

    pub(super) fn visit(&self, include: &[String], each: Each<'_>) {
        for field in &self.fields {
            let value = self.value(field);
            let shown = !field.hidden || include.iter().any(|i| **i == *field.name);
            if shown && (field.length > 0 || field.hidden) {
                each(&field.name, value, field.hidden);
            }
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.fields.capacity() * size_of::<MadeField>() + self.bytes.capacity()
    }
}
