//! After a crash, lines that are durable but behind the last checkpoint are not taken again.
//!
//! The store returns the lines that came behind the checkpoint ([`Recall`]). Each carries the
//! number of its file, and the file holds the same bytes at the position of the checkpoint; so the
//! position advances behind them, line by line. If the two disagree (the line was deleted from the
//! store, or the file was changed in its middle), the position stays, and the following lines are
//! stored a second time.
//!
//! Records of a container's streams may be interleaved in the file. They come in the order of their
//! first lines, so the first line of each is at the position, and the others behind it, perhaps
//! behind lines of the other stream; those are the next records ([`Window::behind_woven`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use record::Origin;
use record::frame::LINE_BYTES_MAX;
use text::utf16::{MARK_BYTES, Order, units};

/// Returns durable lines.
pub trait Recall: Send {
    /// Calls `each` with the origin and the bytes of each line of this node in frames with a number
    /// above `sequence`, in the order of delivery.
    ///
    /// # Errors
    /// When the lines cannot be read; the text says why.
    fn lines_since(
        &self,
        sequence: u64,
        each: &mut dyn FnMut(&Origin, &[u8]),
    ) -> Result<(), String>;
}

/// Recalls nothing: for frames that leave this machine. Lines delivered after the last checkpoint,
/// about a second's worth, are then stored twice after a crash.
pub(crate) struct NoRecall;

impl Recall for NoRecall {
    fn lines_since(&self, _: u64, _: &mut dyn FnMut(&Origin, &[u8])) -> Result<(), String> {
        Ok(())
    }
}

/// Bytes of a file that are buffered for comparison with lines.
const WINDOW_BYTES: usize = 64 << 10;

/// Lines of one record are at most this far apart: twice the longest record. Records with lines
/// further apart are stored a second time.
const WOVEN_BYTES_MAX: u64 = 2 * LINE_BYTES_MAX as u64;

/// A buffered part of a file.
#[derive(Default)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    at: u64,
}

impl Window {
    /// Discards the buffer; the next call may be for another file.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The offset behind `line` and its newline if the file holds `line` at offset `at`; otherwise
    /// `None`.
    pub fn behind(&mut self, file: &File, at: u64, line: &[u8]) -> io::Result<Option<u64>> {
        let at = match self.bytes(file, at.saturating_sub(1), 2)? {
            // The previous line was taken before its newline came.
            [before, b'\n'] if at > 0 && *before != b'\n' => at + 1,
            _ => at,
        };
        let found = self.bytes(file, at, line.len() + 1)?;
        Ok(found.strip_prefix(line).map(|rest| {
            let newline = u64::from(rest.first() == Some(&b'\n'));
            at + line.len() as u64 + newline
        }))
    }

    /// As [`behind`](Self::behind), for a file in UTF-16. The line is in UTF-8.
    pub fn behind_utf16(
        &mut self,
        file: &File,
        order: Order,
        at: u64,
        line: &[u8],
    ) -> io::Result<Option<u64>> {
        const UNIT_BYTES: u64 = 2;
        let is_newline =
            |unit: &[u8]| matches!(*unit, [a, b] if order.unit([a, b]) == u16::from(b'\n'));
        let mut at = at.next_multiple_of(UNIT_BYTES).max(MARK_BYTES as u64);
        if at > MARK_BYTES as u64 {
            let around = self.bytes(file, at - UNIT_BYTES, 4)?;
            // The previous line was taken before its newline came.
            if !is_newline(&around[..around.len().min(2)])
                && around.get(2..).is_some_and(is_newline)
            {
                at += UNIT_BYTES;
            }
        }
        let length = 2 * units(line);
        let found = self.bytes(file, at, length + 2)?;
        let Some((found, rest)) = found.split_at_checked(length) else { return Ok(None) };
        let mut text = Vec::with_capacity(line.len());
        order.decode(found, true, &mut text);
        let newline = if is_newline(rest) { UNIT_BYTES } else { 0 };
        Ok((text == line).then_some(at + length as u64 + newline))
    }

    /// As [`behind`](Self::behind), for a record whose lines may have lines of other records
    /// between them. `ahead` are the lines behind `at` that are durable already, by their offsets,
    /// with the offsets behind them; it is kept between the calls.
    pub fn behind_woven(
        &mut self,
        file: &File,
        at: u64,
        record: &[u8],
        ahead: &mut BTreeMap<u64, u64>,
    ) -> io::Result<Option<u64>> {
        if ahead.is_empty()
            && let Some(behind) = self.behind(file, at, record)?
        {
            return Ok(Some(behind));
        }
        let mut next = at;
        for (number, line) in record.split(|b| *b == b'\n').enumerate() {
            loop {
                if let Some(behind) = ahead.get(&next) {
                    next = *behind;
                } else if let Some(behind) = self.whole_line(file, next, line)? {
                    ahead.insert(next, behind);
                    next = behind;
                    break;
                } else if number == 0 || next - at > WOVEN_BYTES_MAX {
                    return Ok(None);
                } else if let Some(behind) = self.line_end(file, next)? {
                    next = behind;
                } else {
                    return Ok(None);
                }
            }
        }
        let mut behind = at;
        while let Some(end) = ahead.remove(&behind) {
            behind = end;
        }
        Ok(Some(behind))
    }

    /// The offset behind `line` and its newline, if they are at offset `at`.
    fn whole_line(&mut self, file: &File, at: u64, line: &[u8]) -> io::Result<Option<u64>> {
        let found = self.bytes(file, at, line.len() + 1)?;
        let is_it = found.strip_prefix(line).is_some_and(|rest| rest == b"\n");
        Ok(is_it.then_some(at + line.len() as u64 + 1))
    }

    /// The offset behind the next newline.
    fn line_end(&mut self, file: &File, at: u64) -> io::Result<Option<u64>> {
        let mut from = at;
        loop {
            let found = self.bytes(file, from, WINDOW_BYTES / 4)?;
            if let Some(newline) = memchr::memchr(b'\n', found) {
                return Ok(Some(from + newline as u64 + 1));
            }
            if found.is_empty() || from - at > WOVEN_BYTES_MAX {
                return Ok(None);
            }
            from += found.len() as u64;
        }
    }

    /// `length` bytes at offset `at`, or those up to the end of the file.
    fn bytes(&mut self, file: &File, at: u64, length: usize) -> io::Result<&[u8]> {
        let inside = at >= self.at && at + length as u64 <= self.at + self.bytes.len() as u64;
        if !inside {
            self.bytes.resize(length.max(WINDOW_BYTES), 0);
            let read = read_at(file, &mut self.bytes, at)?;
            self.bytes.truncate(read);
            self.at = at;
        }
        let from = (at - self.at) as usize;
        Ok(&self.bytes[from..self.bytes.len().min(from + length)])
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_lines_advance_the_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "one\n\ntwo\n three\nlong without newline").unwrap();
        let file = File::open(&path).unwrap();
        for (at, line, expected) in [
            (0, "one", Some(4)),
            (4, "", Some(5)),
            (5, "two\n three", Some(16)),
            // The line was taken before its newline came.
            (3, "", Some(5)),
            (0, "on", Some(2)),
            (16, "long", Some(20)),
            (20, " without newline", Some(36)),
            (36, "more", None),
            (0, "two", None),
            (99, "x", None),
        ] {
            for mut window in [Window::default(), Window { bytes: b"one\n\nt".to_vec(), at: 0 }] {
                let found = window.behind(&file, at, line.as_bytes()).unwrap();
                assert_eq!(found, expected, "{line:?} at {at}");
            }
        }
    }

    #[test]
    fn matching_lines_of_utf16_advance_the_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let text = "\u{feff}one\r\n\u{1f600}\ntwo\n three\nlast";
        let orders = [
            (Order::Little, u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (Order::Big, u16::to_be_bytes),
        ];
        for (order, bytes) in orders {
            std::fs::write(&path, text.encode_utf16().flat_map(bytes).collect::<Vec<_>>()).unwrap();
            let file = File::open(&path).unwrap();
            for (at, line, expected) in [
                (0, "one\r", Some(12)),
                (2, "one", Some(8)),
                (12, "\u{1f600}", Some(18)),
                (18, "two\n three", Some(40)),
                // The line was taken before its newline came.
                (16, "two", Some(26)),
                (40, "last", Some(48)),
                (48, "more", None),
                (12, "two", None),
                (99, "x", None),
            ] {
                let found = Window::default().behind_utf16(&file, order, at, line.as_bytes());
                assert_eq!(found.unwrap(), expected, "{line:?} at {at}");
            }
        }
    }

    #[test]
    fn interleaved_records_advance_the_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "before\no1\ne1\no2\ne2\no3\nafter\n").unwrap();
        let file = File::open(&path).unwrap();
        let (mut window, mut ahead) = (Window::default(), BTreeMap::new());
        let mut at = 0;
        for (record, expected) in
            [("before", Some(7)), ("o1\no2\no3", Some(10)), ("e2", None), ("e1\nmissing", None)]
        {
            let found = window.behind_woven(&file, at, record.as_bytes(), &mut ahead).unwrap();
            assert_eq!(found, expected, "{record:?}");
            at = found.unwrap_or(at);
        }
        let mut ahead = BTreeMap::new();
        let mut at = 7;
        for (record, expected) in [("o1\no2\no3", 10), ("e1\ne2", 22), ("after", 28)] {
            let found = window.behind_woven(&file, at, record.as_bytes(), &mut ahead).unwrap();
            assert_eq!(found, Some(expected), "{record:?}");
            at = expected;
        }
        assert!(ahead.is_empty());
    }
}
