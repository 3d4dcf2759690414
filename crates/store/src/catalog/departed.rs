//! Lines that retention deleted with their segments, remembered for readers that had not read them
//! yet: the list in memory, and its rows in the catalog.

use std::sync::Mutex;

use rusqlite::{Connection, params};

use super::rows::put;
use super::{Catalog, SegmentRow};
use crate::error::StoreError;
use crate::sync::lock;

/// Ranges of deleted lines that are remembered. Beyond this number the oldest two become one, so
/// that a reader may get too high a count of skipped lines.
const DEPARTED_MAX: usize = 1_000;

/// Lines that retention deleted with one segment, or with several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departed {
    /// Sequence numbers of their frames, first and last.
    pub(crate) sequence: (u64, u64),
    pub(crate) lines: u64,
}

/// The remembered ranges of one store, sorted by their last number.
pub(crate) struct DepartedLines {
    ranges: Mutex<Vec<Departed>>,
}

impl DepartedLines {
    pub(crate) fn new(ranges: Vec<Departed>) -> Self {
        DepartedLines { ranges: Mutex::new(ranges) }
    }

    pub(crate) fn all(&self) -> Vec<Departed> {
        lock(&self.ranges).clone()
    }

    pub(crate) fn set(&self, ranges: Vec<Departed>) {
        *lock(&self.ranges) = ranges;
    }

    /// Lines of the ranges that a reader passes when it goes from `after` to `through`.
    pub(crate) fn lines_between(&self, after: u64, through: u64) -> u64 {
        let is_passed = |range: &&Departed| after < range.sequence.1 && range.sequence.1 <= through;
        lock(&self.ranges).iter().filter(is_passed).map(|range| range.lines).sum()
    }
}

/// Adds a range; beyond [`DEPARTED_MAX`] the oldest two become one.
pub(crate) fn note_departed(all: &mut Vec<Departed>, new: Departed) {
    let at = all.partition_point(|known| known.sequence.1 <= new.sequence.1);
    all.insert(at, new);
    while all.len() > DEPARTED_MAX {
        let oldest = all.remove(0);
        let first = oldest.sequence.0.min(all[0].sequence.0);
        all[0].sequence.0 = first;
        all[0].lines += oldest.lines;
    }
}

impl Catalog {
    /// All ranges, by the last number.
    pub(crate) fn departed(&self) -> Result<Vec<Departed>, StoreError> {
        let read = || {
            let sql = "SELECT sequence_first, sequence_last, lines FROM departed \
                ORDER BY sequence_last, rowid";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                let number = |place: usize| row.get::<_, i64>(place).map(|number| number as u64);
                Ok(Departed { sequence: (number(0)?, number(1)?), lines: number(2)? })
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        self.wrap(read())
    }

    /// Writes the row of a segment that is to be deleted, and all ranges with those of its lines,
    /// in one transaction.
    pub(crate) fn depart(
        &mut self,
        row: &SegmentRow,
        ranges: &[Departed],
    ) -> Result<(), StoreError> {
        self.transact(|connection| {
            put(connection, row)?;
            set(connection, ranges)
        })
    }

    /// Writes all ranges, after a segment was not deleted after all.
    pub(crate) fn set_departed(&mut self, ranges: &[Departed]) -> Result<(), StoreError> {
        self.transact(|connection| set(connection, ranges))
    }
}

/// Replaces all ranges: they are few, and change only with whole segments.
fn set(connection: &Connection, ranges: &[Departed]) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM departed", [])?;
    let mut insert = connection.prepare(
        "INSERT INTO departed (sequence_last, sequence_first, lines) VALUES (?1, ?2, ?3)",
    )?;
    ranges.iter().try_for_each(|&Departed { sequence: (first, last), lines }| {
        insert.execute(params![last as i64, first as i64, lines as i64]).map(|_| ())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{LOCAL, Own, RowState};

    #[test]
    fn rows_say_what_is_in_memory() {
        let mut catalog = Catalog::open(None).unwrap();
        let row = SegmentRow {
            id: 1,
            file: "1.hot".to_owned(),
            state: RowState::Deleting,
            node: 1,
            created_ns: 0,
            frames: 1,
            blocks: 0,
            lines: 1,
            bytes_raw: 1,
            own: Own::default(),
            bytes_disk: 1,
            data_end: 1,
            sequence: None,
            numbers: Vec::new(),
            location: LOCAL.to_owned(),
            sequence_next: 1,
            received_ns: None,
            time_ns: None,
            effort: None,
            summarised_through: None,
            deletions_through: 0,
            rules: 0,
        };
        let mut ranges = Vec::new();
        for place in 0..5 {
            note_departed(&mut ranges, Departed { sequence: (2 * place, u64::MAX), lines: place });
            catalog.depart(&row, &ranges).unwrap();
            assert_eq!(catalog.departed().unwrap(), ranges);
        }
        ranges.pop();
        catalog.set_departed(&ranges).unwrap();
        assert_eq!(catalog.departed().unwrap(), ranges);
    }

    #[test]
    fn what_went_is_remembered_within_bounds() {
        let mut all = Vec::new();
        let most = DEPARTED_MAX as u64 + 50;
        for at in (0..most).rev() {
            note_departed(&mut all, Departed { sequence: (10 * at, 10 * at + 5), lines: 2 });
        }
        assert_eq!((all.len(), all.iter().map(|gone| gone.lines).sum()), (DEPARTED_MAX, 2 * most));
        assert_eq!(all[0].sequence, (0, 505));
        assert!(all.is_sorted_by_key(|gone| gone.sequence.1));
        let lines = DepartedLines::new(all);
        assert_eq!(lines.lines_between(505, 525), 4);
        assert_eq!(lines.lines_between(504, 504), 0);
    }
}
