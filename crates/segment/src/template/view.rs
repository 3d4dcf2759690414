//! Reads columns back: first the tree of encodings with the positions of their data, then only the
//! requested values.
//!
//! Damaged bytes give an error. Memory is limited before it is allocated: no column has more values
//! than there are rows, and all decoded text together is at most [`BUDGET_TEXTS`] times the text of
//! the rows.

use std::borrow::Cow;

use super::CodecError;
use super::column::{
    DEPTH_MAX, DICTIONARY, DIGITS, END, ESCAPE, HEX, LENGTHS, LINES, SAME, SLOT, TEMPLATES,
};
use super::digits::DigitsView;
use super::ints::IntsView;
use super::texts::{Builder, STRIDE_BYTES, Span};
use super::trie::Trie;
use super::wire::Reader;

/// Limit on decoded text as a multiple of the text of the rows: in the worst case, every nesting
/// level of encodings holds it once.
pub(super) const BUDGET_TEXTS: usize = DEPTH_MAX + 1;

/// Bytes per value that are reserved at first; the buffer grows beyond that.
const VALUE_BYTES: usize = 8;

/// A column as it is stored in the sections.
pub(super) struct View<'a> {
    pub count: usize,
    pub kind: Kind<'a>,
}

pub(super) enum Kind<'a> {
    Same(&'a [u8]),
    Lines(&'a [u8]),
    Lengths(IntsView<'a>, &'a [u8]),
    Digits(DigitsView<'a>),
    Hex { upper: bool, chars: usize, bytes: &'a [u8] },
    Dictionary { ids: IntsView<'a>, values: Box<View<'a>> },
    Templates(TemplatesView<'a>),
}

pub(super) struct TemplatesView<'a> {
    /// The pieces of all templates, back to back, and [`STRIDE_BYTES`] spare bytes.
    texts: Vec<u8>,
    pub templates: Vec<Template>,
    /// The template of each value.
    pub ids: Vec<u32>,
    /// The same numbers as they are stored in the sections.
    pub ids_view: IntsView<'a>,
    /// For each column: the classes of the bytes in its values, and the column.
    pub columns: Vec<(u8, View<'a>)>,
}

/// A template: its static texts (which include columns with a single value), and the columns of the
/// slots between them.
pub(super) struct Template {
    /// Spans in the texts of all templates.
    pieces: Vec<Span>,
    pub columns: Vec<u32>,
}

/// The three sections, read in parallel.
pub(super) struct Readers<'a> {
    pub tables: Reader<'a>,
    pub numbers: Reader<'a>,
    pub texts: Reader<'a>,
}

impl<'a> View<'a> {
    pub fn read(readers: &mut Readers<'a>, count: usize, depth: usize) -> Result<Self, CodecError> {
        let Readers { tables, numbers, texts } = readers;
        let kind = match tables.byte()? {
            SAME => Kind::Same(tables.string()?),
            LINES => Kind::Lines(texts.take(tables.count(usize::MAX)?)?),
            LENGTHS => {
                let length = tables.count(usize::MAX)?;
                let lengths = IntsView::read(tables, numbers, count)?;
                Kind::Lengths(lengths, texts.take(length)?)
            }
            DIGITS => Kind::Digits(DigitsView::read(tables, numbers, count)?),
            HEX => {
                let upper = tables.byte()? != 0;
                let chars = tables.count(u32::MAX as usize)?;
                let bytes = numbers.take((chars / 2).saturating_mul(count))?;
                Kind::Hex { upper, chars, bytes }
            }
            DICTIONARY if depth < DEPTH_MAX => {
                let values = tables.count(count)?;
                let ids = IntsView::read(tables, numbers, count)?;
                let values = Box::new(View::read(readers, values, depth + 1)?);
                Kind::Dictionary { ids, values }
            }
            TEMPLATES if depth < DEPTH_MAX => {
                Kind::Templates(TemplatesView::read(readers, count, depth)?)
            }
            _ => return Err(tables.damaged("an unknown encoding")),
        };
        Ok(View { count, kind })
    }

    /// Decodes all values. `budget` is how many bytes may still be decoded.
    pub fn decode(&self, budget: &mut usize) -> Result<Decoded<'a>, CodecError> {
        let (source, spans) = match &self.kind {
            Kind::Same(value) => {
                let span = Span { start: 0, end: value.len() as u32 };
                (Cow::from(*value), vec![span; self.count])
            }
            Kind::Lines(bytes) => (Cow::from(*bytes), self.line_spans(bytes)?),
            Kind::Lengths(lengths, bytes) => (Cow::from(*bytes), spans(lengths, bytes)?),
            Kind::Digits(digits) => owned(digits.decode(budget)?.finish()),
            Kind::Hex { upper, chars, bytes } => {
                spend(budget, bytes.len() * 2)?;
                self.decode_hex(*upper, *chars, bytes)
            }
            Kind::Dictionary { ids, values } => {
                let ids = ids.decode_indexes(values.count)?;
                let Decoded { source, spans } = values.decode(budget)?;
                (source, ids.into_iter().map(|id| spans[id as usize]).collect())
            }
            Kind::Templates(templates) => {
                let columns = templates.decode_columns(|_| true, budget)?;
                let mut out = Builder::new(self.count, self.count * VALUE_BYTES);
                templates.render(&columns, |_, _| true, budget, &mut out)?;
                owned(out.finish())
            }
        };
        Ok(Decoded { source, spans })
    }

    fn line_spans(&self, bytes: &[u8]) -> Result<Vec<Span>, CodecError> {
        let mut start = 0;
        let mut spans = Vec::with_capacity(self.count);
        for end in memchr::memchr_iter(b'\n', bytes).take(self.count) {
            spans.push(Span { start, end: end as u32 });
            start = end as u32 + 1;
        }
        if start as usize != bytes.len() || spans.len() != self.count {
            return Err(damaged("not as many values as rows"));
        }
        Ok(spans)
    }

    fn decode_hex(&self, upper: bool, chars: usize, bytes: &[u8]) -> (Cow<'a, [u8]>, Vec<Span>) {
        let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let mut text = Vec::with_capacity(bytes.len() * 2 + STRIDE_BYTES);
        for &byte in bytes {
            let pair = [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
            text.extend_from_slice(&pair);
        }
        text.resize(text.len() + STRIDE_BYTES, 0);
        let each = (chars / 2 * 2) as u32;
        let span = |at: usize| Span { start: at as u32 * each, end: (at as u32 + 1) * each };
        (Cow::from(text), (0..self.count).map(span).collect())
    }
}

fn owned<'a>((text, spans): (Vec<u8>, Vec<Span>)) -> (Cow<'a, [u8]>, Vec<Span>) {
    (Cow::from(text), spans)
}

fn spans(lengths: &IntsView<'_>, bytes: &[u8]) -> Result<Vec<Span>, CodecError> {
    let mut start = 0u32;
    let span = |length: u64| {
        let end = u64::from(start).saturating_add(length);
        if end > bytes.len() as u64 {
            return Err(damaged("values longer than their text"));
        }
        let span = Span { start, end: end as u32 };
        start = end as u32;
        Ok(span)
    };
    let spans = lengths.decode()?.into_iter().map(span).collect::<Result<Vec<_>, _>>()?;
    if start as usize != bytes.len() {
        return Err(damaged("text left over"));
    }
    Ok(spans)
}

impl<'a> TemplatesView<'a> {
    fn read(readers: &mut Readers<'a>, count: usize, depth: usize) -> Result<Self, CodecError> {
        let template_count = readers.tables.count(count)?;
        let mut trie = Trie::default();
        let mut templates = Vec::new();
        let mut texts = Vec::new();
        for _ in 0..template_count {
            let pieces = read_template(&mut readers.tables, &mut texts)?;
            let columns = trie.columns(pieces.iter().map(|piece| piece.of(&texts)));
            templates.push(Template { pieces, columns });
        }
        let ids_view = IntsView::read(&mut readers.tables, &mut readers.numbers, count)?;
        let ids = ids_view.decode_indexes(template_count)?;
        // Two counters per template, since a row often has the template of the previous row and
        // would have to wait for its counter.
        let mut rows = vec![[0usize; 2]; template_count];
        for pair in ids.chunks(2) {
            pair.iter().enumerate().for_each(|(at, &id)| rows[id as usize][at] += 1);
        }
        let mut counts = vec![0usize; trie.len()];
        for (template, [even, odd]) in templates.iter().zip(rows) {
            for &column in &template.columns {
                counts[column as usize] += even + odd;
            }
        }
        let mut columns = Vec::new();
        for count in counts {
            let classes = readers.tables.byte()?;
            columns.push((classes, View::read(readers, count, depth + 1)?));
        }
        let (texts, templates) = with_constants(&texts, &templates, &columns);
        Ok(TemplatesView { texts, templates, ids, ids_view, columns })
    }

    /// The static texts of a template.
    pub fn pieces(&self, template: &Template) -> impl ExactSizeIterator<Item = &[u8]> {
        template.pieces.iter().map(|piece| piece.of(&self.texts))
    }

    /// Decodes the columns of the wanted templates; others are skipped.
    pub fn decode_columns(
        &self,
        wanted: impl Fn(u32) -> bool,
        budget: &mut usize,
    ) -> Result<Vec<Option<Decoded<'a>>>, CodecError> {
        let mut decoded: Vec<Option<Decoded<'a>>> = self.columns.iter().map(|_| None).collect();
        for (id, template) in self.templates.iter().enumerate() {
            if !wanted(id as u32) {
                continue;
            }
            for &column in &template.columns {
                let slot = &mut decoded[column as usize];
                if slot.is_none() {
                    *slot = Some(self.columns[column as usize].1.decode(budget)?);
                }
            }
        }
        Ok(decoded)
    }

    /// Renders the wanted values, given by row and template. Their columns must have been decoded.
    pub fn render(
        &self,
        columns: &[Option<Decoded<'_>>],
        wanted: impl Fn(usize, u32) -> bool,
        budget: &mut usize,
        out: &mut Builder,
    ) -> Result<(), CodecError> {
        // The remaining values of each column.
        let mut left: Vec<(&[u8], &[Span])> = vec![(&[], &[]); columns.len()];
        for (left, column) in left.iter_mut().zip(columns) {
            if let Some(column) = column {
                *left = (&column.source, &column.spans);
            }
        }
        for (row, &id) in self.ids.iter().enumerate() {
            let template = &self.templates[id as usize];
            if !wanted(row, id) {
                for &column in &template.columns {
                    let (_, spans) = &mut left[column as usize];
                    *spans = spans.get(1..).unwrap_or_default();
                }
                continue;
            }
            let start = out.len();
            let (first, others) = template.pieces.split_first().expect("at least one piece");
            out.append(&self.texts, first.start as usize, first.len());
            for (piece, &column) in others.iter().zip(&template.columns) {
                let (source, spans) = &mut left[column as usize];
                let (span, behind) = spans.split_first().expect("the column of a wanted row");
                *spans = behind;
                out.append(source, span.start as usize, span.len());
                out.append(&self.texts, piece.start as usize, piece.len());
            }
            spend(budget, out.len() - start)?;
            out.end();
        }
        Ok(())
    }
}

/// The templates, with columns of a single value turned into static text.
fn with_constants(
    texts: &[u8],
    templates: &[Template],
    columns: &[(u8, View<'_>)],
) -> (Vec<u8>, Vec<Template>) {
    let mut merged_texts = Vec::with_capacity(texts.len());
    let merge = |template: &Template| {
        let mut merged = Template { pieces: Vec::new(), columns: Vec::new() };
        let mut start = merged_texts.len() as u32;
        for (at, piece) in template.pieces.iter().enumerate() {
            merged_texts.extend_from_slice(piece.of(texts));
            if let Some(&column) = template.columns.get(at) {
                if let Kind::Same(value) = columns[column as usize].1.kind {
                    merged_texts.extend_from_slice(value);
                    continue;
                }
                merged.columns.push(column);
            }
            merged.pieces.push(Span { start, end: merged_texts.len() as u32 });
            start = merged_texts.len() as u32;
        }
        merged
    };
    let templates = templates.iter().map(merge).collect();
    merged_texts.resize(merged_texts.len() + STRIDE_BYTES, 0);
    (merged_texts, templates)
}

/// Appends the pieces of the next template to `texts`, and returns their spans.
fn read_template(tables: &mut Reader<'_>, texts: &mut Vec<u8>) -> Result<Vec<Span>, CodecError> {
    let mut pieces = Vec::new();
    let mut start = texts.len() as u32;
    loop {
        match tables.byte()? {
            mark @ (END | SLOT) => {
                let end = texts.len() as u32;
                pieces.push(Span { start, end });
                start = end;
                if mark == END {
                    return Ok(pieces);
                }
            }
            ESCAPE => texts.push(tables.byte()?),
            byte => texts.push(byte),
        }
    }
}

/// Values of a column, each a span of one text.
pub(super) struct Decoded<'a> {
    source: Cow<'a, [u8]>,
    spans: Vec<Span>,
}

impl Decoded<'_> {
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        self.spans[at].of(&self.source)
    }
}

#[inline]
fn spend(budget: &mut usize, bytes: usize) -> Result<(), CodecError> {
    *budget = budget.checked_sub(bytes).ok_or_else(CodecError::too_large)?;
    Ok(())
}

fn damaged(problem: &'static str) -> CodecError {
    CodecError { section: "texts", at: 0, problem }
}
