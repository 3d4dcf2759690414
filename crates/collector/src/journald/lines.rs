//! Splits a stream that arrives in reads of any size into lines.
//!
//! Bounded: of a line longer than `bytes_max` only the first `start_bytes` are held; the rest is
//! skipped and counted. The lines do not depend on how the reads were split. Left out: a last line
//! without newline.

use std::io::{self, Read};

/// Buffer space for one read, at least.
const READ_BYTES: usize = 256 << 10;

/// A line, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// The start of a line that is too long, and the length of the whole line in bytes.
    Start(&'a [u8], u64),
}

/// A buffer of data that was read and not taken yet.
pub struct JournalLines {
    buffer: Vec<u8>,
    filled: usize,
    /// There is no newline before this offset.
    scanned: usize,
    bytes_max: usize,
    start_bytes: usize,
    /// Skipped bytes of the current line; 0 unless it is too long.
    passed: u64,
}

impl JournalLines {
    /// At the beginning of a stream.
    pub fn new(bytes_max: usize, start_bytes: usize) -> JournalLines {
        assert!(start_bytes <= bytes_max, "the start of a line is a part of it");
        JournalLines {
            buffer: Vec::new(),
            filled: 0,
            scanned: 0,
            bytes_max,
            start_bytes,
            passed: 0,
        }
    }

    /// Reads once; returns the number of bytes, 0 at the end.
    pub fn read_from(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        if self.buffer.len() < self.filled + READ_BYTES {
            self.buffer.resize(self.filled + self.filled.max(READ_BYTES), 0);
        }
        let read = stream.read(&mut self.buffer[self.filled..])?;
        self.filled += read;
        Ok(read)
    }

    /// Passes the complete lines to `each` until it returns false; the remaining ones are then
    /// discarded. Returns whether all were passed.
    pub fn take(&mut self, mut each: impl FnMut(Line<'_>) -> bool) -> bool {
        let unscanned = &self.buffer[self.scanned..self.filled];
        if let Some(last) = memchr::memrchr(b'\n', unscanned) {
            let end = self.scanned + last;
            for line in self.buffer[..end].split(|&byte| byte == b'\n') {
                let passed = std::mem::take(&mut self.passed);
                let line = match line.get(..self.start_bytes) {
                    Some(start) if passed > 0 || line.len() > self.bytes_max => {
                        Line::Start(start, line.len() as u64 + passed)
                    }
                    _ => Line::Whole(line),
                };
                if !each(line) {
                    return false;
                }
            }
            self.buffer.copy_within(end + 1..self.filled, 0);
            self.filled -= end + 1;
            self.buffer.truncate(self.filled.max(READ_BYTES));
            self.buffer.shrink_to(2 * READ_BYTES);
        }
        if self.passed > 0 || self.filled > self.bytes_max {
            self.passed += (self.filled - self.start_bytes) as u64;
            self.filled = self.start_bytes;
        }
        self.scanned = self.filled;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 10;
    const START_BYTES: usize = 4;

    /// Returns at most the given number of bytes per read.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.1.min(buffer.len());
            self.0.take(bytes as u64).read(buffer).inspect(|read| self.0 = &self.0[*read..])
        }
    }

    fn lines(text: &[u8], read_bytes: usize) -> Vec<(Vec<u8>, u64)> {
        let mut lines = JournalLines::new(BYTES_MAX, START_BYTES);
        let mut stream = Dribble(text, read_bytes);
        let mut found = Vec::new();
        while lines.read_from(&mut stream).unwrap() > 0 {
            let all = lines.take(|line| {
                found.push(match line {
                    Line::Whole(line) => (line.to_vec(), line.len() as u64),
                    Line::Start(start, bytes) => (start.to_vec(), bytes),
                });
                true
            });
            assert!(all && lines.filled <= BYTES_MAX);
        }
        found
    }

    #[test]
    fn a_line_over_the_limit_is_its_start_however_the_reads_fell() {
        let lengths =
            [0, 1, START_BYTES, BYTES_MAX - 1, BYTES_MAX, BYTES_MAX + 1, BYTES_MAX + 2, 99, 0, 3];
        let (mut text, mut expected) = (Vec::new(), Vec::new());
        for length in lengths {
            let line: Vec<u8> = (0..length).map(|n| b'a' + (n % 26) as u8).collect();
            let kept = if length > BYTES_MAX { START_BYTES } else { length };
            expected.push((line[..kept].to_vec(), length as u64));
            text.extend([&line[..], b"\n"].concat());
        }
        // Without a newline it is not a line yet.
        text.extend_from_slice(b"more");
        for read_bytes in 1..=text.len() {
            assert_eq!(lines(&text, read_bytes), expected, "in reads of {read_bytes}");
        }
    }

    #[test]
    fn no_line_is_given_after_a_refusal() {
        let mut lines = JournalLines::new(BYTES_MAX, START_BYTES);
        lines.read_from(&mut &b"a\nb\nc\n"[..]).unwrap();
        let mut given = 0;
        let all = lines.take(|line| {
            given += 1;
            line != Line::Whole(b"b")
        });
        assert_eq!((all, given), (false, 2));
    }
}
