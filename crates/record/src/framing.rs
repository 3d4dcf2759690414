//! Splits a syslog TCP stream into lines (RFC 6587); one connection may mix several framings.
//!
//! The framing of each message is detected separately:
//!
//! - *Octet counting* (§3.4.1), if the message begins with a count of one to nine digits without a
//!   leading zero, a space, and a priority `<0>` … `<999>` that the count covers: `17 <13>1 - - - -
//!   - x`.
//! - *Newline framing* (§3.4.2, "non-transparent"), otherwise. A plain line that begins with digits
//!   is therefore a plain line (`404 not found`, `12 <b>`), and so is one whose count is
//!   impossible: digits that are not a plausible count stay part of the line, so nothing is lost. A
//!   count that is wrong but possible moves the border between two lines; their bytes are still
//!   kept.
//!
//! Behind a counted message a count needs no priority: the sender counts. The compressed messages
//! of rsyslog (`ZipLevel`) are counted whatever the others are, so `z` and the start of a zlib
//! stream counts as a priority does.
//!
//! A newline at the end of a counted message, or directly behind it, belongs to the framing: some
//! senders count it, some do not, some send none. A CR before a newline stays in the line, and
//! empty lines stay: the raw line is what was sent.
//!
//! If neither a count, nor a newline, nor a priority follows a counted message, the *framing is
//! lost*: nearly always the sender counts characters instead of bytes. It is found again at the
//! next newline, or at the next count that a priority follows. The bytes up to there are marked as
//! [lost](LinePiece::Line). They are the rest of the message before, if that has characters of
//! several bytes: such a message is held until the next byte shows that its sender counts bytes, or
//! for a short pause.
//!
//! Some senders end plain messages with NUL or with nothing, or count them without a priority;
//! others speak another protocol. The start of the connection decides which, and no later byte
//! changes it, so that a NUL within a newline-framed line stays in the line. [`opening`] decides
//! this, [`foreign`] recognises the protocols. Until it is decided, bytes are held back, at most
//! [`OPENING_BYTES_MAX`](opening::OPENING_BYTES_MAX).
//!
//! - *NULs*: a newline before the NUL belongs to the framing, others to the message; nothing
//!   between two NULs is not a line.
//! - *Nothing*: a message ends where the next one begins, or when nothing arrived for
//!   [`LineSplitter::pause_after`]; the caller then calls [`LineSplitter::pause`]. If newlines or
//!   NULs precede further messages, they end messages: all of them, unless a message without an end
//!   was followed by another one. Then only those: appenders of log4j send a newline behind the
//!   lines of an exception, and nothing behind other messages.
//!
//! A newline-framed line that is not complete for a while, and holds the starts of further
//! messages, shows that the sender has stopped to end them.
//!
//! Bytes that were read to the final position of newline-framed lines need no copy: carried-over
//! bytes are put in front ([`LineSplitter::carried_in_place`]), and the lines are counted in place
//! ([`LineSplitter::split_in_place`]). Otherwise sequences of such lines are emitted as slices of
//! the read, to be copied once. Only a line that continues in the next read is copied into a
//! carry-over buffer, which begins empty, grows with the line, and never exceeds
//! [`LINE_BYTES_MAX`]. A longer line is emitted cut to that length, and the rest of it, up to its
//! newline or by its count, is skipped; a longer message without an end is emitted in parts.
//!
//! Invariant: the lines do not depend on how the stream was split into reads, except for pauses
//! that the caller reports. Left out: looking into the lines.

pub mod foreign;
mod lost;
mod opening;
#[cfg(test)]
mod tests;

use std::time::Duration;

use foreign::Foreign;
use lost::Unit;
use opening::{Framing, Opening, Verdict};

use crate::frame::LINE_BYTES_MAX;

/// A carry-over buffer larger than this is freed once its line is complete: there may be many
/// connections.
const CARRY_BYTES_KEPT: usize = 1 << 10;
/// The longest start of a line that is put in front of the next read. It is copied there and back
/// with each read until its line is complete, however small the reads are.
pub const CARRY_IN_PLACE_BYTES_MAX: usize = 32 << 10;
/// How long nothing must arrive before the held-back bytes count as whole messages, if the last
/// byte may end one.
const PAUSE_AT_END: Duration = Duration::from_millis(100);
/// The same if the last byte cannot end one, and the sender seems to end messages with nothing.
const PAUSE: Duration = Duration::from_secs(1);
/// The same while nothing is known about the sender. One whose first line is interrupted for longer
/// has that line split in two.
const PAUSE_AT_START: Duration = Duration::from_secs(5);
/// Digits of an octet count. A longer number is part of a plain line.
const COUNT_DIGITS_MAX: usize = 9;
/// The longest priority, `<999>`.
const PRIORITY_BYTES_MAX: usize = 5;
/// A compressed message has more bytes than this.
const ZLIB_BYTES_MIN: usize = 8;
/// Bytes needed at most to detect the framing: count, space, `<`, three digits, `>`.
const START_BYTES_MAX: usize = COUNT_DIGITS_MAX + 6;

/// The output of a [`LineSplitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePiece<'a> {
    /// Whole newline-framed lines, each with its newline.
    Lines(&'a [u8]),
    /// One line without its framing; it may contain newlines.
    Line {
        /// The line.
        bytes: &'a [u8],
        /// Whether the line was longer; its rest is skipped.
        cut: bool,
        /// Whether the framing was lost in it, or before it.
        lost: bool,
    },
}

/// The result of [`LineSplitter::split_in_place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// How many bytes at the start are whole newline-framed lines.
    pub bytes: usize,
    /// The number of these lines.
    pub lines: u32,
    /// Whether the rest is carried over. If not, it must be passed to [`LineSplitter::split`].
    pub is_rest_carried: bool,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After a whole line.
    Complete,
    /// Within a line without its newline. The line was emitted; many senders end like this.
    Unterminated,
    /// Within a counted message that is shorter than announced. The received part was emitted.
    Short,
}

/// The state within a stream.
#[derive(Clone, Copy, Debug)]
enum State {
    /// At the start of the connection, or of a message if nothing ends messages. The carry-over
    /// holds the bytes of it received so far.
    Opening(Opening),
    /// The stream is of another protocol, and is skipped.
    Refused(Foreign),
    /// At the start of a message. The carry-over holds its first bytes, too few to detect the
    /// framing.
    Start,
    /// Behind a counted message: as `Start`, but a newline here still belongs to that message.
    BehindCounted,
    /// In a plain line; the carry-over holds its start.
    Line,
    /// In a counted message; the carry-over holds its start, `left` bytes are to come.
    Counted { left: usize },
    /// Behind a counted message of this many bytes, which may be too few: the carry-over holds
    /// them, and bytes behind them that are too few to tell.
    Held { message: usize },
    /// The framing is lost: behind a counted message, before anything that can begin one. The
    /// carry-over holds the line so far. If that begins with the message, `count` is its count,
    /// else 0.
    Lost { count: usize },
    /// In the rest of a line that was cut.
    SkipLine,
    /// In the rest of a counted message that was cut.
    SkipCounted { left: usize },
}

/// Splits the stream of one connection. See the module documentation.
#[derive(Debug)]
pub struct LineSplitter {
    state: State,
    /// What ends plain messages. Meaningless while in [`State::Opening`].
    framing: Framing,
    /// Whether the last message was counted, so that the next is likely to be.
    is_counted: bool,
    /// What the sender counts, as far as a message has shown it.
    unit: Unit,
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
    /// If the limit is larger than [`LINE_BYTES_MAX`], or too small for a priority.
    pub fn with_line_bytes_max(line_bytes_max: usize) -> Self {
        assert!((START_BYTES_MAX..=LINE_BYTES_MAX).contains(&line_bytes_max));
        LineSplitter {
            state: State::Opening(Opening::default()),
            framing: Framing::Newline,
            is_counted: false,
            unit: Unit::Unknown,
            carry: Vec::new(),
            line_bytes_max,
        }
    }

    /// The other protocol, if the stream is of one: then no lines were or will be emitted.
    pub fn foreign(&self) -> Option<Foreign> {
        match self.state {
            State::Refused(foreign) => Some(foreign),
            _ => None,
        }
    }

    /// How long nothing more must arrive before [`pause`](Self::pause) is due; `None` if nothing
    /// waits for that.
    pub fn pause_after(&self) -> Option<Duration> {
        match (self.state, self.carry.last()?) {
            (State::Held { .. } | State::Lost { .. }, _) => Some(PAUSE_AT_END),
            (State::Opening(_), b'\n' | 0) => Some(PAUSE_AT_END),
            (State::Opening(opening), _) if opening.has_waited() => Some(PAUSE_AT_START),
            (State::Opening(_), _) => Some(PAUSE),
            (State::Line, _) if self.may_be_glued() => Some(PAUSE),
            _ => None,
        }
    }

    /// Bytes held back because their line is not complete.
    pub fn carried_bytes(&self) -> usize {
        self.carry.len()
    }

    /// The carried-over bytes, if they should be put in front of the next read for
    /// [`split_in_place`](Self::split_in_place). `None` if lines must be moved or skipped anyway:
    /// then the next read goes to [`split`](Self::split).
    pub fn carried_in_place(&self) -> Option<&[u8]> {
        let is_plain = matches!(self.state, State::Start | State::Line)
            && !self.is_counted
            && self.framing == Framing::Newline;
        (is_plain && self.carry.len() <= CARRY_IN_PLACE_BYTES_MAX).then_some(self.carry.as_slice())
    }

    /// Finds the newline-framed lines that are complete with the next bytes of the stream; `bytes`
    /// begins with the bytes that [`carried_in_place`](Self::carried_in_place) returned.
    ///
    /// # Panics
    /// May panic if that returned `None`.
    pub fn split_in_place(&mut self, bytes: &[u8]) -> InPlace {
        assert!(bytes.len() >= self.carry.len(), "the carried bytes are in front");
        let (whole_bytes, lines) = whole_lines(bytes, self.line_bytes_max);
        let rest = &bytes[whole_bytes..];
        self.carry.clear();
        if self.carry.capacity() > CARRY_BYTES_KEPT.max(4 * rest.len()) {
            self.carry = Vec::new();
        }
        let (state, is_rest_carried) = match message_start(rest, false) {
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

    /// Emits the lines that are complete with the next bytes of the stream.
    pub fn split(&mut self, mut read: &[u8], emit: &mut impl FnMut(LinePiece<'_>)) {
        while !read.is_empty() {
            read = match self.state {
                State::Opening(opening) => self.opening(opening, read, emit),
                State::Refused(_) => &[],
                State::Start => self.start(read, emit),
                State::BehindCounted => {
                    self.state = State::Start;
                    read.strip_prefix(b"\n").unwrap_or(read)
                }
                State::Line => self.line(read, emit),
                State::Counted { left } => self.counted(read, left, emit),
                State::Held { message } => self.held(read, message, emit),
                State::Lost { count } => self.lost(read, count, emit),
                State::SkipLine => match memchr::memchr(self.line_end(), read) {
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

    /// Emits the carried-over start of a line as a cut line, and skips the rest of the line. For a
    /// caller that limits the bytes held by all connections together.
    pub fn cut(&mut self, emit: &mut impl FnMut(LinePiece<'_>)) {
        match self.state {
            State::Opening(opening) if opening.is_endless() => return self.pause(emit),
            State::Held { .. } => return self.pause(emit),
            State::Opening(_) if !self.carry.is_empty() => {
                let held = std::mem::take(&mut self.carry);
                self.set_framing(Framing::Newline);
                self.split(&held, emit);
            }
            _ => {}
        }
        self.state = match self.state {
            State::Line => State::SkipLine,
            State::Counted { left } => State::SkipCounted { left },
            // The rest is another line.
            State::Lost { .. } if !self.carry.is_empty() => return self.emit_lost(emit),
            // Nothing is held, or a few bytes that may still be a count.
            _ => return,
        };
        self.emit_carry(true, emit);
    }

    /// Treats the held-back bytes as whole messages, since nothing more arrived for
    /// [`pause_after`](Self::pause_after). If that is longer afterwards, they wait for that.
    pub fn pause(&mut self, emit: &mut impl FnMut(LinePiece<'_>)) {
        match self.state {
            State::Opening(mut opening) => match opening.waits(&self.carry) {
                true => self.state = State::Opening(opening),
                false => self.settle(opening, false, emit),
            },
            State::Held { message } => self.release(message, emit),
            State::Lost { .. } => self.emit_lost(emit),
            State::Line if self.may_be_glued() => {
                if let Some(opening) = Opening::glued(&self.carry) {
                    let held = std::mem::take(&mut self.carry);
                    self.state = State::Opening(opening);
                    self.split(&held, emit);
                }
            }
            _ => {}
        }
    }

    /// Whether the incomplete line may hold further messages.
    fn may_be_glued(&self) -> bool {
        self.framing == Framing::Newline && self.carry.first() == Some(&b'<')
    }

    fn settle(&mut self, opening: Opening, is_end: bool, emit: &mut impl FnMut(LinePiece<'_>)) {
        if self.carry.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.carry);
        if let Verdict::Framing(framing) = opening.settle(&held, is_end) {
            self.set_framing(framing);
            return self.split(&held, emit);
        }
        self.state = State::Opening(opening.next_message());
        self.split(&held, emit);
        if let State::Opening(opening) = self.state {
            self.state = State::Opening(opening.next_message());
            let held = std::mem::take(&mut self.carry);
            let message = held.strip_suffix(b"\n").or(held.strip_suffix(b"\0")).unwrap_or(&held);
            if !message.is_empty() {
                emit(whole(message));
            }
        }
    }

    /// Ends the stream: the rest of an unterminated line is emitted as a line.
    pub fn end(mut self, emit: &mut impl FnMut(LinePiece<'_>)) -> Ending {
        if let State::Opening(opening) = self.state {
            let is_ended = matches!(self.carry.last(), None | Some(b'\n' | 0));
            self.settle(opening, true, emit);
            if let State::Opening(_) = self.state {
                return if is_ended { Ending::Complete } else { Ending::Unterminated };
            }
        }
        if let State::Held { message } = self.state {
            self.release(message, emit);
        }
        let ending = match self.state {
            State::Counted { .. } | State::SkipCounted { .. } => Ending::Short,
            State::SkipLine => Ending::Unterminated,
            _ if self.carry.is_empty() => Ending::Complete,
            _ => Ending::Unterminated,
        };
        match self.state {
            _ if self.carry.is_empty() => {}
            State::Lost { .. } => self.emit_lost(emit),
            _ => self.emit_carry(false, emit),
        }
        ending
    }

    /// At the start of the connection, or of a message that nothing ends.
    fn opening<'a>(
        &mut self,
        mut opening: Opening,
        read: &'a [u8],
        emit: &mut impl FnMut(LinePiece<'_>),
    ) -> &'a [u8] {
        let limit = opening.limit(self.line_bytes_max);
        if self.carry.is_empty() {
            let held = &read[..read.len().min(limit)];
            let verdict = opening.look(held, limit);
            if verdict == Verdict::More {
                self.carry_on(held);
                self.state = State::Opening(opening);
                return &[];
            }
            let done = self.decide(opening, verdict, held, emit);
            return &read[done..];
        }
        let (more, rest) = read.split_at(read.len().min(limit - self.carry.len()));
        self.carry_on(more);
        let held = std::mem::take(&mut self.carry);
        let verdict = opening.look(&held, limit);
        if verdict == Verdict::More {
            self.carry = held;
            self.state = State::Opening(opening);
        } else {
            let done = self.decide(opening, verdict, &held, emit);
            self.split(&held[done..], emit);
        }
        rest
    }

    /// Returns how many of the held bytes are consumed.
    fn decide(
        &mut self,
        opening: Opening,
        verdict: Verdict,
        held: &[u8],
        emit: &mut impl FnMut(LinePiece<'_>),
    ) -> usize {
        let mut done = 0;
        match verdict {
            Verdict::More => unreachable!("it is decided"),
            Verdict::Foreign(foreign) => self.state = State::Refused(foreign),
            Verdict::Framing(framing) => self.set_framing(framing),
            Verdict::Endless => self.state = State::Opening(opening.next_message()),
            Verdict::Message { bytes, end_bytes } => {
                done = bytes + end_bytes;
                if bytes > 0 {
                    emit(whole(&held[..bytes]));
                }
                self.state = State::Opening(opening.next_message());
            }
        }
        done
    }

    fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
        self.state = State::Start;
    }

    /// The byte that ends a plain line.
    fn line_end(&self) -> u8 {
        if self.framing == Framing::Nul { 0 } else { b'\n' }
    }

    /// At the start of a message: detects its framing, and emits the newline-framed lines there.
    fn start<'a>(&mut self, read: &'a [u8], emit: &mut impl FnMut(LinePiece<'_>)) -> &'a [u8] {
        if self.carry.is_empty() {
            return match self.message_start(read) {
                MessageStart::Counted { count, header_bytes } => {
                    self.is_counted = true;
                    self.state = behind_count(count);
                    &read[header_bytes..]
                }
                MessageStart::Plain if self.is_lost(read) => {
                    self.state = State::Lost { count: 0 };
                    read
                }
                MessageStart::Plain if self.framing == Framing::Newline => self.stretch(read, emit),
                MessageStart::Plain => {
                    self.is_counted = false;
                    self.state = State::Line;
                    read
                }
                MessageStart::TooShort => {
                    self.carry_on(read);
                    &[]
                }
            };
        }
        // The carried-over bytes are too few to detect the framing, and so contain no newline.
        let carried = self.carry.len();
        let mut start = [0u8; 2 * START_BYTES_MAX];
        let added = read.len().min(START_BYTES_MAX);
        start[..carried].copy_from_slice(&self.carry);
        start[carried..carried + added].copy_from_slice(&read[..added]);
        match self.message_start(&start[..carried + added]) {
            MessageStart::Counted { count, header_bytes } => {
                let message_bytes = carried.saturating_sub(header_bytes);
                self.is_counted = true;
                self.carry.drain(..carried - message_bytes);
                self.state = behind_count(count - message_bytes);
                &read[header_bytes.saturating_sub(carried)..]
            }
            MessageStart::Plain if self.is_lost(&start) => {
                self.state = State::Lost { count: 0 };
                read
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

    /// Emits newline-framed lines up to a counted message, a line that is too long, or an
    /// incomplete one. The first line is known to be newline-framed.
    fn stretch<'a>(&mut self, read: &'a [u8], emit: &mut impl FnMut(LinePiece<'_>)) -> &'a [u8] {
        let (bytes, _) = whole_lines(read, self.line_bytes_max);
        let (lines, rest) = read.split_at(bytes);
        if !lines.is_empty() {
            emit(LinePiece::Lines(lines));
        }
        self.is_counted = false;
        // The rest of a newline-framed line that is too long or incomplete must not be taken for
        // the start of a message.
        self.state = match message_start(rest, false) {
            MessageStart::Plain => State::Line,
            _ => State::Start,
        };
        rest
    }

    /// In a newline-framed line that is incomplete or too long.
    fn line<'a>(&mut self, read: &'a [u8], emit: &mut impl FnMut(LinePiece<'_>)) -> &'a [u8] {
        let room = self.line_bytes_max - self.carry.len();
        let looked_at = &read[..read.len().min(room + 1)];
        if let Some(at) = memchr::memchr(self.line_end(), looked_at) {
            self.state = State::Start;
            if self.framing == Framing::Nul && self.carry.is_empty() {
                let message = without_newline(&read[..at]);
                if !message.is_empty() {
                    emit(whole(message));
                }
            } else {
                self.carry_on(&read[..at]);
                self.emit_carry(false, emit);
            }
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
        emit: &mut impl FnMut(LinePiece<'_>),
    ) -> &'a [u8] {
        let room = self.line_bytes_max - self.carry.len();
        let taken = left.min(room).min(read.len());
        let (bytes, rest) = read.split_at(taken);
        if taken == left && self.may_be_short(bytes) {
            self.carry_on(bytes);
            self.state = State::Held { message: self.carry.len() };
        } else if taken == left {
            self.state = State::BehindCounted;
            if self.carry.is_empty() {
                emit(whole(without_newline(bytes)));
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

    fn message_start(&self, bytes: &[u8]) -> MessageStart {
        let are_counted = self.is_counted || self.framing == Framing::Counted;
        match bytes {
            b"0" if are_counted => MessageStart::TooShort,
            [b'0', b' ', ..] if are_counted => MessageStart::Counted { count: 0, header_bytes: 2 },
            _ => message_start(bytes, are_counted),
        }
    }

    fn carry_on(&mut self, bytes: &[u8]) {
        let needed = self.carry.len() + bytes.len();
        if needed > self.carry.capacity() {
            let grown = (2 * self.carry.capacity()).min(self.line_bytes_max).max(needed);
            self.carry.reserve_exact(grown - self.carry.len());
        }
        self.carry.extend_from_slice(bytes);
    }

    fn emit_carry(&mut self, cut: bool, emit: &mut impl FnMut(LinePiece<'_>)) {
        let has_newline = match self.state {
            State::BehindCounted => true,
            State::Start | State::Line => self.framing == Framing::Nul,
            _ => false,
        };
        let bytes = if has_newline { without_newline(&self.carry) } else { &self.carry };
        if !(bytes.is_empty() && self.framing == Framing::Nul) {
            emit(LinePiece::Line { bytes, cut, lost: false });
        }
        if self.carry.capacity() > CARRY_BYTES_KEPT {
            self.carry = Vec::new();
        } else {
            self.carry.clear();
        }
    }
}

/// A whole line.
fn whole(bytes: &[u8]) -> LinePiece<'_> {
    LinePiece::Line { bytes, cut: false, lost: false }
}

/// The state behind a count of so many bytes. An empty message is no line.
fn behind_count(count: usize) -> State {
    if count == 0 { State::BehindCounted } else { State::Counted { left: count } }
}

/// How many bytes at the start are whole newline-framed lines, and how many lines: up to a message
/// that is counted or too short to tell, a line that is too long, or an incomplete one.
fn whole_lines(bytes: &[u8], line_bytes_max: usize) -> (usize, u32) {
    if message_start(bytes, false) != MessageStart::Plain {
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
        if is_digit && message_start(&bytes[line_start..], false) != MessageStart::Plain {
            break;
        }
    }
    (line_start, lines)
}

/// Counts newlines, and tells whether the text contains anywhere the end of a possible count: a
/// digit, a space, `<` or `zx`.
fn survey(bytes: &[u8]) -> (u32, bool) {
    let newlines = memchr::memchr_iter(b'\n', bytes).count() as u32;
    let ends_count = |at: usize| at > 0 && bytes[at - 1].is_ascii_digit();
    let has = |start: &[u8]| memchr::memmem::find_iter(bytes, start).any(ends_count);
    (newlines, has(b" <") || has(b" zx"))
}

/// A compressed message keeps a last byte that looks like a newline: it belongs to the checksum.
fn without_newline(message: &[u8]) -> &[u8] {
    if matches!(message, [b'z', b'x', 0x01 | 0x5e | 0x9c | 0xda, ..]) {
        return message;
    }
    message.strip_suffix(b"\n").unwrap_or(message)
}

/// How a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageStart {
    /// With a count of this value; count and space are `header_bytes` long.
    Counted { count: usize, header_bytes: usize },
    /// Without a count.
    Plain,
    /// Too few bytes to tell. Impossible with [`START_BYTES_MAX`] bytes.
    TooShort,
}

/// Recognises `COUNT <PRIORITY>` and `COUNT z` with the start of a zlib stream, or only `COUNT ` if
/// messages are known to be counted: then a priority must only not be longer than the count.
fn message_start(bytes: &[u8], are_counted: bool) -> MessageStart {
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
        Some(b'<') if are_counted && count < PRIORITY_BYTES_MAX => {
            let digits = priority[1..].iter().take(count.saturating_sub(1));
            let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
            return match priority.get(1 + digits) {
                _ if digits + 1 >= count => MessageStart::Plain,
                None => MessageStart::TooShort,
                Some(_) => MessageStart::Counted { count, header_bytes },
            };
        }
        Some(_) if are_counted => return MessageStart::Counted { count, header_bytes },
        Some(b'<') => {}
        Some(b'z') => {
            return match priority[1..] {
                [] | [b'x'] => MessageStart::TooShort,
                [b'x', 0x01 | 0x5e | 0x9c | 0xda, ..] if count > ZLIB_BYTES_MIN => {
                    MessageStart::Counted { count, header_bytes }
                }
                _ => MessageStart::Plain,
            };
        }
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
