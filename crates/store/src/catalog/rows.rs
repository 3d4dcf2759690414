//! Rows of the table of segments.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use segment::sealed::{Effort, NodeNumbers};

use super::Catalog;
use crate::error::StoreError;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// Frames are appended to it.
    Hot,
    /// Closed.
    Rolled,
    /// Closed without an index, because a write failed; never written again.
    Kept,
    /// Closed as it was, because it holds more than can be read; neither written nor sealed.
    Damaged,
    /// Parsed into columns, compressed, immutable.
    Sealed,
    /// Being removed.
    Deleting,
}

impl RowState {
    pub(crate) const ALL: [RowState; 6] = [
        RowState::Hot,
        RowState::Rolled,
        RowState::Kept,
        RowState::Damaged,
        RowState::Sealed,
        RowState::Deleting,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            RowState::Hot => "hot",
            RowState::Rolled => "rolled",
            RowState::Kept => "kept",
            RowState::Damaged => "damaged",
            RowState::Sealed => "sealed",
            RowState::Deleting => "deleting",
        }
    }
}

/// A row of the table of segments. Ranges are from first to last, both inclusive; None when
/// unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRow {
    pub(crate) id: u64,
    pub(crate) file: String,
    pub(crate) state: RowState,
    pub(crate) node: u32,
    pub(crate) created_ns: i64,
    /// Of a hot segment.
    pub(crate) frames: u64,
    /// Of a sealed segment.
    pub(crate) blocks: u64,
    pub(crate) lines: u64,
    pub(crate) bytes_raw: u64,
    /// The part of those lines and bytes that Loginson made itself.
    pub(crate) own: Own,
    pub(crate) bytes_disk: u64,
    pub(crate) data_end: u64,
    pub(crate) sequence: Option<(u64, u64)>,
    /// Of a sealed segment: the frames that its lines came in, by node. Empty for hot segments.
    pub(crate) numbers: Vec<NodeNumbers>,
    /// Location of its file: [`LOCAL`], or the name of another location, none of which this program
    /// supports.
    pub(crate) location: String,
    /// All smaller sequence numbers may have been issued when the file was created.
    pub(crate) sequence_next: u64,
    pub(crate) received_ns: Option<(i64, i64)>,
    pub(crate) time_ns: Option<(i64, i64)>,
    /// The effort of a sealed segment.
    pub(crate) effort: Option<Effort>,
    /// The greatest watermark of the summary in a sealed segment.
    pub(crate) summarised_through: Option<u64>,
    /// The last deletion that a sealed segment was searched for.
    pub(crate) deletions_through: u64,
    /// The retention rules that were applied to a sealed segment: a hash of them, 0 for none.
    pub(crate) rules: u64,
}

/// The location of files in the data directory.
pub(crate) const LOCAL: &str = "local";

/// Rows of the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) lines: u64,
    /// With their newlines.
    pub(crate) bytes: u64,
}

const PUT: &str = "INSERT OR REPLACE INTO segments (id, file, state, node, created_ns, frames, blocks, lines, \
    bytes_raw, bytes_disk, data_end, sequence_first, sequence_last, sequence_next, received_min_ns, \
    received_max_ns, time_min_ns, time_max_ns, effort, summarised_through, deletions_through, rules, \
    lines_own, bytes_own, numbers, location) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, \
    ?23, ?24, ?25, ?26)";

impl Catalog {
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
        self.wrap(put(&self.connection, row))
    }

    /// Replaces all rows by these, in one transaction.
    pub(crate) fn set_all(&mut self, rows: &[SegmentRow]) -> Result<(), StoreError> {
        self.transact(|connection| {
            connection.execute("DELETE FROM segments", [])?;
            rows.iter().try_for_each(|row| put(connection, row))
        })
    }

    /// The catalog step of a rewrite, in one transaction: the row of the new segment, if lines were
    /// left, and the sources marked for deletion.
    pub(crate) fn replace(
        &mut self,
        new: Option<&SegmentRow>,
        sources: &[u64],
    ) -> Result<(), StoreError> {
        self.transact(|connection| {
            new.map_or(Ok(()), |row| put(connection, row))?;
            let sql = "UPDATE segments SET state = 'deleting' WHERE id = ?1";
            sources.iter().try_for_each(|id| connection.execute(sql, [*id as i64]).map(|_| ()))?;
            let marks = "INSERT INTO meta (key, value) VALUES ('summarised_through', ?1) \
                ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)";
            match new.and_then(|row| row.summarised_through) {
                Some(through) => connection.execute(marks, [through as i64]).map(|_| ()),
                None => Ok(()),
            }
        })
    }

    /// The greatest watermark of the summary in any sealed segment, including deleted ones.
    pub(crate) fn summarised_through(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.meta::<i64>("summarised_through")?.map(|through| through as u64))
    }

    /// Lines that are missing from a damaged segment; None when that was not recorded.
    pub(crate) fn lines_missing(&self, id: u64) -> Result<Option<u64>, StoreError> {
        Ok(self.meta::<i64>(&missing_key(id))?.map(|lines| lines as u64))
    }

    /// Records how many lines are missing from a damaged segment. It stays as long as its row.
    pub(crate) fn set_lines_missing(&self, id: u64, lines: u64) -> Result<(), StoreError> {
        self.set_meta(&missing_key(id), lines as i64)
    }

    /// Removes a row, if it is there.
    pub(crate) fn remove(&self, id: u64) -> Result<(), StoreError> {
        self.wrap(remove(&self.connection, id))
    }

    pub(super) fn transact(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let run = || {
            let transaction = self.connection.transaction()?;
            change(&transaction)?;
            transaction.commit()
        };
        let result = run();
        self.wrap(result)
    }
}

/// Removes a row, and what was recorded beside it.
pub(super) fn remove(connection: &Connection, id: u64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM segments WHERE id = ?1", [id as i64])?;
    connection.execute("DELETE FROM meta WHERE key = ?1", [missing_key(id)]).map(|_| ())
}

fn missing_key(id: u64) -> String {
    format!("lines_missing_{id}")
}

pub(super) fn put(connection: &Connection, row: &SegmentRow) -> rusqlite::Result<()> {
    let values = params![
        row.id as i64,
        row.file,
        row.state.name(),
        row.node,
        row.created_ns,
        row.frames as i64,
        row.blocks as i64,
        row.lines as i64,
        row.bytes_raw as i64,
        row.bytes_disk as i64,
        row.data_end as i64,
        row.sequence.map(|s| s.0 as i64),
        row.sequence.map(|s| s.1 as i64),
        row.sequence_next as i64,
        row.received_ns.map(|r| r.0),
        row.received_ns.map(|r| r.1),
        row.time_ns.map(|t| t.0),
        row.time_ns.map(|t| t.1),
        row.effort.map(effort_name),
        row.summarised_through.map(|through| through as i64),
        row.deletions_through as i64,
        row.rules as i64,
        row.own.lines as i64,
        row.own.bytes as i64,
        numbers_text(&row.numbers),
        row.location,
    ];
    connection.execute(PUT, values).map(|_| ())
}

/// Numbers for people and for [`read_numbers`]: `5f3a09c1:1-900 0000004d:3-8`.
fn numbers_text(numbers: &[NodeNumbers]) -> String {
    let text = |n: &NodeNumbers| format!("{:08x}:{}-{}", n.node, n.first, n.last);
    numbers.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn read_numbers(text: &str) -> Option<Vec<NodeNumbers>> {
    let one = |text: &str| {
        let (node, range) = text.split_once(':')?;
        let (first, last) = range.split_once('-')?;
        let node = u32::from_str_radix(node, 16).ok()?;
        Some(NodeNumbers { node, first: first.parse().ok()?, last: last.parse().ok()? })
    };
    text.split_ascii_whitespace().map(one).collect()
}

fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Fast => "fast",
        Effort::Best => "best",
    }
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<SegmentRow> {
    let u64_of = |name: &str| row.get::<_, i64>(name).map(|v| v as u64);
    let range = |first: &str, last: &str| -> rusqlite::Result<Option<(i64, i64)>> {
        Ok(row.get::<_, Option<i64>>(first)?.zip(row.get::<_, Option<i64>>(last)?))
    };
    let state: String = row.get("state")?;
    let state = RowState::ALL.into_iter().find(|s| s.name() == state);
    let numbers: String = row.get("numbers")?;
    let numbers = read_numbers(&numbers).ok_or_else(|| {
        let index = row.as_ref().column_index("numbers").expect("it was read");
        let error = format!("'{numbers}' are no numbers of frames");
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into())
    })?;
    let effort = match row.get::<_, Option<String>>("effort")?.as_deref() {
        Some("fast") => Some(Effort::Fast),
        Some(_) => Some(Effort::Best),
        None => None,
    };
    Ok(SegmentRow {
        id: u64_of("id")?,
        file: row.get("file")?,
        state: state.expect("the table allows no other"),
        node: row.get("node")?,
        created_ns: row.get("created_ns")?,
        frames: u64_of("frames")?,
        blocks: u64_of("blocks")?,
        lines: u64_of("lines")?,
        bytes_raw: u64_of("bytes_raw")?,
        own: Own { lines: u64_of("lines_own")?, bytes: u64_of("bytes_own")? },
        bytes_disk: u64_of("bytes_disk")?,
        data_end: u64_of("data_end")?,
        sequence: range("sequence_first", "sequence_last")?.map(|s| (s.0 as u64, s.1 as u64)),
        numbers,
        location: row.get("location")?,
        sequence_next: u64_of("sequence_next")?,
        received_ns: range("received_min_ns", "received_max_ns")?,
        time_ns: range("time_min_ns", "time_max_ns")?,
        effort,
        summarised_through: row
            .get::<_, Option<i64>>("summarised_through")?
            .map(|through| through as u64),
        deletions_through: u64_of("deletions_through")?,
        rules: u64_of("rules")?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::catalog) fn row(id: u64) -> SegmentRow {
        SegmentRow {
            id,
            file: format!("{id}.hot"),
            state: RowState::Kept,
            node: u32::MAX,
            created_ns: -1,
            frames: 2,
            blocks: 1,
            lines: 3,
            bytes_raw: 4,
            own: Own { lines: 1, bytes: 2 },
            bytes_disk: 5,
            data_end: 6,
            sequence: Some((7, u64::MAX)),
            numbers: vec![
                NodeNumbers { node: 1, first: 7, last: u64::MAX },
                NodeNumbers { node: u32::MAX, first: 0, last: 0 },
            ],
            location: LOCAL.to_owned(),
            sequence_next: u64::MAX,
            received_ns: Some((i64::MIN, i64::MAX)),
            time_ns: None,
            effort: Some(Effort::Best),
            summarised_through: Some(u64::MAX),
            deletions_through: 8,
            rules: u64::MAX,
        }
    }

    #[test]
    fn rows_come_back_and_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().join("catalog.sqlite"));
        let mut catalog = Catalog::open(path.clone()).unwrap();
        assert_eq!(catalog.node().unwrap(), None);
        catalog.set_node(u32::MAX).unwrap();
        catalog.put(&row(2)).unwrap();
        catalog.put(&row(1)).unwrap();
        catalog.put(&SegmentRow { lines: 9, ..row(1) }).unwrap();
        catalog.put(&row(3)).unwrap();
        catalog.remove(3).unwrap();
        let sealed = SegmentRow { state: RowState::Sealed, summarised_through: Some(70), ..row(4) };
        catalog.replace(Some(&sealed), &[2]).unwrap();
        let earlier = SegmentRow { summarised_through: Some(50), ..sealed.clone() };
        catalog.replace(Some(&earlier), &[]).unwrap();
        drop(catalog);
        let catalog = Catalog::open(path).unwrap();
        assert_eq!(catalog.node().unwrap(), Some(u32::MAX));
        assert_eq!(catalog.summarised_through().unwrap(), Some(70), "the greatest stays");
        let replaced = SegmentRow { state: RowState::Deleting, ..row(2) };
        let expected = [SegmentRow { lines: 9, ..row(1) }, replaced, earlier];
        assert_eq!(catalog.rows().unwrap(), expected);
    }
}
