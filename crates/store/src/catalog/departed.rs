//! Rows of the table of lines that retention deleted.

use rusqlite::{Connection, params};

use super::rows::put;
use super::{Catalog, SegmentRow};
use crate::error::StoreError;
use crate::segments::departed::{DEPARTED_MAX, Departed};

impl Catalog {
    /// All ranges, by the last number.
    pub(crate) fn departed(&self) -> Result<Vec<Departed>, StoreError> {
        self.wrap(read(&self.connection))
    }

    /// Writes the row of a segment that is to be deleted, and the range of its lines, in one
    /// transaction. Beyond [`DEPARTED_MAX`] the oldest two ranges become one.
    pub(crate) fn depart(
        &mut self,
        row: &SegmentRow,
        departed: Option<&Departed>,
    ) -> Result<(), StoreError> {
        self.transact(|connection| {
            put(connection, row)?;
            let Some(departed) = departed else { return Ok(()) };
            let sql =
                "INSERT INTO departed (sequence_last, sequence_first, lines) VALUES (?1, ?2, ?3)";
            let insert = |(first, last): (u64, u64), lines: u64| {
                connection.execute(sql, params![last as i64, first as i64, lines as i64])
            };
            insert(departed.sequence, departed.lines)?;
            let count: i64 =
                connection.query_row("SELECT count(*) FROM departed", [], |row| row.get(0))?;
            if count as usize > DEPARTED_MAX {
                let oldest = read(connection)?;
                let (a, b) = (oldest[0], oldest[1]);
                let sql = "DELETE FROM departed WHERE rowid IN \
                    (SELECT rowid FROM departed ORDER BY sequence_last, rowid LIMIT 2)";
                connection.execute(sql, [])?;
                insert((a.sequence.0.min(b.sequence.0), b.sequence.1), a.lines + b.lines)?;
            }
            Ok(())
        })
    }

    /// Removes the range of a segment that was not deleted after all.
    pub(crate) fn forget_departed(&self, departed: Option<&Departed>) -> Result<(), StoreError> {
        let Some(departed) = departed else { return Ok(()) };
        let sql = "DELETE FROM departed WHERE rowid = (SELECT max(rowid) FROM departed \
            WHERE sequence_last = ?1 AND sequence_first = ?2 AND lines = ?3)";
        let (first, last) = departed.sequence;
        let values = params![last as i64, first as i64, departed.lines as i64];
        self.wrap(self.connection.execute(sql, values)).map(|_| ())
    }
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<Departed>> {
    let sql = "SELECT sequence_first, sequence_last, lines FROM departed \
        ORDER BY sequence_last, rowid";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let number = |place: usize| row.get::<_, i64>(place).map(|number| number as u64);
        Ok(Departed { sequence: (number(0)?, number(1)?), lines: number(2)? })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{LOCAL, Own, RowState};
    use crate::segments::departed::note_departed;

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
        let mut expected = Vec::new();
        for place in 0..DEPARTED_MAX as u64 + 3 {
            let departed = Departed { sequence: (2 * place, 2 * place + 9), lines: place };
            catalog.depart(&row, Some(&departed)).unwrap();
            note_departed(&mut expected, departed);
        }
        assert_eq!(catalog.departed().unwrap(), expected);
        let last = expected.pop().unwrap();
        catalog.forget_departed(Some(&last)).unwrap();
        catalog.forget_departed(None).unwrap();
        assert_eq!(catalog.departed().unwrap(), expected);
    }
}
