//! Cuts data read from a file into records: lines, or several lines that belong together.
//!
//! Nothing is copied and no state is kept: an incomplete record stays in the file, and is read
//! again with the data behind it. So the records of a file do not depend on how the reads were
//! split.
//!
//! Fast path: if no rule joins lines and no line can be too long, everything up to the last newline
//! is taken at once. Slow path: line by line; the tests compare the two.

use regex::bytes::Regex;

use super::FileError;

/// Which lines belong to one record.
#[derive(Clone, Debug)]
pub enum Join {
    /// A matching line begins a record; all others belong to the record before.
    Start(Regex),
    /// A matching line belongs to the record before.
    Continue(Regex),
    /// Lines written by a container runtime: a line belongs to the one before if that is a part
    /// (`TIME stdout P …`).
    Parts,
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

    /// Whether `line` begins a new record after the line `before`.
    fn begins(&self, before: &[u8], line: &[u8]) -> bool {
        match self {
            Join::Start(regex) => regex.is_match(line),
            Join::Continue(regex) => !regex.is_match(line),
            Join::Parts => match part_of(before) {
                // Lines of the other stream may be interleaved; they do not belong to this record.
                Some(stream) => stream_of(line).is_none_or(|(found, _)| found != stream),
                None => true,
            },
        }
    }

    /// Whether a record ends with this line, whatever follows.
    fn ends(&self, line: &[u8]) -> bool {
        matches!(self, Join::Parts) && part_of(line).is_none()
    }
}

/// The stream of a container's line, if the line continues in the next one.
fn part_of(line: &[u8]) -> Option<&[u8]> {
    let (stream, rest) = stream_of(line)?;
    matches!(rest, [b'P'] | [b'P', b' ' | b':', ..]).then_some(stream)
}

/// The stream of a container's line, and the text behind it.
fn stream_of(line: &[u8]) -> Option<(&[u8], &[u8])> {
    const TIME_BYTES_MAX: usize = 40;
    let blank = memchr::memchr(b' ', &line[..line.len().min(TIME_BYTES_MAX)])?;
    let rest = &line[blank + 1..];
    let stream = rest.get(..6).filter(|stream| matches!(*stream, b"stdout" | b"stderr"))?;
    Some((stream, rest[6..].strip_prefix(b" ")?))
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
    /// Bytes of a record. A longer record is cut into several, and counted.
    pub record_bytes_max: usize,
    /// Lines of a record. The next line begins another record, which is counted as a cut.
    pub record_lines_max: usize,
}

/// How to treat the end of the data that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
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
pub fn cut<'a>(
    bytes: &'a [u8],
    shape: &Shape,
    end: End,
    each: &mut dyn FnMut(RecordPiece<'a>, usize),
) -> Done {
    if shape.join.is_some() || bytes.len() > shape.record_bytes_max {
        let mut cutter =
            Cutter { bytes, shape, each, from: 0, stretch: 0, last: (0, 0), lines: 0, cuts: 0 };
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
    each: &'b mut dyn FnMut(RecordPiece<'a>, usize),
    /// Where the open record begins.
    from: usize,
    /// Where the pending one-line records begin; they end at `from`.
    stretch: usize,
    /// Range of the last line of the open record.
    last: (usize, usize),
    /// Number of lines in the open record.
    lines: usize,
    cuts: u64,
}

impl Cutter<'_, '_> {
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
        if end >= End::Lines && self.lines > 0 {
            self.record(at);
        }
        if end == End::All && self.from < self.bytes.len() {
            self.part(self.bytes.len());
        }
        self.give_lines();
        Done { consumed: self.from, cuts: self.cuts }
    }

    /// A whole line; its newline is at `to`.
    fn line(&mut self, at: usize, to: usize) {
        self.join(at, to);
        self.cut_line(to);
        self.lines += 1;
        self.last = (at, to);
        let ends = |join: &Join| join.ends(&self.bytes[at..to]);
        if self.shape.join.as_ref().is_none_or(ends) {
            self.record(to + 1);
        }
    }

    /// A last line without newline.
    fn tail(&mut self, at: usize, end: End) {
        let to = self.bytes.len();
        let is_long = to - at > self.shape.record_bytes_max;
        if is_long || end == End::All {
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
        let join = self.shape.join.as_ref().expect("records of one line are not open");
        let before = &self.bytes[self.last.0..self.last.1];
        let begins = join.begins(before, &self.bytes[at..to]);
        let fits = to - self.from <= self.shape.record_bytes_max
            && self.lines < self.shape.record_lines_max;
        self.cuts += u64::from(!begins && !fits);
        if begins || !fits {
            self.record(at);
        }
    }

    /// Cuts pieces off a line that ends at `to` until the rest is short enough.
    fn cut_line(&mut self, to: usize) {
        while to - self.from > self.shape.record_bytes_max {
            self.cuts += 1;
            self.part(self.from + self.shape.record_bytes_max);
        }
    }

    /// Ends the open record after its newline.
    fn record(&mut self, end: usize) {
        if self.lines > 1 {
            let from = self.from;
            self.give_lines();
            (self.each)(RecordPiece::Record(&self.bytes[from..end - 1]), end);
            self.stretch = end;
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
        Shape { join, record_bytes_max, record_lines_max }
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
        let parts = shape(Some(Join::Parts), 1000, 100);
        let (first, second, last) = ("1T stdout P a", "2T stdout P b", "3T stdout F c");
        let whole = format!("{first}\n{second}\n{last}");
        let text = format!("0T stdout F x\n{whole}\n4T stderr F y\n");
        let expected = ["0T stdout F x", &whole, "4T stderr F y"];
        check(&parts, End::Open, &text, &expected, "", 0);
        // A part alone waits for its continuation; the other stream does not belong to it.
        check(&parts, End::Open, "1T stdout P a\n", &[], "1T stdout P a\n", 0);
        check(&parts, End::Lines, "1T stdout P a\n", &["1T stdout P a"], "", 0);
        let mixed = "1T stdout P a\n2T stderr F b\n3T stdout F c\n";
        check(
            &parts,
            End::Open,
            mixed,
            &["1T stdout P a", "2T stderr F b", "3T stdout F c"],
            "",
            0,
        );
        check(&parts, End::Open, "x\nP y\n\n", &["x", "P y", ""], "", 0);
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
            let end = if read_to == bytes.len() { End::All } else { End::Open };
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
        let mut open_lines = 0;
        for line in text.split_terminator('\n') {
            let belongs = open_lines > 0
                && shape.join.as_ref().is_some_and(|join| !join.begins(b"", line.as_bytes()))
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
    }
}
