//! What an import reads: lines of text, of which some are joined to records, or the records of a
//! dump of another program ([`super::dump`], [`super::journal`]).
//!
//! A batch is a body for the server: one line for each record. Newlines within a record are written
//! as [`LINE_BREAK`], which the server resolves. A batch knows how many lines of the file its
//! records stand for, so that an import can be resumed.
//!
//! Bounded: a batch, the lines of a record that is not complete, and a dump that is one document.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, BufRead, Read};

use anyhow::{Context, Result, bail};
use collector::body::journal::Entries;
use collector::file::{End, Join, RecordPiece, Shape, cut};

use super::dump::{self, Unpacked};
use super::journal;
use super::{BATCH_BYTES_TARGET, read_line};

/// The byte that stands for a newline within a record (`line_break=vt`).
const LINE_BREAK: u8 = 0x0b;
/// Bytes of a joined record. A longer line is sent as it is; a longer record is cut into several.
const RECORD_BYTES_MAX: usize = 1 << 20;
/// Lines of a joined record.
const RECORD_LINES_MAX: usize = 1000;
/// Bytes at the beginning of a file in which a dump that is one document shows itself.
const SIGNS_BYTES: usize = 64 << 10;
/// Bytes of a dump that is one document. A longer one is refused: its records must be written line
/// by line.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Records to send together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// One line for each record.
    pub body: Vec<u8>,
    /// Runs of records: how many there are, and for how many lines of the file each stands.
    runs: Vec<(u64, u64)>,
    /// Fields that name the streams of these records.
    pub stream_fields: BTreeSet<String>,
}

impl Batch {
    fn add(&mut self, records: u64, lines: u64) {
        match self.runs.last_mut() {
            Some((count, of_each)) if *of_each == lines => *count += records,
            _ => self.runs.push((records, lines)),
        }
    }

    fn add_lines(&mut self, lines: &[u8]) {
        self.body.extend_from_slice(lines);
        self.add(memchr::memchr_iter(b'\n', lines).count() as u64, 1);
    }

    /// Adds a record, which stands for `lines` lines of the file.
    fn add_record(&mut self, record: &[u8], lines: u64) {
        let start = self.body.len();
        self.body.extend_from_slice(record);
        self.body[start..].iter_mut().filter(|b| **b == b'\n').for_each(|b| *b = LINE_BREAK);
        self.body.push(b'\n');
        self.add(1, lines);
    }

    /// Adds a piece of the file.
    fn add_piece(&mut self, piece: RecordPiece<'_>) {
        match piece {
            RecordPiece::Lines(lines) => self.add_lines(lines),
            RecordPiece::Record(record) | RecordPiece::Start(record) => {
                let lines = memchr::memchr_iter(b'\n', record).count() as u64 + 1;
                if lines > 1 && memchr::memchr(LINE_BREAK, record).is_some() {
                    // It cannot be told from a newline, so the lines stay apart.
                    self.add_lines(record);
                    self.body.push(b'\n');
                    return self.add(1, 1);
                }
                self.add_record(record, lines);
            }
            RecordPiece::Woven(records) => {
                let lines: u64 = records.iter().map(|r| lines_of(r)).sum();
                // Before the last of them, none of their lines is done.
                for (number, record) in records.iter().enumerate() {
                    let is_last = number + 1 == records.len();
                    self.add_record(record, if is_last { lines } else { 0 });
                }
            }
        }
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.runs.iter().map(|(records, _)| records).sum()
    }

    /// The number of lines of the file that the first `records` records stand for.
    pub fn lines(&self, mut records: u64) -> u64 {
        let mut lines = 0;
        for (count, of_each) in &self.runs {
            let taken = records.min(*count);
            lines += taken * of_each;
            records -= taken;
        }
        lines
    }

    /// Removes the first `records` records.
    pub fn drop_front(&mut self, mut records: u64) {
        self.body.drain(..self.body.len() - after_lines(&self.body, records).len());
        for (count, _) in &mut self.runs {
            let taken = records.min(*count);
            *count -= taken;
            records -= taken;
        }
    }

    fn is_full(&self) -> bool {
        self.body.len() >= BATCH_BYTES_TARGET
    }
}

fn lines_of(record: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', record).count() as u64 + 1
}

/// The bytes behind the first `lines` lines.
pub fn after_lines(batch: &[u8], lines: u64) -> &[u8] {
    match lines {
        0 => batch,
        lines => memchr::memchr_iter(b'\n', batch)
            .nth(lines as usize - 1)
            .map_or(&[], |newline| &batch[newline + 1..]),
    }
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Lines that belong together become one record.
    pub joins: bool,
    /// Dumps of other programs are recognised.
    pub knows_dumps: bool,
}

/// Reads one file.
pub struct Source {
    reader: Box<dyn BufRead>,
    kind: Kind,
    /// Records of the last entry of a dump.
    unpacked: VecDeque<Unpacked>,
    shape: Shape,
}

enum Kind {
    /// Lines that were read, and are not all in a batch.
    Text { pending: Vec<u8>, at_end: bool },
    /// One JSON value in each line.
    JsonLines,
    /// Values of documents that were read, in reverse order.
    Documents(Vec<serde_json::Value>),
    /// The export format of systemd's journal.
    Journal(Entries),
}

impl Source {
    /// Looks at the beginning of the file, and skips what was imported before: lines of a text,
    /// records of a dump.
    pub fn open(reader: Box<dyn BufRead>, reading: Reading, skip: u64) -> Result<Source> {
        let mut reader = reader;
        let mut start = Vec::new();
        let kind = match reading.knows_dumps {
            true => recognise(&mut reader, &mut start)?,
            false => Kind::Text { pending: Vec::new(), at_end: false },
        };
        let reader: Box<dyn BufRead> = match &kind {
            Kind::Documents(_) => reader,
            _ => Box::new(io::Cursor::new(start).chain(reader)),
        };
        let shape = Shape {
            join: reading.joins.then_some(Join::Traces),
            containers: reading.joins,
            record_bytes_max: RECORD_BYTES_MAX,
            record_lines_max: RECORD_LINES_MAX,
            record_age_ms: 2_000,
        };
        let mut source = Source { reader, kind, unpacked: VecDeque::new(), shape };
        source.skip(skip)?;
        Ok(source)
    }

    fn skip(&mut self, skip: u64) -> Result<()> {
        if matches!(self.kind, Kind::Text { .. }) {
            let mut line = Vec::new();
            for skipped in 0..skip {
                line.clear();
                let more = read_line(&mut self.reader, &mut line)?;
                if !more && line.is_empty() {
                    bail!("--skip-lines {skip} is too large: the file has {skipped} lines");
                }
            }
            return Ok(());
        }
        for skipped in 0..skip {
            if self.next_record()?.is_none() {
                bail!("--skip-lines {skip} is too large: the file has {skipped} records");
            }
        }
        Ok(())
    }

    /// The next batch; `None` at the end of the file. With an error come the records before it.
    pub fn next(&mut self) -> (Option<Batch>, Result<()>) {
        let mut batch = Batch::default();
        let result = match self.kind {
            Kind::Text { .. } => self.next_text(&mut batch),
            _ => self.next_of_dump(&mut batch),
        };
        ((!batch.body.is_empty()).then_some(batch), result)
    }

    fn next_text(&mut self, batch: &mut Batch) -> Result<()> {
        let Kind::Text { pending, at_end } = &mut self.kind else {
            unreachable!("lines of a text")
        };
        let mut error = None;
        while !*at_end && !batch.is_full() && pending.len() < BATCH_BYTES_TARGET {
            let start = pending.len();
            match read_line(&mut self.reader, pending) {
                Ok(more) => *at_end = !more,
                Err(cause) => {
                    // The lines before the fault are good; the line with the fault is incomplete.
                    pending.truncate(start);
                    (*at_end, error) = (true, Some(cause));
                }
            }
            if pending.len() - start > RECORD_BYTES_MAX {
                // A longer line than a record may be, which nothing belongs to.
                let line = pending.split_off(start);
                cut(pending, &self.shape, End::All, &mut |piece, _| batch.add_piece(piece));
                pending.clear();
                batch.add_lines(&line);
                if line.last() != Some(&b'\n') {
                    batch.body.push(b'\n');
                    batch.add(1, 1);
                }
            }
        }
        let end = if *at_end { End::All } else { End::More };
        let done = cut(pending, &self.shape, end, &mut |piece, _| batch.add_piece(piece));
        pending.drain(..done.consumed);
        match error {
            Some(error) => Err(error).context("cannot read further"),
            None => Ok(()),
        }
    }

    fn next_of_dump(&mut self, batch: &mut Batch) -> Result<()> {
        while !batch.is_full() {
            let Some(Unpacked { line, stream_fields }) = self.next_record()? else { break };
            batch.add_record(&line, 1);
            batch.stream_fields.extend(stream_fields);
        }
        Ok(())
    }

    /// The next record of a dump; `None` at its end.
    fn next_record(&mut self) -> Result<Option<Unpacked>> {
        while self.unpacked.is_empty() {
            let Some(records) = self.next_records()? else { return Ok(None) };
            self.unpacked.extend(records);
        }
        Ok(self.unpacked.pop_front())
    }

    /// The records of the next entry of a dump; `None` at its end.
    fn next_records(&mut self) -> Result<Option<Vec<Unpacked>>> {
        match &mut self.kind {
            Kind::Documents(values) => Ok(values.pop().map(dump::unpack_any)),
            Kind::Journal(entries) => {
                Ok(journal::next_entry(&mut self.reader, entries)?.map(|line| vec![line]))
            }
            Kind::JsonLines => loop {
                let mut line = Vec::new();
                let more = read_line(&mut self.reader, &mut line).context("cannot read further")?;
                if line.trim_ascii().is_empty() {
                    if !more {
                        return Ok(None);
                    }
                    continue;
                }
                let line = line.strip_suffix(b"\n").unwrap_or(&line);
                let records = match serde_json::from_slice(line) {
                    Ok(value) => dump::unpack_any(value),
                    // Kept as it is, with a note of the server.
                    Err(_) => vec![Unpacked { line: line.to_vec(), ..Unpacked::default() }],
                };
                return Ok(Some(records));
            },
            Kind::Text { .. } => unreachable!("a text has no records"),
        }
    }
}

/// Finds out what a file is by its beginning, which is appended to `start`.
fn recognise(reader: &mut Box<dyn BufRead>, start: &mut Vec<u8>) -> Result<Kind> {
    let text = Kind::Text { pending: Vec::new(), at_end: false };
    let mut more = true;
    while more && start.trim_ascii().is_empty() && start.len() < SIGNS_BYTES {
        more = read_line(reader, start).context("cannot read it")?;
    }
    let first = start.trim_ascii();
    if journal::is_export(first) {
        return Ok(Kind::Journal(Entries::default()));
    }
    if !matches!(first.first(), Some(b'{' | b'[')) {
        return Ok(text);
    }
    if let Ok(value) = serde_json::from_slice(first) {
        return Ok(match dump::unpack(value) {
            Some(_) => Kind::JsonLines,
            None => text,
        });
    }
    while more && start.len() < SIGNS_BYTES {
        more = read_line(reader, start).context("cannot read it")?;
    }
    if !dump::has_signs(start) {
        return Ok(text);
    }
    while more && start.len() <= DOCUMENT_BYTES_MAX {
        more = read_line(reader, start).context("cannot read it")?;
    }
    if start.len() > DOCUMENT_BYTES_MAX {
        bail!(
            "it is one JSON document of more than {} MiB; write its records line by line, \
             for example with jq -c '.hits.hits[]'",
            DOCUMENT_BYTES_MAX >> 20
        );
    }
    let values: Result<Vec<serde_json::Value>, _> =
        serde_json::Deserializer::from_slice(start).into_iter().collect();
    let Ok(values) = values else { return Ok(text) };
    let mut records = Vec::new();
    for value in values {
        match value {
            serde_json::Value::Array(values) => records.extend(values),
            value => records.push(value),
        }
    }
    records.reverse();
    Ok(match records.last().cloned().and_then(dump::unpack) {
        Some(_) => Kind::Documents(records),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Reading = Reading { joins: true, knows_dumps: true };

    fn read_with(reading: Reading, text: &str, skip: u64) -> (Vec<String>, u64) {
        let reader = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
        let mut source = Source::open(reader, reading, skip).unwrap();
        let (mut records, mut lines) = (Vec::new(), 0);
        while let (Some(batch), Ok(())) = source.next() {
            let body = String::from_utf8(batch.body.clone()).unwrap();
            records
                .extend(body.trim_end_matches('\n').split('\n').map(|r| r.replace('\u{b}', "\n")));
            lines += batch.lines(batch.records());
        }
        (records, lines)
    }

    const TRACE: &str = "2026-01-31 12:00:00 ERROR x\njava.lang.X: y\n\tat a.B.c(B.java:1)";
    const NEXT: &str = "2026-01-31 12:00:01 INFO next";

    #[test]
    fn traces_are_joined() {
        let text = format!("{NEXT}\n{TRACE}\n{NEXT}\n");
        assert_eq!(read_with(ALL, &text, 0), (vec![NEXT.into(), TRACE.into(), NEXT.into()], 5));
        assert_eq!(read_with(ALL, &text, 4).0, [NEXT]);
        let off = Reading { joins: false, ..ALL };
        assert_eq!(read_with(off, &text, 0).0.len(), 5);
        // A record with the byte that stands for a newline stays in lines.
        let text = format!("{NEXT}\n\tat \u{b}\n");
        assert_eq!(read_with(ALL, &text, 0).1, 2);
        assert_eq!(read_with(ALL, "a\nb", 0), (vec!["a".into(), "b".into()], 2));
        assert_eq!(read_with(ALL, "", 0).0.len(), 0);
    }

    #[test]
    fn streams_of_containers_are_put_together() {
        let line = |rest: &str| format!("2023-06-06T04:48:11Z {rest}");
        let (a, e, b) = (line("stdout P a"), line("stderr F e"), line("stdout F b"));
        let text = format!("{a}\n{e}\n{b}\n");
        assert_eq!(read_with(ALL, &text, 0), (vec![format!("{a}\n{b}"), e], 3));
    }

    #[test]
    fn long_lines_are_sent_as_they_are() {
        let long = "x".repeat(RECORD_BYTES_MAX + 1);
        let text = format!("{TRACE}\n{long}\n{NEXT}\n{long}");
        let expected = [TRACE, &long, NEXT, &long];
        assert_eq!(read_with(ALL, &text, 0), (expected.map(str::to_owned).to_vec(), 6));
    }

    #[test]
    fn batches_know_their_lines() {
        let mut batch = Batch::default();
        batch.add_piece(RecordPiece::Lines(b"a\nb\n"));
        batch.add_piece(RecordPiece::Record(b"c\nd\ne"));
        batch.add_piece(RecordPiece::Woven(&[b"f\nh".to_vec(), b"g".to_vec()]));
        assert_eq!(batch.records(), 5);
        let lines: Vec<u64> = (0..=5).map(|records| batch.lines(records)).collect();
        assert_eq!(lines, [0, 1, 2, 5, 5, 8]);
        batch.drop_front(2);
        assert_eq!((&batch.body[..], batch.records()), (&b"c\x0bd\x0be\nf\x0bh\ng\n"[..], 3));
        assert_eq!(batch.lines(1), 3);
        for (lines, rest) in [(0, "a\nb\nc"), (1, "b\nc"), (2, "c"), (3, "")] {
            assert_eq!(after_lines(b"a\nb\nc", lines), rest.as_bytes());
        }
    }

    #[test]
    fn documents_of_several_lines_are_recognised() {
        let text = "{\n \"hits\": {\n  \"hits\": [\n   {\"_index\": \"i\", \"_source\": {\"message\": \"a\"}},\n\
            {\"_index\": \"i\", \"_source\": {\"message\": \"b\"}}]}}\n";
        assert_eq!(
            read_with(ALL, text, 0),
            (vec![r#"{"message":"a"}"#.into(), r#"{"message":"b"}"#.into()], 2)
        );
        // Other documents are lines, which belong together.
        let text = "{\n \"a\": 1\n}\n";
        assert_eq!(read_with(ALL, text, 0).0, [text.trim_end()]);
        let text = "{\n \"_source\": broken";
        assert_eq!(read_with(ALL, text, 0).0.len(), 1);
    }
}
