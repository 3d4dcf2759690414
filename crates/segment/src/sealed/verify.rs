//! Compares the rows of a block, as they would be read again, with their sources.
//!
//! Two rows are the same record when line, name, times and origin are, and every field: its name, and its value byte
//! for byte. A value at the same place of the same line needs no second look. Rows of one stem have the same origin
//! and the same values in the fields of the stem, so two stems are compared once, and of their rows the other fields.

use std::collections::HashSet;
use std::sync::Arc;

use record::{Batch, FieldId, Place, Row, StemId};

use super::block::RowRef;

/// The place of the first row of `restored` that is not the same record as its source; none when all are.
pub(crate) fn first_different(
    restored: &Batch,
    batches: &[Arc<Batch>],
    rows: &[RowRef],
) -> Option<usize> {
    if restored.len() != rows.len() {
        return Some(restored.len().min(rows.len()).saturating_sub(1));
    }
    let mut sources: Vec<Option<Source>> = Vec::new();
    sources.resize_with(batches.len(), || None);
    restored.rows().zip(rows).position(|(found, at)| {
        let batch = &*batches[at.batch as usize];
        let source = sources[at.batch as usize].get_or_insert_with(|| Source::new(batch, restored));
        !source.alike(&found, &batch.row(at.row as usize))
    })
}

/// What was found out about a source.
struct Source<'a> {
    restored: &'a Batch,
    batch: &'a Batch,
    /// Numbers of names in the source, by those in the restored block.
    names: Vec<Option<FieldId>>,
    /// By number of a stem of the source, the stem of the block that was alike last.
    last: Vec<Option<StemId>>,
    /// Stems of block and source that are alike.
    alike: HashSet<(StemId, StemId), foldhash::fast::RandomState>,
}

impl<'a> Source<'a> {
    fn new(batch: &'a Batch, restored: &'a Batch) -> Self {
        Source {
            restored,
            batch,
            names: restored.names().iter().map(|name| batch.field_id(name)).collect(),
            last: vec![None; batch.stems()],
            alike: HashSet::default(),
        }
    }

    /// Whether a restored row and its source are the same record.
    #[inline]
    fn alike(&mut self, found: &Row<'_>, expected: &Row<'_>) -> bool {
        found.raw() == expected.raw()
            && found.id() == expected.id()
            && found.time_ns() == expected.time_ns()
            && found.received_ns() == expected.received_ns()
            && found.fields_count() == expected.fields_count()
            && self.stems_alike(found, expected)
            && self.fields_alike(found, expected)
    }

    /// Whether the rows have the same origin, and the same values, or values at the same places, in the last fields:
    /// as many as stand in both stems.
    #[inline]
    fn stems_alike(&mut self, found: &Row<'_>, expected: &Row<'_>) -> bool {
        let place = usize::from(expected.stem().0);
        self.last[place] == Some(found.stem()) || self.other_stems_alike(found, expected)
    }

    fn other_stems_alike(&mut self, found: &Row<'_>, expected: &Row<'_>) -> bool {
        let pair = (found.stem(), expected.stem());
        if !self.alike.contains(&pair) {
            let shared = found.stem_fields().min(expected.stem_fields());
            let own = found.fields_count() - shared;
            let origin =
                |batch: &'a Batch, row: &Row<'_>| &batch.origins()[usize::from(row.origin_index())];
            if origin(self.restored, found) != origin(self.batch, expected)
                || !self.same_fields(found, expected, own..own + shared)
            {
                return false;
            }
            self.alike.insert(pair);
        }
        self.last[usize::from(expected.stem().0)] = Some(found.stem());
        true
    }

    /// Whether the rows have the same values in the fields that are not of both stems.
    #[inline]
    fn fields_alike(&self, found: &Row<'_>, expected: &Row<'_>) -> bool {
        let (own_a, own_b) = (found.own_places(), expected.own_places());
        let (least, most) = (own_a.len().min(own_b.len()), own_a.len().max(own_b.len()));
        let mut parts = own_a.zip(own_b).enumerate();
        parts.all(|(place, (a, b))| self.same_field(found, expected, place, a, b))
            && (least == most || self.same_fields(found, expected, least..most))
    }

    /// Whether the rows, which have the same line, have the same fields at these places.
    #[inline]
    fn same_fields(
        &self,
        found: &Row<'_>,
        expected: &Row<'_>,
        places: std::ops::Range<usize>,
    ) -> bool {
        places.into_iter().all(|place| {
            let (a, b) = (found.place_at(place), expected.place_at(place));
            self.same_field(found, expected, place, a, b)
        })
    }

    /// Whether `a` and `b`, the fields at `place` of the two rows, are the same.
    #[inline]
    fn same_field(
        &self,
        found: &Row<'_>,
        expected: &Row<'_>,
        place: usize,
        a: (FieldId, Place, u32),
        b: (FieldId, Place, u32),
    ) -> bool {
        let ((name_a, at_a, length_a), (name_b, at_b, length_b)) = (a, b);
        let same_value = match (at_a, at_b) {
            (Place::Line(a), Place::Line(b)) => a == b || length_a == 0,
            _ => found.field_at(place) == expected.field_at(place),
        };
        self.names[usize::from(name_a.0)] == Some(name_b) && length_a == length_b && same_value
    }
}
