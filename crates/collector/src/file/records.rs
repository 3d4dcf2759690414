//! Cuts data read from a file into records: lines, or several lines that belong together.
//!
//! Nothing is copied and no state is kept: an incomplete record stays in the file, and is read
//! again with the data behind it. So the records of a file do not depend on how the reads were
//! split. One exception: by [`Join::Traces`] a last line that tells of nothing wrong is not kept
//! waiting for a trace, so a trace that is written later is a record of its own.
//!
//! Lines of containers are put together by stream (`woven`). The records of a stretch in which both
//! streams write are given together, and the stretch stays in the file until all of them are
//! complete.
//!
//! Fast path: if no rule joins lines and no line can be too long, everything up to the last newline
//! is taken at once. Slow path: line by line; the tests compare the two.

use record::parse::{ContainerLine, Takes, Trace};
use regex::bytes::Regex;

use super::FileError;
use super::woven::Weave;

/// Which lines belong to one record.
#[derive(Clone, Debug)]
pub enum Join {
    /// Stack traces and other lines that continue the one before; see [`Trace`].
    Traces,
    /// A matching line begins a record; all others belong to the record before.
    Start(Regex),
    /// A matching line belongs to the record before.
    Continue(Regex),
}

impl Join {
    /// Lines that match this regular expression begin records.
    ///
    /// # Errors
    /// When it is not a valid regular expression; the error says why.
    pub fn start(regex: &str) -> Result<Join, FileError> {
        parse(regex).map(Join::Start)
    }

    /// Lines that match this regular expression belong to the record before.
    ///
    /// # Errors
    /// When it is not a valid regular expression; the error says why.
    pub fn continued(regex: &str) -> Result<Join, FileError> {
        parse(regex).map(Join::Continue)
    }
}

/// The record that a file's lines are in, for a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRecord(Trace);

impl OpenRecord {
    /// The record that begins with this text.
    pub fn begin(head: &[u8]) -> OpenRecord {
        OpenRecord(Trace::begin(head))
    }

    /// Whether a text belongs to the record that begins with `head`.
    pub fn takes(&mut self, join: Option<&Join>, head: &[u8], text: &[u8]) -> Takes {
        let begins = match join {
            None => true,
            Some(Join::Start(regex)) => regex.is_match(text),
            Some(Join::Continue(regex)) => !regex.is_match(text),
            Some(Join::Traces) => return self.0.takes(head, text),
        };
        if begins { Takes::No } else { Takes::Yes }
    }

    /// Whether the record may not be taken before it is known what follows.
    pub fn awaits(&self, join: Option<&Join>, head: &[u8]) -> bool {
        match join {
            None => false,
            Some(Join::Traces) => self.0.awaits(head),
            Some(_) => true,
        }
    }
}

fn parse(regex: &str) -> Result<Regex, FileError> {
    Regex::new(regex)
        .map_err(|error| FileError::Regex { regex: regex.to_owned(), why: error.to_string() })
}

/// How a file is cut into records.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Which lines belong together; without it each line is a record.
    pub join: Option<Join>,
    /// Lines of a container runtime are put together by stream, and the parts of a line too.
    pub containers: bool,
    /// Bytes of a record. A longer record is cut into several, and counted.
    pub record_bytes_max: usize,
    /// Lines of a record. The next line begins another record, which is counted as a cut.
    pub record_lines_max: usize,
    /// A record of several lines is taken when its file has not grown for this long. By the times
    /// that a container runtime writes, a record is also complete when its stream was silent for
    /// this long; if its last line was a part, that is counted as a cut.
    pub record_age_ms: u64,
}

impl Shape {
    /// Whether lines may have to wait for others.
    pub fn joins(&self) -> bool {
        self.join.is_some() || self.containers
    }
}

/// How to treat the end of the data that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// More is there: bytes that may not be a complete record are left.
    More,
    /// More may come: bytes that may not be a complete record are left.
    Open,
    /// No more lines are expected: complete lines are taken.
    Lines,
    /// Nothing more is expected: a last line without newline is taken too.
    All,
}

/// A piece of a file, as `cut` returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPiece<'a> {
    /// Records of one line, each with its newline.
    Lines(&'a [u8]),
    /// One record, without the newline that ended it; it may contain newlines.
    Record(&'a [u8]),
    /// One record whose rest was cut off because it is too long.
    Start(&'a [u8]),
    /// Records whose lines are interleaved in the file, in the order of their first lines. They
    /// must become durable together.
    Woven(&'a [Vec<u8>]),
}

/// The result of [`cut`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that became records; the next read begins behind them.
    pub consumed: usize,
    /// How often a record was too long and was cut.
    pub cuts: u64,
}

/// Cuts `bytes`, calling `each` with every piece and the number of bytes that are consumed once the
/// piece is taken. Of more than twice `record_bytes_max` bytes, some are always consumed.
pub fn cut(
    bytes: &[u8],
    shape: &Shape,
    end: End,
    each: &mut dyn FnMut(RecordPiece<'_>, usize),
) -> Done {
    if shape.joins() || bytes.len() > shape.record_bytes_max {
        let mut cutter = Cutter::new(bytes, shape, each);
        return cutter.run(end);
    }
    let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    if whole > 0 {
        each(RecordPiece::Lines(&bytes[..whole]), whole);
    }
    if end == End::All && whole < bytes.len() {
        each(RecordPiece::Record(&bytes[whole..]), bytes.len());
        return Done { consumed: bytes.len(), cuts: 0 };
    }
    Done { consumed: whole, cuts: 0 }
}

/// The slow path.
struct Cutter<'a, 'b> {
    bytes: &'a [u8],
    shape: &'b Shape,
    each: &'b mut dyn FnMut(RecordPiece<'_>, usize),
    /// Where the open record begins.
    from: usize,
    /// Where the pending one-line records begin; they end at `from`.
    stretch: usize,
    /// The open record, and its first line.
    open: OpenRecord,
    head: &'a [u8],
    /// Number of lines in the open record.
    lines: usize,
    /// Those of them that belong to it whatever follows, and the offset behind them.
    sure: (usize, usize),
    cuts: u64,
    /// Lines of a container, instead of the open record.
    weave: Weave<'a>,
}

impl<'a, 'b> Cutter<'a, 'b> {
    fn new(
        bytes: &'a [u8],
        shape: &'b Shape,
        each: &'b mut dyn FnMut(RecordPiece<'_>, usize),
    ) -> Self {
        Cutter {
            bytes,
            shape,
            each,
            from: 0,
            stretch: 0,
            open: OpenRecord::begin(b""),
            head: b"",
            lines: 0,
            sure: (0, 0),
            cuts: 0,
            weave: Weave::default(),
        }
    }

    fn run(&mut self, end: End) -> Done {
        let mut at = 0;
        while let Some(length) = memchr::memchr(b'\n', &self.bytes[at..]) {
            self.line(at, at + length);
            at += length + 1;
        }
        // `from` is behind `at` if the last line was cut.
        if at < self.bytes.len() {
            self.tail(at, end);
        }
        let join = self.shape.join.as_ref();
        let is_end = end == End::Open && at == self.bytes.len();
        if self.lines > 0 && (end >= End::Lines || (is_end && !self.open.awaits(join, self.head))) {
            self.record(at);
        }
        if !self.weave.is_empty() && (end >= End::Lines || (is_end && !self.weave.awaits(join))) {
            self.weave_ends(at);
        }
        if end == End::All && self.from < self.bytes.len() {
            self.part(self.bytes.len());
        }
        self.give_lines();
        Done { consumed: self.from, cuts: self.cuts }
    }

    /// A whole line; its newline is at `to`.
    fn line(&mut self, at: usize, to: usize) {
        if self.shape.containers
            && to - at <= self.shape.record_bytes_max
            && let Some(line) = ContainerLine::parse(&self.bytes[at..to])
        {
            return self.container_line(line, at, to);
        }
        if !self.weave.is_empty() {
            self.weave_ends(at);
        }
        self.join(at, to);
        self.cut_line(to);
        let Some(join) = &self.shape.join else {
            self.from = to + 1;
            return;
        };
        if self.lines == 0 {
            self.head = &self.bytes[self.from..to];
            self.open = match join {
                Join::Traces => OpenRecord::begin(self.head),
                _ => self.open,
            };
            self.sure = (1, to + 1);
        }
        self.lines += 1;
    }

    /// A line of a container.
    fn container_line(&mut self, line: ContainerLine<'a>, at: usize, to: usize) {
        if self.lines > 0 {
            self.record(at);
        }
        self.weave.make_room(&line, to - self.from, self.shape);
        if !self.weave.take(&line, (at, to), self.shape) {
            // All records before this line are complete.
            self.weave_ends(at);
            self.weave.take(&line, (at, to), self.shape);
        }
    }

    /// Gives the records of the lines of containers before `end`.
    fn weave_ends(&mut self, end: usize) {
        let (records, cuts) = self.weave.end();
        self.cuts += cuts;
        if records.iter().all(|record| record.lines() == 1) {
            // They stay in the stretch of one-line records.
            self.from = end;
        } else if records.len() == 1 {
            // All lines belong to it.
            let from = self.from;
            self.give_lines();
            (self.each)(RecordPiece::Record(&self.bytes[from..end - 1]), end);
            (self.from, self.stretch) = (end, end);
        } else {
            let texts: Vec<Vec<u8>> =
                records.iter().map(|record| record.text(self.bytes)).collect();
            self.give_lines();
            (self.each)(RecordPiece::Woven(&texts), end);
            (self.from, self.stretch) = (end, end);
        }
        self.weave.recycle(records);
    }

    /// A last line without newline.
    fn tail(&mut self, at: usize, end: End) {
        let to = self.bytes.len();
        let is_long = to - at > self.shape.record_bytes_max;
        if is_long || end == End::All {
            if !self.weave.is_empty() {
                self.weave_ends(at);
            }
            self.join(at, to);
            self.cut_line(to);
            // The earlier lines of the record have waited long enough for it.
            if end == End::All && self.lines > 0 {
                self.lines = 0;
                self.part(to);
            }
        }
    }

    /// Ends the record before a line, unless the line belongs to it and fits.
    fn join(&mut self, at: usize, to: usize) {
        if self.lines == 0 {
            return;
        }
        let line = &self.bytes[at..to];
        let takes = self.open.takes(self.shape.join.as_ref(), self.head, line);
        let fits = to - self.from <= self.shape.record_bytes_max
            && self.lines < self.shape.record_lines_max;
        self.cuts += u64::from(takes == Takes::Yes && !fits);
        if takes == Takes::No || !fits {
            self.record(at);
        } else if takes == Takes::Yes {
            self.sure = (self.lines + 1, to + 1);
        }
    }

    /// Cuts pieces off a line that ends at `to` until the rest is short enough.
    fn cut_line(&mut self, to: usize) {
        while to - self.from > self.shape.record_bytes_max {
            self.cuts += 1;
            self.part(self.from + self.shape.record_bytes_max);
        }
    }

    /// Ends the open record after its newline. Lines before `end` that do not surely belong to it
    /// are records of their own.
    fn record(&mut self, end: usize) {
        let (lines, sure_end) = self.sure;
        if lines > 1 {
            let from = self.from;
            self.give_lines();
            (self.each)(RecordPiece::Record(&self.bytes[from..sure_end - 1]), sure_end);
            self.stretch = sure_end;
        }
        (self.from, self.lines) = (end, 0);
    }

    /// Ends a record that has no newline.
    fn part(&mut self, end: usize) {
        let from = self.from;
        self.give_lines();
        (self.each)(RecordPiece::Record(&self.bytes[from..end]), end);
        (self.from, self.stretch) = (end, end);
    }

    fn give_lines(&mut self) {
        if self.stretch < self.from {
            (self.each)(RecordPiece::Lines(&self.bytes[self.stretch..self.from]), self.from);
            self.stretch = self.from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(join: Option<Join>, record_bytes_max: usize, record_lines_max: usize) -> Shape {
        Shape { join, containers: false, record_bytes_max, record_lines_max, record_age_ms: 2_000 }
    }

    fn of_containers(
        join: Option<Join>,
        record_bytes_max: usize,
        record_lines_max: usize,
    ) -> Shape {
        Shape { containers: true, ..shape(join, record_bytes_max, record_lines_max) }
    }

    fn start(regex: &str) -> Option<Join> {
        Some(Join::start(regex).unwrap())
    }

    fn continued(regex: &str) -> Option<Join> {
        Some(Join::continued(regex).unwrap())
    }

    /// The records and the result; checks that the consumed offsets of the pieces add up.
    fn records(bytes: &[u8], shape: &Shape, end: End) -> (Vec<Vec<u8>>, Done) {
        let mut records: Vec<Vec<u8>> = Vec::new();
        let mut behind = 0;
        let done = cut(bytes, shape, end, &mut |piece, done| {
            match piece {
                RecordPiece::Lines(lines) => {
                    assert_eq!(lines, &bytes[behind..done]);
                    let lines = lines.strip_suffix(b"\n").expect("whole lines");
                    records.extend(lines.split(|&b| b == b'\n').map(<[u8]>::to_vec));
                }
                RecordPiece::Woven(woven) => {
                    let lines = |bytes: &[u8]| {
                        let mut lines: Vec<Vec<u8>> =
                            bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
                        lines.sort();
                        lines
                    };
                    assert_eq!(lines(&woven.join(&b'\n')), lines(&bytes[behind..done - 1]));
                    records.extend(woven.iter().cloned());
                }
                RecordPiece::Record(record) | RecordPiece::Start(record) => {
                    assert_eq!(record, &bytes[behind..behind + record.len()]);
                    let newline = done - behind - record.len();
                    assert!(newline == 0 || (newline == 1 && bytes[done - 1] == b'\n'));
                    records.push(record.to_vec());
                }
            }
            behind = done;
        });
        assert_eq!(done.consumed, behind);
        (records, done)
    }

    #[track_caller]
    fn check(shape: &Shape, end: End, text: &str, expected: &[&str], rest: &str, cuts: u64) {
        let (records, done) = records(text.as_bytes(), shape, end);
        let records: Vec<&str> = records.iter().map(|r| std::str::from_utf8(r).unwrap()).collect();
        assert_eq!((&records[..], &text[done.consumed..], done.cuts), (expected, rest, cuts));
    }

    #[test]
    fn lines() {
        for limit in [1 << 20, 9] {
            let plain = shape(None, limit, 10);
            check(&plain, End::Open, "", &[], "", 0);
            check(&plain, End::Open, "\n", &[""], "", 0);
            check(&plain, End::Open, "a\n\nb\r\nc", &["a", "", "b\r"], "c", 0);
            check(&plain, End::Lines, "a\nb", &["a"], "b", 0);
            check(&plain, End::All, "a\nb", &["a", "b"], "", 0);
            check(&plain, End::All, "a\n", &["a"], "", 0);
        }
    }

    #[test]
    fn long_lines_are_cut_at_the_limit() {
        let plain = shape(None, 4, 10);
        check(&plain, End::Open, "abc\n", &["abc"], "", 0);
        check(&plain, End::Open, "abcd\n", &["abcd"], "", 0);
        check(&plain, End::Open, "abcde\n", &["abcd", "e"], "", 1);
        check(&plain, End::Open, "abcdefgh\nx\n", &["abcd", "efgh", "x"], "", 1);
        check(&plain, End::Open, "abcd", &[], "abcd", 0);
        check(&plain, End::Open, "abcde", &["abcd"], "e", 1);
        check(&plain, End::All, "abcdefghi", &["abcd", "efgh", "i"], "", 2);
    }

    #[test]
    fn stack_traces_are_one_record() {
        let java =
            "12:00 error\njava.lang.X: y\n\tat a.b(C.java:1)\nCaused by: z\n\tat d\n12:01 fine\n";
        let whole = ["12:00 error\njava.lang.X: y\n\tat a.b(C.java:1)\nCaused by: z\n\tat d"];
        let by_start = shape(start(r"^\d\d:\d\d "), 1000, 100);
        check(&by_start, End::Open, java, &whole, "12:01 fine\n", 0);
        check(&by_start, End::Lines, java, &[whole[0], "12:01 fine"], "", 0);
        let by_rest = shape(continued(r"^(\s|Caused by|java)"), 1000, 100);
        check(&by_rest, End::Open, java, &whole, "12:01 fine\n", 0);
        // Lines before the first start are a record of their own.
        check(&by_start, End::Lines, "  x\n  y\n12:00 a\n", &["  x\n  y", "12:00 a"], "", 0);
        // One-line records among others.
        let text = "a\nb\n c\nd\ne\n f";
        let by_space = shape(continued("^ "), 1000, 100);
        check(&by_space, End::Open, text, &["a", "b\n c", "d"], "e\n f", 0);
        check(&by_space, End::Lines, text, &["a", "b\n c", "d", "e"], " f", 0);
        check(&by_space, End::All, text, &["a", "b\n c", "d", "e\n f"], "", 0);
        check(&by_space, End::All, "e\nf", &["e", "f"], "", 0);
    }

    #[test]
    fn parts_of_a_container_are_one_record() {
        let parts = of_containers(None, 1000, 100);
        let at = |second: u32, rest: &str| format!("2026-01-31T12:00:{second:02}Z {rest}");
        let (first, second, last) = (at(1, "stdout P a"), at(2, "stdout P b"), at(3, "stdout F c"));
        let whole = format!("{first}\n{second}\n{last}");
        let (before, after) = (at(0, "stdout F x"), at(4, "stderr F y"));
        let text = format!("{before}\n{whole}\n{after}\n");
        check(&parts, End::Open, &text, &[&before, &whole, &after], "", 0);
        // A part alone waits for its continuation, in vain in the end.
        let part = format!("{first}\n");
        check(&parts, End::Open, &part, &[], &part, 0);
        check(&parts, End::Lines, &part, &[&first], "", 1);
        check(&parts, End::Open, "x\nP y\n\n", &["x", "P y", ""], "", 0);
        // The other stream writes between the parts.
        let err = at(2, "stderr F err");
        let woven = format!("{first}\n{err}\n{second}\n");
        check(&parts, End::Open, &woven, &[], &woven, 0);
        let text = format!("{woven}{last}\n{after}\n");
        check(&parts, End::Open, &text, &[&whole, &err, &after], "", 0);
        // Both streams in parts.
        let (p, f) = (at(2, "stderr P e1"), at(3, "stderr F e2"));
        let text = format!("{first}\n{p}\n{last}\n{f}\n");
        let out = format!("{first}\n{last}");
        check(&parts, End::Open, &text, &[&out, &format!("{p}\n{f}")], "", 0);
    }

    #[test]
    fn parts_of_docker_are_one_record() {
        let line = |log: &str, stream: &str| {
            format!(r#"{{"log":"{log}","stream":"{stream}","time":"2026-01-31T12:00:00Z"}}"#)
        };
        let (a, err, b) = (line("a", "stdout"), line(r"e\n", "stderr"), line(r"b\n", "stdout"));
        let shape = of_containers(Some(Join::Traces), 1000, 100);
        let text = format!("{a}\n{err}\n{b}\n");
        check(&shape, End::Open, &text, &[&format!("{a}\n{b}"), &err], "", 0);
        let (head, frame) = (line(r"ERROR x\n", "stdout"), line(r"\tat a.b(C.java:1)\n", "stdout"));
        let next = line(r"INFO y\n", "stdout");
        let text = format!("{head}\n{frame}\n{next}\n");
        check(&shape, End::Open, &text, &[&format!("{head}\n{frame}"), &next], "", 0);
    }

    #[test]
    fn records_of_containers_have_bounds() {
        let at = |second: u32, rest: &str| format!("2026-01-31T12:00:{second:02}Z {rest}");
        let lines =
            |lines: &[&String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (part, late) = (at(1, "stdout P a"), at(4, "stdout F late"));
        let shape = of_containers(None, 1000, 100);
        check(&shape, End::Open, &lines(&[&part, &late]), &[&part, &late], "", 1);
        let err = at(4, "stderr F e");
        check(&shape, End::Open, &lines(&[&part, &err]), &[&part, &err], "", 1);
        // Lines of one record.
        let shape = of_containers(None, 1000, 2);
        let (p1, p2, end) = (at(1, "stdout P a"), at(1, "stdout P b"), at(1, "stdout F c"));
        let two = format!("{p1}\n{p2}");
        check(&shape, End::Open, &lines(&[&p1, &p2, &end]), &[&two, &end], "", 1);
        // Bytes of all lines that wait.
        let shape = of_containers(None, 80, 100);
        let text = lines(&[&p1, &err_at_1(), &end]);
        check(&shape, End::Open, &text, &[&p1, &err_at_1(), &end], "", 1);
        // A line that is too long is cut as anywhere.
        let shape = of_containers(None, 40, 100);
        let long = at(1, "stdout F 0123456789ab");
        check(&shape, End::Lines, &lines(&[&long]), &[&long[..40], &long[40..]], "", 1);
    }

    fn err_at_1() -> String {
        "2026-01-31T12:00:01Z stderr F e".to_owned()
    }

    #[test]
    fn rules_hold_for_what_containers_say() {
        let line = |rest: &str| format!("2026-01-31T12:00:00Z {rest}");
        let (a, b) = (line("stdout F 2026 a"), line("stdout F  more"));
        let (e, c) = (line("stderr F e"), line("stdout F 2026 c"));
        let text = format!("{a}\n{b}\n{e}\n{c}\n");
        let ab = format!("{a}\n{b}");
        for join in [start("^2026"), continued("^ ")] {
            let shape = of_containers(join, 1000, 100);
            check(&shape, End::Lines, &text, &[&ab, &e, &c], "", 0);
        }
    }

    #[test]
    fn traces_are_joined_without_a_rule() {
        let traces = shape(Some(Join::Traces), 1000, 100);
        let trace = "2026-01-31 12:00:00 ERROR x\njava.lang.X: y\n\tat a.B.c(B.java:1)";
        let next = "2026-01-31 12:00:01 INFO next";
        let text = format!("{next}\n{trace}\n{next}\n");
        check(&traces, End::Open, &text, &[next, trace, next], "", 0);
        // What may go on waits; other lines do not.
        let open = format!("{next}\n{trace}\n");
        check(&traces, End::Open, &open, &[next], &open[next.len() + 1..], 0);
        check(&traces, End::Lines, &open, &[next, trace], "", 0);
        check(&traces, End::More, &format!("{next}\n"), &[], &format!("{next}\n"), 0);
        check(&traces, End::Open, &format!("{next}\n\tat"), &[], &format!("{next}\n\tat"), 0);
        // Blank lines belong to a trace if more of it follows.
        let panic = "panic: x\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:1";
        check(&traces, End::Lines, &format!("{panic}\n\n{next}\n"), &[panic, "", next], "", 0);
        check(&traces, End::Lines, "panic: x\n\n", &["panic: x", ""], "", 0);
        check(
            &traces,
            End::All,
            &format!("{trace}\n\tat z"),
            &[&format!("{trace}\n\tat z")],
            "",
            0,
        );
    }

    #[test]
    fn records_end_at_the_limits() {
        let lines = shape(continued("^ "), 100, 2);
        check(&lines, End::Lines, "a\n b\nc\n", &["a\n b", "c"], "", 0);
        check(&lines, End::Lines, "a\n b\n c\n d\n e\nf\n", &["a\n b", " c\n d", " e", "f"], "", 2);
        let bytes = shape(continued("^ "), 5, 100);
        check(&bytes, End::Lines, "ab\n c\n", &["ab\n c"], "", 0);
        check(&bytes, End::Lines, "ab\n cd\n", &["ab", " cd"], "", 1);
        check(&bytes, End::Lines, "a\n bcdefgh\n i\n", &["a", " bcde", "fgh", " i"], "", 3);
        check(&bytes, End::Open, "a\n bcdefgh", &["a", " bcde"], "fgh", 2);
    }

    /// Cuts with reads of these sizes, as the follower does, and the rest at the end.
    fn in_reads(bytes: &[u8], shape: &Shape, reads: &[usize]) -> Vec<Vec<u8>> {
        let (mut at, mut read_to, mut all) = (0, 0, Vec::new());
        for read in reads.iter().copied().chain([bytes.len()]) {
            read_to = (read_to + read).min(bytes.len());
            let end = if read_to == bytes.len() { End::All } else { End::More };
            let (records, done) = records(&bytes[at..read_to], shape, end);
            all.extend(records);
            at += done.consumed;
        }
        assert_eq!(at, bytes.len());
        all
    }

    /// Reference model: line by line, into owned strings.
    fn naive(text: &str, shape: &Shape) -> Vec<Vec<u8>> {
        let mut records: Vec<String> = Vec::new();
        let (mut open_lines, mut open) = (0, OpenRecord::begin(b""));
        for line in text.split_terminator('\n') {
            let belongs = open_lines > 0
                && open.takes(shape.join.as_ref(), b"", line.as_bytes()) == Takes::Yes
                && open_lines < shape.record_lines_max
                && records.last().unwrap().len() + 1 + line.len() <= shape.record_bytes_max;
            if belongs {
                let record = records.last_mut().unwrap();
                record.push('\n');
                record.push_str(line);
                open_lines += 1;
            } else {
                let mut line = line.to_owned();
                while line.len() > shape.record_bytes_max {
                    let rest = line.split_off(shape.record_bytes_max);
                    records.push(std::mem::replace(&mut line, rest));
                }
                records.push(line);
                open_lines = 1;
            }
        }
        records.into_iter().map(String::into_bytes).collect()
    }

    proptest! {
        #[test]
        fn records_do_not_depend_on_the_reads(
            text in "([ab ]{0,9}\n){0,9}[ab ]{0,9}",
            reads in prop::collection::vec(0usize..20, 0..9),
            join in prop::option::of(any::<bool>()),
            limits in (1usize..12, 1usize..4),
        ) {
            let join = match join {
                Some(true) => start("^a"),
                Some(false) => continued("^ "),
                None => None,
            };
            let shape = shape(join, limits.0, limits.1);
            let expected = naive(&text, &shape);
            prop_assert_eq!(&in_reads(text.as_bytes(), &shape, &reads), &expected);
            prop_assert_eq!(&in_reads(text.as_bytes(), &shape, &[]), &expected);
        }

        #[test]
        fn records_of_containers_do_not_depend_on_the_reads(
            lines in prop::collection::vec((any::<bool>(), any::<bool>(), 0usize..4, 0u32..4), 0..20),
            reads in prop::collection::vec(0usize..200, 0..9),
            with_traces in any::<bool>(),
            limits in (60usize..200, 1usize..5),
        ) {
            const TEXTS: [&str; 4] = ["ERROR x", "\tat a.b(C.java:1)", "INFO y", "{"];
            let mut second = 0;
            let text: String = lines.iter().map(|(is_stderr, is_part, text, later)| {
                second += later;
                let (stream, tag) = (["stdout", "stderr"][usize::from(*is_stderr)], ["F", "P"][usize::from(*is_part)]);
                format!("2026-01-31T12:00:{second:02}Z {stream} {tag} {}\n", TEXTS[*text])
            }).collect();
            let shape = of_containers(with_traces.then_some(Join::Traces), limits.0, limits.1);
            let expected = in_reads(text.as_bytes(), &shape, &[]);
            prop_assert_eq!(in_reads(text.as_bytes(), &shape, &reads), expected);
        }
    }
}
