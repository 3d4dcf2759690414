//! The catalog: one row for each segment, in SQLite, for start-up and for people with `sqlite3`;
//! and the requested deletions.
//!
//! The catalog repeats the content of segment files and can be rebuilt from them, with two
//! exceptions: the valid length of a file that could not be closed properly (state `kept`), and
//! which deletions and rules were applied to a segment. Deletions, and the identities of other
//! nodes, are recorded only here.
//!
//! SQLite uses a rollback journal that is truncated. Rows change a few times an hour and from one
//! connection, so a write-ahead log would gain nothing. It would cost two more files, shared memory
//! (none on network file systems), and a database that is not complete in one file when it is
//! copied.

mod clock;
mod deletions;
mod departed;
mod file;
mod nodes;
mod notes;
mod rows;
pub(crate) mod schema;

use std::cell::RefCell;
use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::StoreError;
use schema::{SCHEMA_VERSION, create, prepare};

pub use deletions::{Deletion, DeletionState};

pub(crate) use clock::{ClockRecord, HeldClock};
pub(crate) use deletions::DeletionScope;
pub(crate) use departed::{Departed, DepartedLines, note_departed};
pub(crate) use file::{open_file, without_links};
pub(crate) use nodes::NodeRow;
pub(crate) use rows::{LOCAL, Own, RowState, SegmentRow};

pub(crate) struct Catalog {
    connection: Connection,
    file: String,
    /// Changes of a start that are not written yet.
    notes: RefCell<notes::Notes>,
}

impl Catalog {
    /// Opens the catalog, or creates it; None: in memory. If it is there and has no change to be
    /// rolled back, nothing is written.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, StoreError> {
        let file = path.as_ref().map_or("(in memory)".to_owned(), |p| p.display().to_string());
        let connection = match path {
            Some(path) => open_file(&path, OpenFlags::default())?,
            None => {
                Connection::open_in_memory().map_err(|source| StoreError::catalog(&file, source))?
            }
        };
        let mut catalog = Catalog { connection, file, notes: RefCell::default() };
        match catalog.wrap(prepare(&catalog.connection))? {
            Some(SCHEMA_VERSION) => {}
            Some(found) => {
                let file = catalog.file;
                return Err(StoreError::CatalogVersion { file, expected: SCHEMA_VERSION, found });
            }
            None => {
                let created = create(&mut catalog.connection);
                catalog.wrap(created)?;
            }
        }
        Ok(catalog)
    }

    pub(crate) fn node(&self) -> Result<Option<u32>, StoreError> {
        self.meta("node")
    }

    /// Records the id of this node. Nothing is written if it is recorded already.
    pub(crate) fn set_node(&self, node: u32) -> Result<(), StoreError> {
        if self.node()? == Some(node) {
            return Ok(());
        }
        self.set_meta("node", node.into())
    }

    fn meta<T: rusqlite::types::FromSql>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        self.wrap(self.connection.query_row(sql, [key], |row| row.get(0)).optional())
    }

    fn set_meta(&self, key: &str, value: i64) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        self.wrap(self.connection.execute(sql, (key, value))).map(|_| ())
    }

    fn wrap<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| StoreError::catalog(&self.file, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_or_damage_is_an_error_that_names_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let catalog = Catalog::open(Some(path.clone())).unwrap();
        for version in [1, SCHEMA_VERSION - 1, SCHEMA_VERSION + 1] {
            let other = "UPDATE meta SET value = ?1 WHERE key = 'schema_version'";
            catalog.connection.execute(other, [version]).unwrap();
            let error = Catalog::open(Some(path.clone())).err().unwrap().to_string();
            let named = format!("catalog.sqlite has schema version {version}; this program reads");
            assert!(error.contains(&named) && error.contains("move the file away"), "{error}");
        }
        drop(catalog);
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let error = Catalog::open(Some(path)).err().unwrap().to_string();
        assert!(error.contains("move it away"), "{error}");
    }
}
