//! Lines of containers, put together by stream: the runtime writes standard output and standard
//! error into one file, so a record of one stream may have lines of the other between its own.
//!
//! A record of one stream waits for its next line while it may go on: a part for its rest, a trace
//! for its frames. Any other record is complete as soon as the other stream writes. As long as one
//! waits, the records that began behind it wait with it, so that the file can be read again from
//! where the first of them begins.
//!
//! Bounded by the size of a record for all lines that wait, its number of lines, and its age by the
//! times in the lines; beyond these bounds records are complete as they are.

use std::borrow::Cow;

use record::parse::{ContainerLine, Takes};

use super::records::{Join, OpenRecord, Shape};

/// The range of a line, without its newline.
type LineRange = (usize, usize);

/// A complete record: its lines.
#[derive(Debug)]
pub(crate) struct WovenRecord {
    first: LineRange,
    rest: Vec<LineRange>,
}

impl WovenRecord {
    /// Its number of lines.
    pub fn lines(&self) -> usize {
        1 + self.rest.len()
    }

    /// Where it begins.
    pub fn begin(&self) -> usize {
        self.first.0
    }

    /// Its lines, separated by newlines.
    pub fn text(&self, bytes: &[u8]) -> Vec<u8> {
        let mut text = bytes[self.first.0..self.first.1].to_vec();
        for (at, to) in &self.rest {
            text.push(b'\n');
            text.extend_from_slice(&bytes[*at..*to]);
        }
        text
    }
}

/// A record that may go on.
#[derive(Debug)]
struct Open<'a> {
    record: WovenRecord,
    open: OpenRecord,
    /// What its first line says.
    head: Cow<'a, [u8]>,
    /// The last line is a part.
    is_part: bool,
    /// Lines that belong to it whatever follows.
    sure: usize,
    time_ns: Option<i64>,
}

impl Open<'_> {
    fn awaits(&self, join: Option<&Join>) -> bool {
        self.is_part || self.open.awaits(join, &self.head)
    }
}

/// The records of the lines that wait.
#[derive(Debug, Default)]
pub(crate) struct Weave<'a> {
    /// Of standard output and of standard error.
    open: [Option<Open<'a>>; 2],
    closed: Vec<WovenRecord>,
    /// Records that had to be completed before their end, since the last call of `end`.
    torn: u64,
}

impl<'a> Weave<'a> {
    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.iter().all(Option::is_none)
    }

    /// Whether a record waits for a line.
    pub fn awaits(&self, join: Option<&Join>) -> bool {
        self.open.iter().flatten().any(|open| open.awaits(join))
    }

    /// Completes the records that are too old for `line`, and all of them if the lines that wait
    /// have `bytes` bytes with this line and that is too much.
    pub fn make_room(&mut self, line: &ContainerLine<'_>, bytes: usize, shape: &Shape) {
        let age_ns =
            i64::try_from(shape.record_age_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let is_over = bytes > shape.record_bytes_max;
        for stream in 0..2 {
            let Some(open) = &self.open[stream] else { continue };
            let is_old = matches!(
                (open.time_ns, line.time_ns),
                (Some(last), Some(now)) if now.saturating_sub(last) > age_ns
            );
            if is_old || is_over {
                self.torn += u64::from(open.is_part);
                self.close(stream);
            }
        }
    }

    /// Takes a line. Returns false, without taking it, if all records before it are complete: then
    /// they are ended first.
    pub fn take(&mut self, line: &ContainerLine<'a>, range: LineRange, shape: &Shape) -> bool {
        let join = shape.join.as_ref();
        let stream = usize::from(line.is_stderr);
        let other = 1 - stream;
        if self.open[other].as_ref().is_some_and(|open| !open.awaits(join)) {
            self.close(other);
        }
        if let Some(open) = &mut self.open[stream] {
            let takes = match open.is_part {
                true => Takes::Yes,
                false => open.open.takes(join, &open.head, &line.text),
            };
            let fits = open.record.lines() < shape.record_lines_max;
            if takes != Takes::No && fits {
                open.record.rest.push(range);
                open.is_part = line.is_part;
                open.time_ns = line.time_ns;
                if takes == Takes::Yes {
                    open.sure = open.record.lines();
                }
                return true;
            }
            self.torn += u64::from(takes == Takes::Yes);
            self.close(stream);
        }
        if self.open[other].is_none() && !self.closed.is_empty() {
            return false;
        }
        self.open[stream] = Some(Open {
            record: WovenRecord { first: range, rest: Vec::new() },
            open: OpenRecord::begin(&line.text),
            head: line.text.clone(),
            is_part: line.is_part,
            sure: 1,
            time_ns: line.time_ns,
        });
        true
    }

    fn close(&mut self, stream: usize) {
        let Some(open) = self.open[stream].take() else { return };
        let mut record = open.record;
        let unsure = record.rest.split_off(open.sure - 1);
        self.closed.push(record);
        self.closed.extend(unsure.into_iter().map(|first| WovenRecord { first, rest: Vec::new() }));
    }

    /// Completes all records. Returns them in the order of their first lines, and how many of them
    /// were torn.
    pub fn end(&mut self) -> (Vec<WovenRecord>, u64) {
        let parts = self.open.iter().flatten().filter(|open| open.is_part).count() as u64;
        let torn = parts + std::mem::take(&mut self.torn);
        self.close(0);
        self.close(1);
        self.closed.sort_unstable_by_key(WovenRecord::begin);
        (std::mem::take(&mut self.closed), torn)
    }

    /// Takes back the memory of what `end` returned.
    pub fn recycle(&mut self, mut records: Vec<WovenRecord>) {
        records.clear();
        self.closed = records;
    }
}
