//! Writes one block: some megabytes of lines as columns. See the diagram in
//! `docs/format/sealed-segment.md`.
//!
//! A block contains everything that is needed to restore its lines: names, layouts, origins,
//! columns. So a damaged block loses only its own lines. Small columns share the first chunk, the
//! *pack*, together with the list of all columns; a large column is a chunk of its own, so that it
//! can be read alone.

use std::sync::Arc;

use record::batch::{BATCH_NAMES_MAX, ROW_FIELDS_MAX};
use record::frame::encode_origin;
use record::{Batch, Origin, Row, Tenant, Transport};

use super::SealOptions;
use super::bytes::{put_piece, put_varint};
use super::column::{ColumnBuilder, Encoded, Encoding};
use super::compress::Compressor;
use super::footer::{BlockEntry, Chunk, Effort, NodeNumbers, numbers_of};
use super::ints;
use super::layout::{BatchShapes, ColumnKey, EDGE, Element, FieldKind, Layouts, Sink};
use super::outlines::Outlines;
use super::repeats::Repeats;
use super::words::Words;
use crate::tokens::TokenSet;

/// A block is ended when it has this many names and layouts: a line adds at most as many as a batch
/// may have.
const LAYOUTS_MAX: usize = BATCH_NAMES_MAX - ROW_FIELDS_MAX - 1;

/// The filter is kept if it is at most this part of the raw lines, however small the block became:
/// a search in a block without a filter reads it, which takes time in proportion to the raw lines.
const FILTER_RAW_PARTS: usize = 64;

/// A row of one of the current batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRef {
    pub(crate) batch: u32,
    pub(crate) row: u32,
}

/// Encodes one block after the other, reusing memory.
#[derive(Default)]
pub(crate) struct BlockWriter {
    columns: Columns,
    rows: Fixed,
    repeats: Repeats,
    outlines: Outlines,
    words: Words,
    /// The nodes that built the frames of the lines.
    node_table: Vec<u32>,
    origin_table: Vec<Origin>,
    origin_indexes: std::collections::HashMap<Origin, u32, foldhash::fast::RandomState>,
    last_origin: Option<(u32, u16, u32)>,
}

/// The columns in which every row has a value.
#[derive(Default)]
struct Fixed {
    times_ns: Vec<i64>,
    received_ns: Vec<i64>,
    sequences: Vec<i64>,
    lines: Vec<i64>,
    /// Index of the node in the list of the block.
    nodes: Vec<i64>,
    /// The frame's number on its node minus the sequence number.
    numbers: Vec<i64>,
    /// Index of the origin in the list of the block.
    origins: Vec<i64>,
    /// Numbers in [`Layouts::layouts`]; later, numbers in the block.
    layouts: Vec<i64>,
}

#[derive(Default)]
struct Columns {
    /// Indexed by the number in [`Layouts::columns`].
    builders: Vec<ColumnBuilder>,
    used: Vec<u32>,
    row: u32,
}

impl Columns {
    #[inline]
    fn builder(&mut self, column: u32) -> &mut ColumnBuilder {
        let index = column as usize;
        if index >= self.builders.len() {
            self.builders.resize_with(index + 1, ColumnBuilder::default);
        }
        let builder = &mut self.builders[index];
        if builder.len() == 0 {
            self.used.push(column);
        }
        builder
    }
}

impl Sink for Columns {
    #[inline]
    fn value(&mut self, column: u32, value: &[u8]) {
        self.builder(column).push(value);
    }

    #[inline]
    fn gap(&mut self, column: u32, text: &[u8]) {
        let row = self.row;
        let builder = self.builder(column);
        builder.push(text);
        builder.rows.push(row);
    }
}

/// An encoded block.
pub(crate) struct EncodedBlock {
    /// The chunks, back to back.
    pub(crate) bytes: Vec<u8>,
    /// The block's entry in the footer; its offset is not known yet.
    pub(crate) entry: BlockEntry,
}

impl BlockWriter {
    /// Forgets the column numbers that [`Layouts`] assigned.
    pub(crate) fn forget_columns(&mut self) {
        self.columns = Columns::default();
    }

    /// Encodes rows of `batches` as a block, from the first on, and returns how many: not all when
    /// they have very many names or layouts. Neighbouring rows of the same batch cost least.
    pub(crate) fn encode(
        &mut self,
        batches: &[Arc<Batch>],
        shapes: &mut [BatchShapes],
        rows: &[RowRef],
        layouts: &mut Layouts,
        options: &SealOptions,
        compressor: &mut Compressor,
    ) -> (EncodedBlock, usize) {
        self.clear();
        let mut entry = BlockEntry::default();
        let mut taken = 0;
        while let Some(at) = rows.get(taken)
            && layouts.len() <= LAYOUTS_MAX
        {
            let batch = &batches[at.batch as usize];
            let row = batch.row(at.row as usize);
            self.columns.row = taken as u32;
            let known = &mut shapes[at.batch as usize];
            let layout = layouts.split(batch, &row, known, &mut self.columns);
            let origin = self.origin_index(at.batch, batch, &row);
            self.push_fixed(&row, origin, layout);
            entry.bytes_raw += row.raw_bytes() as u64 + 1;
            taken += 1;
            let Some(alike) = known.alike(row.stem()) else { continue };
            while let Some(next) = rows.get(taken)
                && next.batch == at.batch
            {
                let next = batch.row(next.row as usize);
                if next.stem() != row.stem() || !alike.holds(&next) {
                    break;
                }
                self.columns.row = taken as u32;
                alike.split(next.raw(), &mut self.columns);
                self.push_fixed(&next, origin, alike.layout);
                entry.bytes_raw += next.raw_bytes() as u64 + 1;
                taken += 1;
            }
        }
        entry.lines = taken as u32;
        entry.lines_internal = self.lines_internal();
        entry.tenant = self.origin_table.first().map_or(Tenant::DEFAULT, |o| o.hints.tenant);
        debug_assert!(self.origin_table.iter().all(|o| o.hints.tenant == entry.tenant));
        entry.time_ns = range(self.rows.times_ns.iter().copied());
        entry.received_ns = range(self.rows.received_ns.iter().copied());
        entry.sequence = range(self.rows.sequences.iter().map(|&sequence| sequence as u64));
        entry.numbers = self.node_numbers();
        let (pack, own) = self.pack(layouts, options, compressor);
        let rows = &rows[..taken];
        let mut bytes = Vec::new();
        for chunk in std::iter::once(&pack).chain(&own) {
            entry.chunks.push(put_chunk(chunk, options, compressor, &mut bytes));
        }
        match options.effort {
            Effort::Fast => self.add_words_by_line(batches, rows),
            Effort::Best => {
                self.words.clear();
                rows.iter().for_each(|at| add_words(batches, at, &mut self.words.set));
            }
        }
        entry.filter = put_filter(&self.words.set, entry.bytes_raw, options, &mut bytes);
        (EncodedBlock { bytes, entry }, taken)
    }

    /// Adds the words of lines whose words cannot be found from columns.
    fn add_words_by_line(&mut self, batches: &[Arc<Batch>], rows: &[RowRef]) {
        if !self.words.any_by_line() {
            return;
        }
        for (at, &layout) in rows.iter().zip(&self.rows.layouts) {
            if self.words.is_by_line(layout as usize) {
                add_words(batches, at, &mut self.words.set);
            }
        }
    }

    fn lines_internal(&self) -> u32 {
        let internal = |origin: &Origin| origin.transport == Transport::Internal;
        if !self.origin_table.iter().any(internal) {
            return 0;
        }
        let lines = self
            .rows
            .origins
            .iter()
            .filter(|&&origin| internal(&self.origin_table[origin as usize]));
        lines.count() as u32
    }

    fn clear(&mut self) {
        for column in self.columns.used.drain(..) {
            self.columns.builders[column as usize].clear();
        }
        let Fixed { times_ns, received_ns, sequences, lines, nodes, numbers, origins, layouts } =
            &mut self.rows;
        for column in [times_ns, received_ns, sequences, lines, nodes, numbers, origins, layouts] {
            column.clear();
        }
        self.node_table.clear();
        self.words.clear();
        self.origin_table.clear();
        self.origin_indexes.clear();
        self.last_origin = None;
    }

    /// The index of a row's origin among those of the block.
    fn origin_index(&mut self, batch_index: u32, batch: &Batch, row: &Row<'_>) -> u32 {
        let origin = row.origin_index();
        let index = match self.last_origin {
            Some((b, o, index)) if (b, o) == (batch_index, origin) => index,
            _ => {
                let origin = &batch.origins()[usize::from(origin)];
                match self.origin_indexes.get(origin) {
                    Some(&index) => index,
                    None => {
                        let index = self.origin_table.len() as u32;
                        self.origin_table.push(origin.clone());
                        self.origin_indexes.insert(origin.clone(), index);
                        index
                    }
                }
            }
        };
        self.last_origin = Some((batch_index, origin, index));
        index
    }

    /// The index of a node among those of the block.
    #[inline]
    fn node_index(&mut self, node: u32) -> i64 {
        // Nearly always the node of the previous line.
        if let Some(&last) = self.rows.nodes.last()
            && self.node_table[last as usize] == node
        {
            return last;
        }
        let known = self.node_table.iter().position(|known| *known == node);
        known.unwrap_or_else(|| {
            self.node_table.push(node);
            self.node_table.len() - 1
        }) as i64
    }

    /// The numbers of the frames that the lines came in, by node.
    fn node_numbers(&self) -> Vec<NodeNumbers> {
        let Fixed { sequences, nodes, numbers, .. } = &self.rows;
        let rows = nodes.iter().zip(sequences).zip(numbers);
        let mut ranges: Vec<Option<NodeNumbers>> = vec![None; self.node_table.len()];
        for ((&index, &sequence), &number) in rows {
            let (node, number) = (index as usize, sequence.wrapping_add(number) as u64);
            let none = NodeNumbers { node: self.node_table[node], first: number, last: number };
            let range = ranges[node].get_or_insert(none);
            (range.first, range.last) = (range.first.min(number), range.last.max(number));
        }
        numbers_of(ranges.into_iter().flatten())
    }

    #[inline]
    fn push_fixed(&mut self, row: &Row<'_>, origin: u32, layout: u32) {
        let id = row.id();
        self.rows.times_ns.push(row.time_ns());
        self.rows.received_ns.push(row.received_ns());
        let sequence = row.sequence();
        self.rows.sequences.push(sequence as i64);
        self.rows.lines.push(id.line.into());
        let node = self.node_index(id.node);
        self.rows.nodes.push(node);
        self.rows.numbers.push(id.sequence.wrapping_sub(sequence) as i64);
        self.rows.origins.push(origin.into());
        self.rows.layouts.push(layout.into());
    }

    /// The first chunk, and those of large columns, before compression.
    fn pack(
        &mut self,
        layouts: &Layouts,
        options: &SealOptions,
        compressor: &mut Compressor,
    ) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut local = Local::default();
        for layout in &mut self.rows.layouts {
            *layout = local.layouts.number(*layout as u32).into();
        }
        let mut layout_bytes = Vec::new();
        for layout in local.layouts.all.clone() {
            let layout = layouts.layouts.get(layout);
            if options.effort == Effort::Fast {
                self.words.add_layout(layout, layouts, &self.columns.builders);
            }
            put_varint(&mut layout_bytes, layout.elements.len() as u64);
            for element in &layout.elements {
                local.put_element(element, &mut layout_bytes);
            }
            put_varint(&mut layout_bytes, layout.fields.len() as u64);
            for (name, kind) in &layout.fields {
                local.put_field(*name, kind, &mut layout_bytes);
            }
        }
        let mut column_bytes = Vec::new();
        let (mut inside, mut own) = (Vec::new(), Vec::new());
        put_varint(&mut column_bytes, local.columns.all.len() as u64);
        for column in local.columns.all.clone() {
            let key = *layouts.columns.get(column);
            let (kind, first, second) = match key {
                ColumnKey::Field(name) => (0, local.name(name), 0),
                ColumnKey::Made(name) => (1, local.name(name), 0),
                ColumnKey::Gap(before, behind) => (2, local.name(before), local.name(behind)),
            };
            let builder = &mut self.columns.builders[column as usize];
            let times = matches!(key, ColumnKey::Gap(..)).then_some(&self.rows.times_ns[..]);
            let values = builder.len();
            let own_bytes = options.effort.own_chunk_bytes();
            let encoded = match options.effort {
                Effort::Fast => {
                    let words = self.words.of_column(column, key);
                    builder.encode(times, false, Some((&mut self.repeats, own_bytes)), words)
                }
                Effort::Best => smallest(builder, times, options, compressor),
            };
            let Encoded { encoding, sections } = encoded;
            // A reader that only needs the pack does not read parts of a large text.
            let apart = encoding == Encoding::Repeats;
            column_bytes.push(kind);
            put_varint(&mut column_bytes, first);
            put_varint(&mut column_bytes, second);
            column_bytes.push(encoding as u8);
            put_varint(&mut column_bytes, values as u64);
            put_varint(&mut column_bytes, sections.len() as u64);
            for section in sections {
                if apart || section.len() >= own_bytes {
                    own.push(section);
                    put_varint(&mut column_bytes, own.len() as u64);
                } else {
                    put_varint(&mut column_bytes, 0);
                    put_varint(&mut column_bytes, section.len() as u64);
                    inside.push(section);
                }
            }
            let outlines = match key {
                ColumnKey::Gap(..) => None,
                // Other columns are short or have no text any more.
                _ if matches!(encoding, Encoding::Repeats | Encoding::Template) => {
                    builder.outlines(&mut self.outlines)
                }
                _ => None,
            };
            let has_outlines = outlines.is_some();
            own.extend(outlines);
            put_varint(&mut column_bytes, if has_outlines { own.len() as u64 } else { 0 });
        }
        let mut pack = Vec::new();
        put_varint(&mut pack, self.rows.times_ns.len() as u64);
        put_varint(&mut pack, local.names.all.len() as u64);
        for &name in &local.names.all {
            put_piece(&mut pack, layouts.names.get(name).as_bytes());
        }
        put_varint(&mut pack, local.shared.all.len() as u64);
        for &shared in &local.shared.all {
            put_piece(&mut pack, layouts.shared.get(shared));
        }
        pack.extend_from_slice(&column_bytes);
        put_varint(&mut pack, local.layouts.all.len() as u64);
        pack.extend_from_slice(&layout_bytes);
        let mut origins = Vec::new();
        self.origin_table.iter().for_each(|origin| encode_origin(origin, &mut origins));
        put_piece(&mut pack, &origins);
        put_varint(&mut pack, self.node_table.len() as u64);
        self.node_table.iter().for_each(|node| pack.extend_from_slice(&node.to_le_bytes()));
        let Fixed { times_ns, received_ns, sequences, lines, nodes, numbers, origins, layouts } =
            &self.rows;
        let mut numbers_of_lines = Vec::new();
        for column in [times_ns, received_ns, sequences, lines, origins, layouts, nodes, numbers] {
            numbers_of_lines.clear();
            ints::encode(column, &mut numbers_of_lines);
            put_piece(&mut pack, &numbers_of_lines);
        }
        inside.iter().for_each(|bytes| pack.extend_from_slice(bytes));
        (pack, own)
    }
}

/// Adds the words of all values of a row, for lines in which a value contains others: words may be
/// between those, or reach across their borders.
fn add_words(batches: &[Arc<Batch>], at: &RowRef, words: &mut TokenSet) {
    let row = batches[at.batch as usize].row(at.row as usize);
    row.fields().for_each(|(_, value)| words.add(value));
}

/// Appends the word filter, if it is small compared with the block or with the raw bytes of its
/// lines.
fn put_filter(
    words: &TokenSet,
    bytes_raw: u64,
    options: &SealOptions,
    bytes: &mut Vec<u8>,
) -> Option<Chunk> {
    let filter = words.build();
    let of_raw = bytes_raw as usize / FILTER_RAW_PARTS;
    if filter.len() > of_raw.max(bytes.len() / options.filter_parts) {
        return None;
    }
    bytes.extend_from_slice(&filter);
    let length = filter.len() as u32;
    Some(Chunk { bytes_disk: length, bytes: length, crc: crc32c::crc32c(&filter) })
}

/// The column in the encoding that is smallest after compression.
fn smallest(
    builder: &mut ColumnBuilder,
    times: Option<&[i64]>,
    options: &SealOptions,
    compressor: &mut Compressor,
) -> Encoded {
    let plain = builder.encode(times, true, None, None);
    if matches!(plain.encoding, Encoding::Time | Encoding::Numbers) {
        return plain;
    }
    let Some(templates) = builder.encode_templates() else { return plain };
    let mut size = |encoded: &Encoded| -> usize {
        let mut out = Vec::new();
        for section in &encoded.sections {
            compressor.compress(section, options.level(), &mut out);
        }
        out.len()
    };
    if size(&templates) < size(&plain) { templates } else { plain }
}

/// Maps numbers that are valid for all blocks to numbers of this block.
#[derive(Default)]
struct Renumber {
    /// By number for all blocks, the number in this block; [`UNUSED`] if it has none.
    indexes: Vec<u32>,
    all: Vec<u32>,
}

const UNUSED: u32 = u32::MAX;

impl Renumber {
    #[inline]
    fn number(&mut self, of: u32) -> u32 {
        match self.indexes.get(of as usize) {
            Some(&index) if index != UNUSED => index,
            _ => self.number_new(of),
        }
    }

    fn number_new(&mut self, of: u32) -> u32 {
        let index = self.all.len() as u32;
        let size = self.indexes.len().max(of as usize + 1);
        self.indexes.resize(size, UNUSED);
        self.indexes[of as usize] = index;
        self.all.push(of);
        index
    }
}

#[derive(Default)]
struct Local {
    names: Renumber,
    shared: Renumber,
    columns: Renumber,
    layouts: Renumber,
}

impl Local {
    /// 0 for the edge of a line.
    fn name(&mut self, name: u32) -> u64 {
        if name == EDGE { 0 } else { u64::from(self.names.number(name)) + 1 }
    }

    fn put_element(&mut self, element: &Element, out: &mut Vec<u8>) {
        match element {
            Element::Literal(text) => {
                out.push(0);
                put_piece(out, text);
            }
            Element::Gap(column) => {
                out.push(1);
                put_varint(out, u64::from(self.columns.number(*column)));
            }
            Element::Value { field, column } => {
                out.push(2);
                put_varint(out, u64::from(*field));
                put_varint(out, u64::from(self.columns.number(*column)));
            }
            Element::Open(field) => {
                out.push(3);
                put_varint(out, u64::from(*field));
            }
            Element::Close(field) => {
                out.push(4);
                put_varint(out, u64::from(*field));
            }
        }
    }

    fn put_field(&mut self, name: u32, kind: &FieldKind, out: &mut Vec<u8>) {
        put_varint(out, self.name(name));
        match kind {
            FieldKind::InLine => out.push(0),
            FieldKind::Shared(value) => {
                out.push(1);
                put_varint(out, u64::from(self.shared.number(*value)));
            }
            FieldKind::Made(column) => {
                out.push(2);
                put_varint(out, u64::from(self.columns.number(*column)));
            }
            FieldKind::Empty => out.push(3),
        }
    }
}

/// Compresses a chunk and appends it; stores it uncompressed if compression does not make it
/// smaller.
fn put_chunk(
    chunk: &[u8],
    options: &SealOptions,
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) -> Chunk {
    let at = out.len();
    compressor.compress(chunk, options.level(), out);
    if out.len() - at >= chunk.len() {
        out.truncate(at);
        out.extend_from_slice(chunk);
    }
    let stored = &out[at..];
    Chunk {
        bytes_disk: stored.len() as u32,
        bytes: chunk.len() as u32,
        crc: crc32c::crc32c(stored),
    }
}

fn range<T: Ord + Copy + Default>(values: impl Iterator<Item = T> + Clone) -> (T, T) {
    (values.clone().min().unwrap_or_default(), values.max().unwrap_or_default())
}
