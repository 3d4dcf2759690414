//! Templates: a column of log messages as static texts and variable values.
//!
//! The lines of a program are instances of a few texts. Those static texts are stored once; a line
//! is the number of its template and the values of its slots. The values of one slot form a column
//! of their own, in the encoding that fits: integers and times as differences, repeated values as a
//! dictionary, structured values as templates again. Every value is restored byte by byte, whatever
//! bytes it has.
//!
//! The encoded bytes are three uncompressed sections, laid out so that zstd compresses them best;
//! the caller compresses each as one frame:
//!
//! | section | content |
//! |---|---|
//! | tables | version; the tree of encodings in preorder, with the texts of templates |
//! | numbers | streams of integers and hexadecimal numbers, in the order of the tree |
//! | texts | values that are stored as they are, in the order of the tree |
//!
//! `docs/format/templates.md` draws them byte by byte.
//!
//! Lines whose template's static text contains a needle are counted without decoding any of them;
//! otherwise only lines of templates whose slots could contain it are decoded
//! ([`TemplateColumn::matching_rows`]).
//!
//! Measurements with whole lines as values (`crates/bench/src/text_codec.rs`): blocks of the twelve
//! sample logs of 0.15–2.4 MB become 2.35 times smaller than with zstd -3, and 1.69 times smaller
//! than with zstd -19 (templates compressed at level 19). By level and block size, the geometric
//! mean of the ratio to zstd -3 in the same blocks, for three generated logs of 16 MiB:
//!
//! | block | 3 | 6 | 9 | 12 | 15 | 19 |
//! |---|---|---|---|---|---|---|
//! | 2 MiB | 2.01 | 2.04 | 2.06 | 2.07 | 2.15 | 2.15 |
//! | 4 MiB | 2.20 | 2.26 | 2.26 | 2.27 | 2.32 | 2.37 |
//! | 8 MiB | 2.62 | 2.69 | 2.70 | 2.71 | 2.74 | 2.82 |
//!
//! Levels above 9 gain one to five percent and take five to thirty times as long; larger blocks
//! gain more than any level, but cost memory and make reading a single line slower. A longer window
//! gains nothing: the sections of a block fit into the usual one.
//!
//! Invariants: the encoding is a function of the values alone; decoding returns the values or an
//! error, and uses memory in proportion to the text and the rows that the caller announces.
//!
//! Left out: compression and checksums (done by the caller), and templates shared between blocks:
//! each block can be read without any other.

mod column;
mod digits;
mod edges;
mod estimate;
mod ints;
mod learn;
mod outline;
mod passing;
mod search;
mod texts;
mod token;
mod trie;
mod view;
mod wire;

#[cfg(test)]
mod tests;

pub use texts::{Texts, Values};

pub(crate) use edges::Edges;
use estimate::Estimator;
use texts::{Builder, Span};
use view::{BUDGET_TEXTS, Kind, Readers, View};
use wire::{Reader, put_varint};

use crate::needle::{Needle, class_of};
use record::automaton::{Automaton, AutomatonState};
pub use record::columns::Accept;

/// How many sections a column has.
pub const SECTIONS: usize = 3;
/// Largest text of a column. The caller's blocks are far smaller.
pub const TEXT_BYTES_MAX: usize = 1 << 30;
const VERSION: u64 = 1;

/// The sections are damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("templates: section {section} is damaged at byte {at}: {problem}")]
pub struct CodecError {
    /// The section: "tables", "numbers" or "texts".
    pub section: &'static str,
    /// Byte offset in the section, if known.
    pub at: usize,
    /// The problem.
    pub problem: &'static str,
}

impl CodecError {
    fn too_large() -> CodecError {
        CodecError { section: "tables", at: 0, problem: "more text than announced" }
    }
}

/// An encoded column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The sections: tables, numbers, texts.
    pub sections: [Vec<u8>; SECTIONS],
}

#[derive(Default)]
struct Sections {
    tables: Vec<u8>,
    numbers: Vec<u8>,
    texts: Vec<u8>,
}

/// Encodes a column of values.
///
/// # Panics
/// If the text is larger than [`TEXT_BYTES_MAX`].
pub fn encode(values: Values<'_>) -> Encoded {
    assert!(
        values.text().len() <= TEXT_BYTES_MAX,
        "a block is smaller than {TEXT_BYTES_MAX} bytes"
    );
    let mut sections = Sections::default();
    put_varint(&mut sections.tables, VERSION);
    let column = column::encode(values.text(), &values.spans(), &mut Estimator::new());
    column.write(&mut sections);
    let Sections { tables, numbers, texts } = sections;
    Encoded { sections: [tables, numbers, texts] }
}

/// Decodes all values of a column; see [`TemplateColumn::open`].
pub fn decode(
    sections: [&[u8]; SECTIONS],
    rows: usize,
    text_bytes: usize,
) -> Result<Texts, CodecError> {
    TemplateColumn::open(sections, rows, text_bytes)?.decode()
}

/// As [`decode`], with a newline behind each value.
pub(crate) fn decode_lines(
    sections: [&[u8]; SECTIONS],
    rows: usize,
    text_bytes: usize,
) -> Result<Texts, CodecError> {
    let column = TemplateColumn::open(sections, rows, text_bytes)?;
    column.decode_all(Builder::lines(rows, text_bytes))
}

/// An opened column: its tables are read, its values are not decoded yet.
pub struct TemplateColumn<'a> {
    view: View<'a>,
    text_bytes: usize,
}

impl<'a> TemplateColumn<'a> {
    /// Reads the tables. `rows` is how many values were encoded and `text_bytes` their total
    /// length; they bound the memory of everything that is decoded.
    pub fn open(
        sections: [&'a [u8]; SECTIONS],
        rows: usize,
        text_bytes: usize,
    ) -> Result<Self, CodecError> {
        let [tables, numbers, texts] = sections;
        let mut readers = Readers {
            tables: Reader::new("tables", tables),
            numbers: Reader::new("numbers", numbers),
            texts: Reader::new("texts", texts),
        };
        if readers.tables.varint()? != VERSION {
            return Err(readers.tables.damaged("an unknown version"));
        }
        let view = View::read(&mut readers, rows, 0)?;
        readers.tables.finish()?;
        readers.numbers.finish()?;
        readers.texts.finish()?;
        Ok(TemplateColumn { view, text_bytes })
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.view.count
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tree of encodings, one line each: the encoding of each column and its bytes, as measured
    /// by `size`. Texts of the log are escaped.
    pub fn outline(&self, size: &dyn Fn(&[u8]) -> usize) -> Vec<String> {
        outline::lines(&self.view, size)
    }

    /// All values.
    pub fn decode(&self) -> Result<Texts, CodecError> {
        self.decode_all(self.builder())
    }

    fn decode_all(&self, out: Builder) -> Result<Texts, CodecError> {
        let texts = self.decode_where(|_| true, out)?;
        if texts.bytes.len() - texts.len() * (texts.gap as usize) < self.text_bytes {
            return Err(CodecError {
                section: "texts",
                at: 0,
                problem: "less text than announced",
            });
        }
        Ok(texts)
    }

    /// The values of `rows`, which must ascend.
    ///
    /// # Panics
    /// If a row does not exist, or the rows do not ascend.
    pub fn decode_rows(&self, rows: &[u32]) -> Result<Texts, CodecError> {
        assert!(rows.is_sorted(), "rows ascend");
        let mut wanted = vec![false; self.len()];
        for &row in rows {
            wanted[row as usize] = true;
        }
        self.decode_where(|row| wanted[row], self.builder())
    }

    /// The rows whose value contains `needle`, ascending; with `accept`, only occurrences that it
    /// accepts count.
    pub fn matching_rows(
        &self,
        needle: &[u8],
        accept: Option<Accept<'_>>,
    ) -> Result<Vec<u32>, CodecError> {
        let found = self.matching(needle, accept)?;
        Ok((0..).zip(found).filter_map(|(row, found)| found.then_some(row)).collect())
    }

    /// How many values contain `needle`; see [`Self::matching_rows`].
    pub fn count_containing(
        &self,
        needle: &[u8],
        accept: Option<Accept<'_>>,
    ) -> Result<usize, CodecError> {
        Ok(self.matching(needle, accept)?.into_iter().filter(|&found| found).count())
    }

    /// For each value, whether it contains `needle`; see [`Self::matching_rows`].
    pub fn matching(
        &self,
        needle: &[u8],
        accept: Option<Accept<'_>>,
    ) -> Result<Vec<bool>, CodecError> {
        self.matching_needle(&Needle::new(needle, accept))
    }

    /// For each value, whether it contains the needle.
    pub(crate) fn matching_needle(&self, needle: &Needle<'_>) -> Result<Vec<bool>, CodecError> {
        let mut found = vec![false; self.len()];
        search::matching(&self.view, needle, &mut self.budget(), &mut found)?;
        Ok(found)
    }

    /// The text that all values begin and end with.
    pub(crate) fn edges(&self) -> Edges {
        edges::edges(&self.view)
    }

    /// The automaton's final state for each value: one of its first three states.
    pub fn passing(&self, automaton: &Automaton) -> Result<Vec<AutomatonState>, CodecError> {
        passing::passing(&self.view, automaton, &mut self.budget())
    }

    fn builder(&self) -> Builder {
        Builder::new(self.len(), self.text_bytes)
    }

    fn decode_where(
        &self,
        wanted: impl Fn(usize) -> bool,
        mut out: Builder,
    ) -> Result<Texts, CodecError> {
        let mut budget = self.budget();
        if let Kind::Templates(templates) = &self.view.kind {
            let mut needed = vec![false; templates.templates.len()];
            for (row, &id) in templates.ids.iter().enumerate() {
                needed[id as usize] |= wanted(row);
            }
            let columns = templates.decode_columns(|id| needed[id as usize], &mut budget)?;
            templates.render(&columns, |row, _| wanted(row), &mut budget, &mut out)?;
        } else {
            let decoded = self.view.decode(&mut budget)?;
            for row in (0..self.len()).filter(|&row| wanted(row)) {
                let value = decoded.get(row);
                if out.len() + value.len() > self.text_bytes {
                    return Err(CodecError::too_large());
                }
                out.append(value, 0, value.len());
                out.end();
            }
        }
        if out.len() > self.text_bytes {
            return Err(CodecError::too_large());
        }
        Ok(out.finish_exactly())
    }

    fn budget(&self) -> usize {
        // Empty values need no budget; a column of digits is charged before it is rendered.
        self.text_bytes * BUDGET_TEXTS + 4096
    }
}

fn classes_of(text: &[u8], spans: &[Span]) -> u8 {
    spans.iter().flat_map(|s| s.of(text)).fold(0, |classes, &byte| classes | class_of(byte))
}
