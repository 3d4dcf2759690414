//! Finds the lines of a block whose value of a field contains a text, while assembling as few
//! values as possible.
//!
//! Templates, dictionaries and texts are searched column by column, each once. If the field
//! contains others, a needle that cannot reach across their borders is searched in their columns,
//! and only lines in which one of them contains it are assembled.

use record::columns::Accept;

use super::parts::Parts;
use super::{BlockColumns, Fault};
use crate::needle::{ANY_CLASSES, Answer, Needle, class_of};
use crate::sealed::bytes::{Corrupt, Cursor};
use crate::sealed::column::{Column, Encoding};
use crate::sealed::field::Source;
use crate::sealed::pack::Element;
use crate::sealed::time_text::TimeForm;
use crate::template::{Edges, TemplateColumn};

pub(super) const WRONG_TEMPLATES: Corrupt = Corrupt("the templates of a column");

/// What is known about the lines of one layout.
enum Held {
    All,
    None,
    /// The values of this column decide.
    Column(usize),
    /// The value is assembled if the value of one of these columns contains the needle.
    Between(Vec<usize>),
}

/// A field that contains others: static texts, and the columns between them.
struct Pieces {
    /// One more than there are columns.
    texts: Vec<Vec<u8>>,
    columns: Vec<usize>,
    /// For each column, the classes of the bytes its values may have.
    slots: Vec<u8>,
}

impl Pieces {
    fn answer(&self, needle: &Needle<'_>) -> Answer {
        let texts: Vec<&[u8]> = self.texts.iter().map(Vec::as_slice).collect();
        needle.answer(&texts, &self.slots)
    }
}

impl<'p> BlockColumns<'p> {
    /// See [`record::columns::Columns::holding`].
    pub(super) fn rows_holding(
        &self,
        name: &str,
        text: &[u8],
        accept: Option<Accept<'_>>,
    ) -> Result<Option<Vec<u32>>, Fault> {
        let Some(number) = self.number(name) else {
            return Ok(Some(Vec::new()));
        };
        let needle = Needle::new(text, accept);
        if let Some(column) = self.only_column(number) {
            return self.rows_of_column(column, &needle);
        }
        let Some(sources) = self.sources(number)? else { return Ok(None) };
        let mut held = Vec::with_capacity(sources.len());
        let mut edges = vec![None; self.listing.columns.len()];
        for (class, source) in sources.iter().enumerate() {
            let known = self.held(class, source, &needle, &mut edges)?;
            let Some(known) = known else { return Ok(None) };
            held.push(known);
        }
        // Layouts without lines in the block do not matter.
        let mut met = held.iter().zip(&self.classes()?.rows).filter(|(_, rows)| **rows > 0);
        let first = met.next().map_or(&Held::None, |(held, _)| held);
        if let Held::Column(column) = *first
            && met.all(|(held, _)| matches!(held, Held::Column(other) if *other == column))
        {
            return self.rows_of_column(column, &needle);
        }

        let rows = self.listing.rows;
        let (mut found, mut perhaps) = (vec![false; rows], vec![false; rows]);
        let all: Vec<bool> = held.iter().map(|held| matches!(held, Held::All)).collect();
        if all.contains(&true) {
            let of_row = &self.classes()?.of_row;
            found.iter_mut().zip(of_row).for_each(|(found, &class)| *found = all[class as usize]);
        }
        let anywhere = needle.anywhere();
        for column in 0..self.listing.columns.len() {
            let taken = |held: &Held| matches!(held, Held::Column(taken) if *taken == column);
            let looked_at = |held: &Held| matches!(held, Held::Between(c) if c.contains(&column));
            if held.iter().any(taken) {
                self.mark(column, &needle, |class| taken(&held[class]), &mut found)?;
            }
            if held.iter().any(looked_at) {
                self.mark(column, &anywhere, |class| looked_at(&held[class]), &mut perhaps)?;
            }
        }
        if perhaps.contains(&true) {
            self.search_between(&sources, &perhaps, &needle, &mut found)?;
        }
        Ok(Some(indexes_of(&found)))
    }

    /// The lines whose value of a column contains the needle, if each line has one value. `None` if
    /// the column has to be decoded anyway: then the caller searches its values just as fast.
    fn rows_of_column(
        &self,
        column: usize,
        needle: &Needle<'_>,
    ) -> Result<Option<Vec<u32>>, Fault> {
        match self.is_of(column, Encoding::Template) {
            true => Ok(Some(indexes_of(&self.search_column(column, needle)?.unwrap_or_default()))),
            false => Ok(None),
        }
    }

    pub(super) fn is_of(&self, column: usize, encoding: Encoding) -> bool {
        self.listing.columns[column].encoding == encoding as u8
    }

    /// What is known about the lines of a layout before any value is examined. `None` if all of
    /// them have to be assembled. `edges` are those of the columns seen so far.
    fn held(
        &self,
        class: usize,
        source: &Source<'_>,
        needle: &Needle<'_>,
        edges: &mut [Option<Edges>],
    ) -> Result<Option<Held>, Fault> {
        match source {
            Source::Nowhere => return Ok(Some(Held::None)),
            // The values of a time column depend on the times of the lines.
            Source::Column(column) if self.is_of(*column, Encoding::Time) => return Ok(None),
            Source::Column(column) => return Ok(Some(Held::Column(*column))),
            Source::Constant(value) if needle.is_in(value) => return Ok(Some(Held::All)),
            Source::Constant(_) => return Ok(Some(Held::None)),
            Source::Between(..) => {}
        }
        for column in self.between(class, source).iter().filter_map(Element::column) {
            if !self.is_plain(column)? {
                return Ok(None);
            }
        }
        let mut pieces = self.pieces(class, source, &vec![None; edges.len()]);
        let mut answer = pieces.answer(needle);
        if answer == Answer::Across {
            // If columns are adjacent, the common beginning or end of a column's values mostly
            // shows that no word reaches across.
            for &column in &pieces.columns {
                if edges[column].is_none() {
                    edges[column] = Some(self.edges(column)?);
                }
            }
            pieces = self.pieces(class, source, edges);
            answer = pieces.answer(needle);
        }
        Ok(match answer {
            Answer::All => Some(Held::All),
            Answer::Across => None,
            Answer::None => Some(Held::None),
            Answer::Within => {
                let may_hold = |&(_, classes): &(usize, u8)| needle.is_of(classes);
                let columns = pieces.columns.into_iter().zip(pieces.slots).filter(may_hold);
                let columns: Vec<usize> = columns.map(|(column, _)| column).collect();
                Some(if columns.is_empty() { Held::None } else { Held::Between(columns) })
            }
        })
    }

    /// The static texts and columns inside a field of the layout's lines, with the edges of columns
    /// as far as they are known.
    fn pieces(&self, class: usize, source: &Source<'_>, edges: &[Option<Edges>]) -> Pieces {
        let mut piece = Vec::new();
        let (mut texts, mut columns, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for element in self.between(class, source) {
            if let Element::Literal(literal) = element {
                piece.extend_from_slice(literal);
            } else if let Some(column) = element.column() {
                let Edges { begin, end } = edges[column].clone().unwrap_or_default();
                piece.extend_from_slice(&begin);
                texts.push(std::mem::replace(&mut piece, end));
                columns.push(column);
                slots.push(self.classes_of(column));
            }
        }
        texts.push(piece);
        Pieces { texts, columns, slots }
    }

    /// The text that all values of a column begin and end with, as far as it is known without
    /// examining the values.
    fn edges(&self, column: usize) -> Result<Edges, Fault> {
        if self.is_of(column, Encoding::Template) {
            return Ok(self.templates(column)?.edges());
        }
        if !self.is_of(column, Encoding::Time) {
            return Ok(Edges::default());
        }
        let &[bytes] = &self.sections(column)?[..] else {
            return Err(Corrupt("the sections of a column").into());
        };
        let mut cursor = Cursor::new(bytes);
        let form = TimeForm::decode(&mut cursor)?;
        let exceptions = cursor.varint()?;
        Ok(if exceptions == 0 { form.edges() } else { Edges::default() })
    }

    /// The classes of the bytes that values of a column may have.
    fn classes_of(&self, column: usize) -> u8 {
        match self.is_of(column, Encoding::Numbers) {
            true => class_of(b'0'),
            false => ANY_CLASSES,
        }
    }

    /// Marks the lines of some layouts whose value of a column contains the needle.
    fn mark(
        &self,
        column: usize,
        needle: &Needle<'_>,
        of_class: impl Fn(usize) -> bool,
        rows: &mut [bool],
    ) -> Result<(), Fault> {
        let Some(holding) = self.search_column(column, needle)? else { return Ok(()) };
        let takes = self.takers(column);
        let marked: Vec<bool> = (0..takes.len()).map(of_class).collect();
        let mut values = holding.into_iter();
        for (row, &class) in rows.iter_mut().zip(&self.classes()?.of_row) {
            if takes[class as usize] {
                *row |= values.next().unwrap_or(false) && marked[class as usize];
            }
        }
        Ok(())
    }

    /// For each layout, whether its lines take a value of a column.
    fn takers(&self, column: usize) -> Vec<bool> {
        let takes = |layout: &super::Layout<'_>| {
            let mut takes = false;
            layout.each_column(|taken| takes |= taken == column);
            takes
        };
        self.layouts.iter().map(takes).collect()
    }

    /// For each value of a column, whether it contains the needle, or might because it writes the
    /// time; `None` if no value does.
    fn search_column(&self, index: usize, needle: &Needle<'_>) -> Result<Option<Vec<bool>>, Fault> {
        let entry = &self.listing.columns[index];
        let sections = self.sections(index)?;
        let found = match (Encoding::of(entry.encoding)?, &sections[..]) {
            (Encoding::Template, _) => {
                self.templates(index)?.matching_needle(needle).map_err(|_| WRONG_TEMPLATES)?
            }
            // The text is only split into lines if it contains the needle.
            (Encoding::Lines, [text]) if needle.find(text, 0).is_none() => return Ok(None),
            _ => Column::decode(entry.encoding, &sections, entry.values)?.holding(needle),
        };
        Ok(found.contains(&true).then_some(found))
    }

    /// Assembles the values of the lines marked in `perhaps`, and marks those that contain the
    /// needle.
    fn search_between(
        &self,
        sources: &[Source<'_>],
        perhaps: &[bool],
        needle: &Needle<'_>,
        found: &mut [bool],
    ) -> Result<(), Fault> {
        let mut parts = Parts::new(self, sources, |_| false)?;
        for (perhaps, found) in perhaps.iter().zip(found) {
            if *perhaps {
                *found |= needle.is_in(parts.value()?);
            }
            parts.pass();
        }
        Ok(())
    }

    /// The elements inside a field of the layout's lines.
    pub(super) fn between(&self, class: usize, source: &Source<'_>) -> &[Element<'p>] {
        match *source {
            Source::Between(from, to) => &self.layouts[class].elements[from..to],
            _ => &[],
        }
    }

    /// A column of templates.
    pub(super) fn templates(&self, index: usize) -> Result<TemplateColumn<'_>, Fault> {
        let &[tables, numbers, texts] = &self.sections(index)?[..] else {
            return Err(WRONG_TEMPLATES.into());
        };
        let mut cursor = Cursor::new(tables);
        let text_bytes = cursor.varint()? as usize;
        let sections = [cursor.take(cursor.left())?, numbers, texts];
        let values = self.listing.columns[index].values;
        Ok(TemplateColumn::open(sections, values, text_bytes).map_err(|_| WRONG_TEMPLATES)?)
    }

    pub(super) fn decode(&self, index: usize) -> Result<Column<'_>, Fault> {
        let entry = &self.listing.columns[index];
        Ok(Column::decode(entry.encoding, &self.sections(index)?, entry.values)?)
    }
}

/// The indexes of the `true` values, ascending.
pub(super) fn indexes_of(found: &[bool]) -> Vec<u32> {
    const TOGETHER: usize = 32;
    let mut indexes = Vec::new();
    for (at, some) in (0u32..).step_by(TOGETHER).zip(found.chunks(TOGETHER)) {
        // Mostly none is true, which is checked in one step.
        if some.iter().fold(false, |any, found| any | found) {
            indexes.extend((at..).zip(some).filter_map(|(index, found)| found.then_some(index)));
        }
    }
    indexes
}
