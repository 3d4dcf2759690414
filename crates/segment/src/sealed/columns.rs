//! Reads one block field by field, for queries that only need some fields of its lines.
//!
//! The layouts of the lines determine where the values of a field are: in one column, in several,
//! or in the layouts themselves, if all lines of a layout have the same value. Only the requested
//! columns are decompressed; the per-line numbers (times, line ids) are skipped until they are
//! needed.
//!
//! A field that contains others (the message of an access line is the whole line) is assembled from
//! the columns of its parts. Left out: computed fields; and fields whose column occurs twice in a
//! layout, which the writer never produces: their lines have to be restored.

mod kinds;
mod parts;
mod passing;
mod search;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use memchr::memchr;
use record::columns::Kind as LinesKind;
use record::columns::{
    ColumnError, Columns, Decide, FieldColumn, NO_VALUE, Occurrences, Places, ValueCounts,
};
use record::frame::decode_origins;
use record::{Batch, FieldId, LineId, Origin, Place, RestoredBuilder};

use super::bytes::{Corrupt, Cursor, Read};
use super::column::{Column, ColumnReader, Encoding, TEXT_BYTES_MAX, decimal};
use super::field::Source;
use super::footer::malformed;
use super::ints;
use super::pack::{Element, Layout, Listing, read_nodes, values_of};
use super::repeats;
use super::restore::restore_rows;
use crate::error::SegmentError;

/// Reads a chunk of a block; returns it verified and decompressed.
pub type ReadChunk<'a> = &'a dyn Fn(usize) -> Result<Arc<Vec<u8>>, SegmentError>;

/// The number columns of all lines, in their order in a pack.
const TIMES: usize = 0;
const RECEIVED: usize = 1;
const SEQUENCES: usize = 2;
const LINE_INDEXES: usize = 3;
const ORIGIN_INDEXES: usize = 4;
const LAYOUT_INDEXES: usize = 5;
const NODE_INDEXES: usize = 6;
const NODE_NUMBERS: usize = 7;
const NUMBERS: usize = 8;

const WRONG_LAYOUT: Corrupt = Corrupt("the layout of a line");

/// A block whose columns are decoded on demand.
pub struct BlockColumns<'p> {
    path: &'p Path,
    offset: u64,
    read: ReadChunk<'p>,
    listing: Listing<'p>,
    layouts: Vec<Layout<'p>>,
    origins: &'p [u8],
    /// The nodes that built the frames of the lines.
    nodes: Vec<u32>,
    /// Each number column.
    starts: [Cursor<'p>; NUMBERS],
    numbers: [OnceCell<Vec<i64>>; NUMBERS],
    /// The layout of each line.
    of_row: OnceCell<Vec<u32>>,
    layout_lines: OnceCell<LayoutLines>,
    /// For each column, its sections that are in the pack.
    inside: Vec<Vec<&'p [u8]>>,
    chunks: Vec<OnceCell<Arc<Vec<u8>>>>,
    /// For each column of repeats, its text once it was needed.
    texts: Vec<OnceCell<Vec<u8>>>,
}

/// How many lines there are of each layout.
struct LayoutLines {
    /// Lines by layout.
    rows: Vec<usize>,
    /// How many values of each column the lines take; `None` where a layout takes more than one.
    uses: Vec<Option<usize>>,
}

/// The file cannot be read, or the block is inconsistent.
enum Fault {
    Read(SegmentError),
    Corrupt(Corrupt),
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Self {
        Fault::Corrupt(corrupt)
    }
}

impl From<SegmentError> for Fault {
    fn from(error: SegmentError) -> Self {
        Fault::Read(error)
    }
}

impl<'p> BlockColumns<'p> {
    /// Reads the header of a block of `rows` lines from its first chunk; `read` reads the other
    /// chunks.
    pub(super) fn open(
        pack: &'p [u8],
        (chunks, lines): (usize, usize),
        read: ReadChunk<'p>,
        path: &'p Path,
        offset: u64,
    ) -> Read<BlockColumns<'p>> {
        let listing = Listing::read(pack)?;
        if listing.rows != lines {
            return Err(Corrupt("the number of lines"));
        }
        let head = listing.head()?;
        let mut rest = head.rest;
        let nodes = read_nodes(&mut rest)?;
        let mut starts = std::array::from_fn(|_| rest.clone());
        for start in &mut starts {
            *start = Cursor::new(rest.piece()?);
        }
        let inside = listing.columns.iter().map(|column| {
            let section = |&(chunk, bytes): &(usize, usize)| match chunk {
                0 => rest.take(bytes),
                _ => Ok(&[][..]),
            };
            column.sections.iter().map(section).collect()
        });
        let inside = inside.collect::<Read<Vec<_>>>()?;
        Ok(BlockColumns {
            path,
            offset,
            read,
            layouts: head.layouts,
            origins: head.origins,
            nodes,
            starts,
            numbers: [const { OnceCell::new() }; NUMBERS],
            of_row: OnceCell::new(),
            layout_lines: OnceCell::new(),
            inside,
            chunks: (0..chunks).map(|_| OnceCell::new()).collect(),
            texts: listing.columns.iter().map(|_| OnceCell::new()).collect(),
            listing,
        })
    }

    fn error_of(&self, fault: Fault) -> ColumnError {
        match fault {
            Fault::Read(error) => error.into(),
            Fault::Corrupt(corrupt) => malformed(self.path, self.offset, corrupt).into(),
        }
    }

    fn chunk(&self, number: usize) -> Result<&[u8], Fault> {
        let cell = self.chunks.get(number).ok_or(Corrupt("the chunk of a column"))?;
        if let Some(chunk) = cell.get() {
            return Ok(chunk);
        }
        let chunk = (self.read)(number)?;
        Ok(cell.get_or_init(|| chunk))
    }

    fn numbers(&self, which: usize) -> Read<&[i64]> {
        let cell = &self.numbers[which];
        if let Some(numbers) = cell.get() {
            return Ok(numbers);
        }
        let numbers = ints::decode(&mut self.starts[which].clone(), self.listing.rows)?;
        Ok(cell.get_or_init(|| numbers))
    }

    /// The id of a line.
    fn id(&self, row: usize) -> Read<LineId> {
        let line = u32::try_from(self.numbers(LINE_INDEXES)?[row]);
        let node = usize::try_from(self.numbers(NODE_INDEXES)?[row]).unwrap_or(usize::MAX);
        let number = self.numbers(NODE_NUMBERS)?[row];
        Ok(LineId {
            node: *self.nodes.get(node).ok_or(Corrupt("the node of a line"))?,
            sequence: self.numbers(SEQUENCES)?[row].wrapping_add(number) as u64,
            line: line.map_err(|_| Corrupt("the index of a line"))?,
        })
    }

    /// The sequence numbers of the lines' frames, decoded once.
    ///
    /// Errors: the block is corrupt.
    pub fn sequences(&self) -> Result<&[i64], ColumnError> {
        self.numbers(SEQUENCES).map_err(|corrupt| self.error_of(corrupt.into()))
    }

    /// The layout of each line.
    fn of_row(&self) -> Read<&[u32]> {
        if let Some(of_row) = self.of_row.get() {
            return Ok(of_row);
        }
        let mut rows = vec![0; self.layouts.len()];
        let of_row = ints::decode_indexes(&mut self.layout_start(), self.listing.rows, &mut rows)
            .map_err(|_| WRONG_LAYOUT)?;
        self.layout_lines.get_or_init(|| self.lines_of(rows));
        Ok(self.of_row.get_or_init(|| of_row))
    }

    /// The number of lines of each layout.
    fn layout_lines(&self) -> Read<&LayoutLines> {
        if let Some(lines) = self.layout_lines.get() {
            return Ok(lines);
        }
        self.of_row()?;
        Ok(self.layout_lines.get().expect("the layouts of lines set it"))
    }

    /// As [`Self::layout_lines`], where the layout of each line is not needed afterwards.
    fn layout_lines_only(&self) -> Read<&LayoutLines> {
        if let Some(lines) = self.layout_lines.get() {
            return Ok(lines);
        }
        let mut rows = vec![0; self.layouts.len()];
        ints::count_indexes(&mut self.layout_start(), self.listing.rows, &mut rows)
            .map_err(|_| WRONG_LAYOUT)?;
        Ok(self.layout_lines.get_or_init(|| self.lines_of(rows)))
    }

    fn layout_start(&self) -> Cursor<'p> {
        self.starts[LAYOUT_INDEXES].clone()
    }

    fn lines_of(&self, rows: Vec<usize>) -> LayoutLines {
        let mut uses = vec![Some(0usize); self.listing.columns.len()];
        let mut taken_by = vec![usize::MAX; self.listing.columns.len()];
        for (index, (layout, rows)) in self.layouts.iter().zip(&rows).enumerate() {
            layout.each_column(|column| {
                let twice = std::mem::replace(&mut taken_by[column], index) == index;
                uses[column] = uses[column].filter(|_| !twice).map(|values| values + rows);
            });
        }
        LayoutLines { rows, uses }
    }

    /// Whether column number `index` has a value for each line that takes one, and each line takes
    /// at most one.
    fn is_plain(&self, index: usize) -> Read<bool> {
        match self.layout_lines()?.uses[index] {
            None => Ok(false),
            Some(values) if values == self.listing.columns[index].values => Ok(true),
            Some(_) => Err(Corrupt("the number of values of a column")),
        }
    }

    fn sections(&self, index: usize) -> Result<Vec<&[u8]>, Fault> {
        let entry = &self.listing.columns[index];
        let section = |(&(chunk, _), inside): (&(usize, usize), &&'p [u8])| match chunk {
            0 => Ok(*inside),
            chunk => self.chunk(chunk),
        };
        entry.sections.iter().zip(&self.inside[index]).map(section).collect()
    }

    /// The text of a column of repeats: its values, each with a newline behind it.
    fn repeats(&self, index: usize) -> Result<&[u8], Fault> {
        if let Some(text) = self.texts[index].get() {
            return Ok(text);
        }
        let &[tokens, distances, literals, digits] = &self.sections(index)?[..] else {
            return Err(Corrupt("the sections of a column").into());
        };
        let text = repeats::decode([tokens, distances, literals, digits], TEXT_BYTES_MAX)?;
        Ok(self.texts[index].get_or_init(|| text))
    }

    /// The values of one column, each with its index; `None` when only restoring the lines gives
    /// them.
    fn values(&self, index: usize) -> Result<Option<FieldColumn<'_>>, Fault> {
        let entry = &self.listing.columns[index];
        let sections = self.sections(index)?;
        let text = match (Encoding::of(entry.encoding)?, &sections[..]) {
            (Encoding::Lines, [text]) => Some(Cow::from(*text)),
            (Encoding::Repeats, _) => Some(Cow::from(self.repeats(index)?)),
            _ => None,
        };
        if let Some(text) = text {
            let whole = text.last().is_none_or(|&last| last == b'\n');
            if !whole || memchr::memchr_iter(b'\n', &text).count() != entry.values {
                return Err(Corrupt("the lines of a column").into());
            }
            return Ok(Some(FieldColumn::of_lines(text, entry.values, Places::Each)));
        }
        Ok(match Column::decode(entry.encoding, &sections, entry.values)? {
            Column::Dictionary { values, codes, .. } => {
                let indexes = match codes.is_empty() {
                    true => Places::All(if values.len() == 0 { NO_VALUE } else { 0 }),
                    false => Places::Listed(codes.into_iter().map(u32::from).collect()),
                };
                Some(FieldColumn::with_ends(values.text.into(), values.ends, 0, indexes))
            }
            Column::Numbers(numbers) => Some(FieldColumn::of_numbers(numbers, Places::Each)),
            // A value contains a newline, so the text cannot be split at newlines.
            Column::Text { text, ends, gap: 1 }
                if memchr::memchr_iter(b'\n', &text).count() != ends.len() =>
            {
                Some(back_to_back(&text, &ends))
            }
            Column::Text { text, ends, gap } => {
                Some(FieldColumn::with_ends(text, ends, gap as usize, Places::Each))
            }
            Column::Time(_) | Column::Few { .. } => None,
        })
    }

    /// The column that has a value of field `number` for each line, if there is one and it is known
    /// without the layout of each line.
    fn only_column(&self, number: usize) -> Option<usize> {
        let mut only = None;
        for layout in &self.layouts {
            let Source::Column(column) = Source::of(layout, number, &self.listing.shared) else {
                return None;
            };
            let mut taken = 0;
            layout.each_column(|other| taken += usize::from(other == column));
            if taken != 1 || *only.get_or_insert(column) != column {
                return None;
            }
        }
        only.filter(|&column| self.listing.columns[column].values == self.listing.rows)
    }

    /// Where field `number` is, for each layout. `None` when only restoring the lines gives it.
    fn sources(&self, number: usize) -> Read<Option<Vec<Source<'_>>>> {
        let lines = self.layout_lines()?;
        let mut sources = Vec::with_capacity(self.layouts.len());
        for (layout, &rows) in self.layouts.iter().zip(&lines.rows) {
            let source = match rows {
                0 => Source::Nowhere,
                _ => Source::of(layout, number, &self.listing.shared),
            };
            if let Source::Column(column) = source
                && !self.is_plain(column)?
            {
                return Ok(None);
            }
            sources.push(source);
        }
        Ok(Some(sources))
    }

    /// The number of a field.
    fn number(&self, name: &str) -> Option<usize> {
        self.listing.names.iter().position(|known| *known == name)
    }

    fn read_field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, Fault> {
        let Some(number) = self.number(name) else {
            return Ok(Some(FieldColumn::absent()));
        };
        if let Some(column) = self.only_column(number) {
            return self.values(column);
        }
        let Some(sources) = self.sources(number)? else { return Ok(None) };
        let lines = self.layout_lines()?;
        let taken = || sources.iter().zip(&lines.rows).filter(|(_, rows)| **rows > 0);
        if taken().any(|(source, _)| matches!(source, Source::Between(..))) {
            return self.assemble(&sources, None);
        }
        let mut columns: Vec<usize> = Vec::new();
        for source in &sources {
            if let Source::Column(column) = source
                && !columns.contains(column)
            {
                columns.push(*column);
            }
        }
        match columns[..] {
            [column] if taken().all(|(source, _)| matches!(source, Source::Column(_))) => {
                self.values(column)
            }
            [] => Ok(Some(self.constants(&sources, self.of_row()?))),
            _ => self.mixture(&sources, &columns),
        }
    }

    /// See [`Columns::value_counts`]: of fields whose values stand in layouts and dictionaries.
    fn count_values(&self, name: &str) -> Result<Option<ValueCounts>, Fault> {
        let Some(number) = self.number(name) else {
            return Ok(Some(vec![(Vec::new(), self.listing.rows as u64)]));
        };
        if let Some(column) = self.only_column(number) {
            return self.count_dictionary(column);
        }
        self.layout_lines_only()?;
        let Some(sources) = self.sources(number)? else { return Ok(None) };
        let mut counts = ValueCounts::new();
        // Lines that take their value from each column.
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (source, &rows) in sources.iter().zip(&self.layout_lines()?.rows) {
            match source {
                _ if rows == 0 => {}
                Source::Nowhere => counts.push((Vec::new(), rows as u64)),
                Source::Constant(value) => counts.push((value.to_vec(), rows as u64)),
                Source::Column(column) => match taken.iter_mut().find(|(c, _)| c == column) {
                    Some((_, lines)) => *lines += rows,
                    None => taken.push((*column, rows)),
                },
                Source::Between(..) => return Ok(None),
            }
        }
        for (column, lines) in taken {
            // Else some of its values are those of another field.
            let whole = self.listing.columns[column].values == lines;
            let Some(found) = whole.then(|| self.count_dictionary(column)).transpose()?.flatten()
            else {
                return Ok(None);
            };
            counts.extend(found);
        }
        Ok(Some(counts))
    }

    /// How often each value of a dictionary stands in its column; none where it is no dictionary.
    fn count_dictionary(&self, index: usize) -> Result<Option<ValueCounts>, Fault> {
        if !self.is_of(index, Encoding::Dictionary) {
            return Ok(None);
        }
        let Column::Dictionary { values, codes, count } = self.decode(index)? else {
            return Ok(None);
        };
        let mut lines = vec![0u64; values.len()];
        match codes.is_empty() {
            true => lines.iter_mut().take(1).for_each(|lines| *lines = count as u64),
            false => codes.iter().for_each(|&code| lines[usize::from(code)] += 1),
        }
        let counts = values.iter().map(<[u8]>::to_vec).zip(lines);
        Ok(Some(counts.filter(|(_, lines)| *lines > 0).collect()))
    }

    /// A field with one value for all lines of each layout.
    fn constants<'s>(&'s self, sources: &[Source<'_>], of_row: &'s [u32]) -> FieldColumn<'s> {
        let mut values = Values::default();
        let index = |source: &Source<'_>| match source {
            Source::Constant(value) => values.push_once(value),
            _ => NO_VALUE,
        };
        let indexes: Vec<u32> = sources.iter().map(index).collect();
        let indexes = match indexes[..] {
            [only] => Places::All(only),
            _ => Places::Classes(of_row, indexes),
        };
        FieldColumn::with_ends(values.text.into(), values.ends, 0, indexes)
    }

    /// A field with values from several columns, and constants of layouts.
    fn mixture(
        &self,
        sources: &[Source<'_>],
        columns: &[usize],
    ) -> Result<Option<FieldColumn<'_>>, Fault> {
        let mut read = Vec::with_capacity(columns.len());
        for &column in columns {
            let Some(values) = self.values(column)? else { return Ok(None) };
            read.push(values);
        }
        let constants = || {
            sources.iter().filter_map(|source| match source {
                Source::Constant(value) => Some(&**value),
                _ => None,
            })
        };
        if read.iter().all(|column| column.numbers().is_some())
            && constants().all(|value| decimal(value).is_some())
        {
            let (mut numbers, mut bases) = (Vec::new(), Vec::new());
            for column in &read {
                bases.push(numbers.len() as u32);
                numbers.extend_from_slice(column.numbers().expect("all have them"));
            }
            let same = |value: &[u8]| {
                numbers.push(decimal(value).expect("all have them"));
                numbers.len() as u32 - 1
            };
            let places = self.places_of(sources, columns, &read, &bases, same)?;
            return Ok(Some(FieldColumn::of_numbers(numbers, places)));
        }
        // Stored as lines if no value has a newline: those are searched fastest.
        let is_line = |value: &[u8]| memchr(b'\n', value).is_none();
        let lines = read.iter().all(|column| column.gap() == 1 || is_line(column.text()))
            && constants().all(is_line);
        let mut values = Values { gap: usize::from(lines), ..Values::default() };
        let mut bases = Vec::with_capacity(read.len());
        for column in &read {
            bases.push(values.ends.len() as u32);
            (0..column.values() as u32).for_each(|index| values.push(column.value(index)));
        }
        let places =
            self.places_of(sources, columns, &read, &bases, |value| values.push_once(value))?;
        let Values { text, ends, gap, .. } = values;
        Ok(Some(FieldColumn::with_ends(text.into(), ends, gap, places)))
    }

    /// The index of each row's value where the values of several columns stand behind each other,
    /// those of each from its base on. `same` returns the index of a value that is constant in a
    /// layout.
    fn places_of(
        &self,
        sources: &[Source<'_>],
        columns: &[usize],
        read: &[FieldColumn<'_>],
        bases: &[u32],
        mut same: impl FnMut(&[u8]) -> u32,
    ) -> Read<Places<'_>> {
        enum Part {
            Same(u32),
            /// The next value of this column among `read`.
            Next(usize),
        }
        let part = |source: &Source<'_>| match source {
            Source::Constant(value) => Part::Same(same(value)),
            Source::Column(column) => {
                Part::Next(columns.iter().position(|c| c == column).expect("all are listed"))
            }
            Source::Nowhere | Source::Between(..) => Part::Same(NO_VALUE),
        };
        let parts: Vec<Part> = sources.iter().map(part).collect();
        let mut next = vec![0usize; read.len()];
        let index = |&class: &u32| match parts[class as usize] {
            Part::Same(index) => index,
            Part::Next(which) => {
                next[which] += 1;
                bases[which] + read[which].place(next[which] - 1)
            }
        };
        Ok(Places::Listed(self.of_row()?.iter().map(index).collect()))
    }

    /// See [`Columns::field_of`]: of fields that have to be assembled.
    fn read_field_of(&self, name: &str, rows: &[u32]) -> Result<Option<FieldColumn<'_>>, Fault> {
        let Some(number) = self.number(name) else { return Ok(None) };
        // Of others, some values are not read faster than all.
        let in_pieces = |column: usize| {
            self.is_of(column, Encoding::Repeats) || self.is_of(column, Encoding::Template)
        };
        if self.only_column(number).is_some_and(|column| !in_pieces(column)) {
            return Ok(None);
        }
        let Some(sources) = self.sources(number)? else { return Ok(None) };
        let is_faster = |source: &Source<'_>| match source {
            Source::Between(..) => true,
            Source::Column(column) => in_pieces(*column),
            Source::Nowhere | Source::Constant(_) => false,
        };
        match sources.iter().any(is_faster) {
            true => self.assemble(&sources, Some(rows)),
            false => Ok(None),
        }
    }

    /// A field that contains others, assembled from the columns of its parts; in `rows` only, if
    /// given, which ascend.
    fn assemble(
        &self,
        sources: &[Source<'_>],
        rows: Option<&[u32]>,
    ) -> Result<Option<FieldColumn<'_>>, Fault> {
        let columns = self.listing.columns.len();
        let mut readers: Vec<Option<ColumnReader<'_>>> = (0..columns).map(|_| None).collect();
        let mut wanted = vec![false; columns];
        for (layout, source) in self.layouts.iter().zip(sources) {
            match source {
                Source::Column(column) => wanted[*column] = true,
                Source::Between(from, to) => {
                    layout.elements[*from..*to].iter().for_each(|element| {
                        if let Some(column) = element.column() {
                            wanted[column] = true;
                        }
                    });
                }
                Source::Nowhere | Source::Constant(_) => {}
            }
        }
        // Of a line that is not assembled, all values are skipped.
        let of_layout = |layout: &Layout<'_>| {
            let mut values = Vec::new();
            layout.each_column(|column| values.extend(wanted[column].then_some(column)));
            values
        };
        let values: Vec<Vec<usize>> = self.layouts.iter().map(of_layout).collect();
        let taken = match rows {
            Some(rows) => Some(values_of(self.of_row()?, rows, &values, columns)),
            None => None,
        };
        for (index, reader) in readers.iter_mut().enumerate().filter(|(p, _)| wanted[*p]) {
            if !self.is_plain(index)? {
                return Ok(None);
            }
            let entry = &self.listing.columns[index];
            let (encoding, sections) = (entry.encoding, self.sections(index)?);
            *reader = Some(ColumnReader::new(match &taken {
                Some(taken) => {
                    Column::decode_some(encoding, &sections, entry.values, &taken[index])?
                }
                None => Column::decode(encoding, &sections, entry.values)?,
            }));
        }
        // Of others, those that they have for other fields.
        let passed: Vec<Vec<usize>> = (self.layouts.iter())
            .zip(sources)
            .zip(&values)
            .map(|((layout, source), values)| {
                let mut passed = values.clone();
                let taken = |column: &usize| match source {
                    Source::Column(taken) => taken == column,
                    Source::Between(from, to) => {
                        layout.elements[*from..*to].iter().any(|e| e.column() == Some(*column))
                    }
                    _ => false,
                };
                passed.retain(|column| !taken(column));
                passed
            })
            .collect();
        let times = self.numbers(TIMES)?;
        let bytes: usize = readers.iter().flatten().map(ColumnReader::text_bytes).sum();
        let literals = sources.iter().zip(&self.layouts).zip(&self.layout_lines()?.rows);
        let literals = literals.map(|((source, layout), rows)| match source {
            Source::Between(from, to) => literal_bytes(&layout.elements[*from..*to]) * rows,
            _ => 0,
        });
        let count = rows.map_or(times.len(), <[u32]>::len);
        let room = bytes + literals.sum::<usize>() + times.len();
        let room = (room as u64 * count as u64 / times.len().max(1) as u64) as usize;
        let mut text = Vec::with_capacity(room.min(TEXT_BYTES_MAX));
        let mut ends = Vec::with_capacity(count);
        let mut rows = rows.map(|rows| rows.iter().peekable());
        for ((row, &class), &time_ns) in (0..).zip(self.of_row()?).zip(times) {
            let class = class as usize;
            if let Some(rows) = &mut rows {
                if rows.peek().is_none() {
                    break;
                }
                if rows.next_if(|&&next| next == row).is_none() {
                    for &column in &values[class] {
                        readers[column].as_mut().expect("it is wanted").skip(1);
                    }
                    continue;
                }
            }
            let mut append = |column: usize, text: &mut Vec<u8>| {
                readers[column].as_mut().expect("it is wanted").append(time_ns, text);
            };
            match &sources[class] {
                Source::Nowhere => {}
                Source::Constant(value) => text.extend_from_slice(value),
                Source::Column(column) => append(*column, &mut text),
                Source::Between(from, to) => {
                    for element in &self.layouts[class].elements[*from..*to] {
                        match *element {
                            Element::Literal(literal) => text.extend_from_slice(literal),
                            Element::Gap(column) | Element::Value { column, .. } => {
                                append(column, &mut text);
                            }
                            Element::Open(_) | Element::Close(_) => {}
                        }
                    }
                }
            }
            for &column in &passed[class] {
                readers[column].as_mut().expect("it is wanted").skip(1);
            }
            if text.len() >= TEXT_BYTES_MAX {
                return Err(Corrupt("the length of the lines").into());
            }
            ends.push(text.len() as u32);
            text.push(b'\n');
        }
        Ok(Some(match memchr::memchr_iter(b'\n', &text).count() == ends.len() {
            true => FieldColumn::with_ends(text.into(), ends, 1, Places::Each),
            false => back_to_back(&text, &ends),
        }))
    }

    fn all_origins(&self) -> Read<Vec<Origin>> {
        decode_origins(self.origins).map_err(|_| Corrupt("an origin"))
    }

    fn read_batch(&self, rows: &[u32]) -> Result<Batch, Fault> {
        let mut chunks: Vec<&[u8]> = vec![self.listing.pack];
        for number in 1..self.chunks.len() {
            chunks.push(self.chunk(number)?);
        }
        Ok(restore_rows(&chunks, self.listing.rows, rows)?)
    }

    fn read_batch_of(&self, rows: &[u32], fields: &[&str]) -> Result<Option<Batch>, Fault> {
        let mut columns = Vec::with_capacity(fields.len());
        let mut is_of_rows = Vec::with_capacity(fields.len());
        for name in fields {
            let few = match rows.len() * 2 < self.listing.rows {
                true => self.read_field_of(name, rows)?,
                false => None,
            };
            is_of_rows.push(few.is_some());
            let column = few.map_or_else(|| self.read_field(name), |few| Ok(Some(few)))?;
            let Some(column) = column else { return Ok(None) };
            columns.push(column);
        }
        let names: Vec<Arc<str>> = fields.iter().map(|&name| name.into()).collect();
        let origins: Arc<[Origin]> = self.all_origins()?.into();
        let (times, received) = (self.numbers(TIMES)?, self.numbers(RECEIVED)?);
        let sequences = self.numbers(SEQUENCES)?;
        let of_origin = self.numbers(ORIGIN_INDEXES)?;
        let count = origins.len();
        let mut builder =
            RestoredBuilder::new(names, origins, rows.len(), rows.len() * columns.len(), 0);
        // If there are few distinct values, they are stored once; otherwise only for the rows that
        // have them.
        let mut bases: Vec<Option<Vec<(u32, u32)>>> = Vec::with_capacity(columns.len());
        for column in &columns {
            let few = column.values() <= rows.len().max(1);
            bases.push((few && !matches!(column.places(), Places::Each)).then(|| {
                let arena = builder.arena();
                let keep = |index: u32| {
                    let (value, at) = (column.value(index), arena.len() as u32);
                    arena.extend_from_slice(value);
                    (at, value.len() as u32)
                };
                (0..column.values() as u32).map(keep).collect()
            }));
        }
        for (at, &row) in rows.iter().enumerate() {
            let row = row as usize;
            for (number, (column, base)) in columns.iter().zip(&bases).enumerate() {
                let index = column.place(if is_of_rows[number] { at } else { row });
                if index == NO_VALUE {
                    continue;
                }
                let name = FieldId(number as u16);
                if let Some(base) = base {
                    let (at, length) = base[index as usize];
                    builder.push_field(name, Place::Shared(at), length);
                    continue;
                }
                let value = column.value(index);
                let arena = builder.arena();
                let at = arena.len() as u32;
                arena.extend_from_slice(value);
                builder.push_field(name, Place::Made(at), value.len() as u32);
            }
            let origin = usize::try_from(of_origin[row]).ok().filter(|&index| index < count);
            let origin = origin.ok_or(Corrupt("the origin of a line"))?;
            let id = self.id(row)?;
            let stem = builder.stem_of(origin as u16);
            builder.end_row((id, sequences[row] as u64), times[row], received[row], stem);
        }
        Ok(Some(builder.finish()))
    }
}

impl Columns for BlockColumns<'_> {
    fn rows(&self) -> usize {
        self.listing.rows
    }

    fn times_ns(&self) -> Result<&[i64], ColumnError> {
        self.numbers(TIMES).map_err(|corrupt| self.error_of(corrupt.into()))
    }

    fn names(&self) -> Vec<&str> {
        self.listing.names.clone()
    }

    fn field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        self.read_field(name).map_err(|fault| self.error_of(fault))
    }

    fn field_of(&self, name: &str, rows: &[u32]) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        self.read_field_of(name, rows).map_err(|fault| self.error_of(fault))
    }

    fn value_counts(&self, name: &str) -> Result<Option<ValueCounts>, ColumnError> {
        self.count_values(name).map_err(|fault| self.error_of(fault))
    }

    fn kinds(&self, rows: Option<&[u32]>) -> Result<Option<Vec<LinesKind<'_>>>, ColumnError> {
        self.kinds_of(rows).map(Some).map_err(|corrupt| self.error_of(corrupt.into()))
    }

    fn holding(
        &self,
        name: &str,
        text: &[u8],
        occurrences: Occurrences<'_>,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        self.rows_holding(name, text, occurrences).map_err(|fault| self.error_of(fault))
    }

    fn passing_outlines(
        &self,
        name: &str,
        test: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        self.rows_by_outline(name, test).map_err(|fault| self.error_of(fault))
    }

    fn passing(&self, name: &str, test: &dyn Decide) -> Result<Option<Vec<u32>>, ColumnError> {
        self.rows_passing(name, test).map_err(|fault| self.error_of(fault))
    }

    fn batch(&self, rows: &[u32]) -> Result<Batch, ColumnError> {
        self.read_batch(rows).map_err(|fault| self.error_of(fault))
    }

    fn batch_of(&self, rows: &[u32], fields: &[&str]) -> Result<Option<Batch>, ColumnError> {
        self.read_batch_of(rows, fields).map_err(|fault| self.error_of(fault))
    }

    fn stream_fields(&self) -> Result<Option<Vec<String>>, ColumnError> {
        let origins = self.all_origins().map_err(|corrupt| self.error_of(corrupt.into()))?;
        let mut fields = origins.iter().map(|origin| origin.hints.stream_fields.clone());
        let first = fields.next().unwrap_or_default();
        if fields.any(|other| other != first) {
            return Ok(None);
        }
        Ok(Some(match first.is_empty() {
            true => record::batch::STREAM_FIELDS.map(str::to_owned).to_vec(),
            false => first,
        }))
    }
}

/// Assembled values, back to back.
#[derive(Default)]
struct Values {
    text: Vec<u8>,
    ends: Vec<u32>,
    gap: usize,
    indexes: std::collections::HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
}

impl Values {
    fn push(&mut self, value: &[u8]) {
        self.text.extend_from_slice(value);
        self.ends.push(self.text.len() as u32);
        if self.gap > 0 {
            self.text.push(b'\n');
        }
    }

    /// The index of a value, which is added if it is new.
    fn push_once(&mut self, value: &[u8]) -> u32 {
        if let Some(&index) = self.indexes.get(value) {
            return index;
        }
        let index = self.ends.len() as u32;
        self.push(value);
        self.indexes.insert(value.into(), index);
        index
    }
}

/// Values with these ends, each with a newline behind it and some with newlines inside; removes the
/// newlines behind them.
fn back_to_back(text: &[u8], ends: &[u32]) -> FieldColumn<'static> {
    let mut values = Values::default();
    let mut from = 0;
    for &end in ends {
        values.push(&text[from..end as usize]);
        from = end as usize + 1;
    }
    FieldColumn::with_ends(values.text.into(), values.ends, 0, Places::Each)
}

fn literal_bytes(elements: &[Element<'_>]) -> usize {
    let bytes = |element: &Element<'_>| match element {
        Element::Literal(text) => text.len(),
        _ => 0,
    };
    elements.iter().map(bytes).sum()
}
