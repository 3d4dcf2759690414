//! Rows of the table of deletions.

use rusqlite::{Row, params};

use super::Catalog;
use crate::error::StoreError;

/// The state of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionState {
    /// It is being carried out, or waits for that.
    Running,
    /// All segments were searched.
    Done,
    /// It cannot be carried out; [`Deletion::note`] says why.
    Failed,
    /// It was ended before it was done. Lines deleted until then are gone.
    Cancelled,
}

impl DeletionState {
    pub(crate) const ALL: [DeletionState; 4] = [
        DeletionState::Running,
        DeletionState::Done,
        DeletionState::Failed,
        DeletionState::Cancelled,
    ];

    /// Its name in the catalog and for people.
    pub fn name(self) -> &'static str {
        match self {
            DeletionState::Running => "running",
            DeletionState::Done => "done",
            DeletionState::Failed => "failed",
            DeletionState::Cancelled => "cancelled",
        }
    }
}

/// A deletion of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Its number, from 1; never used twice.
    pub id: u64,
    /// The filter that selects the lines. Empty once it is not needed any more: when the deletion
    /// is done and binds no lines that may still come.
    pub filter: String,
    /// Its state.
    pub state: DeletionState,
    /// When it was requested, nanoseconds since 1970 UTC.
    pub created_ns: i64,
    /// When it ended.
    pub finished_ns: Option<i64>,
    /// Lines deleted so far.
    pub lines: u64,
    /// A note for the operator: why it failed, what could not be searched.
    pub note: Option<String>,
    pub(crate) scope: DeletionScope,
}

/// The lines that a deletion covers, besides its filter: those that were there when it was
/// requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeletionScope {
    /// Lines of frames below this number.
    pub(crate) sequence_before: u64,
    /// The hot segments up to this one.
    pub(crate) hot_through: u64,
}

impl Deletion {
    pub(crate) fn new(filter: &str, created_ns: i64, scope: DeletionScope) -> Self {
        Deletion {
            id: 0,
            filter: filter.to_owned(),
            state: DeletionState::Running,
            created_ns,
            finished_ns: None,
            lines: 0,
            note: None,
            scope,
        }
    }
}

impl Catalog {
    /// All deletions, the oldest first.
    pub(crate) fn deletions(&self) -> Result<Vec<Deletion>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare("SELECT * FROM deletions ORDER BY id")?;
            let rows = statement.query_map([], read_row)?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        self.wrap(read())
    }

    /// Adds a deletion and gives it an id that was never used.
    pub(crate) fn add_deletion(&self, deletion: &mut Deletion) -> Result<(), StoreError> {
        let sql = "INSERT INTO deletions (filter, state, created_ns, finished_ns, sequence_before, hot_through, \
            lines, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let values = params![
            deletion.filter,
            deletion.state.name(),
            deletion.created_ns,
            deletion.finished_ns,
            deletion.scope.sequence_before as i64,
            deletion.scope.hot_through as i64,
            deletion.lines as i64,
            deletion.note,
        ];
        self.wrap(self.connection.execute(sql, values))?;
        deletion.id = self.connection.last_insert_rowid() as u64;
        Ok(())
    }

    /// Writes the state of a deletion, and its filter, which may have been removed.
    pub(crate) fn save_deletion(&self, deletion: &Deletion) -> Result<(), StoreError> {
        let sql = "UPDATE deletions SET state = ?2, finished_ns = ?3, lines = ?4, note = ?5, filter = ?6 WHERE id = ?1";
        let values = params![
            deletion.id as i64,
            deletion.state.name(),
            deletion.finished_ns,
            deletion.lines as i64,
            deletion.note,
            deletion.filter,
        ];
        self.wrap(self.connection.execute(sql, values)).map(|_| ())
    }

    /// Forgets a deletion that has ended.
    pub(crate) fn remove_deletion(&self, id: u64) -> Result<(), StoreError> {
        let sql = "DELETE FROM deletions WHERE id = ?1";
        self.wrap(self.connection.execute(sql, [id as i64])).map(|_| ())
    }
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<Deletion> {
    let u64_of = |name: &str| row.get::<_, i64>(name).map(|v| v as u64);
    let state: String = row.get("state")?;
    let state = DeletionState::ALL.into_iter().find(|s| s.name() == state);
    Ok(Deletion {
        id: u64_of("id")?,
        filter: row.get("filter")?,
        state: state.expect("the table allows no other"),
        created_ns: row.get("created_ns")?,
        finished_ns: row.get("finished_ns")?,
        lines: u64_of("lines")?,
        note: row.get("note")?,
        scope: DeletionScope {
            sequence_before: u64_of("sequence_before")?,
            hot_through: u64_of("hot_through")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_survive_and_ids_are_given_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().join("catalog.sqlite"));
        let catalog = Catalog::open(path.clone()).unwrap();
        let scope = DeletionScope { sequence_before: 7, hot_through: 3 };
        let mut first = Deletion::new("app_name:\"x\"", 5, scope);
        let mut second = Deletion::new("y", 6, scope);
        catalog.add_deletion(&mut first).unwrap();
        catalog.add_deletion(&mut second).unwrap();
        first.state = DeletionState::Done;
        (first.finished_ns, first.lines, first.note) = (Some(9), 4, Some("n".to_owned()));
        catalog.save_deletion(&first).unwrap();
        drop(catalog);
        let catalog = Catalog::open(path).unwrap();
        assert_eq!(catalog.deletions().unwrap(), [first, second.clone()]);
        catalog.remove_deletion(second.id).unwrap();
        let mut third = Deletion::new("z", 7, scope);
        catalog.add_deletion(&mut third).unwrap();
        assert_eq!(third.id, 3);
    }
}
