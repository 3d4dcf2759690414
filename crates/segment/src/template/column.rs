//! Chooses the encoding of a column's values: the one that is estimated to compress best.
//!
//! Encodings nest: the distinct values of a dictionary are a column, and so are the slots of
//! templates. The values of every column are slices of the block's text, so nothing is copied while
//! nesting.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::digits::Digits;
use super::estimate::Estimator;
use super::ints::Ints;
use super::learn::{Split, learn};
use super::texts::Span;
use super::token::{Grain, has_space};
use super::wire::put_varint;
use super::{Sections, classes_of};

pub(super) const SAME: u8 = 0;
pub(super) const LINES: u8 = 1;
pub(super) const LENGTHS: u8 = 2;
pub(super) const DIGITS: u8 = 3;
pub(super) const HEX: u8 = 4;
pub(super) const DICTIONARY: u8 = 5;
pub(super) const TEMPLATES: u8 = 6;

/// Nesting depth of encodings. The reader refuses deeper ones, too.
pub(super) const DEPTH_MAX: usize = 8;
/// Limit on the text that is split, over all columns, as a multiple of the block's text; the rest
/// is written as it is. Real logs need less than half of this limit; artificial ones would take
/// minutes without it.
const WORK_TEXTS_MAX: usize = 16;
/// Columns with fewer values are written as they are: no other encoding would pay for its
/// description.
const VALUES_MIN: usize = 6;
/// If another encoding makes the values this many times smaller, writing them as they are is not
/// tried.
const PLAIN_RATIO_MAX: u32 = 8;
/// How many values are sampled to decide whether a dictionary is worth trying.
const SAMPLE_VALUES: usize = 1024;
/// A column of digits is good enough if its estimate is at most [`ENOUGH_BYTES`] plus one byte per
/// [`ENOUGH_VALUES_PER_BYTE`] values: then no other encoding is tried.
const ENOUGH_BYTES: u32 = 16;
const ENOUGH_VALUES_PER_BYTE: u32 = 32;
/// Control bytes in the text of templates: the next byte is literal; a slot; the end.
pub(super) const ESCAPE: u8 = 2;
pub(super) const SLOT: u8 = 1;
pub(super) const END: u8 = 0;

/// A column, ready to be written.
pub(super) enum Column {
    Same(Vec<u8>),
    Lines(Vec<u8>),
    Lengths(Ints, Vec<u8>),
    Digits(Digits),
    Hex { upper: bool, chars: usize, bytes: Vec<u8> },
    Dictionary { ids: Ints, count: usize, values: Box<Column> },
    Templates { count: usize, texts: Vec<u8>, ids: Ints, columns: Vec<(u8, Column)> },
}

/// A column and its estimated size when compressed, bytes.
struct Choice {
    column: Column,
    cost: u32,
}

/// Encodes the values at `spans` of `text`.
pub(super) fn encode(text: &[u8], spans: &[Span], estimator: &mut Estimator) -> Column {
    let bytes_left = (text.len() + spans.len()).saturating_mul(WORK_TEXTS_MAX);
    let mut chooser = Chooser { text, estimator, bytes_left };
    chooser.choose(spans, Grain::Line, 0).column
}

struct Chooser<'a, 'e> {
    text: &'a [u8],
    estimator: &'e mut Estimator,
    /// Bytes that may still be split.
    bytes_left: usize,
}

impl Chooser<'_, '_> {
    fn choose(&mut self, spans: &[Span], grain: Grain, depth: usize) -> Choice {
        let text = self.text;
        let Some(first) = spans.first() else {
            return Choice { column: Column::Same(Vec::new()), cost: 2 };
        };
        if spans.iter().all(|s| s.of(text) == first.of(text)) {
            let cost = 2 + first.len() as u32;
            return Choice { column: Column::Same(first.of(text).to_vec()), cost };
        }
        let bytes = spans.len() + spans.iter().map(Span::len).sum::<usize>();
        if spans.len() < VALUES_MIN || depth == DEPTH_MAX || bytes > self.bytes_left {
            return self.plain(spans);
        }
        self.bytes_left -= bytes;
        let mut best = Digits::encode(text, spans, self.estimator)
            .map(|digits| Choice { cost: 2 + digits.cost(), column: Column::Digits(digits) });
        let enough = ENOUGH_BYTES + spans.len() as u32 / ENOUGH_VALUES_PER_BYTE;
        if best.as_ref().is_none_or(|best| best.cost > enough) {
            keep_better(&mut best, hex(text, spans));
            let repeated = repeated_of(text, spans);
            if let Some((distinct, ids)) = &repeated {
                keep_better(&mut best, Some(self.dictionary(distinct, ids, grain, depth)));
            }
            if depth == 0 || repeated.is_none_or(|(distinct, _)| distinct.len() > spans.len() / 4) {
                keep_better(&mut best, self.templates(spans, grain, depth));
            }
        }
        match best {
            Some(best) if best.cost < bytes as u32 / PLAIN_RATIO_MAX => best,
            Some(best) => {
                let plain = self.plain(spans);
                if plain.cost <= best.cost { plain } else { best }
            }
            None => self.plain(spans),
        }
    }

    fn plain(&mut self, spans: &[Span]) -> Choice {
        let text = self.text;
        let lines = !spans.iter().any(|s| memchr::memchr(b'\n', s.of(text)).is_some());
        let mut bytes = Vec::with_capacity(spans.iter().map(|s| s.len() + 1).sum());
        for span in spans {
            bytes.extend_from_slice(span.of(text));
            if lines {
                bytes.push(b'\n');
            }
        }
        let mut cost = 4 + self.estimator.bytes(&bytes);
        if lines {
            return Choice { column: Column::Lines(bytes), cost };
        }
        let lengths: Vec<u64> = spans.iter().map(|s| s.len() as u64).collect();
        let lengths = Ints::encode(&lengths, false, self.estimator);
        cost += lengths.cost;
        Choice { column: Column::Lengths(lengths, bytes), cost }
    }

    fn dictionary(&mut self, distinct: &[Span], ids: &[u64], grain: Grain, depth: usize) -> Choice {
        let ids = Ints::encode(ids, true, self.estimator);
        let values = self.choose(distinct, grain, depth + 1);
        let cost = 3 + ids.cost + values.cost;
        let values = Box::new(values.column);
        Choice { column: Column::Dictionary { ids, count: distinct.len(), values }, cost }
    }

    /// `None` when the values have nothing in common.
    fn templates(&mut self, spans: &[Span], grain: Grain, depth: usize) -> Option<Choice> {
        let text = self.text;
        let spaced = spans.iter().filter(|s| has_space(s.of(text))).count();
        let grain = if spaced > spans.len() / 8 { Grain::Line } else { grain.max(Grain::Word) };
        let Split { templates, ids, columns } = learn(text, spans, grain);
        if templates.len() > spans.len() / 2 || is_whole(&templates) {
            return None;
        }
        let next = match grain {
            Grain::Line => Grain::Word,
            Grain::Word | Grain::Digits => Grain::Digits,
        };
        let mut texts = Vec::new();
        for template in &templates {
            put_template(&mut texts, template);
        }
        let ids: Vec<u64> = ids.into_iter().map(u64::from).collect();
        let ids = Ints::encode(&ids, true, self.estimator);
        let mut cost = 4 + ids.cost + self.estimator.bytes(&texts);
        let mut children = Vec::with_capacity(columns.len());
        for column in &columns {
            let child = self.choose(column, next, depth + 1);
            cost += child.cost + 1;
            children.push((classes_of(text, column), child.column));
        }
        let count = templates.len();
        let column = Column::Templates { count, texts, ids, columns: children };
        Some(Choice { column, cost })
    }
}

fn keep_better(best: &mut Option<Choice>, choice: Option<Choice>) {
    if let Some(choice) = choice
        && best.as_ref().is_none_or(|best| choice.cost < best.cost)
    {
        *best = Some(choice);
    }
}

/// Whether the values were not split at all.
fn is_whole(templates: &[Vec<Vec<u8>>]) -> bool {
    let whole = |t: &Vec<Vec<u8>>| t.len() == 2 && t.iter().all(Vec::is_empty);
    templates.iter().any(whole) && templates.len() == 1
}

fn put_template(out: &mut Vec<u8>, pieces: &[Vec<u8>]) {
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            out.push(SLOT);
        }
        for &byte in piece {
            if byte <= ESCAPE {
                out.push(ESCAPE);
            }
            out.push(byte);
        }
    }
    out.push(END);
}

/// The distinct values in order of first occurrence, and the index of each value among them. `None`
/// when they are too many for a dictionary, or a sample suggests so.
fn repeated_of(text: &[u8], spans: &[Span]) -> Option<(Vec<Span>, Vec<u64>)> {
    if spans.len() >= 2 * SAMPLE_VALUES {
        let (distinct, _) = distinct_of(text, &spans[..SAMPLE_VALUES]);
        if distinct.len() > SAMPLE_VALUES - SAMPLE_VALUES / 16 {
            return None;
        }
    }
    let (distinct, ids) = distinct_of(text, spans);
    (distinct.len() < spans.len() - spans.len() / 4).then_some((distinct, ids))
}

fn distinct_of(text: &[u8], spans: &[Span]) -> (Vec<Span>, Vec<u64>) {
    let mut distinct = Vec::new();
    let mut index_of: HashMap<&[u8], u64, FixedState> = HashMap::default();
    index_of.reserve(spans.len() / 4);
    let index = |span: &Span| {
        *index_of.entry(span.of(text)).or_insert_with(|| {
            distinct.push(*span);
            distinct.len() as u64 - 1
        })
    };
    let ids = spans.iter().map(index).collect();
    (distinct, ids)
}

/// Values that are all hexadecimal digits of one even length and one case.
fn hex(text: &[u8], spans: &[Span]) -> Option<Choice> {
    let chars = spans.first()?.len();
    if chars < 4 || chars % 2 == 1 || spans.iter().any(|s| s.len() != chars) {
        return None;
    }
    let all = |digits: &[u8]| {
        spans.iter().all(|s| s.of(text).iter().all(|b| b.is_ascii_digit() || digits.contains(b)))
    };
    let upper = !all(b"abcdef");
    if upper && !all(b"ABCDEF") {
        return None;
    }
    let nibble = |b: u8| if b.is_ascii_digit() { b - b'0' } else { (b | 0x20) - b'a' + 10 };
    let mut bytes = Vec::with_capacity(spans.len() * chars / 2);
    for span in spans {
        bytes.extend(span.of(text).chunks_exact(2).map(|p| nibble(p[0]) << 4 | nibble(p[1])));
    }
    let cost = 4 + bytes.len() as u32;
    Some(Choice { column: Column::Hex { upper, chars, bytes }, cost })
}

impl Column {
    pub fn write(&self, out: &mut Sections) {
        match self {
            Column::Same(value) => {
                out.tables.push(SAME);
                put_varint(&mut out.tables, value.len() as u64);
                out.tables.extend_from_slice(value);
            }
            Column::Lines(bytes) => {
                out.tables.push(LINES);
                put_varint(&mut out.tables, bytes.len() as u64);
                out.texts.extend_from_slice(bytes);
            }
            Column::Lengths(lengths, bytes) => {
                out.tables.push(LENGTHS);
                put_varint(&mut out.tables, bytes.len() as u64);
                lengths.write(out);
                out.texts.extend_from_slice(bytes);
            }
            Column::Digits(digits) => {
                out.tables.push(DIGITS);
                digits.write(out);
            }
            Column::Hex { upper, chars, bytes } => {
                out.tables.push(HEX);
                out.tables.push(u8::from(*upper));
                put_varint(&mut out.tables, *chars as u64);
                out.numbers.extend_from_slice(bytes);
            }
            Column::Dictionary { ids, count, values } => {
                out.tables.push(DICTIONARY);
                put_varint(&mut out.tables, *count as u64);
                ids.write(out);
                values.write(out);
            }
            Column::Templates { count, texts, ids, columns } => {
                out.tables.push(TEMPLATES);
                put_varint(&mut out.tables, *count as u64);
                out.tables.extend_from_slice(texts);
                ids.write(out);
                for (classes, column) in columns {
                    out.tables.push(*classes);
                    column.write(out);
                }
            }
        }
    }
}
