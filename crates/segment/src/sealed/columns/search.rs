//! Finds the lines of a block whose value of a field contains a text, while assembling as few
//! values as possible.
//!
//! Templates, dictionaries and texts are searched column by column, each once. If the field
//! contains others, a needle that cannot reach across their borders is searched in their columns,
//! and only lines in which one of them contains it are assembled.

use record::columns::Occurrences;

use super::parts::Parts;
use super::{BlockColumns, Fault};
use crate::needle::{ANY_CLASSES, Answer, Needle, class_of};
use crate::sealed::bytes::{Corrupt, Cursor};
use crate::sealed::column::{Column, Encoding, WRONG_TEMPLATES, open_templates};
use crate::sealed::field::Source;
use crate::sealed::outlines::OutlineView;
use crate::sealed::pack::Element;
use crate::sealed::time_text::TimeForm;
use crate::template::{Edges, TemplateColumn};

/// What is known about the lines of one layout.
enum Held {
    All,
    None,
    /// The values of this column decide.
    Column(usize),
    /// The value is assembled if the value of one of these columns contains the needle.
    Between(Vec<usize>),
}

/// What is known about the values of columns before they are searched, by column; filled when it is
/// needed.
struct Known {
    edges: Vec<Option<Edges>>,
    /// Classes of the bytes of the values.
    classes: Vec<Option<u8>>,
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
        occurrences: Occurrences<'_>,
    ) -> Result<Option<Vec<u32>>, Fault> {
        let Some(number) = self.number(name) else {
            return Ok(Some(Vec::new()));
        };
        let needle = Needle::of(text, occurrences);
        if let Some(column) = self.only_column(number) {
            return self.rows_of_column(column, &needle);
        }
        let Some(sources) = self.sources(number)? else { return Ok(None) };
        let mut held = Vec::with_capacity(sources.len());
        let columns = self.listing.columns.len();
        let mut known = Known { edges: vec![None; columns], classes: vec![None; columns] };
        for (class, source) in sources.iter().enumerate() {
            let Some(of_class) = self.held(class, source, &needle, &mut known)? else {
                return Ok(None);
            };
            held.push(of_class);
        }
        // Layouts without lines in the block do not matter.
        let mut met = held.iter().zip(&self.layout_lines()?.rows).filter(|(_, rows)| **rows > 0);
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
            let of_row = self.of_row()?;
            found.iter_mut().zip(of_row).for_each(|(found, &class)| *found = all[class as usize]);
        }
        let anywhere = needle.anywhere();
        let is_inside = |value: &[u8], at: usize| needle.accepts_inside(value, at);
        let inside = Needle::new(text, Some(&is_inside));
        for column in 0..columns {
            let taken = |held: &Held| matches!(held, Held::Column(taken) if *taken == column);
            let looked_at = |held: &Held| matches!(held, Held::Between(c) if c.contains(&column));
            if held.iter().any(taken) {
                self.mark(column, &needle, |class| taken(&held[class]), &mut found)?;
            }
            if !held.iter().any(looked_at) {
                continue;
            }
            let of_class = |class: usize| looked_at(&held[class]);
            if occurrences.accept().is_none() && !self.is_of(column, Encoding::Time) {
                self.mark(column, &anywhere, of_class, &mut found)?;
                continue;
            }
            // What surrounds the value may decide, unless the needle is well inside. Dictionaries
            // are so small that they can be searched twice.
            if self.is_of(column, Encoding::Dictionary) {
                self.mark(column, &inside, of_class, &mut found)?;
            }
            self.mark(column, &anywhere, of_class, &mut perhaps)?;
        }
        perhaps.iter_mut().zip(&found).for_each(|(perhaps, found)| *perhaps &= !found);
        if perhaps.contains(&true) {
            self.search_between(&sources, &perhaps, &needle, &mut found)?;
        }
        Ok(Some(indexes_of(&found)))
    }

    /// The lines whose value of a column contains the needle, if each line has one value. `None` if
    /// the caller searches the values of the column just as fast.
    fn rows_of_column(
        &self,
        column: usize,
        needle: &Needle<'_>,
    ) -> Result<Option<Vec<u32>>, Fault> {
        if needle.is_by_outline()
            && let Some(found) = self.by_outline(column, |outline| needle.is_in(outline))?
        {
            return Ok(Some(indexes_of(&found)));
        }
        let count = self.listing.columns[column].values;
        if self.is_of(column, Encoding::Repeats) {
            return Ok(Some(lines_holding(self.repeats(column)?, count, needle)?));
        }
        if self.is_of(column, Encoding::Lines)
            && let &[text] = &self.sections(column)?[..]
        {
            return Ok(Some(lines_holding(text, count, needle)?));
        }
        match self.is_of(column, Encoding::Template) {
            true => Ok(Some(indexes_of(&self.search_column(column, needle)?.unwrap_or_default()))),
            false => Ok(None),
        }
    }

    pub(super) fn is_of(&self, column: usize, encoding: Encoding) -> bool {
        self.listing.columns[column].encoding == encoding as u8
    }

    /// What is known about the lines of a layout before any value is examined. `None` if all of
    /// them have to be assembled. `known` is about the columns seen so far.
    fn held(
        &self,
        class: usize,
        source: &Source<'_>,
        needle: &Needle<'_>,
        known: &mut Known,
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
        let mut pieces = self.pieces(class, source, known);
        let mut answer = pieces.answer(needle);
        if answer == Answer::Across {
            // If columns are adjacent, the common beginning or end of a column's values, or the
            // bytes in them, mostly show that no word reaches across.
            for &column in &pieces.columns {
                if known.edges[column].is_none() {
                    known.edges[column] = Some(self.edges(column)?);
                    known.classes[column] = Some(self.classes_of(column)?);
                }
            }
            pieces = self.pieces(class, source, known);
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

    /// The static texts and columns inside a field of the layout's lines, with what is known about
    /// the columns.
    fn pieces(&self, class: usize, source: &Source<'_>, known: &Known) -> Pieces {
        let mut piece = Vec::new();
        let (mut texts, mut columns, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for element in self.between(class, source) {
            if let Element::Literal(literal) = element {
                piece.extend_from_slice(literal);
            } else if let Some(column) = element.column() {
                let Edges { begin, end } = known.edges[column].clone().unwrap_or_default();
                piece.extend_from_slice(&begin);
                texts.push(std::mem::replace(&mut piece, end));
                columns.push(column);
                slots.push(match known.classes[column] {
                    Some(classes) => classes,
                    None if self.is_of(column, Encoding::Numbers) => class_of(b'0'),
                    None => ANY_CLASSES,
                });
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
        if self.is_of(column, Encoding::Dictionary)
            && let Column::Dictionary { values, .. } = self.decode(column)?
        {
            return Ok(common_edges(values.iter()));
        }
        if self.is_of(column, Encoding::Repeats) {
            let lines = self.repeats(column)?.split_inclusive(|&byte| byte == b'\n');
            return Ok(common_edges(lines.map(|line| &line[..line.len() - 1])));
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
    fn classes_of(&self, column: usize) -> Result<u8, Fault> {
        if self.is_of(column, Encoding::Numbers) {
            return Ok(class_of(b'0'));
        }
        if !self.is_of(column, Encoding::Dictionary) {
            return Ok(ANY_CLASSES);
        }
        let Column::Dictionary { values, .. } = self.decode(column)? else {
            return Ok(ANY_CLASSES);
        };
        let bytes = values.iter().flatten();
        Ok(bytes.fold(0, |classes, &byte| classes | class_of(byte)))
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
        for (row, &class) in rows.iter_mut().zip(self.of_row()?) {
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
        if needle.is_by_outline()
            && let Some(found) = self.by_outline(index, |outline| needle.is_in(outline))?
        {
            return Ok(found.contains(&true).then_some(found));
        }
        let entry = &self.listing.columns[index];
        let sections = self.sections(index)?;
        let found = match (Encoding::of(entry.encoding)?, &sections[..]) {
            (Encoding::Template, _) => {
                self.templates(index)?.matching_needle(needle).map_err(|_| WRONG_TEMPLATES)?
            }
            (Encoding::Repeats, _) => {
                let mut found = vec![false; entry.values];
                let rows = lines_holding(self.repeats(index)?, entry.values, needle)?;
                rows.iter().for_each(|&row| found[row as usize] = true);
                found
            }
            // The text is only split into lines if it contains the needle.
            (Encoding::Lines, [text]) if needle.find(text, 0).is_none() => return Ok(None),
            _ => Column::decode(entry.encoding, &sections, entry.values)?.holding(needle),
        };
        Ok(found.contains(&true).then_some(found))
    }

    /// For each value of a column, whether its outline passes a test; `None` if the column has no
    /// outlines.
    fn by_outline(
        &self,
        index: usize,
        test: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<bool>>, Fault> {
        let entry = &self.listing.columns[index];
        if entry.outlines == 0 {
            return Ok(None);
        }
        let outlines = OutlineView::read(self.chunk(entry.outlines)?, entry.values)?;
        Ok(Some(outlines.passing(test)))
    }

    /// See [`record::columns::Columns::passing_outlines`].
    pub(super) fn rows_by_outline(
        &self,
        name: &str,
        test: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u32>>, Fault> {
        let Some(number) = self.number(name) else { return Ok(None) };
        let Some(column) = self.only_column(number) else { return Ok(None) };
        Ok(self.by_outline(column, test)?.map(|found| indexes_of(&found)))
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
        Ok(open_templates([tables, numbers, texts], self.listing.columns[index].values)?)
    }

    pub(super) fn decode(&self, index: usize) -> Result<Column<'_>, Fault> {
        let entry = &self.listing.columns[index];
        Ok(Column::decode(entry.encoding, &self.sections(index)?, entry.values)?)
    }
}

/// The text that all values begin with, and the one that all end with behind that.
fn common_edges<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Edges {
    let Some(first) = values.next() else { return Edges::default() };
    // The shortest value must have room for both.
    let (mut begin, mut end, mut shortest) = (first, first, first.len());
    for value in values {
        let is_same = |(a, b): &(&u8, &u8)| a == b;
        begin = &begin[..begin.iter().zip(value).take_while(is_same).count()];
        let same_end = end.iter().rev().zip(value.iter().rev()).take_while(is_same).count();
        end = &end[end.len() - same_end..];
        shortest = shortest.min(value.len());
        if begin.is_empty() && end.is_empty() {
            break;
        }
    }
    let room = shortest - begin.len();
    let end = &end[end.len().saturating_sub(room)..];
    Edges { begin: begin.to_vec(), end: end.to_vec() }
}

/// The indexes of the lines of a text that contain the needle. Each line ends with a newline, and
/// there are `count` of them.
fn lines_holding(text: &[u8], count: usize, needle: &Needle<'_>) -> Result<Vec<u32>, Corrupt> {
    const WRONG: Corrupt = Corrupt("the lines of a column");
    let mut rows = Vec::new();
    // The first line that is not searched yet: its index, and where it begins.
    let (mut index, mut from) = (0, 0);
    while let Some(hit) = needle.find(text, from) {
        let begin = memchr::memrchr(b'\n', &text[from..hit]).map_or(from, |at| from + at + 1);
        let end = hit + memchr::memchr(b'\n', &text[hit..]).ok_or(WRONG)?;
        index += memchr::memchr_iter(b'\n', &text[from..begin]).count();
        if index >= count {
            return Err(WRONG);
        }
        if needle.is_in(&text[begin..end]) {
            rows.push(index as u32);
        }
        (index, from) = (index + 1, end + 1);
    }
    Ok(rows)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_do_not_overlap() {
        let check = |values: &[&str], begin: &str, end: &str| {
            let edges = common_edges(values.iter().map(|value| value.as_bytes()));
            assert_eq!((&edges.begin[..], &edges.end[..]), (begin.as_bytes(), end.as_bytes()));
        };
        check(&[], "", "");
        check(&["abc"], "abc", "");
        check(&["abc", "abc"], "abc", "");
        check(&["abxc", "abyc"], "ab", "c");
        check(&["aa", "aaa"], "aa", "");
        check(&["abab", "ab"], "ab", "");
        check(&["[1] \"", "[22] \""], "[", "] \"");
        check(&["a", ""], "", "");
    }

    #[test]
    fn lines_with_a_needle() {
        let text = b"one two\ntwo\n\nthree two two\none\n";
        let find = |needle: &str, accept: Option<record::columns::Accept<'_>>| {
            lines_holding(text, 5, &Needle::new(needle.as_bytes(), accept)).unwrap()
        };
        assert_eq!(find("two", None), [0, 1, 3]);
        assert_eq!(find("one", None), [0, 4]);
        assert_eq!(find("o\nt", None), [0u32; 0]);
        assert_eq!(find("two", Some(&|_: &[u8], at: usize| at == 0)), [1]);
        let fewer = lines_holding(text, 4, &Needle::new(b"one", None));
        assert!(fewer.is_err(), "there are more lines than values");
    }
}
