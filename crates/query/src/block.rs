//! Rows on their way through the pipes: still lines of a batch, or made by a pipe.
//!
//! Lines are not copied: a block of lines is a batch, the places of its rows, and a layout that says what
//! `fields`, `rename` and their like did to the columns. Made rows carry their own bytes.
//!
//! A field that is not there and an empty one are the same, as in VictoriaLogs; empty fields are not shown.

use std::collections::HashMap;
use std::sync::Arc;

use record::{Batch, FieldId};

use crate::bitmap::Bitmap;
use crate::filter::MSG;
use crate::number::parse_timestamp;
use crate::time::write_time;

/// Computed fields that are shown only when asked for.
pub(crate) const HIDDEN: [&str; 3] = ["_received", "_raw", "_id"];

/// Rows of a block that are sent on at once: bounds what waits between scan and client.
pub(crate) const BLOCK_ROWS_MAX: usize = 1_024;

/// Rows, of one kind.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Lines(Lines),
    Made(Vec<MadeRow>),
}

/// Rows that are still lines of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub batch: Arc<Batch>,
    /// Places in the batch.
    pub rows: Vec<u32>,
    /// None: all fields as they are.
    pub layout: Option<Arc<Layout>>,
}

/// What is called with name, value and whether it is hidden, for the fields of a row.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&Arc<str>, &[u8], bool);

/// Where the values of a name come from, in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column<'n> {
    Absent,
    Field(FieldId),
    Time,
    Received,
    Raw,
    Id,
    Stream,
    /// A field of made rows.
    Made(&'n str),
}

impl<'n> Column<'n> {
    fn computed(name: &str) -> Option<Column<'n>> {
        Some(match name {
            "_time" => Column::Time,
            "_received" => Column::Received,
            "_raw" => Column::Raw,
            "_id" => Column::Id,
            "_stream" => Column::Stream,
            _ => return None,
        })
    }

    /// The field of a batch with that name, without any layout.
    pub fn of_batch(batch: &Batch, name: &str) -> Column<'n> {
        Column::computed(name)
            .or_else(|| batch.field_id(name).map(Column::Field))
            .unwrap_or(Column::Absent)
    }
}

/// Memory for values that have to be made, used again for each row.
#[derive(Default, Debug)]
pub struct Scratch {
    text: String,
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

impl Lines {
    /// The value of `column` in the row at `place` of the batch.
    #[inline]
    fn value<'a>(&'a self, column: Column<'_>, place: u32, scratch: &'a mut Scratch) -> &'a [u8] {
        let row = self.batch.row(place as usize);
        match column {
            Column::Field(id) => row.get(id).unwrap_or_default(),
            Column::Raw => row.raw(),
            Column::Absent | Column::Made(_) => &[],
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

    /// Where the values of `name` come from.
    pub fn column<'n>(&self, name: &'n str) -> Column<'n> {
        match self {
            Block::Lines(Lines { batch, layout: None, .. }) => Column::of_batch(batch, name),
            Block::Lines(Lines { layout: Some(layout), .. }) => layout.column(name),
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
            Block::Lines(lines) => lines.value(column, lines.rows[row], scratch),
            Block::Made(rows) => match column {
                Column::Made(name) => rows[row].get(name),
                _ => &[],
            },
        }
    }

    /// The value of a column as an instant, if it is one.
    pub fn time_ns(&self, column: Column<'_>, row: usize, scratch: &mut Scratch) -> Option<i64> {
        if let Block::Lines(lines) = self {
            let place = lines.rows[row] as usize;
            match column {
                Column::Time => return Some(lines.batch.row(place).time_ns()),
                Column::Received => return Some(lines.batch.row(place).received_ns()),
                _ => {}
            }
        }
        // Only full times: what a log says is not relative to when it is asked.
        parse_timestamp(self.value(column, row, scratch))
    }

    /// The rows in `selected`.
    pub fn retain(&mut self, selected: &Bitmap) {
        if selected.is_full() {
            return;
        }
        match self {
            Block::Lines(lines) => {
                lines.rows = selected.iter().map(|i| lines.rows[i]).collect();
            }
            Block::Made(rows) => {
                let mut old = std::mem::take(rows);
                *rows = selected.iter().map(|i| std::mem::take(&mut old[i])).collect();
            }
        }
    }

    /// Keeps `count` rows from `from` on.
    pub fn slice(&mut self, from: usize, count: usize) {
        match self {
            Block::Lines(Lines { rows, .. }) => {
                rows.truncate(from.saturating_add(count));
                rows.drain(..from.min(rows.len()));
            }
            Block::Made(rows) => {
                rows.truncate(from.saturating_add(count));
                rows.drain(..from.min(rows.len()));
            }
        }
    }

    /// Takes the rows behind the first `count` out, as a block of their own.
    pub fn split_off(&mut self, count: usize) -> Block {
        match self {
            Block::Lines(lines) => {
                let at = count.min(lines.rows.len());
                Block::Lines(Lines { rows: lines.rows.split_off(at), ..lines.clone() })
            }
            Block::Made(rows) => Block::Made(rows.split_off(count.min(rows.len()))),
        }
    }

    /// Applies what a pipe does to the columns.
    pub fn change(&mut self, change: &Change) {
        match self {
            Block::Lines(lines) => {
                let mut columns = match &lines.layout {
                    None => Layout::base_columns(&lines.batch),
                    Some(layout) => layout.columns.clone(),
                };
                change.apply(&mut columns);
                lines.layout = Some(Arc::new(Layout::new(columns, lines.batch.names().len())));
            }
            Block::Made(rows) => rows.iter_mut().for_each(|row| change.apply(&mut row.fields)),
        }
    }

    /// Calls `each` with name and value of the visible fields of a row that are not empty, in order, then with
    /// those of the hidden fields that are named in `include`.
    pub fn visit(&self, row: usize, include: &[String], scratch: &mut Scratch, each: Each<'_>) {
        match self {
            Block::Lines(lines) => lines.visit(lines.rows[row], include, scratch, each),
            Block::Made(rows) => rows[row].visit(include, each),
        }
    }

    /// A copy of a row that does not need the batch any more, with the hidden fields of `include`.
    pub fn copy_row(&self, row: usize, include: &[String], scratch: &mut Scratch) -> MadeRow {
        let mut copy = MadeRow::default();
        self.visit(row, include, scratch, &mut |name, value, hidden| {
            copy.push(name.clone(), value);
            copy.fields.last_mut().expect("just pushed").hidden = hidden;
        });
        copy.bytes.shrink_to_fit();
        copy.fields.shrink_to_fit();
        copy
    }
}

impl Lines {
    fn visit(&self, place: u32, include: &[String], scratch: &mut Scratch, each: Each<'_>) {
        let names = common_names();
        let mut show =
            |column: Column<'_>, name: &Arc<str>, hidden: bool, scratch: &mut Scratch| {
                let value = self.value(column, place, scratch);
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
            for (id, value) in self.batch.row(place as usize).fields() {
                let name = &self.batch.names()[id.0 as usize];
                if Some(id) != msg && !value.is_empty() && Column::computed(name).is_none() {
                    each(name, value, false);
                }
            }
            for (name, column) in &names.hidden {
                if include.iter().any(|i| **i == **name) {
                    each(name, self.value(*column, place, scratch), true);
                }
            }
            return;
        };
        // The fields that the row has, in the order of the layout, without looking for those it has not.
        let mut places = std::mem::take(&mut scratch.places);
        places.clear();
        places.extend(layout.others.iter().map(|&at| (at, u32::from(u16::MAX) + 1)));
        for (id, value) in self.batch.row(place as usize).fields() {
            let at = layout.by_field[id.0 as usize];
            if at != u32::MAX && !value.is_empty() {
                places.push((at, u32::from(id.0)));
            }
        }
        places.sort_unstable();
        for &(at, _) in &places {
            let column = &layout.columns[at as usize];
            if !column.hidden || include.iter().any(|i| **i == *column.name) {
                show(column.column, &column.name, column.hidden, scratch);
            }
        }
        scratch.places = places;
    }
}

struct CommonNames {
    time: Arc<str>,
    stream: Arc<str>,
    hidden: [(Arc<str>, Column<'static>); 3],
}

/// Names of computed fields, so that rows do not each make their own.
fn common_names() -> &'static CommonNames {
    static NAMES: std::sync::LazyLock<CommonNames> = std::sync::LazyLock::new(|| CommonNames {
        time: "_time".into(),
        stream: "_stream".into(),
        hidden: HIDDEN.map(|name| (name.into(), Column::computed(name).expect("is computed"))),
    });
    &NAMES
}

/// The columns of a block of lines after pipes changed them.
#[derive(Debug)]
pub(crate) struct Layout {
    columns: Vec<LayoutColumn>,
    /// Place in `columns` by number of the field; `u32::MAX` when it is not shown.
    by_field: Vec<u32>,
    /// Places of columns that are computed, or copies of a field.
    others: Vec<u32>,
}

#[derive(Clone, Debug)]
struct LayoutColumn {
    name: Arc<str>,
    column: Column<'static>,
    hidden: bool,
}

impl Layout {
    fn base_columns(batch: &Batch) -> Vec<LayoutColumn> {
        let names = common_names();
        let column =
            |name: &Arc<str>, column, hidden| LayoutColumn { name: name.clone(), column, hidden };
        let mut columns = vec![
            column(&names.time, Column::Time, false),
            column(&names.stream, Column::Stream, false),
        ];
        let msg = batch.field_id(MSG);
        let fields =
            (0..batch.names().len()).map(|i| FieldId(i as u16)).filter(|id| Some(*id) != msg);
        for id in msg.into_iter().chain(fields) {
            let name = &batch.names()[id.0 as usize];
            if Column::computed(name).is_none() {
                columns.push(column(name, Column::Field(id), false));
            }
        }
        columns.extend(names.hidden.iter().map(|(name, c)| column(name, *c, true)));
        columns
    }

    fn new(columns: Vec<LayoutColumn>, fields: usize) -> Layout {
        let mut by_field = vec![u32::MAX; fields];
        let mut others = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            match column.column {
                Column::Field(id) if by_field[id.0 as usize] == u32::MAX => {
                    by_field[id.0 as usize] = at as u32;
                }
                _ => others.push(at as u32),
            }
        }
        Layout { columns, by_field, others }
    }

    fn column(&self, name: &str) -> Column<'static> {
        self.columns.iter().find(|c| *c.name == *name).map_or(Column::Absent, |c| c.column)
    }
}

/// A row that a pipe made, or a copy of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeRow {
    fields: Vec<MadeField>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct MadeField {
    name: Arc<str>,
    at: u32,
    length: u32,
    hidden: bool,
}

impl MadeRow {
    /// Adds a field behind the others.
    pub fn push(&mut self, name: Arc<str>, value: &[u8]) {
        let (at, length) = (self.bytes.len() as u32, value.len() as u32);
        self.bytes.extend_from_slice(value);
        self.fields.push(MadeField { name, at, length, hidden: false });
    }

    /// The value of a field; empty when there is none.
    pub fn get(&self, name: &str) -> &[u8] {
        self.fields.iter().find(|f| *f.name == *name).map_or(&[], |f| self.value(f))
    }

    /// The value of a field that is there, empty or not.
    pub fn stored(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|f| *f.name == *name).map(|f| self.value(f))
    }

    fn value(&self, field: &MadeField) -> &[u8] {
        &self.bytes[field.at as usize..][..field.length as usize]
    }

    fn visit(&self, include: &[String], each: Each<'_>) {
        for field in &self.fields {
            let value = self.value(field);
            let shown = !field.hidden || include.iter().any(|i| **i == *field.name);
            if shown && (field.length > 0 || field.hidden) {
                each(&field.name, value, field.hidden);
            }
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.fields.capacity() * size_of::<MadeField>() + self.bytes.capacity()
    }
}

/// What a pipe does to the columns of rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Only these, in this order.
    Keep(Vec<NamePattern>),
    /// All but these.
    Drop(Vec<NamePattern>),
    /// New names: from, to.
    Rename(Vec<(String, String)>),
    /// The same value under one more name: from, to.
    Copy(Vec<(String, String)>),
}

/// A field name, or all that begin with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// The name or its beginning.
    pub name: String,
    /// Whether it is only the beginning.
    pub prefix: bool,
}

impl NamePattern {
    fn matches(&self, name: &str) -> bool {
        if self.prefix { name.starts_with(&self.name) } else { name == self.name }
    }
}

/// A column as [`Change`] sees it.
trait Named: Clone {
    fn name(&self) -> &Arc<str>;
    fn set_name(&mut self, name: Arc<str>);
    fn hidden(&self) -> bool;
    fn set_hidden(&mut self, hidden: bool);
}

macro_rules! named {
    ($type:ty) => {
        impl Named for $type {
            fn name(&self) -> &Arc<str> {
                &self.name
            }
            fn set_name(&mut self, name: Arc<str>) {
                self.name = name;
            }
            fn hidden(&self) -> bool {
                self.hidden
            }
            fn set_hidden(&mut self, hidden: bool) {
                self.hidden = hidden;
            }
        }
    };
}
named!(LayoutColumn);
named!(MadeField);

impl Change {
    /// Hidden columns come along until they are named, so that what the client included is still there.
    fn apply<C: Named>(&self, columns: &mut Vec<C>) {
        match self {
            Change::Keep(patterns) => {
                let mut old: Vec<Option<C>> = columns.drain(..).map(Some).collect();
                let by_name: HashMap<Arc<str>, usize, foldhash::fast::RandomState> = old
                    .iter()
                    .enumerate()
                    .filter_map(|(i, c)| Some((c.as_ref()?.name().clone(), i)))
                    .collect();
                for pattern in patterns {
                    if !pattern.prefix {
                        let found = by_name.get(pattern.name.as_str()).and_then(|&i| old[i].take());
                        columns.extend(found.map(|mut column| {
                            column.set_hidden(false);
                            column
                        }));
                        continue;
                    }
                    for place in &mut old {
                        let matches = |c: &C| !c.hidden() && pattern.matches(c.name());
                        columns.extend(place.take_if(|c| matches(c)));
                    }
                }
                columns.extend(old.into_iter().flatten().filter(|c| c.hidden()));
            }
            Change::Drop(patterns) => {
                columns.retain(|c| c.hidden() || !patterns.iter().any(|p| p.matches(c.name())))
            }
            Change::Rename(pairs) => {
                for (from, to) in pairs.iter().filter(|(from, to)| from != to) {
                    columns.retain(|c| **c.name() != **to || c.hidden());
                    if let Some(column) = columns.iter_mut().find(|c| **c.name() == **from) {
                        column.set_name(to.as_str().into());
                        column.set_hidden(false);
                    }
                }
            }
            Change::Copy(pairs) => {
                for (from, to) in pairs.iter().filter(|(from, to)| from != to) {
                    columns.retain(|c| **c.name() != **to || c.hidden());
                    if let Some(column) = columns.iter().find(|c| **c.name() == **from) {
                        let mut copy = column.clone();
                        copy.set_name(to.as_str().into());
                        copy.set_hidden(false);
                        columns.push(copy);
                    }
                }
            }
        }
    }
}
