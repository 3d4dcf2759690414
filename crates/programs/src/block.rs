//! Lines as a program reads them.
//!
//! *Raw* input is the line as it was sent. A newline inside a line becomes the two characters `\n`,
//! and a NUL byte `\0`, so that a line stays one record in every AWK; other bytes, backslashes
//! among them, stay as they are.
//!
//! *Fields* are columns between tabs, after a header line with their names. In values, a backslash
//! is written `\\`, a tab `\t`, a newline `\n`, a carriage return `\r`, a NUL byte `\0`: the value
//! can be restored. A field that the line does not have is empty. The field separator of AWK is
//! set to the tab, so that `$1` is the first field named.

use memchr::{memchr_iter, memchr2};

/// A longer input line is cut, and counted in [`InputBlock::lines_cut`].
///
/// limits.md, Programs of users: an input line | {} | the rest of the line is cut off, and the line
/// counted
pub const INPUT_LINE_BYTES_MAX: usize = 1 << 20;

/// What a program reads of each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The raw line.
    Raw,
    /// The fields of these names as columns.
    Fields(Vec<String>),
}

impl Input {
    /// What stands before the first line, newline included; nothing for raw lines.
    pub fn header(&self) -> Vec<u8> {
        match self {
            Self::Raw => Vec::new(),
            Self::Fields(names) => {
                let mut out = Vec::new();
                for (i, name) in names.iter().enumerate() {
                    if i > 0 {
                        out.push(b'\t');
                    }
                    escape(name.as_bytes(), &mut out);
                }
                out.push(b'\n');
                out
            }
        }
    }
}

/// Encoded lines on their way to a program. The caller fills it, feeds it, and reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct InputBlock {
    bytes: Vec<u8>,
    /// Bytes at the start that a run has taken.
    taken: usize,
    lines: u64,
    lines_cut: u64,
}

impl InputBlock {
    /// A block without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all lines and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.taken, self.lines, self.lines_cut) = (0, 0, 0);
    }

    /// Appends what stands before the first line.
    pub(crate) fn push_header(&mut self, input: &Input) {
        self.bytes.extend(input.header());
    }

    /// Appends a raw line, without its newline.
    pub fn push_raw(&mut self, line: &[u8]) {
        let line = self.cut(line);
        self.lines += 1;
        if memchr2(b'\n', 0, line).is_none() {
            self.bytes.extend_from_slice(line);
        } else {
            for &byte in line {
                match byte {
                    b'\n' => self.bytes.extend_from_slice(b"\\n"),
                    0 => self.bytes.extend_from_slice(b"\\0"),
                    byte => self.bytes.push(byte),
                }
            }
        }
        self.bytes.push(b'\n');
    }

    /// Appends the values of the fields of a line, in the order of [`Input::Fields`].
    pub fn push_fields<'a>(&mut self, values: impl IntoIterator<Item = &'a [u8]>) {
        for (i, value) in values.into_iter().enumerate() {
            self.push_field(i == 0, value);
        }
        self.end_line();
    }

    /// Appends one value of a line whose values come one by one; after the last one, the caller
    /// ends the line with [`InputBlock::end_line`].
    pub fn push_field(&mut self, is_first: bool, value: &[u8]) {
        if !is_first {
            self.bytes.push(b'\t');
        }
        let value = self.cut(value);
        escape(value, &mut self.bytes);
    }

    /// Ends a line of values.
    pub fn end_line(&mut self) {
        self.bytes.push(b'\n');
        self.lines += 1;
    }

    /// Bytes that no run has taken.
    pub fn bytes(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Appends the raw lines of a text whose lines end with newlines.
    pub fn push_text(&mut self, text: &[u8]) {
        let mut start = 0;
        for end in memchr_iter(b'\n', text) {
            self.push_raw(&text[start..end]);
            start = end + 1;
        }
        if start < text.len() {
            self.push_raw(&text[start..]);
        }
    }

    /// Lines that were appended since the last [`InputBlock::clear`].
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines of those that were longer than [`INPUT_LINE_BYTES_MAX`].
    pub fn lines_cut(&self) -> u64 {
        self.lines_cut
    }

    /// Whether a run has taken everything.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// The bytes that no run has taken.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// A run has taken `bytes` more; returns the lines that end in them.
    pub(crate) fn advance(&mut self, bytes: usize) -> u64 {
        let lines = memchr_iter(b'\n', &self.rest()[..bytes]).count() as u64;
        self.taken += bytes;
        lines
    }

    fn cut<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        if line.len() > INPUT_LINE_BYTES_MAX {
            self.lines_cut += 1;
        }
        &line[..line.len().min(INPUT_LINE_BYTES_MAX)]
    }
}

fn escape(value: &[u8], out: &mut Vec<u8>) {
    let needs_escape =
        memchr::memchr3(b'\t', b'\n', b'\\', value).is_some() || memchr2(b'\r', 0, value).is_some();
    if !needs_escape {
        out.extend_from_slice(value);
        return;
    }
    for &byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\0"),
            byte => out.push(byte),
        }
    }
}

/// The value that [`escape`] wrote; for programs in other languages and for tests.
#[cfg(test)]
fn unescape(column: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = column;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(match rest[at + 1] {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'0' => 0,
            byte => byte,
        });
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_raw_line_stays_one_record() {
        let mut block = InputBlock::new();
        block.push_raw(b"a\nb\0c\\n\td\r");
        block.push_raw(b"");
        assert_eq!(block.rest(), b"a\\nb\\0c\\n\td\r\n\n");
        assert_eq!(block.lines(), 2);
        assert_eq!(block.advance(12), 0);
        assert_eq!(block.advance(2), 2);
        assert!(block.is_empty());
    }

    #[test]
    fn long_lines_are_cut_and_counted() {
        let mut block = InputBlock::new();
        block.push_raw(&vec![b'x'; INPUT_LINE_BYTES_MAX]);
        assert_eq!(block.lines_cut(), 0);
        block.push_raw(&vec![b'x'; INPUT_LINE_BYTES_MAX + 1]);
        assert_eq!(block.lines_cut(), 1);
        assert_eq!(block.rest().len(), 2 * (INPUT_LINE_BYTES_MAX + 1));
    }

    #[test]
    fn text_is_cut_into_lines() {
        let mut block = InputBlock::new();
        block.push_text(b"a\n\nb");
        assert_eq!((block.rest(), block.lines()), (b"a\n\nb\n".as_slice(), 3));
    }

    #[test]
    fn a_header_names_the_columns() {
        let input = Input::Fields(vec!["status".into(), "a\tb".into()]);
        assert_eq!(input.header(), b"status\ta\\tb\n");
        assert_eq!(Input::Raw.header(), b"");
    }

    proptest! {
        #[test]
        fn values_of_fields_come_back(values in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![
                Just(b'\\'), Just(b'\t'), Just(b'\n'), Just(b'n'), Just(0), any::<u8>()
            ], 0..12), 1..5,
        )) {
            let mut block = InputBlock::new();
            block.push_fields(values.iter().map(Vec::as_slice));
            let line = block.rest().strip_suffix(b"\n").unwrap();
            prop_assert!(!line.contains(&b'\n'));
            let back: Vec<Vec<u8>> = line.split(|b| *b == b'\t').map(unescape).collect();
            prop_assert_eq!(back, values);
        }
    }
}
