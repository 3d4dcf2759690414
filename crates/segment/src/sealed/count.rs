//! Counts the lines of a block whose field holds a text, from the columns of that field alone.
//!
//! No line is put together and no other large column is read. In a column of templates, a text that stands in what is
//! static is counted by lines of the template, without looking at them.

use std::borrow::Cow;

use memchr::memmem::Finder;

use super::bytes::{Corrupt, Cursor, Read};
use super::column::{Column, Encoding, TEXT_BYTES_MAX};
use super::repeats;
use super::restore::{Element, Kind, Layout, Listing};
use crate::template::{Accept, TemplateColumn};

/// What is looked for in a value.
pub(crate) struct Needle<'a> {
    pub(crate) text: &'a [u8],
    /// Says whether an occurrence counts; all do without it.
    pub(crate) accept: Option<Accept<'a>>,
    finder: Finder<'a>,
}

impl<'a> Needle<'a> {
    pub(crate) fn new(text: &'a [u8], accept: Option<Accept<'a>>) -> Self {
        Needle { text, accept, finder: Finder::new(text) }
    }

    fn is_in(&self, value: &[u8]) -> bool {
        let mut from = 0;
        while let Some(found) = self.finder.find(&value[from..]) {
            if self.accept.is_none_or(|accept| accept(value, from + found)) {
                return true;
            }
            from += found + 1;
        }
        false
    }

    /// Lines of a text, each with a newline behind it, that hold the needle.
    fn lines_in(&self, text: &[u8]) -> u64 {
        let (mut lines, mut from) = (0, 0);
        while let Some(found) = self.finder.find(&text[from..]) {
            let at = from + found;
            let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
            let end = at + memchr::memchr(b'\n', &text[at..]).unwrap_or(text.len() - at);
            let accepted =
                || self.accept.is_none_or(|accept| accept(&text[start..end], at - start));
            let counts = at + self.text.len() <= end && accepted();
            lines += u64::from(counts);
            // One occurrence that counts is enough for its line.
            from = if counts { (end + 1).min(text.len()) } else { at + 1 };
        }
        lines
    }
}

/// Where the values of a field are, in the lines of one layout.
enum Origin<'a> {
    Nowhere,
    Column(usize),
    /// The same in all of them.
    Constant(Cow<'a, [u8]>),
    /// Among other columns: it has to be put together.
    Scattered,
}

/// The lines whose field `name` holds the needle, which is not empty; none where that cannot be told from its columns
/// alone. `chunk` gives a chunk of the block, decompressed.
pub(crate) fn count(
    pack: &[u8],
    name: &str,
    needle: &Needle<'_>,
    chunk: &mut dyn FnMut(usize) -> Read<Vec<u8>>,
) -> Read<Option<u64>> {
    let listing = Listing::read(pack)?;
    let Some(field) = listing.names.iter().position(|known| *known == name) else {
        return Ok(Some(0));
    };
    let body = listing.body()?;
    let mut origins = Vec::with_capacity(body.layouts.len());
    for layout in &body.layouts {
        origins.push(match origin(layout, field, &listing.shared) {
            Origin::Scattered => return Ok(None),
            origin => origin,
        });
    }
    let mut lines = 0;
    let mut columns = Vec::new();
    for (origin, rows) in origins.iter().zip(&body.rows_of) {
        match origin {
            Origin::Constant(value) if needle.is_in(value) => lines += *rows,
            Origin::Column(column) if !columns.contains(column) => columns.push(*column),
            _ => {}
        }
    }
    for column in columns {
        let entry = &listing.columns[column];
        let inside = &body.inside[column];
        let mut read = Vec::with_capacity(entry.sections.len());
        for (place, &(number, _)) in entry.sections.iter().enumerate() {
            read.push(if number == 0 { Cow::from(inside[place]) } else { chunk(number)?.into() });
        }
        let sections: Vec<&[u8]> = read.iter().map(|section| &**section).collect();
        lines += count_column(entry.encoding, &sections, entry.values, needle)?;
    }
    Ok(Some(lines))
}

fn origin<'a>(layout: &Layout<'a>, field: usize, shared: &[&'a [u8]]) -> Origin<'a> {
    let found = layout.fields.iter().position(|(name, _)| usize::from(name.0) == field);
    let Some(place) = found else { return Origin::Nowhere };
    match layout.fields[place].1 {
        Kind::Empty => Origin::Nowhere,
        Kind::Made(column) => Origin::Column(column),
        Kind::Shared { place, .. } => Origin::Constant(shared[place].into()),
        Kind::InLine => {
            let mut text: Option<Vec<u8>> = None;
            for element in &layout.elements {
                match *element {
                    Element::Value { field, column } if field == place => {
                        return Origin::Column(column);
                    }
                    Element::Open(field) if field == place => text = Some(Vec::new()),
                    Element::Close(field) if field == place => break,
                    Element::Literal(literal) => {
                        text.iter_mut().for_each(|text| text.extend_from_slice(literal));
                    }
                    Element::Gap(_) | Element::Value { .. } if text.is_some() => {
                        return Origin::Scattered;
                    }
                    _ => {}
                }
            }
            text.map_or(Origin::Nowhere, |text| Origin::Constant(text.into()))
        }
    }
}

fn count_column(encoding: u8, sections: &[&[u8]], values: usize, needle: &Needle<'_>) -> Read<u64> {
    match (Encoding::of(encoding)?, sections) {
        (Encoding::Lines, [text]) => Ok(needle.lines_in(text)),
        (Encoding::Repeats, &[tokens, distances, literals, digits]) => {
            let text = repeats::decode([tokens, distances, literals, digits], TEXT_BYTES_MAX)?;
            Ok(needle.lines_in(&text))
        }
        (Encoding::Template, [tables, numbers, texts]) => {
            const WRONG: Corrupt = Corrupt("the templates of a column");
            let mut cursor = Cursor::new(tables);
            let text_bytes = cursor.varint()? as usize;
            let tables = cursor.take(cursor.left())?;
            let column = TemplateColumn::open([tables, numbers, texts], values, text_bytes)
                .map_err(|_| WRONG)?;
            let lines = column.count_containing(needle.text, needle.accept).map_err(|_| WRONG)?;
            Ok(lines as u64)
        }
        _ => {
            let column = Column::decode(encoding, sections, values)?;
            Ok(column.count_where(&|value| needle.is_in(value)))
        }
    }
}
