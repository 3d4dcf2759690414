//! Reads columns back: first the tree of encodings with the places of their data, then only what is asked for.
//!
//! Damaged bytes give an error. Memory is bounded before it is taken: no column has more values than there are
//! rows, and all decoded text together is at most [`BUDGET_TEXTS`] times the text of the rows.

use super::CodecError;
use super::column::{
    DEPTH_MAX, DICTIONARY, DIGITS, END, ESCAPE, HEX, LENGTHS, LINES, SAME, SLOT, TEMPLATES,
};
use super::digits::DigitsView;
use super::ints::IntsView;
use super::texts::Texts;
use super::trie::Trie;
use super::wire::Reader;

/// How often the text of the rows may be held in decoded columns: once a level of encodings, in the worst case.
pub(super) const BUDGET_TEXTS: usize = DEPTH_MAX + 1;

/// A column as it stands in the sections.
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
    pub templates: Vec<Template>,
    /// The template of each value.
    pub ids: Vec<u32>,
    /// The same as it stands in the sections.
    pub ids_view: IntsView<'a>,
    /// Classes of the bytes in the column's values, and the column.
    pub columns: Vec<(u8, View<'a>)>,
}

/// Texts that stand still, and the columns of the slots between them.
pub(super) struct Template {
    pub pieces: Vec<Vec<u8>>,
    pub columns: Vec<u32>,
}

/// The three sections, read side by side.
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

    /// All values. `budget` is what may still be decoded, bytes.
    pub fn decode(&self, budget: &mut usize) -> Result<Decoded<'a>, CodecError> {
        let mut out = Texts { bytes: Vec::new(), ends: Vec::with_capacity(self.count) };
        match &self.kind {
            Kind::Same(value) => return Ok(Decoded::Same(value)),
            Kind::Lines(bytes) => {
                spend(budget, bytes.len())?;
                out.bytes.reserve(bytes.len());
                let mut from = 0;
                for end in memchr::memchr_iter(b'\n', bytes).take(self.count) {
                    out.push(&bytes[from..end]);
                    from = end + 1;
                }
                if from != bytes.len() || out.len() != self.count {
                    return Err(damaged("not as many values as rows"));
                }
            }
            Kind::Lengths(lengths, bytes) => {
                spend(budget, bytes.len())?;
                let mut end = 0u64;
                for length in lengths.decode()? {
                    end = end.saturating_add(length);
                    if end > bytes.len() as u64 {
                        return Err(damaged("values longer than their text"));
                    }
                    out.ends.push(end as u32);
                }
                if end != bytes.len() as u64 {
                    return Err(damaged("text left over"));
                }
                out.bytes.extend_from_slice(bytes);
            }
            Kind::Digits(digits) => digits.decode(&mut out, budget)?,
            Kind::Hex { upper, chars, bytes } => {
                spend(budget, bytes.len() * 2)?;
                let digits = if *upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
                out.bytes.reserve(bytes.len() * 2);
                for &byte in *bytes {
                    out.bytes.push(digits[usize::from(byte >> 4)]);
                    out.bytes.push(digits[usize::from(byte & 15)]);
                }
                let chars = chars / 2 * 2;
                out.ends.extend((1..=self.count).map(|at| (at * chars) as u32));
            }
            Kind::Dictionary { ids, values } => {
                let ids = ids.decode_indexes(values.count)?;
                return Ok(Decoded::Indexed(ids, Box::new(values.decode(budget)?)));
            }
            Kind::Templates(templates) => {
                let columns = templates.decode_columns(|_| true, budget)?;
                templates.render(&columns, |_, _| true, budget, &mut out)?;
            }
        }
        Ok(Decoded::Texts(out))
    }
}

impl<'a> TemplatesView<'a> {
    fn read(readers: &mut Readers<'a>, count: usize, depth: usize) -> Result<Self, CodecError> {
        let template_count = readers.tables.count(count)?;
        let mut trie = Trie::default();
        let mut templates = Vec::new();
        for _ in 0..template_count {
            let pieces = read_template(&mut readers.tables)?;
            let columns = trie.columns(&pieces);
            templates.push(Template { pieces, columns });
        }
        let ids_view = IntsView::read(&mut readers.tables, &mut readers.numbers, count)?;
        let ids = ids_view.decode_indexes(template_count)?;
        let mut rows = vec![0usize; template_count];
        for &id in &ids {
            rows[id as usize] += 1;
        }
        let mut counts = vec![0usize; trie.len()];
        for (template, rows) in templates.iter().zip(rows) {
            for &column in &template.columns {
                counts[column as usize] += rows;
            }
        }
        let mut columns = Vec::new();
        for count in counts {
            let classes = readers.tables.byte()?;
            columns.push((classes, View::read(readers, count, depth + 1)?));
        }
        Ok(TemplatesView { templates, ids, ids_view, columns })
    }

    /// The columns of the templates that are wanted; others are left out.
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
                let place = &mut decoded[column as usize];
                if place.is_none() {
                    *place = Some(self.columns[column as usize].1.decode(budget)?);
                }
            }
        }
        Ok(decoded)
    }

    /// Renders the values that are wanted, by row and template. Their columns must have been decoded.
    pub fn render(
        &self,
        columns: &[Option<Decoded<'_>>],
        wanted: impl Fn(usize, u32) -> bool,
        budget: &mut usize,
        out: &mut Texts,
    ) -> Result<(), CodecError> {
        let mut next = vec![0u32; columns.len()];
        for (row, &id) in self.ids.iter().enumerate() {
            let template = &self.templates[id as usize];
            if !wanted(row, id) {
                for &column in &template.columns {
                    next[column as usize] += 1;
                }
                continue;
            }
            let start = out.bytes.len();
            out.bytes.extend_from_slice(&template.pieces[0]);
            for (piece, &column) in template.pieces[1..].iter().zip(&template.columns) {
                let column = column as usize;
                let decoded = columns[column].as_ref().expect("the column of a wanted row");
                out.bytes.extend_from_slice(decoded.get(next[column] as usize));
                out.bytes.extend_from_slice(piece);
                next[column] += 1;
            }
            spend(budget, out.bytes.len() - start)?;
            out.end();
        }
        Ok(())
    }
}

fn read_template(tables: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, CodecError> {
    let mut pieces = vec![Vec::new()];
    loop {
        let byte = match tables.byte()? {
            END => return Ok(pieces),
            SLOT => {
                pieces.push(Vec::new());
                continue;
            }
            ESCAPE => tables.byte()?,
            byte => byte,
        };
        pieces.last_mut().expect("at least one").push(byte);
    }
}

/// Values of a column, in the form that costs least.
pub(super) enum Decoded<'a> {
    Same(&'a [u8]),
    Texts(Texts),
    Indexed(Vec<u32>, Box<Decoded<'a>>),
}

impl Decoded<'_> {
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        match self {
            Decoded::Same(value) => value,
            Decoded::Texts(texts) => texts.get(at),
            Decoded::Indexed(ids, values) => values.get(ids[at] as usize),
        }
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
