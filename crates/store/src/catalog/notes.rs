//! Changes that a start makes, written together at its end.
//!
//! Each change by itself takes four syncs, and a start may have one for each segment. All of them
//! only repeat what the files say, so a start that cannot write them, on a full disk, continues.

use std::collections::BTreeMap;

use super::{Catalog, SegmentRow, rows};
use crate::error::StoreError;

/// The change of each segment: its row, or None if it is to have none.
pub(super) type Notes = BTreeMap<u64, Option<SegmentRow>>;

impl Catalog {
    /// Notes the row of a segment, replacing the one of that id.
    pub(crate) fn note_row(&self, row: &SegmentRow) {
        self.notes.borrow_mut().insert(row.id, Some(row.clone()));
    }

    /// Notes that a segment has no row any more.
    pub(crate) fn note_gone(&self, id: u64) {
        self.notes.borrow_mut().insert(id, None);
    }

    /// Writes what was noted and differs from `before`, the rows that there are, in one
    /// transaction. After an error nothing of it is written.
    pub(crate) fn write_notes(
        &mut self,
        before: &BTreeMap<u64, SegmentRow>,
    ) -> Result<(), StoreError> {
        let mut notes = self.notes.take();
        notes.retain(|id, row| before.get(id) != row.as_ref());
        if notes.is_empty() {
            return Ok(());
        }
        self.transact(|connection| {
            notes.iter().try_for_each(|(id, row)| match row {
                Some(row) => rows::put(connection, row),
                None => rows::remove(connection, *id),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::rows::tests::row;

    #[test]
    fn notes_are_written_together_and_only_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(Some(dir.path().join("catalog.sqlite"))).unwrap();
        (1..=3).for_each(|id| catalog.put(&row(id)).unwrap());
        let rows = |catalog: &Catalog| {
            let rows = catalog.rows().unwrap();
            rows.into_iter().map(|row| (row.id, row)).collect::<BTreeMap<_, _>>()
        };
        let before = rows(&catalog);
        let changes = catalog.connection.total_changes();
        catalog.note_row(&before[&1]);
        catalog.note_gone(9);
        catalog.write_notes(&before).unwrap();
        assert_eq!(catalog.connection.total_changes(), changes);
        catalog.note_gone(2);
        catalog.note_row(&SegmentRow { lines: 7, ..row(3) });
        catalog.note_row(&row(4));
        catalog.write_notes(&before).unwrap();
        let after = rows(&catalog);
        assert_eq!(after.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(after[&3].lines, 7);
    }

    #[test]
    fn a_full_disk_is_told_and_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(Some(dir.path().join("catalog.sqlite"))).unwrap();
        // SQLite answers as on a full disk.
        catalog.connection.pragma_update(None, "max_page_count", 1).unwrap();
        (1..=1000).for_each(|id| catalog.note_row(&row(id)));
        let error = catalog.write_notes(&BTreeMap::new()).unwrap_err();
        let text = error.to_string();
        assert!(error.is_disk_full() && text.contains("free some space"), "{text}");
        assert!(text.contains("catalog.sqlite") && !text.contains("move"), "{text}");
        assert!(catalog.rows().unwrap().is_empty());
    }
}
