//! The catalog: one row a segment, in SQLite, for start-up and for people with `sqlite3`.
//!
//! It repeats what the segment files say, so nothing is lost with it, with one exception that also can be
//! lost: how much of a file counts that could not be closed properly (state `kept`).
//!
//! The journal is a rollback journal that is truncated: rows change a few times an hour and from one connection,
//! so a write-ahead log would gain nothing, and would cost two more files, shared memory (none on network file
//! systems), and a database that is not whole in one file when it is copied.

use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::StoreError;

/// Version of the tables. Each step from one to the next is an entry of [`MIGRATIONS`].
const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE segments (
        id INTEGER PRIMARY KEY,
        file TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('hot', 'rolled', 'kept', 'deleting')),
        node INTEGER NOT NULL,
        created_ns INTEGER NOT NULL,
        frames INTEGER NOT NULL,
        lines INTEGER NOT NULL,
        bytes_raw INTEGER NOT NULL,
        bytes_disk INTEGER NOT NULL,
        data_end INTEGER NOT NULL,
        sequence_first INTEGER,
        sequence_last INTEGER,
        received_min_ns INTEGER,
        received_max_ns INTEGER,
        time_min_ns INTEGER,
        time_max_ns INTEGER
    ) STRICT;
"];

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// Being written.
    Hot,
    /// Closed.
    Rolled,
    /// Closed as it was, because writing to it failed or more is in it than can be read; never written again.
    Kept,
    /// Being removed.
    Deleting,
}

impl RowState {
    fn name(self) -> &'static str {
        match self {
            RowState::Hot => "hot",
            RowState::Rolled => "rolled",
            RowState::Kept => "kept",
            RowState::Deleting => "deleting",
        }
    }
}

/// A row of the table of segments. Ranges are from first to last, both inclusive; none when not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRow {
    pub(crate) id: u64,
    pub(crate) file: String,
    pub(crate) state: RowState,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    pub(crate) frames: u64,
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    pub(crate) bytes_disk: u64,
    pub(crate) data_end: u64,
    pub(crate) sequence: Option<(u64, u64)>,
    pub(crate) received_ns: Option<(i64, i64)>,
    pub(crate) time_ns: Option<(i64, i64)>,
}

pub(crate) struct Catalog {
    connection: Connection,
    file: String,
}

impl Catalog {
    /// Opens or makes it; None: in memory.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, StoreError> {
        let file = path.as_ref().map_or("(in memory)".to_owned(), |p| p.display().to_string());
        let connection = match path {
            Some(path) => Connection::open(path),
            None => Connection::open_in_memory(),
        };
        let connection =
            connection.map_err(|source| StoreError::Catalog { file: file.clone(), source })?;
        let mut catalog = Catalog { connection, file };
        let found = catalog.wrap(prepare(&catalog.connection))?;
        if found > SCHEMA_VERSION {
            let file = catalog.file;
            return Err(StoreError::CatalogVersion { file, expected: SCHEMA_VERSION, found });
        }
        let migrated = migrate(&mut catalog.connection, found);
        catalog.wrap(migrated)?;
        Ok(catalog)
    }

    pub(crate) fn node(&self) -> Result<Option<u32>, StoreError> {
        let sql = "SELECT value FROM meta WHERE key = 'node'";
        self.wrap(self.connection.query_row(sql, [], |row| row.get(0)).optional())
    }

    pub(crate) fn set_node(&self, node: u32) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('node', ?1)";
        self.wrap(self.connection.execute(sql, [node])).map(|_| ())
    }

    /// All rows, by id.
    pub(crate) fn rows(&self) -> Result<Vec<SegmentRow>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare("SELECT * FROM segments ORDER BY id")?;
            let rows = statement.query_map([], read_row)?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        self.wrap(read())
    }

    /// Writes a row, replacing the one of that id.
    pub(crate) fn put(&self, row: &SegmentRow) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO segments (id, file, state, node, created_ns, frames, lines, bytes_raw, \
            bytes_disk, data_end, sequence_first, sequence_last, received_min_ns, received_max_ns, time_min_ns, \
            time_max_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
        let written = self.connection.execute(
            sql,
            params![
                row.id as i64,
                row.file,
                row.state.name(),
                row.node,
                row.created_ns,
                row.frames as i64,
                row.lines as i64,
                row.bytes_raw as i64,
                row.bytes_disk as i64,
                row.data_end as i64,
                row.sequence.map(|s| s.0 as i64),
                row.sequence.map(|s| s.1 as i64),
                row.received_ns.map(|r| r.0),
                row.received_ns.map(|r| r.1),
                row.time_ns.map(|t| t.0),
                row.time_ns.map(|t| t.1),
            ],
        );
        self.wrap(written).map(|_| ())
    }

    /// Removes a row, if it is there.
    pub(crate) fn remove(&self, id: u64) -> Result<(), StoreError> {
        let sql = "DELETE FROM segments WHERE id = ?1";
        self.wrap(self.connection.execute(sql, [id as i64])).map(|_| ())
    }

    fn wrap<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| StoreError::Catalog { file: self.file.clone(), source })
    }
}

/// Sets the connection up; returns the version of the tables that are there, 0 for none.
fn prepare(connection: &Connection) -> rusqlite::Result<i64> {
    connection.execute_batch("PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL;")?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;",
    )?;
    let sql = "SELECT value FROM meta WHERE key = 'schema_version'";
    Ok(connection.query_row(sql, [], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn migrate(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
    if from == SCHEMA_VERSION {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in &MIGRATIONS[from.max(0) as usize..] {
        transaction.execute_batch(step)?;
    }
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('schema_version', ?1)";
    transaction.execute(sql, [SCHEMA_VERSION])?;
    transaction.commit()
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<SegmentRow> {
    let u64_of = |name: &str| row.get::<_, i64>(name).map(|v| v as u64);
    let range = |first: &str, last: &str| -> rusqlite::Result<Option<(i64, i64)>> {
        Ok(row.get::<_, Option<i64>>(first)?.zip(row.get::<_, Option<i64>>(last)?))
    };
    let state = match row.get::<_, String>("state")?.as_str() {
        "hot" => RowState::Hot,
        "rolled" => RowState::Rolled,
        "kept" => RowState::Kept,
        _ => RowState::Deleting,
    };
    Ok(SegmentRow {
        id: u64_of("id")?,
        file: row.get("file")?,
        state,
        node: row.get("node")?,
        created_ns: row.get("created_ns")?,
        frames: u64_of("frames")?,
        lines: u64_of("lines")?,
        bytes_raw: u64_of("bytes_raw")?,
        bytes_disk: u64_of("bytes_disk")?,
        data_end: u64_of("data_end")?,
        sequence: range("sequence_first", "sequence_last")?.map(|s| (s.0 as u64, s.1 as u64)),
        received_ns: range("received_min_ns", "received_max_ns")?,
        time_ns: range("time_min_ns", "time_max_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64) -> SegmentRow {
        SegmentRow {
            id,
            file: format!("{id}.hot"),
            state: RowState::Kept,
            node: u32::MAX,
            created_ns: -1,
            frames: 2,
            lines: 3,
            bytes_raw: 4,
            bytes_disk: 5,
            data_end: 6,
            sequence: Some((7, u64::MAX)),
            received_ns: Some((i64::MIN, i64::MAX)),
            time_ns: None,
        }
    }

    #[test]
    fn rows_come_back_and_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().join("catalog.sqlite"));
        let catalog = Catalog::open(path.clone()).unwrap();
        assert_eq!(catalog.node().unwrap(), None);
        catalog.set_node(u32::MAX).unwrap();
        catalog.put(&row(2)).unwrap();
        catalog.put(&row(1)).unwrap();
        catalog.put(&SegmentRow { lines: 9, ..row(1) }).unwrap();
        catalog.put(&row(3)).unwrap();
        catalog.remove(3).unwrap();
        drop(catalog);
        let catalog = Catalog::open(path).unwrap();
        assert_eq!(catalog.node().unwrap(), Some(u32::MAX));
        assert_eq!(catalog.rows().unwrap(), [SegmentRow { lines: 9, ..row(1) }, row(2)]);
    }

    #[test]
    fn a_newer_or_damaged_catalog_is_an_error_that_names_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let catalog = Catalog::open(Some(path.clone())).unwrap();
        let newer = "UPDATE meta SET value = 99 WHERE key = 'schema_version'";
        catalog.connection.execute(newer, []).unwrap();
        drop(catalog);
        let error = Catalog::open(Some(path.clone())).err().unwrap().to_string();
        assert!(error.contains("schema version 99"), "{error}");
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let error = Catalog::open(Some(path)).err().unwrap().to_string();
        assert!(error.contains("move it away"), "{error}");
    }
}
