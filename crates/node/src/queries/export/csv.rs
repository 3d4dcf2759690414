//! CSV as RFC 4180 has it: a header, lines that end with CR LF, and values in quotes where they
//! need them.
//!
//! The columns are known before the first row. Values are unchanged, even if a spreadsheet would
//! take them for formulas.

use query::{ResultRows, Scratch};

/// Limit of the columns of a table. If there are more fields, the query must name those it wants.
pub const COLUMNS_MAX: usize = 1_000;

/// Values up to this size keep their buffer for the next row.
const VALUE_BYTES_KEPT: usize = 64 << 10;

/// Writes rows below a header.
pub struct CsvWriter {
    columns: Vec<String>,
    /// The values of the row being written, by column.
    values: Vec<Vec<u8>>,
    header_due: bool,
}

impl CsvWriter {
    /// Writes these columns; `header` says whether the output begins with their names.
    pub fn new(columns: Vec<String>, header: bool) -> CsvWriter {
        let values = vec![Vec::new(); columns.len()];
        CsvWriter { columns, values, header_due: header }
    }

    /// Appends the header, once.
    pub fn header(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.header_due) {
            write_line(self.columns.iter().map(|name| name.as_bytes()), out);
        }
    }

    /// Appends row `index`. An error names a field that has no column.
    pub fn row(
        &mut self,
        rows: &ResultRows,
        index: usize,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        for value in &mut self.values {
            match value.capacity() > VALUE_BYTES_KEPT {
                true => *value = Vec::new(),
                false => value.clear(),
            }
        }
        let mut unknown = None;
        // Fields are mostly in the order of the columns.
        let mut at = 0;
        rows.visit(index, scratch, |name, value| {
            let found = (at..self.columns.len()).chain(0..at).find(|&p| self.columns[p] == name);
            match found {
                Some(found) => {
                    self.values[found].extend_from_slice(value);
                    at = found + 1;
                }
                None => unknown = Some(name.to_owned()),
            }
        });
        match unknown {
            Some(name) => Err(name),
            None => {
                write_line(self.values.iter().map(Vec::as_slice), out);
                Ok(())
            }
        }
    }
}

fn write_line<'a>(values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_value(value, out);
    }
    if out.len() == start {
        // The only value is empty; many readers skip empty lines.
        out.extend_from_slice(b"\"\"");
    }
    out.extend_from_slice(b"\r\n");
}

fn write_value(value: &[u8], out: &mut Vec<u8>) {
    if !value.iter().any(|b| matches!(b, b'"' | b',' | b'\r' | b'\n')) {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    for &byte in value {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_need_it() {
        for (values, expected) in [
            (&["a", "", "b c"][..], "a,,b c\r\n"),
            (
                &["a,b", "say \"hi\"", "two\nlines", "cr\r"],
                "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"cr\r\"\r\n",
            ),
            (&["\""], "\"\"\"\"\r\n"),
            (&[""], "\"\"\r\n"),
            (&["", ""], ",\r\n"),
            (&[" spaces "], " spaces \r\n"),
        ] {
            let mut out = Vec::new();
            write_line(values.iter().map(|v| v.as_bytes()), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
