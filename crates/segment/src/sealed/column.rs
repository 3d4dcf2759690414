//! One column of a block: the values of a field, the text between two fields, or values that the
//! parser made.
//!
//! | encoding | bytes | when |
//! |---|---|---|
//! | dictionary | the distinct values, then a number for each row | few distinct values |
//! | numbers | differences, see [`super::ints`] | all are decimals without leading zeros |
//! | time | a format, see [`super::time_text`], and exceptions | text between fields that writes the event time |
//! | lines | the values, each with a newline behind it | no value has a newline |
//! | lengths | lengths, then the values | any |
//! | repeats | lines as copies and literals, see [`super::repeats`] | lines that are worth a chunk of their own |
//! | template | static text apart from variables, see [`crate::template`] | best effort: sealing may take its time |
//!
//! Lines are stored back to back, so that a word is searched in all of them at once.

mod some;

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hasher;

use record::columns::{DECIMAL_BYTES, decimal_of};

use super::bytes::{Corrupt, Cursor, Read, put_piece, put_varint};
use super::ints;
use super::outlines::{self, Outlines};
use super::repeats::{self, Repeats};
use super::time_text::{TimeForm, TimeWriter};
use crate::hash::hash64;
use crate::needle::Needle;
use crate::short::{same, starts_with};
use crate::template::{self, TemplateColumn};
use crate::tokens::{TokenSet, separates};

/// Distinct values of a dictionary. A column with more is stored as text.
pub(crate) const DICTIONARY_MAX: usize = 4_096;
/// After this many values, at most half may be distinct; otherwise the dictionary is given up.
const DICTIONARY_PROOF: usize = 512;
/// Decimals with more digits are text: they would not fit into 63 bits.
const DIGITS_MAX: usize = 18;

/// Shorter text gains nothing from templates.
const TEMPLATE_BYTES_MIN: usize = 256;
pub(super) const WRONG_TEMPLATES: Corrupt = Corrupt("the templates of a column");
/// Largest text of one column of a block, in bytes. Blocks are far smaller.
pub(super) const TEXT_BYTES_MAX: usize = 512 << 20;

/// How a column is stored. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// Distinct values, and a number per row.
    Dictionary = 0,
    /// Decimals, as differences.
    Numbers = 1,
    /// A format of the event time.
    Time = 2,
    /// Text with a newline behind each value.
    Lines = 3,
    /// Text, with the lengths separate.
    Lengths = 4,
    /// Static text apart from variables.
    Template = 5,
    /// Text with newlines behind the values, as copies from earlier text and the literals between
    /// them.
    Repeats = 6,
}

impl Encoding {
    pub(crate) fn of(number: u8) -> Read<Encoding> {
        use Encoding::{Dictionary, Lengths, Lines, Numbers, Repeats, Template, Time};
        let all = [Dictionary, Numbers, Time, Lines, Lengths, Template, Repeats];
        all.get(usize::from(number)).copied().ok_or(Corrupt("the encoding of a column"))
    }

    /// The name of the encoding, for people.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Dictionary => "dictionary",
            Encoding::Numbers => "numbers",
            Encoding::Time => "time",
            Encoding::Lines => "lines",
            Encoding::Lengths => "lengths",
            Encoding::Template => "template",
            Encoding::Repeats => "repeats",
        }
    }
}

/// Byte strings, back to back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) text: Vec<u8>,
    pub(crate) ends: Vec<u32>,
    /// Bytes behind each value: 1 for a newline.
    gap: u32,
}

impl Values {
    /// Values that each get a newline behind them.
    fn lines() -> Self {
        Values { gap: 1, ..Values::default() }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.text.extend_from_slice(value);
        self.ends.push(self.text.len() as u32);
        if self.gap > 0 {
            self.text.push(b'\n');
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let from = if index == 0 { 0 } else { (self.ends[index - 1] + self.gap) as usize };
        &self.text[from..self.ends[index] as usize]
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

/// A hasher that returns the key itself: the key is a good hash already.
#[derive(Clone, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

pub(crate) type ByHash<T> = HashMap<u64, T, std::hash::BuildHasherDefault<Identity>>;

/// Collects the values of one column of a block.
#[derive(Default)]
pub(crate) struct ColumnBuilder {
    values: Values,
    /// While the column may become a dictionary, the codes of its rows; `values` are the distinct
    /// ones.
    codes: Option<Vec<u16>>,
    indexes: ByHash<u16>,
    last: u16,
    /// Rows of the values, for the text between fields, which may write the event time.
    pub(crate) rows: Vec<u32>,
    /// Whether the previous block stored this column as text, and the bytes of that text if the
    /// builder gave it away.
    was_text: bool,
    text_bytes: usize,
}

impl ColumnBuilder {
    /// Empties the builder for the next block.
    pub(crate) fn clear(&mut self) {
        self.was_text = self.len() > 0 && self.codes.is_none();
        self.values.clear();
        if self.was_text {
            // The memory that was given away is needed again soon.
            self.values.text.reserve(self.text_bytes);
        } else {
            self.values.gap = 0;
        }
        self.rows.clear();
        self.indexes.clear();
        self.last = 0;
        self.codes = (!self.was_text).then(Vec::new);
    }

    pub(crate) fn len(&self) -> usize {
        self.codes.as_ref().map_or(self.values.len(), Vec::len)
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: &[u8]) {
        if self.codes.is_none() && self.values.len() > 0 {
            return self.values.push(value);
        }
        self.push_code(value);
    }

    /// Adds a value to a dictionary, or the first value.
    fn push_code(&mut self, value: &[u8]) {
        let Some(codes) = &mut self.codes else { return self.push_first(value) };
        if !codes.is_empty() && same(self.values.get(usize::from(self.last)), value) {
            codes.push(self.last);
            return;
        }
        self.push_other(value);
    }

    fn push_first(&mut self, value: &[u8]) {
        if self.was_text {
            self.values.gap = 1;
            return self.values.push(value);
        }
        self.codes = Some(Vec::new());
        self.push_other(value);
    }

    /// Adds a value that differs from the previous one.
    fn push_other(&mut self, value: &[u8]) {
        let hash = hash64(value);
        let codes = self.codes.as_mut().expect("it is a dictionary");
        match self.indexes.get(&hash) {
            Some(&index) if same(self.values.get(usize::from(index)), value) => {
                codes.push(index);
                self.last = index;
            }
            // Two values with the same hash cannot be in a dictionary.
            Some(_) => self.become_text(value),
            None => {
                let index = self.values.len();
                let doubtful = codes.len() >= DICTIONARY_PROOF && index * 2 > codes.len();
                if index >= DICTIONARY_MAX || doubtful {
                    return self.become_text(value);
                }
                self.values.push(value);
                self.indexes.insert(hash, index as u16);
                codes.push(index as u16);
                self.last = index as u16;
            }
        }
    }

    fn become_text(&mut self, value: &[u8]) {
        let codes = self.codes.take().expect("it is a dictionary");
        let mut values = Values::lines();
        codes.iter().for_each(|&code| values.push(self.values.get(usize::from(code))));
        values.push(value);
        self.values = values;
        self.indexes.clear();
        self.was_text = true;
    }

    /// Encodes the column. `times` are the event times of the block's rows, for text between
    /// fields. The builder gives its text away, unless it has to `keep` it.
    ///
    /// With `repeats`, text of at least that many bytes is encoded as repeats, and stays with the
    /// builder. `words` gets the words of all values.
    pub(crate) fn encode(
        &mut self,
        times: Option<&[i64]>,
        keep: bool,
        repeats: Option<(&mut Repeats, usize)>,
        mut words: Option<&mut TokenSet>,
    ) -> Encoded {
        let mut out = Vec::new();
        if let Some(times) = times
            && self.encode_time(times, &mut out)
        {
            self.add_words(words);
            return Encoded::one(Encoding::Time, out);
        }
        if let Some(codes) = &self.codes {
            self.add_words(words);
            let worth = codes.len() >= 2 * self.values.len() || codes.len() < 64;
            if worth || self.values.len() == 1 {
                encode_dictionary(&self.values, codes, &mut out);
                return Encoded::one(Encoding::Dictionary, out);
            }
            let mut values = Values::lines();
            codes.iter().for_each(|&code| values.push(self.values.get(usize::from(code))));
            return encode_text(values);
        }
        if let Some((repeats, bytes_min)) = repeats
            && self.values.text.len() >= bytes_min
            && decimals(&self.values).is_none()
            && are_lines(&self.values)
            && let Some(sections) = repeats.encode(&self.values.text, words.take())
        {
            self.text_bytes = 0;
            return Encoded { encoding: Encoding::Repeats, sections: sections.into() };
        }
        // `None` if the words were already collected while looking for repeats.
        self.add_words(words);
        self.text_bytes = self.values.text.len();
        if keep {
            return encode_text(self.values.clone());
        }
        let (text, ends) = (std::mem::take(&mut self.values.text), self.values.ends.clone());
        encode_text(Values { text, ends, gap: self.values.gap })
    }

    /// Whether all values begin, and whether all end, with a byte that separates words.
    pub(crate) fn are_separated(&self) -> (bool, bool) {
        let separated = |byte: Option<&u8>| byte.is_some_and(|byte| separates(*byte));
        self.values.iter().fold((true, true), |(starts, ends), value| {
            (starts && separated(value.first()), ends && separated(value.last()))
        })
    }

    /// Adds the words of the distinct values, and of those that follow a different value.
    fn add_words(&self, words: Option<&mut TokenSet>) {
        let Some(words) = words else { return };
        let mut last: &[u8] = b"";
        for value in self.values.iter() {
            if !same(value, last) {
                words.add(value);
                last = value;
            }
        }
    }

    /// The column as templates, if its text is long enough for templates to pay.
    pub(crate) fn encode_templates(&self) -> Option<Encoded> {
        let mut values = Values::default();
        self.each(|_, value| values.push(value));
        if values.text.len() < TEMPLATE_BYTES_MIN {
            return None;
        }
        let encoded = template::encode(template::Values::new(&values.text, &values.ends));
        let [mut tables, numbers, texts] = encoded.sections;
        let mut head = Vec::with_capacity(tables.len() + 5);
        put_varint(&mut head, values.text.len() as u64);
        head.append(&mut tables);
        let sections = vec![head, numbers, texts];
        Some(Encoded { encoding: Encoding::Template, sections })
    }

    /// The outlines of the values, if the column is long enough for them, and they are worth it.
    /// The builder must have its text.
    pub(crate) fn outlines(&self, outlines: &mut Outlines) -> Option<Vec<u8>> {
        let Values { text, gap, .. } = &self.values;
        let is_long = self.codes.is_none() && text.len() >= outlines::TEXT_BYTES_MIN;
        (is_long && *gap == 1 && are_lines(&self.values)).then(|| outlines.encode(text))?
    }

    /// Calls `each` with every value and its index.
    fn each(&self, mut each: impl FnMut(usize, &[u8])) {
        match &self.codes {
            Some(codes) => {
                for (index, &code) in codes.iter().enumerate() {
                    each(index, self.values.get(usize::from(code)));
                }
            }
            None => self.values.iter().enumerate().for_each(|(index, value)| each(index, value)),
        }
    }

    /// Writes the format and the exceptions, if there are few.
    fn encode_time(&self, times: &[i64], out: &mut Vec<u8>) -> bool {
        let exceptions_max = self.len() / 8;
        let time_of = |index: usize| times[self.rows[index] as usize];
        let mut form = None;
        for index in [0, self.len() / 2, self.len() - 1] {
            let value = match &self.codes {
                Some(codes) => self.values.get(usize::from(codes[index])),
                None => self.values.get(index),
            };
            form = form.or_else(|| TimeForm::find(value, time_of(index)));
        }
        let Some(form) = form else { return false };
        let mut writer = TimeWriter::new(form.clone());
        let (mut indexes, mut exceptions) = (Vec::new(), Values::default());
        let mut look = |index: usize, value: &[u8]| {
            let is_written = same(writer.write(time_of(index)), value);
            if !is_written && indexes.len() <= exceptions_max {
                indexes.push(index as i64);
                exceptions.push(value);
            }
            is_written
        };
        match &self.codes {
            Some(codes) => {
                // The previous code and time that matched.
                let mut last = None;
                for (index, &code) in codes.iter().enumerate() {
                    let now = Some((code, time_of(index)));
                    if now != last {
                        let is_written = look(index, self.values.get(usize::from(code)));
                        last = now.filter(|_| is_written);
                    }
                }
            }
            None => self.values.iter().enumerate().for_each(|(index, value)| {
                look(index, value);
            }),
        }
        if indexes.len() > exceptions_max {
            return false;
        }
        form.encode(out);
        put_varint(out, indexes.len() as u64);
        ints::encode(&indexes, out);
        put_lengths(&exceptions, out);
        true
    }
}

/// A column as it is stored, before compression: one section, or the three of templates.
pub(crate) struct Encoded {
    pub(crate) encoding: Encoding,
    pub(crate) sections: Vec<Vec<u8>>,
}

impl Encoded {
    fn one(encoding: Encoding, bytes: Vec<u8>) -> Encoded {
        Encoded { encoding, sections: vec![bytes] }
    }
}

fn encode_dictionary(values: &Values, codes: &[u16], out: &mut Vec<u8>) {
    put_varint(out, values.len() as u64);
    values.iter().for_each(|value| put_piece(out, value));
    match values.len() {
        0 | 1 => {}
        2..=256 => out.extend(codes.iter().map(|&code| code as u8)),
        _ => out.extend(codes.iter().flat_map(|code| code.to_le_bytes())),
    }
}

/// Encodes as numbers, or lines, or lengths and text. The values have a newline behind each.
fn encode_text(values: Values) -> Encoded {
    debug_assert_eq!(values.gap, 1);
    let mut out = Vec::new();
    if let Some(numbers) = decimals(&values) {
        ints::encode(&numbers, &mut out);
        return Encoded::one(Encoding::Numbers, out);
    }
    if are_lines(&values) {
        return Encoded::one(Encoding::Lines, values.text);
    }
    put_lengths(&values, &mut out);
    Encoded::one(Encoding::Lengths, out)
}

/// Whether no value has a newline.
fn are_lines(values: &Values) -> bool {
    memchr::memchr_iter(b'\n', &values.text).count() == values.len()
}

fn put_lengths(values: &Values, out: &mut Vec<u8>) {
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    ints::encode(&lengths, out);
    values.iter().for_each(|value| out.extend_from_slice(value));
}

/// The values as numbers, if each is the canonical decimal of its number.
fn decimals(values: &Values) -> Option<Vec<i64>> {
    values.iter().map(decimal).collect()
}

/// The number whose canonical decimal a value is.
pub(crate) fn decimal(value: &[u8]) -> Option<i64> {
    let leads = value.len() > 1 && value[0] == b'0';
    if value.is_empty() || value.len() > DIGITS_MAX || leads {
        return None;
    }
    value.iter().try_fold(0i64, |sum, &byte| {
        byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

/// A column that is read from its first value to its last.
pub(crate) struct ColumnReader<'a> {
    column: Column<'a>,
    next: usize,
    /// In a text, where the next value begins.
    at: u32,
}

/// Text that writes the event time, and the exceptions.
pub(crate) struct Times {
    writer: TimeWriter,
    exceptions: Values,
    /// Indexes of the exceptions.
    indexes: Vec<i64>,
    /// Exceptions read so far.
    met: usize,
    count: usize,
}

/// A decoded column in which any value is found in constant time.
pub(crate) enum Column<'a> {
    Dictionary {
        values: Values,
        codes: Vec<u16>,
        count: usize,
    },
    Numbers(Vec<i64>),
    Time(Box<Times>),
    /// `gap`: bytes behind each value, 1 for a newline. Values of templates may contain newlines,
    /// too.
    Text {
        text: Cow<'a, [u8]>,
        ends: Vec<u32>,
        gap: u32,
    },
    /// Only these of `count` values, by their indexes, which ascend; `met`: how many of them were
    /// read or skipped.
    Few {
        values: Values,
        indexes: Vec<u32>,
        count: usize,
        met: usize,
    },
}

impl<'a> Column<'a> {
    /// Reads a column of `count` values.
    pub(crate) fn decode(encoding: u8, sections: &[&'a [u8]], count: usize) -> Read<Column<'a>> {
        let encoding = Encoding::of(encoding)?;
        if let (Encoding::Template, [tables, numbers, texts]) = (encoding, sections) {
            return decode_templates([tables, numbers, texts], count);
        }
        if encoding == Encoding::Repeats {
            return decode_repeats(sections, count);
        }
        let [bytes] = sections else { return Err(Corrupt("the sections of a column")) };
        let mut cursor = Cursor::new(bytes);
        match encoding {
            Encoding::Dictionary => decode_dictionary(cursor, count),
            Encoding::Numbers => {
                let numbers = ints::decode(&mut cursor, count)?;
                cursor.end()?;
                Ok(Column::Numbers(numbers))
            }
            Encoding::Time => {
                let form = TimeForm::decode(&mut cursor)?;
                let exceptions = cursor.count(count)?;
                let indexes = ints::decode(&mut cursor, exceptions)?;
                let (text, ends) = decode_lengths(cursor, exceptions)?;
                let exceptions = Values { text: text.to_vec(), ends, gap: 0 };
                let writer = TimeWriter::new(form);
                Ok(Column::Time(Box::new(Times { writer, exceptions, indexes, met: 0, count })))
            }
            Encoding::Lines => {
                let ends = line_ends(bytes, count)?;
                Ok(Column::Text { text: Cow::Borrowed(bytes), ends, gap: 1 })
            }
            Encoding::Lengths => {
                let (text, ends) = decode_lengths(cursor, count)?;
                Ok(Column::Text { text: Cow::Borrowed(text), ends, gap: 0 })
            }
            Encoding::Template | Encoding::Repeats => Err(Corrupt("the encoding of a column")),
        }
    }
}

impl Column<'_> {
    /// Appends the value at `index`, which must exist; `time_ns` is the event time of its
    /// row.
    pub(crate) fn append(&mut self, index: usize, time_ns: i64, out: &mut Vec<u8>) {
        match self {
            Column::Dictionary { values, codes, .. } => {
                let code = codes.get(index).map_or(0, |&code| usize::from(code));
                out.extend_from_slice(values.get(code));
            }
            Column::Numbers(numbers) => {
                out.extend_from_slice(decimal_of(numbers[index], &mut [0; DECIMAL_BYTES]));
            }
            Column::Time(times) => match times.indexes.binary_search(&(index as i64)) {
                Ok(exception) => out.extend_from_slice(times.exceptions.get(exception)),
                Err(_) => out.extend_from_slice(times.writer.write(time_ns)),
            },
            Column::Text { text, ends, gap } => {
                let from = if index == 0 { 0 } else { ends[index - 1] + *gap };
                out.extend_from_slice(&text[from as usize..ends[index] as usize]);
            }
            Column::Few { values, indexes, .. } => {
                let at = indexes.binary_search(&(index as u32)).expect("it is wanted");
                out.extend_from_slice(values.get(at));
            }
        }
    }

    /// For each value, whether it contains the needle; true as well for a value that writes the
    /// time.
    pub(crate) fn holding(&self, needle: &Needle<'_>) -> Vec<bool> {
        match self {
            Column::Dictionary { values, codes, count } => {
                let found: Vec<bool> = values.iter().map(|value| needle.is_in(value)).collect();
                match codes.is_empty() {
                    true => vec![found.first() == Some(&true); *count],
                    false => codes.iter().map(|&code| found[usize::from(code)]).collect(),
                }
            }
            Column::Numbers(numbers) => {
                let mut buffer = [0; DECIMAL_BYTES];
                let holds = |number: &i64| needle.is_in(decimal_of(*number, &mut buffer));
                numbers.iter().map(holds).collect()
            }
            Column::Time(times) => {
                let mut found = vec![times.writer.could_write(needle); times.count];
                for (&index, exception) in times.indexes.iter().zip(times.exceptions.iter()) {
                    if let Some(found) = usize::try_from(index).ok().and_then(|p| found.get_mut(p))
                    {
                        *found = needle.is_in(exception);
                    }
                }
                found
            }
            Column::Text { text, ends, gap } => {
                let mut found = vec![false; ends.len()];
                let (mut at, mut index, mut from) = (0, 0, 0);
                while let Some(hit) = needle.find(text, at) {
                    // The first value that ends behind the hit.
                    let passed = ends[index..].partition_point(|&end| end as usize <= hit);
                    if passed > 0 {
                        index += passed;
                        from = (ends[index - 1] + gap) as usize;
                    }
                    let Some(&end) = ends.get(index) else { break };
                    found[index] = needle.is_in(&text[from..end as usize]);
                    at = end as usize;
                }
                found
            }
            Column::Few { values, indexes, count, .. } => {
                let mut found = vec![false; *count];
                let held = indexes.iter().zip(values.iter());
                held.for_each(|(&index, value)| found[index as usize] = needle.is_in(value));
                found
            }
        }
    }
}

/// The positions of the newlines behind `count` values, which must cover the whole text.
fn line_ends(text: &[u8], count: usize) -> Read<Vec<u32>> {
    let ends = record::columns::line_ends(text, count);
    let whole = text.last().is_none_or(|&last| last == b'\n');
    if ends.len() == count && whole { Ok(ends) } else { Err(Corrupt("the lines of a column")) }
}

fn decode_repeats<'a>(sections: &[&[u8]], count: usize) -> Read<Column<'a>> {
    let &[tokens, distances, literals, digits] = sections else {
        return Err(Corrupt("the sections of a column"));
    };
    let text = repeats::decode([tokens, distances, literals, digits], TEXT_BYTES_MAX)?;
    let ends = line_ends(&text, count)?;
    Ok(Column::Text { text: Cow::Owned(text), ends, gap: 1 })
}

fn decode_templates([tables, numbers, texts]: [&[u8]; 3], count: usize) -> Read<Column<'static>> {
    let mut cursor = Cursor::new(tables);
    let text_bytes = cursor.count(TEXT_BYTES_MAX)?;
    let tables = cursor.take(cursor.left())?;
    let decoded = template::decode_lines([tables, numbers, texts], count, text_bytes)
        .map_err(|_| WRONG_TEMPLATES)?;
    Ok(Column::Text { text: Cow::Owned(decoded.bytes), ends: decoded.ends, gap: decoded.gap })
}

/// A column of templates, none of whose values is put together yet.
pub(super) fn open_templates<'a>(
    [tables, numbers, texts]: [&'a [u8]; 3],
    count: usize,
) -> Read<TemplateColumn<'a>> {
    let mut cursor = Cursor::new(tables);
    let text_bytes = cursor.count(TEXT_BYTES_MAX)?;
    let sections = [cursor.take(cursor.left())?, numbers, texts];
    TemplateColumn::open(sections, count, text_bytes).map_err(|_| WRONG_TEMPLATES)
}

fn decode_dictionary(mut cursor: Cursor<'_>, count: usize) -> Read<Column<'static>> {
    let size = cursor.count(DICTIONARY_MAX)?;
    let mut values = Values::default();
    for _ in 0..size {
        values.push(cursor.piece()?);
    }
    let codes: Vec<u16> = match size {
        0 if count > 0 => return Err(Corrupt("an empty dictionary")),
        0 | 1 => Vec::new(),
        2..=256 => cursor.take(count)?.iter().map(|&code| u16::from(code)).collect(),
        _ => {
            let pairs = cursor.take(count * 2)?.chunks_exact(2);
            pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
        }
    };
    cursor.end()?;
    if codes.iter().any(|&code| usize::from(code) >= size) {
        return Err(Corrupt("a number into a dictionary"));
    }
    Ok(Column::Dictionary { values, codes, count })
}

/// The values, back to back, and where each ends.
fn decode_lengths<'a>(mut cursor: Cursor<'a>, count: usize) -> Read<(&'a [u8], Vec<u32>)> {
    let lengths = ints::decode(&mut cursor, count)?;
    let (mut end, mut ends) = (0u64, Vec::with_capacity(count));
    for length in lengths {
        end = end.saturating_add(length as u64);
        ends.push(end as u32);
    }
    if end != cursor.left() as u64 {
        return Err(Corrupt("the lengths of a column"));
    }
    Ok((cursor.take(end as usize)?, ends))
}

impl<'a> ColumnReader<'a> {
    pub(crate) fn new(column: Column<'a>) -> Self {
        ColumnReader { column, next: 0, at: 0 }
    }

    /// The length shared by all values, if it is known.
    pub(crate) fn width(&self) -> Option<u32> {
        match &self.column {
            Column::Dictionary { values, .. } if values.len() == 1 => {
                Some(values.text.len() as u32)
            }
            Column::Time(times) if times.indexes.is_empty() => Some(times.writer.width()),
            _ => None,
        }
    }

    /// Total bytes of the values, roughly.
    pub(crate) fn text_bytes(&self) -> usize {
        match &self.column {
            Column::Dictionary { values, count, .. } => {
                values.text.len().div_ceil(values.len().max(1)) * count
            }
            Column::Time(times) => times.writer.width() as usize * times.count,
            Column::Numbers(numbers) => numbers.len() * 8,
            Column::Text { text, .. } => text.len(),
            Column::Few { values, .. } => values.text.len(),
        }
    }

    /// How many values were not read yet.
    pub(crate) fn left(&self) -> usize {
        let count = match &self.column {
            Column::Dictionary { count, .. } => *count,
            Column::Time(times) => times.count,
            Column::Numbers(numbers) => numbers.len(),
            Column::Text { ends, .. } => ends.len(),
            Column::Few { count, .. } => *count,
        };
        count - self.next
    }

    /// Appends the next value, which must exist; `time_ns` is the event time of its row.
    #[inline(always)]
    pub(crate) fn append(&mut self, time_ns: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.next_value(time_ns, &mut [0; DECIMAL_BYTES]));
    }

    /// The length of the next value, which must exist, if `text` begins with it.
    #[inline(always)]
    pub(crate) fn matches(&mut self, time_ns: i64, text: &[u8]) -> Option<usize> {
        let mut decimal = [0; DECIMAL_BYTES];
        let value = self.next_value(time_ns, &mut decimal);
        starts_with(text, value).then_some(value.len())
    }

    /// Skips the next `count` values, which must exist.
    #[inline]
    pub(crate) fn skip(&mut self, count: usize) {
        self.next += count;
        let Some(last) = self.next.checked_sub(1) else { return };
        match &mut self.column {
            Column::Text { ends, gap, .. } => self.at = ends[last] + *gap,
            Column::Time(times) => {
                while times.indexes.get(times.met).is_some_and(|&index| index <= last as i64) {
                    times.met += 1;
                }
            }
            Column::Few { indexes, met, .. } => {
                *met += indexes[*met..].partition_point(|&index| (index as usize) <= last);
            }
            Column::Dictionary { .. } | Column::Numbers(_) => {}
        }
    }

    #[inline(always)]
    fn next_value<'v>(
        &'v mut self,
        time_ns: i64,
        decimal: &'v mut [u8; DECIMAL_BYTES],
    ) -> &'v [u8] {
        let index = self.next;
        self.next += 1;
        match &mut self.column {
            Column::Dictionary { values, codes, .. } => {
                values.get(if codes.is_empty() { 0 } else { usize::from(codes[index]) })
            }
            Column::Text { text, ends, gap } => {
                let (from, end) = (self.at, ends[index]);
                self.at = end + *gap;
                &text[from as usize..end as usize]
            }
            Column::Numbers(numbers) => decimal_of(numbers[index], decimal),
            Column::Few { values, indexes, met, .. } => {
                debug_assert_eq!(indexes[*met] as usize, index, "it is wanted");
                *met += 1;
                values.get(*met - 1)
            }
            Column::Time(times) => times.next(index, time_ns),
        }
    }
}

impl Times {
    #[inline]
    fn next(&mut self, index: usize, time_ns: i64) -> &[u8] {
        if self.indexes.get(self.met) == Some(&(index as i64)) {
            self.met += 1;
            self.exceptions.get(self.met - 1)
        } else {
            self.writer.write(time_ns)
        }
    }
}
