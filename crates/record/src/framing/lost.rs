//! Counted messages whose count is wrong: a message that may be longer than its count says is held
//! until what follows shows it, and what is neither a message nor a part of the message before is
//! emitted as lost.
//!
//! Nearly always the sender counts characters instead of bytes, so a count is only in doubt if its
//! message has characters of several bytes. See the parent module.

use std::ops::Range;

use super::{
    COUNT_DIGITS_MAX, LinePiece, LineSplitter, MessageStart, START_BYTES_MAX, State, message_start,
    whole, without_newline,
};

/// What an octet count counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// No message has shown it.
    Unknown,
    /// Bytes, as it should.
    Bytes,
    /// Characters, or units of UTF-16.
    Characters,
}
impl LineSplitter {
    /// Emits the held message, whatever its count means.
    pub(super) fn release(&mut self, message: usize, emit: &mut impl FnMut(LinePiece<'_>)) {
        let held = std::mem::take(&mut self.carry);
        emit(whole(without_newline(&held[..message])));
        self.state = State::BehindCounted;
        self.split(&held[message..], emit);
    }

    /// Whether the counted message that ends with these bytes may be longer than its count says: it
    /// has characters of several bytes, and its sender may count them as one each.
    pub(super) fn may_be_short(&self, bytes: &[u8]) -> bool {
        let message_bytes = self.carry.len() + bytes.len();
        let mut start = self.carry.iter().chain(bytes);
        let is_compressed = start.next() == Some(&b'z') && start.next() == Some(&b'x');
        self.unit != Unit::Bytes
            && !(self.carry.is_ascii() && bytes.is_ascii())
            && bytes.last() != Some(&b'\n')
            && !is_compressed
            && message_bytes + START_BYTES_MAX <= self.line_bytes_max
    }

    /// Behind a counted message that may be longer than its count says.
    pub(super) fn held<'a>(
        &mut self,
        read: &'a [u8],
        message: usize,
        emit: &mut impl FnMut(LinePiece<'_>),
    ) -> &'a [u8] {
        let missing = message + START_BYTES_MAX - self.carry.len();
        let (more, rest) = read.split_at(missing.min(read.len()));
        self.carry_on(more);
        let behind = &self.carry[message..];
        let may_begin = matches!(behind.first(), Some(b'\n' | b'<'));
        // A digit behind the message may be its last character.
        let is_lost = |start: MessageStart| {
            !may_begin && (start == MessageStart::Plain || self.unit == Unit::Characters)
        };
        match self.message_start(behind) {
            start if is_lost(start) => {
                let behind = self.carry.split_off(message);
                self.state = State::Lost { count: message };
                self.split(&behind, emit);
            }
            MessageStart::TooShort => {}
            _ => {
                self.unit = Unit::Bytes;
                self.release(message, emit);
            }
        }
        rest
    }

    /// Where the framing is lost: up to a newline, or a count that a priority follows.
    pub(super) fn lost<'a>(
        &mut self,
        read: &'a [u8],
        count: usize,
        emit: &mut impl FnMut(LinePiece<'_>),
    ) -> &'a [u8] {
        let carried = self.carry.len();
        let room = self.line_bytes_max - carried;
        // A count that begins in the carried-over bytes precedes any newline.
        let base = carried.saturating_sub(START_BYTES_MAX).max(count);
        let added = read.len().min(room).min(START_BYTES_MAX);
        let border = [&self.carry[base..], &read[..added]].concat();
        let in_carry = find_count(&border).filter(|digits| base + digits.start < carried);
        if let Some(digits) = in_carry {
            let at = self.count_start(base + digits.start..base + digits.end, read, count);
            self.is_counted = true;
            if at < carried {
                let header = self.carry.split_off(at);
                self.emit_lost(emit);
                self.carry = header;
                self.state = State::Start;
                return read;
            }
            self.carry_on(&read[..at - carried]);
            self.emit_lost(emit);
            self.state = State::Start;
            return &read[at - carried..];
        }
        let newline = memchr::memchr(b'\n', &read[..read.len().min(room + 1)]);
        let digits = find_count(&read[..newline.unwrap_or(read.len()).min(room)]);
        if let Some(digits) = digits {
            let at = self.count_start(carried + digits.start..carried + digits.end, read, count);
            self.carry_on(&read[..at - carried]);
            self.emit_lost(emit);
            self.is_counted = true;
            self.state = State::Start;
            return &read[at - carried..];
        }
        if let Some(newline) = newline {
            self.carry_on(&read[..newline]);
            self.emit_lost(emit);
            self.is_counted = false;
            self.state = State::Start;
            return &read[newline + 1..];
        }
        let taken = read.len().min(room);
        self.carry_on(&read[..taken]);
        if taken < read.len() {
            self.emit_lost(emit);
        }
        &read[taken..]
    }

    /// Where the count begins that ends this run of digits, which are positions in the carried-over
    /// bytes and `read`: at its first digit, unless the line before has the announced number of
    /// characters at a later one.
    fn count_start(&mut self, digits: Range<usize>, read: &[u8], count: usize) -> usize {
        if count == 0 {
            return digits.start;
        }
        let carried = self.carry.len();
        let byte = |at: usize| *self.carry.get(at).unwrap_or_else(|| &read[at - carried]);
        let (mut points, mut units) = (0, 0);
        for at in 0..digits.end {
            let is_start = at >= digits.start && byte(at) != b'0';
            if is_start && (points == count || units == count) {
                self.unit = Unit::Characters;
                return at;
            }
            let byte = byte(at);
            points += usize::from(byte & 0xc0 != 0x80);
            // As UTF-16, the characters of four bytes are two units.
            units += usize::from(byte & 0xc0 != 0x80) + usize::from(byte >= 0xf0);
        }
        digits.start
    }

    /// Emits the carried-over part of what is between two messages.
    pub(super) fn emit_lost(&mut self, emit: &mut impl FnMut(LinePiece<'_>)) {
        let line = std::mem::take(&mut self.carry);
        if !line.is_empty() {
            emit(LinePiece::Line { bytes: &line, cut: false, lost: true });
        }
        self.state = State::Lost { count: 0 };
    }

    /// Whether the framing is lost at a message that begins like this, without a count.
    pub(super) fn is_lost(&self, bytes: &[u8]) -> bool {
        self.is_counted && !matches!(bytes.first(), Some(b'<' | b'\n'))
    }
}

/// The first run of digits that is a count with a priority behind it.
fn find_count(bytes: &[u8]) -> Option<Range<usize>> {
    memchr::memchr_iter(b' ', bytes).find_map(|end| {
        let digits = bytes[..end].iter().rev().take(COUNT_DIGITS_MAX);
        let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
        let zeros = bytes[end - digits..end].iter().take_while(|&&byte| byte == b'0').count();
        let start = end - digits + zeros;
        let is_count =
            matches!(message_start(&bytes[start..], false), MessageStart::Counted { .. });
        is_count.then_some(start..end)
    })
}
