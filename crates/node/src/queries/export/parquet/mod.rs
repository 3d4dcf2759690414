//! Writes rows as one Parquet file, from front to back while rows arrive, in bounded memory.
//!
//! ```text
//! "PAR1" | row group: a chunk of pages a column | row group | … | chunks of late columns | footer | its length | "PAR1"
//! ```
//!
//! The columns are not known before the last row. A footer may refer to chunks anywhere in the
//! file, so a column that first occurs late is added then; for each row group before it, a chunk
//! without values, some 40 bytes, is written in front of the footer. So one pass is enough, and the
//! file can be streamed.
//!
//! Columns: `_time` and `_received` are timestamps of nanoseconds in UTC, `_line` is bytes, all
//! others are text: a field may be a number in one line and a dash in the next, so readers cast the
//! columns whose type they know. Invalid UTF-8 becomes U+FFFD, except in `_line`. Values without a
//! column (a `_time` that is not a time, a name beyond [`COLUMNS_MAX`]) are in a JSON object in the
//! column `_more`. Every column is optional: a row without a field has null.
//!
//! Left out: statistics of columns other than times, page indexes, nested columns, encryption. The
//! library of the Arrow project needs all columns before the first row, and brings a second library
//! for dates.

mod column;
mod thrift;

use std::collections::HashMap;

use query::{ResultRows, Scratch};
use text::time::parse_timestamp;

use self::column::{CODEC, Chunk, ColumnKind, Values};
use self::thrift::{Struct, write_struct};

const MAGIC: &[u8; 4] = b"PAR1";
/// Version of the format, with the logical types of 2.6.
const VERSION: i32 = 2;
/// Limit of the values of a row group. It bounds the memory of readers, and ours, which is about
/// twice that.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// Limit of the rows of a row group.
const GROUP_ROWS_MAX: u32 = 1 << 20;
/// Limit of the columns of a file; values of further fields go to [`MORE`]. The footer has some 100
/// bytes per column and row group.
const COLUMNS_MAX: usize = 1_000;
/// The column for values that have no column of their own.
const MORE: &str = "_more";

/// Constants of Parquet.
const INT64: i32 = 2;
const BYTE_ARRAY: i32 = 6;
const OPTIONAL: i32 = 1;
const UTF8: i32 = 0;

/// A Parquet file being written.
pub struct ParquetWriter {
    /// Bytes appended to the output so far.
    offset: u64,
    columns: Vec<Column>,
    indexes: HashMap<String, usize, foldhash::fast::RandomState>,
    groups: Vec<Group>,
    /// Rows of the group being collected.
    rows: u32,
    rows_total: u64,
    more: serde_json::Map<String, serde_json::Value>,
}

struct Column {
    name: String,
    kind: ColumnKind,
    values: Values,
}

struct Group {
    rows: u32,
    /// One for each column that was known then.
    chunks: Vec<Chunk>,
}

impl ParquetWriter {
    /// A file without rows.
    pub fn new() -> Self {
        ParquetWriter {
            offset: 0,
            columns: Vec::new(),
            indexes: HashMap::default(),
            groups: Vec::new(),
            rows: 0,
            rows_total: 0,
            more: serde_json::Map::new(),
        }
    }

    /// Adds rows; appends what can be written to `out`.
    pub fn push(&mut self, rows: &ResultRows, scratch: &mut Scratch, out: &mut Vec<u8>) {
        for index in 0..rows.len() {
            rows.visit(index, scratch, |name, value| self.field(name, value));
            self.end_row();
        }
        let held: usize = self.columns.iter().map(|column| column.values.memory_bytes()).sum();
        // Rows arrive by the thousand, so the limit is exceeded by little; a single row has at most
        // 8 MiB.
        if held >= GROUP_BYTES_MAX || self.rows >= GROUP_ROWS_MAX {
            self.end_group(out);
        }
    }

    /// Appends the rest of the file to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.columns.is_empty() {
            // A file must have a column, even without rows.
            self.column("_time");
        }
        self.end_group(out);
        self.begin(out);
        let at = out.len();
        self.fill_late_columns(out);
        let footer_at = out.len();
        self.write_footer(out);
        let footer_bytes = (out.len() - footer_at) as u32;
        out.extend_from_slice(&footer_bytes.to_le_bytes());
        out.extend_from_slice(MAGIC);
        self.offset += (out.len() - at) as u64;
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        let row = self.rows;
        let text = String::from_utf8_lossy(value);
        if name != MORE
            && let Some(index) = self.column(name)
        {
            let column = &mut self.columns[index];
            let time = (column.kind == ColumnKind::Time).then(|| parse_timestamp(value));
            match (column.kind, time) {
                // Pipes can give a name twice: the first value is used, the other goes to [`MORE`].
                _ if column.values.has(row) => {}
                (_, Some(Some(ns))) => return column.values.push(row, &ns.to_le_bytes()),
                (_, Some(None)) => {}
                (ColumnKind::Bytes, _) => return column.values.push(row, value),
                _ => return column.values.push(row, text.as_bytes()),
            }
        }
        self.more.insert(name.to_owned(), text.into());
    }

    /// The index of a column, which is created if it is new; `None` if there are too many.
    fn column(&mut self, name: &str) -> Option<usize> {
        if let Some(&index) = self.indexes.get(name) {
            return Some(index);
        }
        if self.columns.len() >= COLUMNS_MAX && name != MORE {
            return None;
        }
        let kind = match name {
            "_time" | "_received" => ColumnKind::Time,
            "_line" => ColumnKind::Bytes,
            _ => ColumnKind::Text,
        };
        self.columns.push(Column { name: name.to_owned(), kind, values: Values::default() });
        self.indexes.insert(name.to_owned(), self.columns.len() - 1);
        Some(self.columns.len() - 1)
    }

    fn end_row(&mut self) {
        if !self.more.is_empty() {
            let more = serde_json::Value::Object(std::mem::take(&mut self.more)).to_string();
            let index = self.column(MORE).expect("it always has a column");
            self.columns[index].values.push(self.rows, more.as_bytes());
        }
        self.rows += 1;
    }

    fn end_group(&mut self, out: &mut Vec<u8>) {
        if self.rows == 0 {
            return;
        }
        self.begin(out);
        let at = out.len();
        let base = self.offset - at as u64;
        let rows = self.rows;
        let write = |column: &mut Column| column.values.write(column.kind, rows, base, out);
        let chunks = self.columns.iter_mut().map(write).collect();
        self.groups.push(Group { rows, chunks });
        self.rows_total += u64::from(rows);
        self.rows = 0;
        self.offset += (out.len() - at) as u64;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.offset == 0 {
            out.extend_from_slice(MAGIC);
            self.offset = MAGIC.len() as u64;
        }
    }

    /// Writes chunks without values for the row groups before the first value of a column.
    fn fill_late_columns(&mut self, out: &mut Vec<u8>) {
        let base = self.offset - out.len() as u64;
        for group in &mut self.groups {
            for column in &self.columns[group.chunks.len()..] {
                let chunk = Values::default().write(column.kind, group.rows, base, out);
                group.chunks.push(chunk);
            }
        }
    }

    fn write_footer(&self, out: &mut Vec<u8>) {
        let created_by = concat!("loginson version ", env!("CARGO_PKG_VERSION"));
        write_struct(out, |file| {
            file.i32(1, VERSION);
            // The root of the tree of columns, then the columns.
            let elements: Vec<Option<&Column>> =
                std::iter::once(None).chain(self.columns.iter().map(Some)).collect();
            file.list(2, &elements, |s, column| match column {
                None => {
                    s.bytes(4, b"schema");
                    s.i32(5, self.columns.len() as i32);
                }
                Some(column) => column.write_schema(s),
            });
            file.i64(3, self.rows_total as i64);
            file.list(4, &self.groups, |s, group| group.write(s, &self.columns));
            file.bytes(6, created_by.as_bytes());
            // Least and greatest values are in the order of their type.
            file.list(7, &self.columns, |order, _| order.structure(1, |_| {}));
        });
    }
}

impl Column {
    fn physical_type(&self) -> i32 {
        if self.kind == ColumnKind::Time { INT64 } else { BYTE_ARRAY }
    }

    fn write_schema(&self, s: &mut Struct<'_>) {
        s.i32(1, self.physical_type());
        s.i32(3, OPTIONAL);
        s.bytes(4, self.name.as_bytes());
        match self.kind {
            ColumnKind::Bytes => {}
            ColumnKind::Text => {
                s.i32(6, UTF8);
                s.structure(10, |logical| logical.structure(1, |_| {}));
            }
            ColumnKind::Time => s.structure(10, |logical| {
                logical.structure(8, |timestamp| {
                    // In UTC; the third unit is the nanosecond.
                    timestamp.bool(1, true);
                    timestamp.structure(2, |unit| unit.structure(3, |_| {}));
                });
            }),
        }
    }
}

impl Group {
    fn write(&self, s: &mut Struct<'_>, columns: &[Column]) {
        let sum = |bytes: fn(&Chunk) -> u64| self.chunks.iter().map(bytes).sum::<u64>() as i64;
        let chunks: Vec<(&Chunk, &Column)> = self.chunks.iter().zip(columns).collect();
        s.list(1, &chunks, |s, (chunk, column)| {
            s.i64(2, 0);
            s.structure(3, |meta| {
                meta.i32(1, column.physical_type());
                meta.list_i32(2, chunk.encodings());
                meta.list_bytes(3, &[column.name.as_bytes()]);
                meta.i32(4, CODEC);
                meta.i64(5, self.rows.into());
                meta.i64(6, chunk.bytes_plain as i64);
                meta.i64(7, chunk.bytes as i64);
                meta.i64(9, chunk.data_offset as i64);
                if let Some(offset) = chunk.dictionary_offset() {
                    meta.i64(11, offset as i64);
                }
                meta.structure(12, |statistics| {
                    statistics.i64(3, chunk.nulls as i64);
                    if let Some((min, max)) = chunk.time_ns {
                        statistics.bytes(5, &max.to_le_bytes());
                        statistics.bytes(6, &min.to_le_bytes());
                    }
                });
            });
        });
        s.i64(2, sum(|chunk| chunk.bytes_plain));
        s.i64(3, self.rows.into());
        s.i64(6, sum(|chunk| chunk.bytes));
    }
}
