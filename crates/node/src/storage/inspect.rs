//! Describes a segment file from its own metadata, for people who want to know what takes the space
//! on their disk.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use platform::{Access, Disk};
use record::{Batch, Parser};
use segment::sealed::{Effort, ROLLUP_FIELDS, SealedFile};
use segment::{Origin, SegmentError, read_frame, read_segment};
use serde::Serialize;
use store::SegmentKind;

use crate::storage::verify::single_file;

/// Values shown per field. The rest is counted together.
const VALUES_MAX: usize = 10;
/// Different values that are counted per field of a hot segment. Lines with further values are
/// counted together.
const COUNTED_MAX: usize = 10_000;

/// The description of a segment.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// The file.
    pub file: String,
    /// `hot`, or `sealed`.
    pub kind: &'static str,
    /// Number of the segment.
    pub segment: u64,
    /// Id of the node that made it.
    pub node: u32,
    /// When it was made: RFC 3339.
    pub created: String,
    /// How it was written or closed.
    pub form: String,
    /// Segments that a sealed segment replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<u64>,
    /// Lines in it.
    pub lines: u64,
    /// Of those, rows of the summary, which Loginson made.
    pub lines_own: u64,
    /// Bytes of the lines with their newlines.
    pub bytes_raw: u64,
    /// Size of the file.
    pub bytes_disk: u64,
    /// Earliest and latest event time.
    pub time: Option<(String, String)>,
    /// Earliest and latest arrival.
    pub received: Option<(String, String)>,
    /// First and last sequence number of its frames.
    pub sequence: Option<(u64, u64)>,
    /// The most frequent values of some fields.
    pub values: Vec<FieldValues>,
    /// Its columns or fields.
    pub columns: Vec<Column>,
    /// Its frames or blocks.
    pub blocks: Vec<Block>,
}

/// Lines by value of a field.
#[derive(Debug, Serialize)]
pub struct FieldValues {
    /// The field.
    pub field: String,
    /// Number of different values; `None` if there are too many to count.
    pub different: Option<usize>,
    /// The most frequent ones with their lines; the empty one stands for lines without the field.
    pub most: Vec<(String, u64)>,
}

/// How the values of one field are stored.
#[derive(Debug, Default, Serialize)]
pub struct Column {
    /// The field; `a..b` is the text between two fields of a line; in parentheses the parts that
    /// are not columns.
    pub column: String,
    /// The encodings in the different blocks.
    pub encoding: String,
    /// Number of values.
    pub values: u64,
    /// Bytes before compression.
    pub bytes: u64,
    /// Bytes in the file.
    pub bytes_disk: u64,
}

/// A frame or block: what is read as a whole.
#[derive(Debug, Serialize)]
pub struct Block {
    /// Its offset.
    pub offset: u64,
    /// Lines in it.
    pub lines: u64,
    /// Bytes of the lines with their newlines.
    pub bytes_raw: u64,
    /// Bytes in the file.
    pub bytes_disk: u64,
    /// Earliest and latest event time; `None` if unknown.
    pub time: Option<(String, String)>,
}

/// Describes a segment file. `advanced` is called with the bytes of the file as they are read.
pub fn inspect(
    disk: &dyn Disk,
    path: &Path,
    parser: &mut Parser,
    advanced: &dyn Fn(u64),
) -> Result<Inspection, SegmentError> {
    match single_file(disk, path)?.kind {
        SegmentKind::Hot => hot(disk, path, parser, advanced),
        SegmentKind::Sealed => sealed(disk, path, advanced),
    }
}

fn hot(
    disk: &dyn Disk,
    path: &Path,
    parser: &mut Parser,
    advanced: &dyn Fn(u64),
) -> Result<Inspection, SegmentError> {
    let segment = single_file(disk, path)?;
    let contents = read_segment(disk, path, segment.id, None)?;
    let header = contents.header?;
    let form = match &contents.origin {
        Origin::Index => "closed, with an index".to_owned(),
        Origin::Scan(scan) if scan.damages.is_empty() => "being written, or not closed".to_owned(),
        Origin::Scan(scan) => format!("damaged: {}", scan.damages[0]),
    };
    let file = disk.open(path, Access::Read).map_err(SegmentError::io(path, "open"))?;
    let mut fields = Fields::default();
    let mut inspection = Inspection {
        file: path.display().to_string(),
        kind: "hot",
        segment: header.segment,
        node: header.node,
        created: shown_time(header.created_ns),
        form,
        replaces: Vec::new(),
        lines: 0,
        lines_own: 0,
        bytes_raw: 0,
        bytes_disk: contents.file_bytes,
        time: None,
        received: None,
        sequence: None,
        values: Vec::new(),
        columns: Vec::new(),
        blocks: Vec::new(),
    };
    let (mut time_ns, mut received_ns) = (None, None);
    for entry in &contents.frames {
        let batch = parser.parse(Arc::new(read_frame(&*file, path, entry)?));
        fields.add(&batch);
        advanced(entry.frame_bytes.into());
        let lines = u64::from(entry.lines);
        let bytes_raw = u64::from(entry.payload_bytes);
        inspection.lines += lines;
        if batch.is_internal() {
            inspection.lines_own += lines;
        }
        inspection.bytes_raw += bytes_raw;
        time_ns = span(time_ns, batch.time_range_ns());
        received_ns = span(received_ns, (entry.received_min_ns, entry.received_max_ns));
        inspection.sequence = span(inspection.sequence, (entry.sequence, entry.sequence));
        inspection.blocks.push(Block {
            offset: entry.offset,
            lines,
            bytes_raw,
            bytes_disk: entry.frame_bytes.into(),
            time: Some(shown_range(batch.time_range_ns())),
        });
    }
    inspection.time = time_ns.map(shown_range);
    inspection.received = received_ns.map(shown_range);
    inspection.values = fields.values();
    inspection.columns = fields.columns();
    Ok(inspection)
}

fn sealed(
    disk: &dyn Disk,
    path: &Path,
    advanced: &dyn Fn(u64),
) -> Result<Inspection, SegmentError> {
    let file = SealedFile::open(disk, path)?;
    let footer = file.footer();
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    for (index, block) in footer.blocks.iter().enumerate() {
        for info in file.columns(index)? {
            let encoding = info.encoding.name();
            let column = columns
                .entry(info.name.clone())
                .or_insert_with(|| Column { column: info.name.clone(), ..Column::default() });
            if !column.encoding.split(", ").any(|known| known == encoding) {
                let separator = if column.encoding.is_empty() { "" } else { ", " };
                column.encoding.push_str(separator);
                column.encoding.push_str(encoding);
            }
            column.values += info.values;
            column.bytes += info.bytes;
            column.bytes_disk += info.bytes_disk;
        }
        advanced(block.bytes_disk());
    }
    // Everything that is not in columns: event and arrival times, line ids, layouts, and their
    // lists.
    let blocks: u64 = footer.blocks.iter().map(|block| block.bytes_disk()).sum();
    let in_columns: u64 = columns.values().map(|column| column.bytes_disk).sum();
    let rest = [
        ("(times, names and layouts of lines)", blocks.saturating_sub(in_columns)),
        ("(header and footer)", footer.bytes_disk.saturating_sub(blocks)),
    ];
    for (name, bytes_disk) in rest {
        let column = Column { column: name.into(), bytes_disk, ..Column::default() };
        columns.insert(name.into(), column);
    }
    let block = |block: &segment::sealed::BlockEntry| Block {
        offset: block.offset,
        lines: block.lines.into(),
        bytes_raw: block.bytes_raw,
        bytes_disk: block.bytes_disk(),
        time: Some(shown_range(block.time_ns)),
    };
    let values = |field: &str| match footer.values(field) {
        Some(values) => most(field, values.into_iter().collect()),
        None => FieldValues { field: field.to_owned(), different: None, most: Vec::new() },
    };
    Ok(Inspection {
        file: path.display().to_string(),
        kind: "sealed",
        segment: footer.header.segment,
        node: footer.header.node,
        created: shown_time(footer.header.created_ns),
        form: match footer.effort {
            Effort::Fast => "sealed with effort fast".into(),
            Effort::Best => "re-encoded with effort best".into(),
        },
        replaces: footer.replaces.clone(),
        lines: footer.lines(),
        lines_own: footer.lines_internal(),
        bytes_raw: footer.bytes_raw(),
        bytes_disk: footer.bytes_disk,
        time: footer.time_ns().map(shown_range),
        received: footer.received_ns().map(shown_range),
        sequence: footer.sequence(),
        values: ROLLUP_FIELDS.map(values).into(),
        columns: largest_first(columns.into_values().collect()),
        blocks: footer.blocks.iter().map(block).collect(),
    })
}

/// The fields of parsed lines.
#[derive(Default)]
struct Fields {
    /// Values and their bytes, by name.
    columns: HashMap<String, (u64, u64), foldhash::fast::RandomState>,
    counts: [HashMap<Vec<u8>, u64, foldhash::fast::RandomState>; ROLLUP_FIELDS.len()],
    overflown: [bool; ROLLUP_FIELDS.len()],
}

impl Fields {
    fn add(&mut self, batch: &Batch) {
        let mut found = vec![(0, 0); batch.names().len()];
        for row in batch.rows() {
            for (id, value) in row.fields() {
                let (values, bytes) = &mut found[usize::from(id.0)];
                *values += 1;
                *bytes += value.len() as u64;
            }
        }
        for (name, (values, bytes)) in batch.names().iter().zip(found) {
            let column = self.columns.entry(name.to_string()).or_default();
            column.0 += values;
            column.1 += bytes;
        }
        for (index, field) in ROLLUP_FIELDS.iter().enumerate() {
            let id = batch.field_id(field);
            let counts = &mut self.counts[index];
            for row in batch.rows() {
                let value = id.and_then(|id| row.get(id)).unwrap_or_default();
                if let Some(lines) = counts.get_mut(value) {
                    *lines += 1;
                } else if counts.len() < COUNTED_MAX {
                    counts.insert(value.to_vec(), 1);
                } else {
                    self.overflown[index] = true;
                }
            }
        }
    }

    fn values(&mut self) -> Vec<FieldValues> {
        let fields = ROLLUP_FIELDS.iter().zip(&mut self.counts).zip(self.overflown);
        let shown = fields.map(|((field, counts), overflown)| {
            let found = most(field, counts.drain().collect());
            FieldValues { different: found.different.filter(|_| !overflown), ..found }
        });
        shown.collect()
    }

    fn columns(&mut self) -> Vec<Column> {
        let column = |(name, (values, bytes))| Column {
            column: name,
            encoding: "in the line".into(),
            values,
            bytes,
            bytes_disk: bytes,
        };
        largest_first(self.columns.drain().map(column).collect())
    }
}

fn most(field: &str, mut values: Vec<(Vec<u8>, u64)>) -> FieldValues {
    values.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    let different = values.iter().filter(|(value, _)| !value.is_empty()).count();
    let shown = values.iter().take(VALUES_MAX);
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    FieldValues {
        field: field.to_owned(),
        different: Some(different),
        most: shown.map(|(value, lines)| (text(value), *lines)).collect(),
    }
}

fn largest_first(mut columns: Vec<Column>) -> Vec<Column> {
    columns.sort_by(|a, b| (b.bytes_disk, &a.column).cmp(&(a.bytes_disk, &b.column)));
    columns
}

fn span<T: Ord + Copy>(known: Option<(T, T)>, more: (T, T)) -> Option<(T, T)> {
    Some(known.map_or(more, |known| (known.0.min(more.0), known.1.max(more.1))))
}

fn shown_range((first_ns, last_ns): (i64, i64)) -> (String, String) {
    (shown_time(first_ns), shown_time(last_ns))
}

fn shown_time(ns: i64) -> String {
    text::time::format_time(ns)
}
