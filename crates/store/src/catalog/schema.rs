//! The tables, and their migration from older versions.

use rusqlite::{Connection, OptionalExtension};

/// Version of the tables. Each step from one to the next is an entry of [`MIGRATIONS`].
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: [&str; 6] = [V1, V2, V3, V4, V5, V6];

const V1: &str = "
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
";

/// Sealed segments, and deletions. SQLite cannot change a check, so the table is recreated.
const V2: &str = "
    ALTER TABLE segments RENAME TO segments_v1;
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
        rules INTEGER NOT NULL
    ) STRICT;
    INSERT INTO segments
        SELECT id, file, state, node, created_ns, frames, 0, lines, bytes_raw, bytes_disk, data_end,
            sequence_first, sequence_last, 0, received_min_ns, received_max_ns, time_min_ns, time_max_ns,
            NULL, NULL, 0, 0
        FROM segments_v1;
    DROP TABLE segments_v1;
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
";

/// Other nodes that were admitted.
const V3: &str = "
    CREATE TABLE nodes (
        node INTEGER PRIMARY KEY,
        key INTEGER NOT NULL,
        starts INTEGER NOT NULL,
        run INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL
    ) STRICT;
";

/// How many of the lines, and of their bytes, are rows of the summary; null where the file was not
/// examined yet.
const V4: &str = "
    ALTER TABLE segments ADD COLUMN lines_own INTEGER;
    ALTER TABLE segments ADD COLUMN bytes_own INTEGER;
";

/// The frames in a sealed segment, by node; null where the version of the file does not record
/// them. Also the location of its file.
const V5: &str = "
    ALTER TABLE segments ADD COLUMN numbers TEXT;
    ALTER TABLE segments ADD COLUMN location TEXT NOT NULL DEFAULT 'local';
";

/// Lines that retention deleted with their segments, for readers in the order of arrival.
const V6: &str = "
    CREATE TABLE departed (
        sequence_last INTEGER NOT NULL,
        sequence_first INTEGER NOT NULL,
        lines INTEGER NOT NULL
    ) STRICT;
";

/// Sets the connection up; returns the version of the existing tables, 0 for none.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<i64> {
    connection.execute_batch("PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL;")?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;",
    )?;
    let sql = "SELECT value FROM meta WHERE key = 'schema_version'";
    Ok(connection.query_row(sql, [], |row| row.get(0)).optional()?.unwrap_or(0))
}

pub(super) fn migrate(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
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
