//! Reads one block: turns columns back into lines and records.
//!
//! Everything is checked before the first line is restored (numbers of layouts, columns and names,
//! and that each column has as many values as its layouts use), so that restoring cannot fail.
//!
//! Rows of one layout and origin become rows of one stem: fields at the end of a layout's field
//! list that have the same values at the same positions in all its lines are stored once. See
//! [`super::plan`].

use std::sync::Arc;

use record::frame::decode_origins;
use record::{Batch, LineId, Origin, RestoredBuilder, Row};

use super::bytes::{Corrupt, Cursor, Read};
use super::column::{Column, ColumnReader};
use super::ints;
use super::pack::{ColumnEntry, Layout, Listed, Listing, read_layout, read_nodes, values_of};
use super::plan::Plan;

/// A block whose columns are read and checked, and whose lines are not restored yet.
pub(super) struct Opened<'a> {
    pub(super) names: Vec<&'a str>,
    /// The shared values, back to back, at the positions in [`Kind::Shared`].
    pub(super) shared: Vec<u8>,
    pub(super) origins: Arc<[Origin]>,
    pub(super) times: Vec<i64>,
    pub(super) received: Vec<i64>,
    pub(super) sequences: Vec<i64>,
    pub(super) names_of_lines: LineNames,
    /// For each line, its index in `origins`, and in `plans`.
    pub(super) origin_indexes: Vec<i64>,
    pub(super) layout_indexes: Vec<u32>,
    pub(super) readers: Vec<ColumnReader<'a>>,
    pub(super) plans: Vec<Plan>,
    fields: usize,
    text_bytes: usize,
}

impl<'a> Opened<'a> {
    /// Reads a block of `lines` lines from its decompressed chunks.
    pub(super) fn read(chunks: &'a [Vec<u8>], lines: usize) -> Read<Opened<'a>> {
        let chunks: Vec<&'a [u8]> = chunks.iter().map(Vec::as_slice).collect();
        Opened::of_chunks(&chunks, lines, None)
    }

    /// Reads all values, or only those of the wanted rows, which ascend: others may be empty.
    fn of_chunks(chunks: &[&'a [u8]], lines: usize, wanted: Option<&[u32]>) -> Read<Opened<'a>> {
        let pack: &'a [u8] = chunks.first().ok_or(Corrupt("a block without chunks"))?;
        let Listing { rows, names, shared: values, columns, mut rest, .. } = Listing::read(pack)?;
        if rows != lines {
            return Err(Corrupt("the number of lines"));
        }
        check_names(&names)?;
        let mut shared = Vec::new();
        let positions: Vec<(u32, u32)> = values
            .iter()
            .map(|value| {
                let at = shared.len() as u32;
                shared.extend_from_slice(value);
                (at, value.len() as u32)
            })
            .collect();
        let listed = Listed { names: names.len(), shared: &positions, columns: columns.len() };
        let layouts = (0..rest.count(pack.len())?)
            .map(|_| read_layout(&mut rest, &listed))
            .collect::<Read<Vec<_>>>()?;
        let origins: Arc<[Origin]> =
            decode_origins(rest.piece()?).map_err(|_| Corrupt("an origin"))?.into();
        let nodes = read_nodes(&mut rest)?;
        // Up to the last wanted line, where some are wanted.
        let read = wanted.map_or(rows, |wanted| wanted.last().map_or(0, |&row| row as usize + 1));
        let mut numbers_of = |count| {
            let mut column = Cursor::new(rest.piece()?);
            let numbers = ints::decode(&mut column, count)?;
            if count == rows {
                column.end()?;
            }
            Ok(numbers)
        };
        let mut numbers_of_lines = || numbers_of(read.min(rows));
        let times = numbers_of_lines()?;
        let received = numbers_of_lines()?;
        let sequences = numbers_of_lines()?;
        let line_indexes = numbers_of_lines()?;
        let origin_indexes = numbers_of_lines()?;
        let layout_indexes = numbers_of(rows)?;
        let mut numbers_of_lines = || numbers_of(read.min(rows));
        let node_indexes = numbers_of_lines()?;
        let numbers = numbers_of_lines()?;
        if node_indexes.iter().any(|&index| index < 0 || index as usize >= nodes.len()) {
            return Err(Corrupt("the node of a line"));
        }
        if origin_indexes.iter().any(|&index| index < 0 || index as usize >= origins.len()) {
            return Err(Corrupt("the origin of a line"));
        }
        let of_row = layout_indexes.iter().map(|&index| u32::try_from(index).ok());
        let of_row = of_row.map(|index| index.filter(|&index| (index as usize) < layouts.len()));
        let of_row: Option<Vec<u32>> = of_row.collect();
        let of_row = of_row.ok_or(Corrupt("the layout of a line"))?;
        let wanted = wanted.map(|rows| {
            let of_layout = |layout: &Layout<'_>| {
                let mut values = Vec::new();
                layout.each_column(|column| values.push(column));
                values
            };
            let values: Vec<Vec<usize>> = layouts.iter().map(of_layout).collect();
            values_of(&of_row, rows, &values, columns.len())
        });
        let readers = read_columns(&columns, chunks, &mut rest, wanted.as_deref())?;
        rest.end()?;
        let uses = check_uses(&layouts, &of_row, &readers)?;
        let values_bytes: usize = readers.iter().map(ColumnReader::text_bytes).sum();
        let plans: Vec<Plan> = layouts
            .iter()
            .zip(&uses.rows)
            .map(|(layout, &rows)| Plan::new(layout, rows, &readers))
            .collect();
        let fields = plans.iter().zip(&uses.rows).map(|(plan, &rows)| plan.fields(rows)).sum();
        Ok(Opened {
            names,
            shared,
            origins,
            times,
            received,
            sequences,
            names_of_lines: LineNames { nodes, node_indexes, numbers, line_indexes },
            origin_indexes,
            layout_indexes: of_row,
            readers,
            plans,
            fields,
            text_bytes: uses.literal_bytes + values_bytes,
        })
    }

    /// Buffer for the spans of any line.
    pub(super) fn spans(&self) -> Vec<(u32, u32)> {
        vec![(0, 0); self.plans.iter().map(Plan::spans).max().unwrap_or(0)]
    }
}

/// The ids of the lines of a block.
pub(super) struct LineNames {
    /// The nodes that built the frames.
    nodes: Vec<u32>,
    /// For each line: a valid index in `nodes`, and the number of its frame on that node minus the
    /// sequence number.
    node_indexes: Vec<i64>,
    numbers: Vec<i64>,
    line_indexes: Vec<i64>,
}

impl LineNames {
    /// The id of a line whose frame has that sequence number.
    #[inline]
    pub(super) fn id(&self, row: usize, sequence: i64) -> Read<LineId> {
        let line = u32::try_from(self.line_indexes[row]);
        Ok(LineId {
            node: self.nodes[self.node_indexes[row] as usize],
            sequence: sequence.wrapping_add(self.numbers[row]) as u64,
            line: line.map_err(|_| Corrupt("the index of a line"))?,
        })
    }
}

/// The records of a block from its decompressed chunks.
pub(crate) fn restore(chunks: &[Vec<u8>], lines: usize) -> Read<Batch> {
    restore_batch(Opened::read(chunks, lines)?, lines, None)
}

/// The records of some rows, which must ascend.
pub(crate) fn restore_rows(chunks: &[&[u8]], lines: usize, rows: &[u32]) -> Read<Batch> {
    debug_assert!(rows.is_sorted());
    restore_batch(Opened::of_chunks(chunks, lines, Some(rows))?, lines, Some(rows))
}

/// The records of all rows, or of the wanted ones.
fn restore_batch(mut block: Opened<'_>, lines: usize, wanted: Option<&[u32]>) -> Read<Batch> {
    let mut spans = block.spans();
    let names = block.names.iter().copied().map(Arc::from).collect();
    let rows = wanted.map_or(lines, <[u32]>::len);
    let part = |all: usize| (all as u128 * rows as u128 / lines.max(1) as u128) as usize;
    let fields = part(block.fields).min(FIELDS_RESERVED_MAX);
    let text_bytes = part(block.text_bytes).min(TEXT_BYTES_MAX);
    let mut builder = RestoredBuilder::new(names, block.origins, rows, fields, text_bytes);
    *builder.arena() = block.shared;
    // Rows before the next wanted one, by layout. Their values are skipped together: a block has
    // thousands of rows, of which a query for one line wants one.
    let mut passed = vec![0usize; block.plans.len()];
    let mut next = 0;
    for place in 0..rows {
        let row = wanted.map_or(place, |wanted| wanted[place] as usize);
        if row < next || row >= lines {
            return Err(Corrupt("a row that is asked for"));
        }
        if row > next {
            block.layout_indexes[next..row].iter().for_each(|&layout| passed[layout as usize] += 1);
            for (plan, passed) in block.plans.iter().zip(&mut passed).filter(|(_, n)| **n > 0) {
                plan.skip(std::mem::take(passed), &mut block.readers);
            }
        }
        next = row + 1;
        let plan = &mut block.plans[block.layout_indexes[row] as usize];
        let time_ns = block.times[row];
        let stem = plan.stem(block.origin_indexes[row] as u16, &mut builder);
        plan.write_line(time_ns, &mut block.readers, builder.line(), &mut spans);
        plan.push_fields(time_ns, &mut block.readers, &spans, &mut builder);
        let id = (block.names_of_lines.id(row, block.sequences[row])?, block.sequences[row] as u64);
        builder.end_row(id, time_ns, block.received[row], stem);
        if builder.line().len() >= TEXT_BYTES_MAX || builder.arena().len() >= TEXT_BYTES_MAX {
            return Err(Corrupt("the length of the lines"));
        }
    }
    Ok(builder.finish())
}

/// Checksum over the lines of a restored block.
pub(crate) fn lines_crc(batch: &Batch) -> u32 {
    let mut heads = LineHeads::with_capacity(batch.len());
    batch.rows().for_each(|row| heads.add(&row));
    heads.finish(crc32c::crc32c(batch.text()))
}

/// The part of the lines' checksum behind the raw lines: for each line its length, its id and its
/// times.
pub(super) struct LineHeads {
    bytes: Vec<u8>,
}

/// Bytes per line.
const LINE_HEAD_BYTES: usize = 44;

impl LineHeads {
    pub(super) fn with_capacity(lines: usize) -> Self {
        LineHeads { bytes: Vec::with_capacity(lines * LINE_HEAD_BYTES) }
    }

    #[inline]
    pub(super) fn add(&mut self, row: &Row<'_>) {
        let id = row.id();
        let mut head = [0; LINE_HEAD_BYTES];
        head[..4].copy_from_slice(&(row.raw_bytes() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&id.line.to_le_bytes());
        head[8..16].copy_from_slice(&row.sequence().to_le_bytes());
        head[16..24].copy_from_slice(&row.time_ns().to_le_bytes());
        head[24..32].copy_from_slice(&row.received_ns().to_le_bytes());
        head[32..40].copy_from_slice(&id.sequence.to_le_bytes());
        head[40..].copy_from_slice(&id.node.to_le_bytes());
        self.bytes.extend_from_slice(&head);
    }

    /// The whole checksum, continued from that of the raw lines.
    pub(super) fn finish(self, raw_crc: u32) -> u32 {
        crc32c::crc32c_append(raw_crc, &self.bytes)
    }
}

/// Fields for which memory is reserved at first; it grows beyond that.
const FIELDS_RESERVED_MAX: usize = 1 << 20;
/// Limit on the total bytes of a block's lines, and of its made values. Positions in a batch have
/// 30 bits.
const TEXT_BYTES_MAX: usize = 512 << 20;

fn read_columns<'a>(
    columns: &[ColumnEntry],
    chunks: &[&'a [u8]],
    rest: &mut Cursor<'a>,
    wanted: Option<&[Vec<u32>]>,
) -> Read<Vec<ColumnReader<'a>>> {
    let columns = columns.iter().enumerate();
    columns
        .map(|(index, entry)| {
            let section = |&(chunk, bytes): &(usize, usize)| match chunk {
                0 => rest.take(bytes),
                chunk => chunks.get(chunk).copied().ok_or(Corrupt("the chunk of a column")),
            };
            let sections = entry.sections.iter().map(section).collect::<Read<Vec<_>>>()?;
            Ok(ColumnReader::new(match wanted {
                Some(wanted) => {
                    Column::decode_some(entry.encoding, &sections, entry.values, &wanted[index])?
                }
                None => Column::decode(entry.encoding, &sections, entry.values)?,
            }))
        })
        .collect()
}

/// What the rows of a block use.
struct Uses {
    /// Number of rows of each layout.
    rows: Vec<usize>,
    /// Total literal bytes of all rows.
    literal_bytes: usize,
}

/// Checks that each column has as many values as the layouts of all rows take, and that the lines
/// are not too long.
fn check_uses(layouts: &[Layout<'_>], rows: &[u32], readers: &[ColumnReader<'_>]) -> Read<Uses> {
    let mut rows_of = vec![0usize; layouts.len()];
    rows.iter().for_each(|&layout| rows_of[layout as usize] += 1);
    let mut uses = vec![0usize; readers.len()];
    let mut literal_bytes = 0usize;
    for (layout, &rows) in layouts.iter().zip(&rows_of) {
        literal_bytes = literal_bytes.saturating_add(layout.literal_bytes.saturating_mul(rows));
        layout.each_column(|column| uses[column] = uses[column].saturating_add(rows));
    }
    let as_many = uses.iter().zip(readers).all(|(&uses, reader)| uses == reader.left());
    if as_many && literal_bytes < TEXT_BYTES_MAX {
        Ok(Uses { rows: rows_of, literal_bytes })
    } else {
        Err(Corrupt("the number of values of a column"))
    }
}

fn check_names(names: &[&str]) -> Read<()> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Corrupt("a name that is there twice"));
    }
    Ok(())
}
