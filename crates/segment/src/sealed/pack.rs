//! The pack: the first chunk of a block. It lists the content of the block, then the values follow.
//!
//! Everything here is checked while it is read: a layout refers only to columns, fields and values
//! that the pack lists, and writes each field of its lines once.

use record::FieldId;

use super::bytes::{Corrupt, Cursor, Read};
use crate::header::array;

/// Limit on the rows of a block and on all other counts. A block with more was not written by this
/// code.
const COUNT_MAX: usize = 1 << 24;

/// Sections of one column.
const SECTIONS_MAX: usize = super::repeats::SECTIONS;
const _: () = assert!(SECTIONS_MAX >= crate::template::SECTIONS);

/// A column of a block, as its pack lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnEntry {
    /// 0: a field of the line, 1: a made field, 2: the text between two fields.
    pub(crate) kind: u8,
    /// Index of the name, from 1; for a gap, the field before it, or 0 for the beginning of the
    /// line.
    pub(crate) first: usize,
    /// For a gap, the field behind it, or 0 for the end of the line.
    pub(crate) second: usize,
    pub(crate) encoding: u8,
    pub(crate) values: usize,
    /// For each of its sections: the chunk, and 0; or 0 and its bytes if it is in the pack.
    pub(crate) sections: Vec<(usize, usize)>,
    /// The chunk of the outlines of its values, 0 if there is none.
    pub(crate) outlines: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Element<'a> {
    Literal(&'a [u8]),
    Gap(usize),
    Value { field: usize, column: usize },
    Open(usize),
    Close(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    InLine,
    /// Index of the value in the list, and its position in the arena.
    Shared {
        index: usize,
        at: u32,
        length: u32,
    },
    Made(usize),
    Empty,
}

#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) elements: Vec<Element<'a>>,
    pub(super) fields: Vec<(FieldId, Kind)>,
    /// Total bytes of the literals of a line.
    pub(super) literal_bytes: usize,
}

/// The lists of a pack, before the values.
pub(crate) struct Listing<'a> {
    /// The whole pack.
    pub(crate) pack: &'a [u8],
    pub(crate) rows: usize,
    pub(crate) names: Vec<&'a str>,
    pub(crate) shared: Vec<&'a [u8]>,
    pub(crate) columns: Vec<ColumnEntry>,
    pub(super) rest: Cursor<'a>,
}

impl<'a> Listing<'a> {
    pub(crate) fn read(pack: &'a [u8]) -> Read<Listing<'a>> {
        let mut cursor = Cursor::new(pack);
        let rows = cursor.count(COUNT_MAX)?;
        let names = (0..cursor.count(record::batch::BATCH_NAMES_MAX)?)
            .map(|_| cursor.text())
            .collect::<Read<Vec<_>>>()?;
        let shared =
            (0..cursor.count(pack.len())?).map(|_| cursor.piece()).collect::<Read<Vec<_>>>()?;
        let columns = (0..cursor.count(pack.len())?)
            .map(|_| {
                let mut entry = ColumnEntry {
                    kind: cursor.u8()?,
                    first: cursor.count(names.len())?,
                    second: cursor.count(names.len())?,
                    encoding: cursor.u8()?,
                    values: cursor.count(COUNT_MAX)?,
                    sections: Vec::new(),
                    outlines: 0,
                };
                if entry.kind > 2 || (entry.kind < 2 && entry.first == 0) {
                    return Err(Corrupt("the kind of a column"));
                }
                for _ in 0..cursor.count(SECTIONS_MAX)? {
                    let chunk = cursor.count(COUNT_MAX)?;
                    let bytes = if chunk == 0 { cursor.count(pack.len())? } else { 0 };
                    entry.sections.push((chunk, bytes));
                }
                entry.outlines = cursor.count(COUNT_MAX)?;
                Ok(entry)
            })
            .collect::<Read<Vec<_>>>()?;
        Ok(Listing { pack, rows, names, shared, columns, rest: cursor })
    }
}

/// The part of a pack between its lists and the per-line numbers.
pub(super) struct Head<'a> {
    pub(super) layouts: Vec<Layout<'a>>,
    pub(super) origins: &'a [u8],
    pub(super) rest: Cursor<'a>,
}

impl<'a> Listing<'a> {
    pub(super) fn head(&self) -> Read<Head<'a>> {
        let mut rest = self.rest.clone();
        let positions: Vec<(u32, u32)> = self.shared.iter().map(|v| (0, v.len() as u32)).collect();
        let listed =
            Listed { names: self.names.len(), shared: &positions, columns: self.columns.len() };
        let layouts = (0..rest.count(rest.left())?)
            .map(|_| read_layout(&mut rest, &listed))
            .collect::<Read<Vec<_>>>()?;
        let origins = rest.piece()?;
        Ok(Head { layouts, origins, rest })
    }
}

/// The nodes that built the frames of a block's lines.
pub(super) fn read_nodes(rest: &mut Cursor<'_>) -> Read<Vec<u32>> {
    let node = |rest: &mut Cursor<'_>| Ok(u32::from_le_bytes(array(rest.take(4)?, 0)));
    (0..rest.count(rest.left())?).map(|_| node(rest)).collect()
}

/// How many names and columns a pack lists, and where its shared values are in the arena: first
/// byte and length. Layouts refer to these.
pub(super) struct Listed<'a> {
    pub(super) names: usize,
    pub(super) shared: &'a [(u32, u32)],
    pub(super) columns: usize,
}

pub(super) fn read_layout<'a>(cursor: &mut Cursor<'a>, listed: &Listed<'_>) -> Read<Layout<'a>> {
    let below = |number: usize, bound: usize, what| {
        if number < bound { Ok(number) } else { Err(Corrupt(what)) }
    };
    let count = cursor.count(cursor.left())?;
    let mut elements = Vec::with_capacity(count);
    let mut literal_bytes = 0;
    for _ in 0..count {
        let kind = cursor.u8()?;
        elements.push(match kind {
            0 => {
                let text = cursor.piece()?;
                literal_bytes += text.len();
                Element::Literal(text)
            }
            1 => Element::Gap(below(cursor.count(COUNT_MAX)?, listed.columns, "a column")?),
            2 => {
                let field = cursor.count(COUNT_MAX)?;
                let column = below(cursor.count(COUNT_MAX)?, listed.columns, "a column")?;
                Element::Value { field, column }
            }
            3 => Element::Open(cursor.count(COUNT_MAX)?),
            4 => Element::Close(cursor.count(COUNT_MAX)?),
            _ => return Err(Corrupt("a part of a layout")),
        });
    }
    let count = cursor.count(cursor.left())?;
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let name = cursor.count(listed.names)?.checked_sub(1).ok_or(Corrupt("a name"))?;
        let kind = match cursor.u8()? {
            0 => Kind::InLine,
            1 => {
                let index = below(cursor.count(COUNT_MAX)?, listed.shared.len(), "a value")?;
                let (at, length) = listed.shared[index];
                Kind::Shared { index, at, length }
            }
            2 => Kind::Made(below(cursor.count(COUNT_MAX)?, listed.columns, "a column")?),
            3 => Kind::Empty,
            _ => return Err(Corrupt("the kind of a field")),
        };
        fields.push((FieldId(name as u16), kind));
    }
    if fields.len() > record::batch::ROW_FIELDS_MAX {
        return Err(Corrupt("the fields of a layout"));
    }
    check_spans(&elements, &fields)?;
    Ok(Layout { elements, fields, literal_bytes })
}

/// Checks that each field of the line is written once, or opened and then closed, and no other
/// field is.
fn check_spans(elements: &[Element<'_>], fields: &[(FieldId, Kind)]) -> Read<()> {
    const WRONG: Corrupt = Corrupt("a field of a layout");
    // 0: not seen, 1: open, 2: done.
    let mut states = vec![0u8; fields.len()];
    for element in elements {
        let (field, from, to) = match *element {
            Element::Literal(_) | Element::Gap(_) => continue,
            Element::Value { field, .. } => (field, 0, 2),
            Element::Open(field) => (field, 0, 1),
            Element::Close(field) => (field, 1, 2),
        };
        let state = states.get_mut(field).ok_or(WRONG)?;
        if *state != from {
            return Err(WRONG);
        }
        *state = to;
    }
    let done = |(state, (_, kind)): (&u8, &(FieldId, Kind))| {
        *state == if matches!(kind, Kind::InLine) { 2 } else { 0 }
    };
    if states.iter().zip(fields).all(done) { Ok(()) } else { Err(WRONG) }
}

impl Layout<'_> {
    /// Calls `each` with every column of which a line of the layout takes a value, once per value.
    pub(super) fn each_column(&self, mut each: impl FnMut(usize)) {
        self.elements.iter().filter_map(Element::column).for_each(&mut each);
        for (_, kind) in &self.fields {
            if let Kind::Made(column) = *kind {
                each(column);
            }
        }
    }
}

impl Element<'_> {
    /// The column of which a line takes a value here.
    pub(super) fn column(&self) -> Option<usize> {
        match *self {
            Element::Gap(column) | Element::Value { column, .. } => Some(column),
            Element::Literal(_) | Element::Open(_) | Element::Close(_) => None,
        }
    }
}

/// For each of `columns` columns, the indexes of the values that some rows take, ascending.
/// `of_row`: the layout of each row, `values`: the columns of which each layout takes a value.
pub(super) fn values_of(
    of_row: &[u32],
    rows: &[u32],
    values: &[Vec<usize>],
    columns: usize,
) -> Vec<Vec<u32>> {
    let (mut next, mut taken) = (vec![0; columns], vec![Vec::new(); columns]);
    // Rows that were passed since the last wanted one, by layout.
    let mut passed = vec![0u32; values.len()];
    let mut before = 0;
    for &row in rows {
        let Some((&layout, others)) =
            of_row.get(before..=row as usize).and_then(|r| r.split_last())
        else {
            break;
        };
        others.iter().for_each(|&layout| passed[layout as usize] += 1);
        for (passed, values) in passed.iter_mut().zip(values).filter(|(passed, _)| **passed > 0) {
            values.iter().for_each(|&column| next[column] += *passed);
            *passed = 0;
        }
        for &column in &values[layout as usize] {
            taken[column].push(next[column]);
            next[column] += 1;
        }
        before = row as usize + 1;
    }
    taken
}
