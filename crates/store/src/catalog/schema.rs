//! The tables of the catalog.

use rusqlite::{Connection, OptionalExtension};

/// Version of the tables. A catalog of another version is refused.
pub(crate) const SCHEMA_VERSION: i64 = 6;

const TABLES: &str = "
    CREATE TABLE segments (
        id INTEGER PRIMARY KEY,
        file TEXT NOT NULL,
        state TEXT NOT NULL
            CHECK (state IN ('hot', 'rolled', 'kept', 'damaged', 'sealed', 'deleting')),
        node INTEGER NOT NULL,
        created_ns INTEGER NOT NULL,
        frames INTEGER NOT NULL,
        blocks INTEGER NOT NULL,
        lines INTEGER NOT NULL,
        bytes_raw INTEGER NOT NULL,
        bytes_disk INTEGER NOT NULL,
        data_end INTEGER NOT NULL,
        sequence_first INTEGER,
        sequence_last INTEGER,
        sequence_next INTEGER NOT NULL,
        received_min_ns INTEGER,
        received_max_ns INTEGER,
        time_min_ns INTEGER,
        time_max_ns INTEGER,
        effort TEXT CHECK (effort IN ('fast', 'best')),
        summarised_through INTEGER,
        deletions_through INTEGER NOT NULL,
        rules INTEGER NOT NULL,
        lines_own INTEGER NOT NULL,
        bytes_own INTEGER NOT NULL,
        numbers TEXT NOT NULL,
        location TEXT NOT NULL
    ) STRICT;
    CREATE TABLE deletions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        filter TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
        created_ns INTEGER NOT NULL,
        finished_ns INTEGER,
        sequence_before INTEGER NOT NULL,
        hot_through INTEGER NOT NULL,
        lines INTEGER NOT NULL,
        note TEXT
    ) STRICT;
    CREATE TABLE nodes (
        node INTEGER PRIMARY KEY,
        key INTEGER NOT NULL,
        starts INTEGER NOT NULL,
        run INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE departed (
        sequence_last INTEGER NOT NULL,
        sequence_first INTEGER NOT NULL,
        lines INTEGER NOT NULL
    ) STRICT;
";

/// Sets the connection up, so that what is removed (filters of deletions) is overwritten in the
/// file; returns the version of the existing tables, `None` if there are none.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.execute_batch(
        "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL;
        PRAGMA secure_delete = ON;",
    )?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;",
    )?;
    version(connection)
}

/// The version of the tables; `None` if there are none.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT value FROM meta WHERE key = 'schema_version'";
    connection.query_row(sql, [], |row| row.get(0)).optional()
}

/// Creates the tables of a new catalog.
pub(super) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    let sql = "INSERT INTO meta (key, value) VALUES ('schema_version', ?1)";
    transaction.execute(sql, [SCHEMA_VERSION])?;
    transaction.commit()
}
