//! Blocks of rows on their way through the pipes: lines of a batch, or rows made by a pipe; and for
//! pipes that need no rows, values with their numbers of lines ([`Tally`]) or vectors of values
//! ([`Vectors`]).
//!
//! Lines are not copied. A block of lines consists of a batch, the indexes of its rows, a layout
//! that records what `fields`, `rename` and similar pipes did to the columns, and the columns that
//! pipes computed ([`Values`]). Made rows hold their own bytes. Only this module resolves names:
//! callers get a [`Block::column`] once per block, then a [`Block::value`] for each row.
//!
//! A field that a line brings takes precedence over a computed field of the same name: `_line:=x`
//! tests the field of the line, and the line itself only where it has no such field. Fields that a
//! client includes are always computed.
//!
//! A missing field equals an empty one, as in VictoriaLogs; empty fields are not shown.

mod change;
mod computed;
mod layout;
mod made;
mod row_fields;
mod vectors;
mod weighted;

use std::sync::Arc;

use record::{Batch, FieldId, LineId};
use text::time::parse_timestamp;
use text::time::write_time;

use crate::base::bitmap::Bitmap;
use crate::base::names::{HIDDEN, LINE, LINE_ID, MSG, RAW_LINE, RAW_RECEIVED};
use crate::base::{Meter, RunError};

pub use change::Change;
pub(crate) use change::Patterns;
pub(crate) use change::{FIELDS_MAX, NewNames};
use computed::Values;
pub(crate) use computed::{COMPUTED_ROWS_MAX, Computed, TooLong, VALUE_BYTES_MAX};
use layout::Layout;
pub(crate) use made::MadeRow;
pub(crate) use row_fields::RowFields;
pub(crate) use vectors::{Selection, Values as VectorValues, Vector, Vectors, as_read, is_plain};
pub(crate) use weighted::{Tally, Weighted};

/// Rows of a block that is sent on: bounds the rows that wait between scan and client.
pub(crate) const BLOCK_ROWS_MAX: usize = 1_024;

/// Bytes of the computed fields of a line besides its stream: times and an id.
const LINE_TEXT_BYTES: usize = 256;
/// Bytes of the longest JSON escape for one byte: `\u0001`.
const ESCAPED_BYTES_MAX: usize = 6;
/// Text of a row up to which an upper bound is returned instead of counting.
const TEXT_BYTES_FEW: usize = 256 << 10;

/// Rows of one kind.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Lines(BatchLines),
    Made(Vec<MadeRow>),
}

/// Rows that are still lines of a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchLines {
    pub batch: Arc<Batch>,
    /// Indexes of the rows in the batch.
    pub rows: Vec<u32>,
    /// None: all fields, unchanged.
    layout: Option<Arc<Layout>>,
    /// Computed columns; the layout has their names.
    values: Vec<Values>,
}

/// Called with name, value and whether the field is hidden, for each field of a row.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&Arc<str>, &[u8], bool);

/// The source of the values of a name, in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column<'n> {
    Absent,
    Field(FieldId),
    Time,
    Received,
    Raw,
    Id,
    Stream,
    /// A field, and the value computed for rows without it.
    Brought(FieldId, Hidden),
    /// A column that a pipe computed for lines.
    Computed(u32),
    /// A field of made rows, by its name.
    Made(&'n str),
}

/// A computed field that is shown only on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    Received,
    Raw,
    Id,
}

impl Hidden {
    fn of(name: &str) -> Option<Hidden> {
        match name {
            "_received" => Some(Hidden::Received),
            LINE => Some(Hidden::Raw),
            LINE_ID => Some(Hidden::Id),
            _ => None,
        }
    }

    fn column<'n>(self) -> Column<'n> {
        match self {
            Hidden::Received => Column::Received,
            Hidden::Raw => Column::Raw,
            Hidden::Id => Column::Id,
        }
    }
}

impl<'n> Column<'n> {
    /// The field of a batch with this name, without a layout.
    pub fn of_batch(batch: &Batch, name: &str) -> Column<'n> {
        match name {
            "_time" => return Column::Time,
            "_stream" => return Column::Stream,
            RAW_LINE => return Column::Raw,
            RAW_RECEIVED => return Column::Received,
            _ => {}
        }
        match (batch.field_id(name), Hidden::of(name)) {
            (Some(id), Some(hidden)) => Column::Brought(id, hidden),
            (Some(id), None) => Column::Field(id),
            (None, Some(hidden)) => hidden.column(),
            (None, None) => Column::Absent,
        }
    }
}

/// Buffers for values that must be computed, reused for each row.
#[derive(Default, Debug)]
pub struct Scratch {
    text: String,
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

impl BatchLines {
    /// The lines at these indexes of a batch, with all their fields.
    pub fn new(batch: Arc<Batch>, rows: Vec<u32>) -> BatchLines {
        BatchLines { batch, rows, layout: None, values: Vec::new() }
    }

    /// Whether no pipe has changed the columns.
    pub fn is_plain(&self) -> bool {
        self.layout.is_none()
    }

    /// The value of `column` in row `row` of the block.
    #[inline]
    fn value<'a>(&'a self, column: Column<'_>, row: usize, scratch: &'a mut Scratch) -> &'a [u8] {
        if let Column::Computed(number) = column {
            return self.values[number as usize].get(row);
        }
        let (place, row) = (row, self.batch.row(self.rows[row] as usize));
        match column {
            Column::Field(id) => row.get(id).unwrap_or_default(),
            Column::Raw => row.raw(),
            Column::Absent | Column::Made(_) | Column::Computed(_) => &[],
            Column::Brought(id, hidden) => match row.get(id) {
                Some(own) if !own.is_empty() => own,
                _ => self.value(hidden.column(), place, scratch),
            },
            Column::Time | Column::Received => {
                let ns = if column == Column::Time { row.time_ns() } else { row.received_ns() };
                scratch.bytes.clear();
                write_time(ns, &mut scratch.bytes);
                &scratch.bytes
            }
            Column::Id => {
                use std::fmt::Write;
                scratch.text.clear();
                write!(scratch.text, "{}", row.id()).expect("writing to memory");
                scratch.text.as_bytes()
            }
            Column::Stream => {
                scratch.text.clear();
                row.write_stream(&mut scratch.text);
                scratch.text.as_bytes()
            }
        }
    }
}

impl Block {
    pub fn len(&self) -> usize {
        match self {
            Block::Lines(lines) => lines.rows.len(),
            Block::Made(rows) => rows.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory held, with that of the batch, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Block::Lines(lines) => lines.batch.memory_bytes() + lines.rows.len() * size_of::<u32>(),
            Block::Made(rows) => rows.iter().map(MadeRow::memory_bytes).sum(),
        }
    }

    /// The source of the values of `name`.
    pub fn column<'n>(&self, name: &'n str) -> Column<'n> {
        match self {
            Block::Lines(BatchLines { batch, layout: None, .. }) => Column::of_batch(batch, name),
            Block::Lines(BatchLines { layout: Some(layout), .. }) => layout.column(name),
            Block::Made(_) => Column::Made(name),
        }
    }

    /// The value of a column in row `row` of the block; empty when it has none.
    #[inline]
    pub fn value<'a>(
        &'a self,
        column: Column<'_>,
        row: usize,
        scratch: &'a mut Scratch,
    ) -> &'a [u8] {
        match self {
            Block::Lines(lines) => lines.value(column, row, scratch),
            Block::Made(rows) => match column {
                Column::Made(name) => rows[row].get(name),
                _ => &[],
            },
        }
    }

    /// The value of a column as an instant, if it is one, nanoseconds since 1970 UTC.
    pub fn time_ns(&self, column: Column<'_>, row: usize, scratch: &mut Scratch) -> Option<i64> {
        if let Block::Lines(lines) = self {
            let place = lines.rows[row] as usize;
            match column {
                Column::Time => return Some(lines.batch.row(place).time_ns()),
                Column::Received => return Some(lines.batch.row(place).received_ns()),
                _ => {}
            }
        }
        // Only full timestamps count: a time in a log is not relative to the time of the query.
        parse_timestamp(self.value(column, row, scratch))
    }

    /// Keeps the rows in `selected`.
    pub fn retain(&mut self, selected: &Bitmap) {
        if selected.is_full() {
            return;
        }
        match self {
            Block::Lines(lines) => {
                lines.rows = selected.iter().map(|i| lines.rows[i]).collect();
                lines.values.iter_mut().for_each(|values| values.pick(selected.iter()));
            }
            Block::Made(rows) => {
                let mut old = std::mem::take(rows);
                *rows = selected.iter().map(|i| std::mem::take(&mut old[i])).collect();
            }
        }
    }

    /// Copies the rows at `picks`, each as often as it occurs there.
    pub fn repeat(&self, picks: &[u32]) -> Block {
        match self {
            Block::Lines(lines) => Block::Lines(BatchLines {
                batch: lines.batch.clone(),
                rows: picks.iter().map(|&i| lines.rows[i as usize]).collect(),
                layout: lines.layout.clone(),
                values: lines.values.iter().map(|values| values.repeat(picks)).collect(),
            }),
            Block::Made(rows) => {
                Block::Made(picks.iter().map(|&i| rows[i as usize].clone()).collect())
            }
        }
    }

    /// Keeps `count` rows from `from` on.
    pub fn slice(&mut self, from: usize, count: usize) {
        match self {
            Block::Lines(BatchLines { rows, values, .. }) => {
                rows.truncate(from.saturating_add(count));
                rows.drain(..from.min(rows.len()));
                values.iter_mut().for_each(|values| values.slice(from, count));
            }
            Block::Made(rows) => {
                rows.truncate(from.saturating_add(count));
                rows.drain(..from.min(rows.len()));
            }
        }
    }

    /// Keeps the first `count` rows, and returns the others as a new block.
    pub fn split_off(&mut self, count: usize) -> Block {
        match self {
            Block::Lines(lines) => {
                let at = count.min(lines.rows.len());
                Block::Lines(BatchLines {
                    batch: lines.batch.clone(),
                    rows: lines.rows.split_off(at),
                    layout: lines.layout.clone(),
                    values: lines.values.iter_mut().map(|values| values.split_off(at)).collect(),
                })
            }
            Block::Made(rows) => Block::Made(rows.split_off(count.min(rows.len()))),
        }
    }

    /// Splits the block into blocks of at most `rows_max` rows.
    pub fn into_parts(self, rows_max: usize) -> Vec<Block> {
        match self {
            block if block.len() <= rows_max => vec![block],
            Block::Lines(lines) => {
                let part = |(number, rows): (usize, &[u32])| {
                    let values = lines.values.iter();
                    let from = number * rows_max;
                    Block::Lines(BatchLines {
                        batch: lines.batch.clone(),
                        rows: rows.to_vec(),
                        layout: lines.layout.clone(),
                        values: values.map(|values| values.part(from, rows.len())).collect(),
                    })
                };
                lines.rows.chunks(rows_max).enumerate().map(part).collect()
            }
            Block::Made(rows) => {
                let mut rows = rows.into_iter();
                let parts = rows.len().div_ceil(rows_max);
                (0..parts).map(|_| Block::Made(rows.by_ref().take(rows_max).collect())).collect()
            }
        }
    }

    /// Applies the change that a pipe makes to the columns. Returns the memory that was counted for
    /// it and stays counted, without the memory of names.
    pub fn change(
        &mut self,
        change: &Change,
        names: &mut NewNames,
        meter: &mut Meter,
    ) -> Result<usize, RunError> {
        match self {
            Block::Lines(lines) => {
                let (layout, counted) = match &lines.layout {
                    None => Layout::of_batch(&lines.batch).changed(change, names, meter)?,
                    Some(layout) => layout.changed(change, names, meter)?,
                };
                lines.layout = Some(Arc::new(layout));
                Ok(counted)
            }
            Block::Made(rows) => {
                let changed = rows.iter_mut().map(|row| row.change(change, names, meter));
                changed.sum()
            }
        }
    }

    /// The key that orders lines by time: event time and id of the line in row `row`. None for made
    /// rows.
    pub fn line_key(&self, row: usize) -> Option<(i64, LineId)> {
        match self {
            Block::Lines(lines) => {
                let line = lines.batch.row(lines.rows[row] as usize);
                Some((line.time_ns(), line.id()))
            }
            Block::Made(_) => None,
        }
    }

    /// Sequence number of the frame of the line in row `row`, where it is kept. None for made rows.
    pub fn line_sequence(&self, row: usize) -> Option<u64> {
        match self {
            Block::Lines(lines) => Some(lines.batch.row(lines.rows[row] as usize).sequence()),
            Block::Made(_) => None,
        }
    }

    /// Calls `each` with name and value of each visible field of a row that is not empty, in order,
    /// then of the hidden fields that `include` names.
    pub fn visit(&self, row: usize, include: &[String], scratch: &mut Scratch, each: Each<'_>) {
        match self {
            Block::Lines(lines) => lines.visit(row, include, scratch, each),
            Block::Made(rows) => rows[row].visit(include, each),
        }
    }

    /// Copies a row, with the hidden fields of `include`, so that it no longer needs the batch. The
    /// memory of the copy is counted.
    pub fn copy_row(
        &self,
        row: usize,
        include: &[String],
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<MadeRow, RunError> {
        MadeRow::copy_without(&[], meter, |each| self.visit(row, include, scratch, each))
    }

    /// Bytes that one copy of a row takes in [`Block::repeat`]; lines are not copied.
    pub fn row_bytes(&self, row: usize) -> usize {
        match self {
            Block::Lines(_) => size_of::<u32>(),
            Block::Made(rows) => rows[row].memory_bytes(),
        }
    }

    /// Bytes of a row as text: an upper bound where that is small, else counted.
    pub fn text_bytes(&self, row: usize, include: &[String], scratch: &mut Scratch) -> usize {
        let (fields, bytes) = match self {
            Block::Lines(lines) => {
                let raw = lines.batch.row(lines.rows[row] as usize).raw().len();
                let computed =
                    lines.values.iter().map(|values| values.get(row).len()).sum::<usize>();
                let fields = lines.layout.as_ref().map_or(0, |layout| layout.others.len());
                (fields + 4, raw + computed + LINE_TEXT_BYTES)
            }
            Block::Made(rows) => rows[row].size(),
        };
        let most = fields.saturating_mul(bytes).saturating_mul(ESCAPED_BYTES_MAX);
        if most <= TEXT_BYTES_FEW {
            return most;
        }
        let mut sum = 0_usize;
        self.visit(row, include, scratch, &mut |name, value, _| {
            sum = sum.saturating_add(
                text::json::text_bytes(name.as_bytes()) + text::json::text_bytes(value) + 2,
            );
        });
        sum
    }
}

impl BatchLines {
    fn visit(&self, row: usize, include: &[String], scratch: &mut Scratch, each: Each<'_>) {
        let names = common_names();
        let line = self.batch.row(self.rows[row] as usize);
        let mut show =
            |column: Column<'_>, name: &Arc<str>, hidden: bool, scratch: &mut Scratch| {
                let value = self.value(column, row, scratch);
                if hidden || !value.is_empty() {
                    each(name, value, hidden);
                }
            };
        let Some(layout) = &self.layout else {
            let msg = self.batch.field_id(MSG);
            show(Column::Time, &names.time, false, scratch);
            show(Column::Stream, &names.stream, false, scratch);
            if let Some(msg) = msg {
                show(Column::Field(msg), &self.batch.names()[msg.0 as usize], false, scratch);
            }
            for (id, value) in line.fields() {
                let name = &self.batch.names()[id.0 as usize];
                let is_shown = Some(id) != msg
                    && !value.is_empty()
                    && !is_computed(name)
                    && !is_included(name, include);
                if is_shown {
                    each(name, value, false);
                }
            }
            for (name, column) in &names.hidden {
                if include.iter().any(|i| **i == **name) {
                    each(name, self.value(*column, row, scratch), true);
                }
            }
            return;
        };
        // Visits only the fields that the row has, in the order of the layout.
        let mut places = std::mem::take(&mut scratch.places);
        places.clear();
        places.extend(layout.others.iter().map(|&at| (at, u32::from(u16::MAX) + 1)));
        for (id, value) in line.fields() {
            let at = layout.by_field[id.0 as usize];
            if at != u32::MAX && !value.is_empty() {
                places.push((at, u32::from(id.0)));
            }
        }
        places.sort_unstable();
        for &(at, _) in &places {
            let column = &layout.columns[at as usize];
            let is_included = include.iter().any(|i| **i == *column.name);
            let is_shown = match column.column {
                Column::Brought(..) => !is_included,
                _ => !column.hidden || is_included,
            };
            if is_shown {
                show(column.column, &column.name, column.hidden, scratch);
            }
        }
        scratch.places = places;
    }
}

/// Whether the value of the field is computed, whatever the line brings.
fn is_computed(name: &str) -> bool {
    matches!(name, "_time" | "_stream")
}

/// Whether the client's request replaces the line's own field by the computed one.
fn is_included(name: &str, include: &[String]) -> bool {
    !include.is_empty() && Hidden::of(name).is_some() && include.iter().any(|i| i == name)
}

struct CommonNames {
    time: Arc<str>,
    stream: Arc<str>,
    hidden: [(Arc<str>, Column<'static>); 3],
}

/// Names of computed fields, shared by all rows.
fn common_names() -> &'static CommonNames {
    static NAMES: std::sync::LazyLock<CommonNames> = std::sync::LazyLock::new(|| CommonNames {
        time: "_time".into(),
        stream: "_stream".into(),
        hidden: HIDDEN.map(|name| (name.into(), Hidden::of(name).expect("it is one").column())),
    });
    &NAMES
}
