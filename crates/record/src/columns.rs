//! Records as columns: the values of one field in many rows, and the interface to read them field
//! by field.
//!
//! A sealed block stores its records like this. A query for two fields of its lines reads two
//! columns, searches a text in all values of one at once, and assembles only the remaining lines.
//! The values are separate from the rows: a value that many rows have is stored once, and examined
//! once.
//!
//! Left out: how columns are stored; that depends on the implementation of [`Columns`].

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::automaton::Automaton;
use crate::batch::Batch;

/// Why columns could not be read; the text gives file and offset.
pub type ColumnError = Box<dyn std::error::Error + Send + Sync>;

/// Decides whether an occurrence counts, given the value and the offset in it; examines at most one
/// character beyond both ends.
pub type Accept<'a> = &'a dyn Fn(&[u8], usize) -> bool;

/// Which occurrences of a text count.
#[derive(Clone, Copy)]
pub enum Occurrences<'a> {
    /// All.
    All,
    /// Those that are accepted.
    Accepted(Accept<'a>),
    /// Those that are accepted; none is at an end of which a word goes on. Characters of words are
    /// ASCII letters, digits and `_`, and any of other alphabets.
    Words(Accept<'a>),
}

impl<'a> Occurrences<'a> {
    /// What decides, if not all count.
    pub fn accept(self) -> Option<Accept<'a>> {
        match self {
            Occurrences::All => None,
            Occurrences::Accepted(accept) | Occurrences::Words(accept) => Some(accept),
        }
    }
}

/// A test of values that can be evaluated in two ways.
pub trait Decide {
    /// The automaton that evaluates the test byte by byte, if there is one. It may be built on the
    /// first call, which takes time.
    fn automaton(&self) -> Option<&Automaton>;
    /// Whether a value passes.
    fn passes(&self, value: &[u8]) -> bool;
}

/// Values of a field, and the number of lines that have each.
pub type ValueCounts = Vec<(Vec<u8>, u64)>;

/// The names of fields, and the number of lines that have a value of just these.
pub type Kind<'a> = (Vec<&'a str>, u64);

/// The lines of a block, column by column. Rows are numbered as in the batch of these lines.
pub trait Columns {
    /// The number of lines.
    fn rows(&self) -> usize;
    /// Event time of each line, nanoseconds since 1970 UTC.
    fn times_ns(&self) -> Result<&[i64], ColumnError>;
    /// The names of the stored fields that lines may have; there may be names that no line has.
    fn names(&self) -> Vec<&str>;
    /// The values of a stored field. A line without it has the empty value. `None` if the values
    /// cannot be read separately from the lines.
    fn field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, ColumnError>;
    /// As [`Columns::field`], in these rows only, which must ascend: place `i` is that of row
    /// `rows[i]`. `None` if this is no faster.
    fn field_of(&self, _name: &str, _rows: &[u32]) -> Result<Option<FieldColumn<'_>>, ColumnError> {
        Ok(None)
    }
    /// The values of a stored field, each with the number of lines that have it; a value may be
    /// listed several times. `None` if this is no faster than counting [`Columns::field`].
    fn value_counts(&self, _name: &str) -> Result<Option<ValueCounts>, ColumnError> {
        Ok(None)
    }
    /// Kinds of lines by the fields of which they have a value, counted among these rows, which
    /// must ascend; of all if there are none. A kind may be listed several times. `None` where
    /// lines have to be read.
    fn kinds(&self, _rows: Option<&[u32]>) -> Result<Option<Vec<Kind<'_>>>, ColumnError> {
        Ok(None)
    }
    /// The lines whose field contains a text (not empty) at an occurrence that counts; ascending.
    /// `None` if this is no faster than searching [`Columns::field`].
    fn holding(
        &self,
        name: &str,
        text: &[u8],
        occurrences: Occurrences<'_>,
    ) -> Result<Option<Vec<u32>>, ColumnError>;
    /// The lines whose field passes a test that gives the same for a value and for its *outline*,
    /// which has `0` in place of each run of ASCII letters, digits and `_` with a digit in it;
    /// ascending. `None` if there are no outlines.
    fn passing_outlines(
        &self,
        _name: &str,
        _test: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u32>>, ColumnError> {
        Ok(None)
    }
    /// The lines whose field passes the test; ascending. `None` if this is no faster than testing
    /// [`Columns::field`].
    fn passing(&self, name: &str, test: &dyn Decide) -> Result<Option<Vec<u32>>, ColumnError>;
    /// The records of these rows, which must ascend.
    fn batch(&self, rows: &[u32]) -> Result<Batch, ColumnError>;
    /// As [`Columns::batch`], with these fields only, and without the raw lines. `None` if a field
    /// cannot be read separately.
    fn batch_of(&self, rows: &[u32], fields: &[&str]) -> Result<Option<Batch>, ColumnError>;
    /// The names of the fields that identify the streams of lines (see
    /// [`crate::Row::stream_fields`]), if they are the same for all lines.
    fn stream_fields(&self) -> Result<Option<Vec<String>>, ColumnError>;
}

/// In index of a value's index: no value.
pub const NO_VALUE: u32 = u32::MAX;

/// The value of each row.
#[derive(Debug)]
pub enum Places<'a> {
    /// Each row has its own value, in order.
    Each,
    /// All rows have the value with this index.
    All(u32),
    /// The index of the value of each row.
    Listed(Vec<u32>),
    /// The class of each row, and the index of the value of each class.
    Classes(&'a [u32], Vec<u32>),
}

/// The values of one field in all rows of a block.
#[derive(Debug)]
pub struct FieldColumn<'a> {
    /// The values back to back, each followed by `gap` bytes.
    text: Cow<'a, [u8]>,
    gap: usize,
    /// Where each value ends; determined on demand if values are lines or numbers.
    ends: OnceCell<Vec<u32>>,
    values: usize,
    places: Places<'a>,
    /// The values instead of `text`, if each is the decimal of a whole number ([`decimal_of`]).
    numbers: Option<Vec<i64>>,
    /// The text of the numbers, once somebody has read it.
    decimals: OnceCell<Vec<u8>>,
}

impl<'a> FieldColumn<'a> {
    /// A column for a field that no row has.
    pub fn absent() -> Self {
        Self::with_ends(Cow::Borrowed(&[]), Vec::new(), 0, Places::All(NO_VALUE))
    }

    /// Values that are lines: no value contains a newline, and each is followed by one.
    pub fn of_lines(text: Cow<'a, [u8]>, values: usize, places: Places<'a>) -> Self {
        debug_assert_eq!(memchr::memchr_iter(b'\n', &text).count(), values);
        let (ends, decimals) = (OnceCell::new(), OnceCell::new());
        FieldColumn { text, gap: 1, ends, values, places, numbers: None, decimals }
    }

    /// Values that are the decimals of these numbers. Their text is written when it is first read.
    pub fn of_numbers(numbers: Vec<i64>, places: Places<'a>) -> Self {
        let column = Self::with_ends(Cow::Borrowed(&[]), Vec::new(), 0, places);
        let values = numbers.len();
        FieldColumn { values, ends: OnceCell::new(), numbers: Some(numbers), ..column }
    }

    /// Values with these ends in the text, which must be in range; `gap` bytes are between them.
    pub fn with_ends(text: Cow<'a, [u8]>, ends: Vec<u32>, gap: usize, places: Places<'a>) -> Self {
        debug_assert!(ends.is_sorted());
        let (values, decimals) = (ends.len(), OnceCell::new());
        FieldColumn { text, gap, values, ends: ends.into(), places, numbers: None, decimals }
    }

    /// The number of values, which need not be distinct.
    pub fn values(&self) -> usize {
        self.values
    }

    /// The value of each row.
    pub fn places(&self) -> &Places<'a> {
        &self.places
    }

    /// The index of a row's value, or [`NO_VALUE`].
    #[inline]
    pub fn place(&self, row: usize) -> u32 {
        match &self.places {
            Places::Each => row as u32,
            Places::All(index) => *index,
            Places::Listed(indexes) => indexes[row],
            Places::Classes(classes, indexes) => indexes[classes[row] as usize],
        }
    }

    /// The value at an index; empty for [`NO_VALUE`].
    #[inline]
    pub fn value(&self, index: u32) -> &[u8] {
        if index == NO_VALUE {
            return &[];
        }
        let (ends, index) = (self.ends(), index as usize);
        let from = if index == 0 { 0 } else { ends[index - 1] as usize + self.gap };
        &self.text()[from..ends[index] as usize]
    }

    /// The numbers whose decimals are the values, if that is known.
    pub fn numbers(&self) -> Option<&[i64]> {
        self.numbers.as_deref()
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        self.value(self.place(row))
    }

    /// All values, back to back, with [`gap`](Self::gap) bytes behind each.
    #[inline]
    pub fn text(&self) -> &[u8] {
        let Some(numbers) = &self.numbers else { return &self.text };
        self.decimals.get_or_init(|| {
            let (text, ends) = decimals_of(numbers);
            self.ends.get_or_init(|| ends);
            text
        })
    }

    /// Bytes between two values: 1 for a newline, which then occurs in no value; otherwise 0.
    pub fn gap(&self) -> usize {
        self.gap
    }

    /// Where each value ends in the text.
    #[inline]
    pub fn ends(&self) -> &[u32] {
        if let Some(ends) = self.ends.get() {
            return ends;
        }
        // Of numbers, this sets the ends as well.
        let text = self.text();
        self.ends.get_or_init(|| line_ends(text, self.values))
    }

    /// Searches all values at once. `find` returns the next offset in the text, at or behind the
    /// given one, at which a value may match; `keep` decides whether the value there matches, given
    /// the value and the offset in it. `found` is called with the index of each matching value,
    /// ascending, once.
    pub fn search(
        &self,
        mut find: impl FnMut(&[u8], usize) -> Option<usize>,
        mut keep: impl FnMut(&[u8], usize) -> bool,
        mut found: impl FnMut(u32),
    ) {
        let text = self.text();
        let mut at = 0;
        // Value `index` begins at offset `start`.
        let (mut index, mut start) = (0usize, 0usize);
        let by_lines = self.gap == 1 && self.ends.get().is_none();
        while let Some(hit) = find(text, at) {
            let end = if by_lines {
                let passed = &text[start..hit];
                if let Some(last) = memchr::memrchr(b'\n', passed) {
                    index += memchr::memchr_iter(b'\n', passed).count();
                    start += last + 1;
                }
                match memchr::memchr(b'\n', &text[hit..]) {
                    Some(length) => hit + length,
                    None => return,
                }
            } else {
                let ends = self.ends();
                // The first value that ends behind the hit; an empty value at the hit does not
                // contain it.
                index += ends[index..].partition_point(|&end| end as usize <= hit);
                if index >= ends.len() {
                    return;
                }
                start = if index == 0 { 0 } else { ends[index - 1] as usize + self.gap };
                if hit < start {
                    // Between two values.
                    at = start;
                    continue;
                }
                ends[index] as usize
            };
            if keep(&text[start..end], hit - start) {
                found(index as u32);
            }
            at = end + self.gap;
            (index, start) = (index + 1, at);
            if at >= text.len() {
                return;
            }
        }
    }
}

/// Bytes of the longest decimal of a 64-bit number, with its sign.
pub const DECIMAL_BYTES: usize = 20;

/// The decimal of a number, written to the end of `buffer`: digits without leading zeros, behind
/// `-` if it is negative.
pub fn decimal_of(number: i64, buffer: &mut [u8; DECIMAL_BYTES]) -> &[u8] {
    let (mut at, mut rest) = (DECIMAL_BYTES, number.unsigned_abs());
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

/// The decimals of numbers, back to back, and where each ends.
fn decimals_of(numbers: &[i64]) -> (Vec<u8>, Vec<u32>) {
    let mut text = Vec::with_capacity(numbers.len() * 4);
    let mut ends = Vec::with_capacity(numbers.len());
    let mut buffer = [0; DECIMAL_BYTES];
    for &number in numbers {
        text.extend_from_slice(decimal_of(number, &mut buffer));
        ends.push(text.len() as u32);
    }
    (text, ends)
}

/// If lines are shorter than this on average, newlines are searched eight bytes at a time.
const SHORT_LINE_BYTES: usize = 48;

/// The positions of the newlines of a text; `lines`: approximately how many there are.
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
        let mut indexes = Vec::new();
        column.search(
            |text, at| memmem::find(&text[at..], needle.as_bytes()).map(|hit| at + hit),
            |value, at| value[at..].starts_with(needle.as_bytes()),
            |index| indexes.push(index),
        );
        indexes
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

    #[test]
    fn numbers_have_the_text_of_their_decimals() {
        let numbers = vec![0, 7, -40, i64::MAX, i64::MIN];
        let column =
            || FieldColumn::of_numbers(numbers.clone(), Places::Listed(vec![4, NO_VALUE, 0, 2]));
        assert_eq!(column().numbers(), Some(&numbers[..]));
        assert_eq!((column().values(), column().ends()), (5, &[1, 2, 5, 24, 44][..]));
        assert_eq!(column().text(), b"07-409223372036854775807-9223372036854775808");
        let column = column();
        let shown: Vec<_> = (0..4).map(|row| String::from_utf8_lossy(column.get(row))).collect();
        assert_eq!(shown, ["-9223372036854775808", "", "0", "-40"]);
        assert_eq!(holding(&column, "4"), [2, 3, 4]);
    }

    proptest! {
        #[test]
        fn newlines_are_found_at_their_offsets(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\n' | 0x80), any::<u8>()], 0..100),
            lines in 0usize..40,
        ) {
            let expected: Vec<u32> =
                (0..).zip(&text).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
            prop_assert_eq!(line_ends(&text, lines), expected);
        }

        #[test]
        fn a_search_agrees_with_testing_each_value(
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
