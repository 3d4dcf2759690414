//! Splits a syslog TCP stream into lines (RFC 6587), both framings mixed on one connection.
//!
//! Each message is looked at anew:
//!
//! - *Octet counting* (§3.4.1), when it begins with a count of one to nine digits without a leading zero, a
//!   space, and a priority `<0>` … `<999>` that the count covers: `17 <13>1 - - - - - x`.
//! - *Newline framing* (§3.4.2, "non-transparent"), otherwise. A plain line that begins with digits is
//!   therefore a plain line (`404 not found`, `12 <b>`), and so is one whose count cannot be right: what is
//!   not believed to be a count stays part of the line, so nothing is lost. A count that is wrong but
//!   possible moves the border between two lines; their bytes are kept all the same.
//!
//! A newline at the end of a counted message, or right behind it, belongs to the framing: senders count it,
//! or do not, or send none. A CR before a newline stays in the line, as do empty lines: the raw line is what
//! was sent.
//!
//! Bytes that were read into the place where newline-framed lines stay need no copy: what is carried over is put
//! in front ([`LineSplitter::carried_in_place`]), and the lines are counted where they are
//! ([`LineSplitter::split_in_place`]). Otherwise whole stretches of such lines are handed out as slices of what was
//! read, to be copied once. Only a line that continues in the next read is copied into a carry-over buffer, which
//! begins empty, grows with the line, and never passes [`LINE_BYTES_MAX`]. A longer line is handed out cut there,
//! and the rest of it, up to its newline or by its count, is skipped.
//!
//! Invariant: the lines do not depend on how the stream was split into reads. Left out: NUL as a trailer
//! (§3.4.2 mentions it; the parser takes it off the line's end), and any look into the lines.

use crate::frame::LINE_BYTES_MAX;

/// A carry-over buffer larger than this is given back once its line is complete: there may be many connections.
const CARRY_BYTES_KEPT: usize = 1 << 10;
/// The longest start of a line that is put in front of the next read. It is copied there and back with each read
/// until its line is complete, however little is read.
pub const CARRY_IN_PLACE_BYTES_MAX: usize = 32 << 10;
/// Digits of an octet count. A longer number is part of a plain line.
const COUNT_DIGITS_MAX: usize = 9;
/// The most that is needed to tell the framing: count, space, `<`, three digits, `>`.
const START_BYTES_MAX: usize = COUNT_DIGITS_MAX + 6;

/// What comes out of a [`LineSplitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Whole newline-framed lines, each with its newline.
    Lines(&'a [u8]),
    /// One line without what framed it; it may contain newlines.
    Line {
        /// The line.
        bytes: &'a [u8],
        /// Whether it was longer, and its rest is skipped.
        cut: bool,
    },
}

/// What [`LineSplitter::split_in_place`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// So many bytes at the start are whole newline-framed lines.
    pub bytes: usize,
    /// So many lines.
    pub lines: u32,
    /// Whether the rest is carried over. If not, it is to be given to [`LineSplitter::split`].
    pub is_rest_carried: bool,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Behind a whole line.
    Complete,
    /// In a line of which the newline was missing. It was handed out; many senders end so.
    Unterminated,
    /// In a counted message, of which less came than was announced. What came was handed out.
    Short,
}

/// Where in a stream we are.
#[derive(Clone, Copy, Debug)]
enum State {
    /// At the start of a message. The carry-over holds what came of it, too little to tell its framing.
    Start,
    /// Behind a counted message: as `Start`, but a newline here belongs to that message.
    BehindCounted,
    /// In a newline-framed line; the carry-over holds its start.
    Line,
    /// In a counted message; the carry-over holds its start, `left` bytes are to come.
    Counted { left: usize },
    /// In the rest of a line that was cut.
    SkipLine,
    /// In the rest of a counted message that was cut.
    SkipCounted { left: usize },
}

/// Splits one connection's stream. See the module.
#[derive(Debug)]
pub struct LineSplitter {
    state: State,
    /// Whether the last message was counted, so that the next is likely to be.
    is_counted: bool,
    carry: Vec<u8>,
    line_bytes_max: usize,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl LineSplitter {
    /// For a new connection. Lines are cut at [`LINE_BYTES_MAX`].
    pub fn new() -> Self {
        Self::with_line_bytes_max(LINE_BYTES_MAX)
    }

    /// As [`LineSplitter::new`], with a smaller limit.
    ///
    /// # Panics
    /// When the limit is larger than [`LINE_BYTES_MAX`], or too small for a priority.
    pub fn with_line_bytes_max(line_bytes_max: usize) -> Self {
        assert!((START_BYTES_MAX..=LINE_BYTES_MAX).contains(&line_bytes_max));
        LineSplitter { state: State::Start, is_counted: false, carry: Vec::new(), line_bytes_max }
    }

    /// Bytes held back because their line is not complete.
    pub fn carried_bytes(&self) -> usize {
        self.carry.len()
    }

    /// What is carried over, if it is to be put in front of the next read for
    /// [`split_in_place`](Self::split_in_place). None where lines must be moved or skipped anyway: then the next read
    /// goes to [`split`](Self::split).
    pub fn carried_in_place(&self) -> Option<&[u8]> {
        let is_plain = matches!(self.state, State::Start | State::Line) && !self.is_counted;
        (is_plain && self.carry.len() <= CARRY_IN_PLACE_BYTES_MAX).then_some(self.carry.as_slice())
    }

    /// Finds the newline-framed lines that are complete with the next bytes of the stream; `bytes` begins with what
    /// [`carried_in_place`](Self::carried_in_place) gave.
    ///
    /// # Panics
    /// May, when that was nothing.
    pub fn split_in_place(&mut self, bytes: &[u8]) -> InPlace {
        assert!(bytes.len() >= self.carry.len(), "the carried bytes are in front");
        let (whole_bytes, lines) = whole_lines(bytes, self.line_bytes_max);
        let rest = &bytes[whole_bytes..];
        self.carry.clear();
        if self.carry.capacity() > CARRY_BYTES_KEPT.max(4 * rest.len()) {
            self.carry = Vec::new();
        }
        let (state, is_rest_carried) = match message_start(rest) {
            MessageStart::Counted { .. } => (State::Start, false),
            MessageStart::TooShort => (State::Start, true),
            MessageStart::Plain => {
                let fits = rest.len() <= self.line_bytes_max;
                match fits && memchr::memchr(b'\n', rest).is_none() {
                    true => (State::Line, true),
                    false => (State::Start, false),
                }
            }
        };
        self.state = state;
        if is_rest_carried {
            self.carry_on(rest);
        }
        InPlace { bytes: whole_bytes, lines, is_rest_carried }
    }

    /// Hands out the lines that are complete with the next bytes of the stream.
    pub fn split(&mut self, mut read: &[u8], emit: &mut impl FnMut(Piece<'_>)) {
        while !read.is_empty() {
            read = match self.state {
                State::Start => self.start(read, emit),
                State::BehindCounted => {
                    self.state = State::Start;
                    read.strip_prefix(b"\n").unwrap_or(read)
                }
                State::Line => self.line(read, emit),
                State::Counted { left } => self.counted(read, left, emit),
                State::SkipLine => match memchr::memchr(b'\n', read) {
                    Some(at) => {
                        self.state = State::Start;
                        &read[at + 1..]
                    }
                    None => &[],
                },
                State::SkipCounted { left } => {
                    let skipped = left.min(read.len());
                    self.state = match left - skipped {
                        0 => State::BehindCounted,
                        left => State::SkipCounted { left },
                    };
                    &read[skipped..]
                }
            };
        }
    }

    /// Hands out the carried-over start of a line as a cut line, and will skip the rest of the line. For a
    /// caller that has a limit on what all connections together may hold.
    pub fn cut(&mut self, emit: &mut impl FnMut(Piece<'_>)) {
        self.state = match self.state {
            State::Line => State::SkipLine,
            State::Counted { left } => State::SkipCounted { left },
            // Nothing is held, or a few bytes that may still be a count.
            _ => return,
        };
        self.emit_carry(true, emit);
    }

    /// Ends the stream: what is left of a line without an end is handed out as a line.
    pub fn end(mut self, emit: &mut impl FnMut(Piece<'_>)) -> Ending {
        let ending = match self.state {
            State::Counted { .. } | State::SkipCounted { .. } => Ending::Short,
            State::SkipLine => Ending::Unterminated,
            _ if self.carry.is_empty() => Ending::Complete,
            _ => Ending::Unterminated,
        };
        if !self.carry.is_empty() {
            self.emit_carry(false, emit);
        }
        ending
    }

    /// At the start of a message: tells its framing, and hands out the stretch of newline-framed lines there.
    fn start<'a>(&mut self, read: &'a [u8], emit: &mut impl FnMut(Piece<'_>)) -> &'a [u8] {
        if self.carry.is_empty() {
            return match message_start(read) {
                MessageStart::Counted { count, header_bytes } => {
                    self.is_counted = true;
                    self.state = State::Counted { left: count };
                    &read[header_bytes..]
                }
                MessageStart::Plain => self.stretch(read, emit),
                MessageStart::TooShort => {
                    self.carry_on(read);
                    &[]
                }
            };
        }
        // The carried-over bytes are too few to tell, and so contain no newline.
        let carried = self.carry.len();
        let mut start = [0u8; 2 * START_BYTES_MAX];
        let added = read.len().min(START_BYTES_MAX);
        start[..carried].copy_from_slice(&self.carry);
        start[carried..carried + added].copy_from_slice(&read[..added]);
        match message_start(&start[..carried + added]) {
            MessageStart::Counted { count, header_bytes } => {
                let message_bytes = carried.saturating_sub(header_bytes);
                self.is_counted = true;
                self.carry.drain(..carried - message_bytes);
                self.state = State::Counted { left: count - message_bytes };
                &read[header_bytes.saturating_sub(carried)..]
            }
            MessageStart::Plain => {
                self.is_counted = false;
                self.state = State::Line;
                read
            }
            MessageStart::TooShort => {
                self.carry_on(read);
                &[]
            }
        }
    }

    /// Hands out newline-framed lines up to a counted message, a line that is too long, or one that is not
    /// complete. The first line is known to be newline-framed.
    fn stretch<'a>(&mut self, read: &'a [u8], emit: &mut impl FnMut(Piece<'_>)) -> &'a [u8] {
        let (bytes, _) = whole_lines(read, self.line_bytes_max);
        let (lines, rest) = read.split_at(bytes);
        if !lines.is_empty() {
            emit(Piece::Lines(lines));
        }
        self.is_counted = false;
        // The rest of a newline-framed line that is too long, or not complete, must not be taken for a start.
        self.state = match message_start(rest) {
            MessageStart::Plain => State::Line,
            _ => State::Start,
        };
        rest
    }

    /// In a newline-framed line that is not complete, or too long.
    fn line<'a>(&mut self, read: &'a [u8], emit: &mut impl FnMut(Piece<'_>)) -> &'a [u8] {
        let room = self.line_bytes_max - self.carry.len();
        let looked_at = &read[..read.len().min(room + 1)];
        if let Some(at) = memchr::memchr(b'\n', looked_at) {
            self.state = State::Start;
            self.carry_on(&read[..at]);
            self.emit_carry(false, emit);
            return &read[at + 1..];
        }
        let taken = read.len().min(room);
        self.carry_on(&read[..taken]);
        if taken < read.len() {
            self.state = State::SkipLine;
            self.emit_carry(true, emit);
        }
        &read[taken..]
    }

    /// In a counted message.
    fn counted<'a>(
        &mut self,
        read: &'a [u8],
        left: usize,
        emit: &mut impl FnMut(Piece<'_>),
    ) -> &'a [u8] {
        let room = self.line_bytes_max - self.carry.len();
        let taken = left.min(room).min(read.len());
        let (bytes, rest) = read.split_at(taken);
        if taken == left {
            self.state = State::BehindCounted;
            if self.carry.is_empty() {
                emit(Piece::Line { bytes: without_newline(bytes), cut: false });
            } else {
                self.carry_on(bytes);
                self.emit_carry(false, emit);
            }
        } else {
            self.state = State::Counted { left: left - taken };
            self.carry_on(bytes);
            if taken == room {
                self.cut(emit);
            }
        }
        rest
    }

    fn carry_on(&mut self, bytes: &[u8]) {
        let needed = self.carry.len() + bytes.len();
        if needed > self.carry.capacity() {
            let grown = (2 * self.carry.capacity()).min(self.line_bytes_max).max(needed);
            self.carry.reserve_exact(grown - self.carry.len());
        }
        self.carry.extend_from_slice(bytes);
    }

    fn emit_carry(&mut self, cut: bool, emit: &mut impl FnMut(Piece<'_>)) {
        let counted = matches!(self.state, State::BehindCounted);
        let bytes = if counted { without_newline(&self.carry) } else { &self.carry };
        emit(Piece::Line { bytes, cut });
        if self.carry.capacity() > CARRY_BYTES_KEPT {
            self.carry = Vec::new();
        } else {
            self.carry.clear();
        }
    }
}

/// How many bytes at the start are whole newline-framed lines, and how many lines: up to a message that is counted
/// or of which too little is there to tell, a line that is too long, or one that is not complete.
fn whole_lines(bytes: &[u8], line_bytes_max: usize) -> (usize, u32) {
    if message_start(bytes) != MessageStart::Plain {
        return (0, 0);
    }
    let Some(last) = memchr::memrchr(b'\n', bytes) else { return (0, 0) };
    let (newlines, may_be_counted) = survey(bytes);
    if !may_be_counted && bytes.len() <= line_bytes_max {
        return (last + 1, newlines);
    }
    let (mut line_start, mut lines) = (0, 0);
    for newline in memchr::memchr_iter(b'\n', bytes) {
        if newline - line_start > line_bytes_max {
            break;
        }
        line_start = newline + 1;
        lines += 1;
        let is_digit = matches!(bytes.get(line_start), Some(b'1'..=b'9'));
        if is_digit && message_start(&bytes[line_start..]) != MessageStart::Plain {
            break;
        }
    }
    (line_start, lines)
}

/// Counts newlines, and says whether anywhere is what every count ends in: a digit, a space, `<`.
fn survey(bytes: &[u8]) -> (u32, bool) {
    let newlines = memchr::memchr_iter(b'\n', bytes).count() as u32;
    let ends_count = |at: usize| at > 0 && bytes[at - 1].is_ascii_digit();
    (newlines, memchr::memmem::find_iter(bytes, b" <").any(ends_count))
}

fn without_newline(message: &[u8]) -> &[u8] {
    message.strip_suffix(b"\n").unwrap_or(message)
}

/// How a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageStart {
    /// With a count of that value; count and space are `header_bytes` long.
    Counted { count: usize, header_bytes: usize },
    /// Without a count.
    Plain,
    /// Too few bytes to tell. Never so with [`START_BYTES_MAX`] bytes.
    TooShort,
}

/// Looks for `COUNT <PRIORITY>`.
fn message_start(bytes: &[u8]) -> MessageStart {
    let mut count = 0;
    let mut at = 0;
    loop {
        match bytes.get(at) {
            None => return MessageStart::TooShort,
            Some(b' ') if at > 0 => break,
            Some(b'0') if at == 0 => return MessageStart::Plain,
            Some(&digit @ b'0'..=b'9') if at < COUNT_DIGITS_MAX => {
                count = 10 * count + usize::from(digit - b'0');
                at += 1;
            }
            Some(_) => return MessageStart::Plain,
        }
    }
    let header_bytes = at + 1;
    let priority = &bytes[header_bytes..];
    match priority.first() {
        None => return MessageStart::TooShort,
        Some(b'<') => {}
        Some(_) => return MessageStart::Plain,
    }
    let digits = priority[1..].iter().take(4).take_while(|b| b.is_ascii_digit()).count();
    match priority.get(1 + digits) {
        _ if digits > 3 => MessageStart::Plain,
        None => MessageStart::TooShort,
        Some(b'>') if digits > 0 && count >= digits + 2 => {
            MessageStart::Counted { count, header_bytes }
        }
        Some(_) => MessageStart::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Lines = Vec<(Vec<u8>, bool)>;

    /// The splitter over a stream that arrives in these reads, in place and not.
    fn split<'a>(max: usize, reads: impl Iterator<Item = &'a [u8]> + Clone) -> (Lines, Ending) {
        let found = split_by(max, reads.clone(), false);
        assert_eq!(split_by(max, reads, true), found);
        found
    }

    fn split_by<'a>(
        max: usize,
        reads: impl Iterator<Item = &'a [u8]>,
        in_place: bool,
    ) -> (Lines, Ending) {
        let mut splitter = LineSplitter::with_line_bytes_max(max);
        let mut lines = Lines::new();
        let mut emit = |piece: Piece<'_>| match piece {
            Piece::Lines(bytes) => {
                let bytes = bytes.strip_suffix(b"\n").expect("lines end in a newline");
                lines.extend(bytes.split(|&b| b == b'\n').map(|line| (line.to_vec(), false)));
            }
            Piece::Line { bytes, cut } => lines.push((bytes.to_vec(), cut)),
        };
        for read in reads {
            match splitter.carried_in_place().filter(|_| in_place) {
                Some(carried) => {
                    let bytes = [carried, read].concat();
                    let found = splitter.split_in_place(&bytes);
                    let (lines, rest) = bytes.split_at(found.bytes);
                    let newlines = lines.iter().filter(|&&byte| byte == b'\n').count();
                    assert_eq!(found.lines as usize, newlines);
                    if !lines.is_empty() {
                        emit(Piece::Lines(lines));
                    }
                    if !found.is_rest_carried {
                        splitter.split(rest, &mut emit);
                    }
                }
                None => splitter.split(read, &mut emit),
            }
            assert!(splitter.carried_bytes() <= max && splitter.carry.capacity() <= max);
        }
        let ending = splitter.end(&mut emit);
        (lines, ending)
    }

    /// The naive twin: the whole stream at once, a message after the other.
    fn twin(max: usize, mut stream: &[u8]) -> Lines {
        let counted = regex::bytes::Regex::new(r"^([1-9][0-9]{0,8}) (<[0-9]{1,3}>)").unwrap();
        let mut lines = Lines::new();
        while !stream.is_empty() {
            let header = counted.captures(stream).and_then(|found| {
                let count: usize = std::str::from_utf8(&found[1]).unwrap().parse().unwrap();
                (count >= found[2].len()).then_some((found[1].len() + 1, count))
            });
            let (line, cut);
            if let Some((header_bytes, count)) = header {
                stream = &stream[header_bytes..];
                let came = &stream[..count.min(stream.len())];
                cut = count > max && came.len() >= max;
                let ended = came.len() == count && !cut;
                line = if ended { without_newline(came) } else { &came[..came.len().min(max)] };
                stream = &stream[came.len()..];
                if came.len() == count {
                    stream = stream.strip_prefix(b"\n").unwrap_or(stream);
                }
            } else {
                let end = stream.iter().position(|&b| b == b'\n').unwrap_or(stream.len());
                cut = end > max;
                line = &stream[..end.min(max)];
                stream = &stream[(end + 1).min(stream.len())..];
            }
            // A counted message of which only the count came is no line yet.
            if !(line.is_empty() && stream.is_empty() && header.is_some()) {
                lines.push((line.to_vec(), cut));
            }
        }
        lines
    }

    #[test]
    fn each_message_has_its_own_framing() {
        let check = |stream: &str, expected: &[&str], ending: Ending| {
            let (lines, found_ending) = split(64, [stream.as_bytes()].into_iter());
            let expected: Lines = expected.iter().map(|l| (l.as_bytes().to_vec(), false)).collect();
            assert_eq!((lines, found_ending), (expected, ending), "{stream:?}");
        };
        use Ending::*;
        // Newline framing, with CR, without the last newline, empty lines.
        check("<13>a\n<14>b\n", &["<13>a", "<14>b"], Complete);
        check("<13>a\r\n\nb", &["<13>a\r", "", "b"], Unterminated);
        check("", &[], Complete);
        // Octet counting; newline counted, not counted, in the middle, absent.
        check("5 <13>a5 <14>b", &["<13>a", "<14>b"], Complete);
        check("6 <13>a\n6 <14>b\n", &["<13>a", "<14>b"], Complete);
        check("5 <13>a\n5 <14>b\n", &["<13>a", "<14>b"], Complete);
        check("7 <13>a\nb<14>c\n", &["<13>a\nb", "<14>c"], Complete);
        check("6 <13>a\n\nx\n", &["<13>a", "x"], Complete);
        check("3 <1>x\n", &["<1>", "x"], Complete);
        check("9 <13>a", &["<13>a"], Short);
        check("9 <13", &["9 <13"], Unterminated);
        // Both on one connection.
        check("<1>a\n4 <2>b<3>c\n4 <4>d", &["<1>a", "<2>b", "<3>c", "<4>d"], Complete);
        // Plain lines that begin with digits, or with a count that cannot be one.
        check(
            "404 not found\n12 <b>\n7 \n7",
            &["404 not found", "12 <b>", "7 ", "7"],
            Unterminated,
        );
        check("05 <13>a\n5  <13>a\n-5 <13>a\n", &["05 <13>a", "5  <13>a", "-5 <13>a"], Complete);
        check("1234567890 <13>a\n", &["1234567890 <13>a"], Complete);
        check("2 <13>a\n5 <>a\n9 <1234>a\n", &["2 <13>a", "5 <>a", "9 <1234>a"], Complete);
        // A count that is wrong but possible: too small, then too large.
        check("4 <1>ab\n<2>c\n", &["<1>a", "b", "<2>c"], Complete);
        check("9 <1>a\n<2>b\n<3>c\n", &["<1>a\n<2>b", "<3>c"], Complete);
    }

    #[test]
    fn every_split_into_reads_gives_the_same_lines() {
        let stream = b"<13>one\r\n\n15 <14>two\nlines..\n11 <1>no count\n7 <2>four7 <3>five\n\
            123 <4\n12345678901 <5>\n20 <6>longer than may beplain line\xff\0\n6 <7>six9 <8>short";
        for max in [15, 16, 64] {
            let expected = twin(max, stream);
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let reads = [&stream[..first], &stream[first..second], &stream[second..]];
                    let (lines, ending) = split(max, reads.into_iter());
                    assert_eq!(lines, expected, "split at {first} and {second}, limit {max}");
                    assert_eq!(ending, Ending::Short);
                }
            }
            assert_eq!(split(max, stream.chunks(1)).0, expected);
        }
    }

    #[test]
    fn lines_are_cut_at_the_limit_and_not_before() {
        for max in [15, 100, LINE_BYTES_MAX] {
            for bytes in [max - 1, max, max + 1, max + 2, 3 * max] {
                let line = [b"<1>", vec![b'x'; bytes - 3].as_slice()].concat();
                let kept = (line[..bytes.min(max)].to_vec(), bytes > max);
                let next = (b"<2>next".to_vec(), false);
                let plain = [line.as_slice(), b"\n<2>next\n"].concat();
                let counted = [bytes.to_string().as_bytes(), b" ", &line, b"\n7 <2>next"].concat();
                for stream in [plain, counted] {
                    for read_bytes in [stream.len(), 64 << 10, 7] {
                        if stream.len() / read_bytes > 1 << 16 {
                            continue;
                        }
                        let (lines, ending) = split(max, stream.chunks(read_bytes));
                        assert!(lines == [kept.clone(), next.clone()], "{bytes} bytes, {max} max");
                        assert_eq!(ending, Ending::Complete);
                    }
                }
            }
        }
    }

    #[test]
    fn a_survey_finds_what_is_there_wherever_it_is() {
        for bytes in [0, 1, 2, 3, 31, 32, 33, 64, 100, 500] {
            assert_eq!(survey(&vec![b'\n'; bytes]), (bytes as u32, false));
            for at in 0..bytes.saturating_sub(2) {
                let mut sample = vec![b'<'; bytes];
                sample[at..at + 3].copy_from_slice(b"9 <");
                assert_eq!(survey(&sample), (0, true), "at {at} of {bytes}");
                sample[at] = b':';
                assert_eq!(survey(&sample), (0, false), "at {at} of {bytes}");
            }
        }
    }

    #[test]
    fn connections_of_counted_messages_are_not_read_in_place() {
        let mut splitter = LineSplitter::new();
        let is_in_place = |splitter: &LineSplitter| splitter.carried_in_place().is_some();
        let found = splitter.split_in_place(b"<1>a\n5 <13>a5 <");
        assert_eq!(found, InPlace { bytes: 5, lines: 1, is_rest_carried: false });
        splitter.split(b"5 <13>a5 <", &mut |_| {});
        assert!(!is_in_place(&splitter));
        splitter.split(b"13>a", &mut |_| {});
        assert!(!is_in_place(&splitter));
        splitter.split(b"<13>plain\n<13>", &mut |_| {});
        assert_eq!(splitter.carried_in_place(), Some(b"<13>".as_slice()));
        splitter.cut(&mut |_| {});
        assert!(!is_in_place(&splitter));
        splitter.split(b"\n", &mut |_| {});
        assert!(is_in_place(&splitter));
        // The start of a line that is too long to be moved about.
        let long = vec![b'x'; CARRY_IN_PLACE_BYTES_MAX];
        assert!(splitter.split_in_place(&long).is_rest_carried);
        assert!(is_in_place(&splitter));
        splitter.split(b"x", &mut |_| {});
        assert!(!is_in_place(&splitter));
    }

    #[test]
    fn a_caller_may_cut_a_line_short() {
        for (stream, kept) in [("<1>abcdef\n<2>x\n", "<1>ab"), ("9 <1>abcdef4 <2>x", "<1>")] {
            let mut splitter = LineSplitter::new();
            let mut pieces = Vec::new();
            let mut emit = |piece: Piece<'_>| pieces.push(format!("{piece:?}"));
            splitter.cut(&mut emit);
            splitter.split(&stream.as_bytes()[..5], &mut emit);
            splitter.cut(&mut emit);
            assert_eq!(splitter.carried_bytes(), 0);
            splitter.split(&stream.as_bytes()[5..], &mut emit);
            assert_eq!(splitter.end(&mut emit), Ending::Complete);
            assert_eq!(pieces.len(), 2, "{pieces:?}");
            let cut = Piece::Line { bytes: kept.as_bytes(), cut: true };
            assert_eq!(pieces[0], format!("{cut:?}"));
        }
    }

    #[test]
    fn a_large_carry_over_is_given_back() {
        let mut splitter = LineSplitter::new();
        splitter.split(&vec![b'x'; 1 << 20], &mut |_| {});
        assert_eq!(splitter.carried_bytes(), 1 << 20);
        splitter.split(b"\n", &mut |_| {});
        assert_eq!(splitter.carry.capacity(), 0);
    }

    /// Streams in which both framings, near misses and splits in bad places are likely.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            prop::sample::select(vec![
                "\n", "\r\n", " ", "<", ">", "0", "1", "2", "3", "9", "<13>"
            ])
            .prop_map(|token| token.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..30),
            (0usize..40).prop_map(|n| format!("{n} <13>{}", "x".repeat(n.max(4) - 4)).into_bytes()),
        ];
        prop::collection::vec(token, 0..30).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn as_the_naive_twin(
            stream in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            max in 15usize..60,
        ) {
            let mut borders: Vec<usize> = cuts.iter().map(|c| c.index(stream.len() + 1)).collect();
            borders.extend([0, stream.len()]);
            borders.sort_unstable();
            let reads = borders.windows(2).map(|border| &stream[border[0]..border[1]]);
            prop_assert_eq!(split(max, reads).0, twin(max, &stream));
        }
    }
}
