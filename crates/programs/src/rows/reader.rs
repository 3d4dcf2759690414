//! The output of a program, in reads of any size, to rows within limits.
//!
//! A line that is no row is counted and the first ones are kept for the operator; the rows around
//! it count. Too many such lines end the run: the output is then something else than rows.

use thiserror::Error;

use super::Row;
use super::parse::{RowProblem, parse_row};
use crate::limits::OutputLimits;

/// Rejected lines that are kept with their text; further ones are counted alone.
const KEPT_MAX: usize = 10;
/// Characters of a rejected line that are kept.
const LINE_CHARS_MAX: usize = 200;

/// A line of output that is no row.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("output line {line_number}: {problem}: {line}")]
pub struct RowError {
    /// Number of the line, from 1.
    pub line_number: u64,
    /// The first characters of the line.
    pub line: String,
    /// What is wrong.
    pub problem: RowProblem,
}

/// The lines of output that are no rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// How many there were.
    pub lines: u64,
    /// The first of them.
    pub first: Vec<RowError>,
}

/// Why reading the output ends the run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OutputError {
    /// More bytes than a run may print.
    #[error("printed more than {bytes_max} bytes; a summary is meant to be small: print in END")]
    Bytes {
        /// The limit.
        bytes_max: u64,
    },
    /// More rows than a run may print.
    #[error(
        "printed more than {rows_max} rows; group by fewer fields, or by fields with fewer values"
    )]
    Rows {
        /// The limit.
        rows_max: u64,
    },
    /// More lines that are no rows than a run may print.
    #[error("printed {lines} lines that are no rows; the first: {first}")]
    Garbage {
        /// How many there were.
        lines: u64,
        /// The first of them.
        first: RowError,
    },
}

/// Reads rows from output; see the module.
#[derive(Debug)]
pub struct RowReader {
    limits: OutputLimits,
    /// The beginning of a line whose newline has not come; bounded by the limit of a line.
    partial: Vec<u8>,
    /// The line in `partial` is too long: the rest of it is skipped.
    is_skipping: bool,
    line_number: u64,
    bytes: u64,
    rows: u64,
    rejected: Rejected,
}

impl RowReader {
    /// A reader at the start of the output.
    pub fn new(limits: OutputLimits) -> Self {
        Self {
            limits,
            partial: Vec::new(),
            is_skipping: false,
            line_number: 0,
            bytes: 0,
            rows: 0,
            rejected: Rejected::default(),
        }
    }

    /// Lines that were no rows so far.
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }

    /// Takes the next bytes of the output and appends the rows that they complete.
    pub fn push(&mut self, bytes: &[u8], rows: &mut Vec<Row>) -> Result<(), OutputError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.limits.bytes_max {
            return Err(OutputError::Bytes { bytes_max: self.limits.bytes_max });
        }
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            if self.partial.is_empty() && !self.is_skipping {
                self.line(&bytes[start..end], rows)?;
            } else {
                self.keep(&bytes[start..end]);
                self.end_line(rows)?;
            }
            start = end + 1;
        }
        self.keep(&bytes[start..]);
        Ok(())
    }

    /// The output has ended. A last line without newline counts as a line: the caller asks for it
    /// once the exit status has said that the program was done.
    pub fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), OutputError> {
        if self.partial.is_empty() && !self.is_skipping { Ok(()) } else { self.end_line(rows) }
    }

    /// Appends to the unfinished line, up to one byte more than a line may have.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (self.limits.line_bytes_max + 1).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.is_skipping = self.partial.len() > self.limits.line_bytes_max;
    }

    fn end_line(&mut self, rows: &mut Vec<Row>) -> Result<(), OutputError> {
        let line = std::mem::take(&mut self.partial);
        self.is_skipping = false;
        self.line(&line, rows)
    }

    fn line(&mut self, line: &[u8], rows: &mut Vec<Row>) -> Result<(), OutputError> {
        self.line_number += 1;
        let row = if line.len() > self.limits.line_bytes_max {
            Err(RowProblem::LineTooLong { bytes_max: self.limits.line_bytes_max })
        } else {
            parse_row(line, self.limits.fields_max)
        };
        match row {
            Ok(row) if row.fields().is_empty() => {}
            Ok(_) if self.rows >= self.limits.rows_max => {
                return Err(OutputError::Rows { rows_max: self.limits.rows_max });
            }
            Ok(row) => {
                self.rows += 1;
                rows.push(row);
            }
            Err(problem) => return self.reject(line, problem),
        }
        Ok(())
    }

    fn reject(&mut self, line: &[u8], problem: RowProblem) -> Result<(), OutputError> {
        self.rejected.lines += 1;
        if self.rejected.first.len() < KEPT_MAX {
            // The same however the line came: of a long line that came in parts, the rest is gone.
            let bytes_max = (LINE_CHARS_MAX * 4).min(self.limits.line_bytes_max + 1);
            let bytes = &line[..line.len().min(bytes_max)];
            let line = String::from_utf8_lossy(bytes).chars().take(LINE_CHARS_MAX).collect();
            let line_number = self.line_number;
            self.rejected.first.push(RowError { line_number, line, problem });
        }
        if self.rejected.lines > self.limits.garbage_lines_max {
            let first = self.rejected.first[0].clone();
            return Err(OutputError::Garbage { lines: self.rejected.lines, first });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits() -> OutputLimits {
        OutputLimits {
            bytes_max: 200,
            rows_max: 5,
            line_bytes_max: 10,
            fields_max: 2,
            garbage_lines_max: 2,
        }
    }

    fn read(output: &[u8], step: usize) -> (Vec<Row>, Rejected, Result<(), OutputError>) {
        let mut reader = RowReader::new(limits());
        let mut rows = Vec::new();
        let mut result = Ok(());
        for part in output.chunks(step.max(1)) {
            result = result.and_then(|()| reader.push(part, &mut rows));
        }
        result = result.and_then(|()| reader.finish(&mut rows));
        (rows, reader.rejected, result)
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let rows = |n: usize| "a=1\n".repeat(n).into_bytes();
        assert_eq!(read(&rows(5), 3).2, Ok(()));
        assert_eq!(read(&rows(6), 3).2, Err(OutputError::Rows { rows_max: 5 }));
        assert_eq!(read(b"a=34567890\n", 4).1.lines, 0);
        assert_eq!(
            read(b"a=345678901\na=1\n", 4).1.first[0].problem,
            RowProblem::LineTooLong { bytes_max: 10 }
        );
        assert_eq!(read(b"a=345678901\na=1\n", 4).0.len(), 1);
        assert_eq!(read(b"x\ny\na=1\n", 100).0.len(), 1);
        let (_, _, result) = read(b"\nx\ny\nz\n", 100);
        let Err(OutputError::Garbage { lines: 3, first }) = result else { panic!("{result:?}") };
        assert_eq!((first.line_number, first.line.as_str()), (2, "x"));
        assert_eq!(read(&[b'\n'; 200], 7).2, Ok(()));
        assert_eq!(read(&[b'\n'; 201], 7).2, Err(OutputError::Bytes { bytes_max: 200 }));
        assert_eq!(read(b"a=1\nb=2", 100).0.len(), 2, "the last line has no newline");
    }

    proptest! {
        #[test]
        fn reads_of_any_size_give_the_same(
            output in proptest::collection::vec(prop_oneof![
                Just(b'\n'), Just(b'='), Just(b'a'), Just(b'b'), Just(b' '), Just(b'{'), any::<u8>()
            ], 0..120),
            step in 1usize..40,
        ) {
            let whole = read(&output, output.len());
            prop_assert_eq!(read(&output, step), whole);
        }
    }
}
