//! Records as columns: the values of one field in many rows, and what gives them field by field.
//!
//! A sealed block holds its records so. A query that looks at two fields of its lines reads two
//! columns, searches a text in all values of one at once, and puts together only the lines that are
//! left. The values are read apart from the rows: a value that many rows have stands once, and is
//! looked at once.
//!
//! Left out: how columns are stored; that is for whoever implements [`Columns`].

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::automaton::Automaton;
use crate::batch::Batch;

/// Why columns could not be read; the text names file and byte.
pub type ColumnError = Box<dyn std::error::Error + Send + Sync>;

/// Says of an occurrence, by value and place in it, whether it counts; looks at most one character
/// beyond both ends.
pub type Accept<'a> = &'a dyn Fn(&[u8], usize) -> bool;

/// A query to values that can be asked in two ways.
pub trait Decide {
    /// What answers it byte by byte, if anything does; it may be made when it is first asked for,
    /// which takes time.
    fn automaton(&self) -> Option<&Automaton>;
    /// Whether a value passes.
    fn passes(&self, value: &[u8]) -> bool;
}

/// The lines of a block, column by column. Rows are numbered as in the batch that they would make.
pub trait Columns {
    /// How many lines there are.
    fn rows(&self) -> usize;
    /// Event time of each line, nanoseconds since 1970 UTC.
    fn times_ns(&self) -> Result<&[i64], ColumnError>;
    /// The names of the stored fields that lines may have; some may be of no line.
    fn names(&self) -> Vec<&str>;
    /// The values of a stored field. A line without it has the empty value. None where they cannot
    /// be told apart from the lines.
    fn field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, ColumnError>;
    /// The lines whose field holds a text, which is not empty, at an occurrence that `accept`
    /// takes, if it is given; ascending. None where that is found no faster than by looking at
    /// [`Columns::field`].
    fn holding(
        &self,
        name: &str,
        text: &[u8],
        accept: Option<Accept<'_>>,
    ) -> Result<Option<Vec<u32>>, ColumnError>;
    /// The lines whose field passes; ascending. None where that is found no faster than by looking
    /// at [`Columns::field`].
    fn passing(&self, name: &str, test: &dyn Decide) -> Result<Option<Vec<u32>>, ColumnError>;
    /// The records of these rows, which ascend.
    fn batch(&self, rows: &[u32]) -> Result<Batch, ColumnError>;
    /// The same with these fields only, and without the raw lines. None where a field cannot be had
    /// apart.
    fn batch_of(&self, rows: &[u32], fields: &[&str]) -> Result<Option<Batch>, ColumnError>;
    /// The names of the fields that name the streams of lines (see [`crate::Row::stream_fields`]),
    /// if all lines have the same.
    fn stream_fields(&self) -> Result<Option<Vec<String>>, ColumnError>;
}

/// Stands for no value where the place of a value is asked for.
pub const NO_VALUE: u32 = u32::MAX;

/// Which value each row has.
#[derive(Debug)]
pub enum Places<'a> {
    /// Each row has its own value, in order.
    Each,
    /// All rows have this one.
    All(u32),
    /// The value of each row.
    Listed(Vec<u32>),
    /// The class of each row, and the value of each class.
    Classes(&'a [u32], Vec<u32>),
}

/// The values of one field in all rows of a block.
#[derive(Debug)]
pub struct FieldColumn<'a> {
    /// The values back to back, each with so many bytes behind it.
    text: Cow<'a, [u8]>,
    gap: usize,
    /// Where each ends; found when it is asked for where values are lines.
    ends: OnceCell<Vec<u32>>,
    values: usize,
    places: Places<'a>,
}

impl<'a> FieldColumn<'a> {
    /// No row has the field.
    pub fn absent() -> Self {
        Self::with_ends(Cow::Borrowed(&[]), Vec::new(), 0, Places::All(NO_VALUE))
    }

    /// Values that are so many lines: no value has a newline in it, and each has one behind it.
    pub fn of_lines(text: Cow<'a, [u8]>, values: usize, places: Places<'a>) -> Self {
        debug_assert_eq!(memchr::memchr_iter(b'\n', &text).count(), values);
        FieldColumn { text, gap: 1, ends: OnceCell::new(), values, places }
    }

    /// Values that end there in the text; `gap` bytes are between them. They have to be in the
    /// text.
    pub fn with_ends(text: Cow<'a, [u8]>, ends: Vec<u32>, gap: usize, places: Places<'a>) -> Self {
        debug_assert!(ends.is_sorted());
        FieldColumn { text, gap, values: ends.len(), ends: ends.into(), places }
    }

    /// How many values there are. Not all need be different.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Which value each row has.
    pub fn places(&self) -> &Places<'a> {
        &self.places
    }

    /// The place of the value of a row, or [`NO_VALUE`].
    #[inline]
    pub fn place(&self, row: usize) -> u32 {
        match &self.places {
            Places::Each => row as u32,
            Places::All(place) => *place,
            Places::Listed(places) => places[row],
            Places::Classes(classes, places) => places[classes[row] as usize],
        }
    }

    /// The value at a place; empty at [`NO_VALUE`].
    #[inline]
    pub fn value(&self, place: u32) -> &[u8] {
        if place == NO_VALUE {
            return &[];
        }
        let (ends, place) = (self.ends(), place as usize);
        let from = if place == 0 { 0 } else { ends[place - 1] as usize + self.gap };
        &self.text[from..ends[place] as usize]
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        self.value(self.place(row))
    }

    /// All values, one behind the other, with [`gap`](Self::gap) bytes behind each.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Bytes between two values: 1 for a newline, which then stands in no value; or 0.
    pub fn gap(&self) -> usize {
        self.gap
    }

    /// Where each value ends in the text.
    pub fn ends(&self) -> &[u32] {
        self.ends.get_or_init(|| line_ends(&self.text, self.values))
    }

    /// Searches all values at once. `find` gives the next place in the text at or behind one where
    /// a value may be wanted; `keep` says whether the value that stands there is, by the value and
    /// the place in it. `found` is called with the places of those that are, ascending, each once.
    pub fn search(
        &self,
        mut find: impl FnMut(&[u8], usize) -> Option<usize>,
        mut keep: impl FnMut(&[u8], usize) -> bool,
        mut found: impl FnMut(u32),
    ) {
        let text = &self.text[..];
        let mut at = 0;
        // Value `place` begins at `start`.
        let (mut place, mut start) = (0usize, 0usize);
        let by_lines = self.gap == 1 && self.ends.get().is_none();
        while let Some(hit) = find(text, at) {
            let end = if by_lines {
                let passed = &text[start..hit];
                if let Some(last) = memchr::memrchr(b'\n', passed) {
                    place += memchr::memchr_iter(b'\n', passed).count();
                    start += last + 1;
                }
                match memchr::memchr(b'\n', &text[hit..]) {
                    Some(length) => hit + length,
                    None => return,
                }
            } else {
                let ends = self.ends();
                // The first value that ends behind the hit; an empty one at it does not hold it.
                place += ends[place..].partition_point(|&end| end as usize <= hit);
                if place >= ends.len() {
                    return;
                }
                start = if place == 0 { 0 } else { ends[place - 1] as usize + self.gap };
                if hit < start {
                    // Between two values.
                    at = start;
                    continue;
                }
                ends[place] as usize
            };
            if keep(&text[start..end], hit - start) {
                found(place as u32);
            }
            at = end + self.gap;
            (place, start) = (place + 1, at);
            if at >= text.len() {
                return;
            }
        }
    }
}

/// Lines of fewer bytes on average are told apart word by word.
const SHORT_LINE_BYTES: usize = 48;

/// Where the newlines of a text stand; `lines`: about how many there are.
pub fn line_ends(text: &[u8], lines: usize) -> Vec<u32> {
    let mut ends = Vec::with_capacity(lines);
    if text.len() / SHORT_LINE_BYTES >= lines {
        ends.extend(memchr::memchr_iter(b'\n', text).map(|end| end as u32));
        return ends;
    }
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (words, rest) = text.as_chunks::<8>();
    for (at, word) in (0u32..).step_by(8).zip(words) {
        let other = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b'\n'; 8]);
        // The highest bit of each byte that is a newline.
        let mut newlines = !(((other & LOW) + LOW) | other | LOW);
        while newlines != 0 {
            ends.push(at + newlines.trailing_zeros() / 8);
            newlines &= newlines - 1;
        }
    }
    let from = text.len() - rest.len();
    ends.extend(memchr::memchr_iter(b'\n', rest).map(|end| (from + end) as u32));
    ends
}

#[cfg(test)]
mod tests {
    use memchr::memmem;
    use proptest::prelude::*;

    use super::*;

    fn column(values: &[&str], lines: bool) -> FieldColumn<'static> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for value in values {
            text.extend_from_slice(value.as_bytes());
            ends.push(text.len() as u32);
            if lines {
                text.push(b'\n');
            }
        }
        match lines {
            true => FieldColumn::of_lines(text.into(), values.len(), Places::Each),
            false => FieldColumn::with_ends(text.into(), ends, 0, Places::Each),
        }
    }

    fn holding(column: &FieldColumn<'_>, needle: &str) -> Vec<u32> {
        let mut places = Vec::new();
        column.search(
            |text, at| memmem::find(&text[at..], needle.as_bytes()).map(|hit| at + hit),
            |value, at| value[at..].starts_with(needle.as_bytes()),
            |place| places.push(place),
        );
        places
    }

    #[test]
    fn values_are_found_by_row() {
        let text: Vec<u8> = b"abb".to_vec();
        let with = |places| FieldColumn::with_ends(text.clone().into(), vec![1, 3], 0, places);
        let shown = |column: FieldColumn<'_>| {
            (0..3)
                .map(|row| String::from_utf8_lossy(column.get(row)).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(with(Places::Listed(vec![1, NO_VALUE, 0]))), ["bb", "", "a"]);
        assert_eq!(shown(with(Places::All(1))), ["bb", "bb", "bb"]);
        assert_eq!(shown(with(Places::Classes(&[1, 0, 1], vec![NO_VALUE, 0]))), ["a", "", "a"]);
        assert_eq!(shown(FieldColumn::absent()), ["", "", ""]);
        assert_eq!(shown(column(&["x", "", "yz"], true)), ["x", "", "yz"]);
    }

    proptest! {
        #[test]
        fn newlines_are_found_where_they_stand(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\n' | 0x80), any::<u8>()], 0..100),
            lines in 0usize..40,
        ) {
            let expected: Vec<u32> =
                (0..).zip(&text).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
            prop_assert_eq!(line_ends(&text, lines), expected);
        }

        #[test]
        fn a_search_finds_what_looking_at_each_value_does(
            values in prop::collection::vec("[ab]{0,4}", 0..20),
            needle in "[ab]{1,3}",
            lines in any::<bool>(),
        ) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let column = column(&values, lines);
            let expected: Vec<u32> =
                (0..).zip(&values).filter(|(_, v)| v.contains(&needle)).map(|(i, _)| i).collect();
            let found = holding(&column, &needle);
            prop_assert_eq!(found, expected);
        }
    }
}
