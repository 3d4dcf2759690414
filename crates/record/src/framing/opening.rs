//! The start of a connection: decides from the first bytes whether it is syslog, and what ends a
//! message.
//!
//! Nearly always newlines end messages. Some senders end them with NUL (Python's SysLogHandler,
//! GELF), and some with nothing at all (log4j2, winston). A message may contain the terminator of
//! other senders: newlines in a stack trace, a NUL, or `<13>` in its text. So a terminator must be
//! followed by the start of another message:
//!
//! - The first message begins with a priority. A newline followed by a priority or an octet count:
//!   newlines. A NUL followed by one: NULs.
//! - It begins with `{` (JSON). The first newline: newlines. A NUL followed by `{`: NULs.
//! - It begins with an octet count without a priority behind it. The bytes behind the counted
//!   message begin with another count: counted. A newline before that: newlines.
//! - Anything else: the first newline decides for newlines.
//!
//! If none of these decides, a pause ([`Opening::settle`]) or the end of the stream does: data that
//! ends with NUL is terminated by NULs, data that ends with a newline by newlines; otherwise
//! nothing ends messages. Then a message extends to the next pause, or to a priority followed by
//! the same form of time as in the message itself (`<14>Oct `, `<14>1 `, `<14>2026-`; if it has
//! none, any priority).
//!
//! Messages without an end may precede one with a newline. They are *glued* to each other: a
//! priority with the same form of time stands directly behind a character that cannot introduce a
//! quoted message. Then nothing ends messages, but a newline or NUL before a message ends that one.
//!
//! Invariant: without a pause the result depends on the bytes only, not on how they were split into
//! reads.

use super::foreign::{Foreign, Recognised, recognise};
use super::{MessageStart, message_start};

/// After this many bytes the received data decides: if it contains a newline, newlines end
/// messages.
///
/// limits.md, Lines on their way in: bytes of a connection before it is known what ends its
/// messages | {} | newlines end the messages if there was a newline, else NULs
pub(super) const OPENING_BYTES_MAX: usize = 32 << 10;

/// What ends plain messages, once known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Newline,
    Nul,
    /// Nothing: they are counted, without a priority.
    Counted,
}

/// The result for the held-back bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More bytes are needed.
    More,
    /// Another protocol.
    Foreign(Foreign),
    Framing(Framing),
    /// Nothing ends messages.
    Endless,
    /// If nothing ends messages: this many bytes are one, and so many behind it are its end.
    Message {
        bytes: usize,
        end_bytes: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Priority(Form),
    Json,
    /// `COUNT ` of a message without a priority.
    Counted {
        header_bytes: usize,
        count: usize,
    },
    Other,
}

/// The text behind a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `1 `, as in RFC 5424.
    Version,
    /// `Oct `, as in RFC 3164.
    Month,
    /// `2026-`
    Year,
    Bare,
}

/// The state of a connection whose framing is not decided.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// The connection is not of another protocol.
    is_text: bool,
    /// The kind of the held message.
    kind: Option<Kind>,
    /// Bytes of it that were searched without a result.
    scanned: usize,
    /// Nothing ends messages, as far as is known.
    is_endless: bool,
    /// A message began directly behind another one: nothing ends most messages, whatever ends some.
    is_glued: bool,
    /// A pause has passed since the last byte, and the message waits for a longer one.
    has_waited: bool,
}

impl Opening {
    /// The most bytes that are held back.
    pub fn limit(&self, line_bytes_max: usize) -> usize {
        match self.is_endless {
            true => line_bytes_max,
            false => OPENING_BYTES_MAX.min(line_bytes_max),
        }
    }

    /// Examines all held bytes, at most `limit`. Never returns [`Verdict::More`] if there are that
    /// many.
    pub fn look(&mut self, held: &[u8], limit: usize) -> Verdict {
        self.has_waited = false;
        let found = self.find(held, limit);
        match found {
            Verdict::More if held.len() >= limit && self.is_endless => {
                Verdict::Message { bytes: limit, end_bytes: 0 }
            }
            Verdict::More if held.len() >= limit => self.settle_at_limit(held),
            found => found,
        }
    }

    fn find(&mut self, held: &[u8], limit: usize) -> Verdict {
        let is_full = held.len() >= limit;
        if !self.is_text {
            match recognise(held) {
                Recognised::Foreign(foreign) => return Verdict::Foreign(foreign),
                Recognised::TooShort if !is_full => return Verdict::More,
                _ => self.is_text = true,
            }
        }
        let kind = match self.kind {
            Some(kind) => kind,
            None => match message_start(held, false) {
                MessageStart::Counted { .. } => return Verdict::Framing(Framing::Newline),
                MessageStart::TooShort if !is_full => return Verdict::More,
                _ => match kind_of(held) {
                    None if !is_full => return Verdict::More,
                    kind => kind.unwrap_or(Kind::Other),
                },
            },
        };
        self.kind = Some(kind);
        match kind {
            Kind::Priority(form) => self.find_in_message(held, form),
            Kind::Json => self.find_newline(held, true),
            Kind::Other => self.find_newline(held, false),
            Kind::Counted { header_bytes, count } => {
                let end = header_bytes + count;
                let text = &held[header_bytes..held.len().min(end)];
                match behind_counted(held.get(end..).unwrap_or_default()) {
                    _ if memchr::memchr(b'\n', text).is_some() || end > limit => {}
                    Some(true) => return Verdict::Framing(Framing::Counted),
                    None => return Verdict::More,
                    Some(false) => {}
                }
                self.kind = Some(Kind::Other);
                self.find_newline(held, false)
            }
        }
    }

    /// The end of a message that began with a priority.
    fn find_in_message(&mut self, held: &[u8], form: Form) -> Verdict {
        let mut at = self.scanned.max(1);
        loop {
            let rest = held.get(at..).unwrap_or_default();
            let found = match self.is_endless {
                true => memchr::memchr3(b'\n', 0, b'<', rest),
                false => memchr::memchr2(b'\n', 0, rest),
            };
            let Some(found) = found else {
                self.scanned = held.len();
                return Verdict::More;
            };
            let position = at + found;
            self.scanned = position;
            let is_start = match held[position] {
                b'<' => match head(&held[position..]) {
                    Head::Is(found) => Some(found == form),
                    Head::Not => Some(false),
                    Head::TooShort => None,
                },
                _ => is_message_start(&held[position + 1..]),
            };
            let is_glued = || !self.is_endless && glues(&held[..position], form);
            match (is_start, held[position]) {
                (None, _) => return Verdict::More,
                (Some(false), _) => at = position + 1,
                (Some(true), b'<') => {
                    self.is_glued |= form != Form::Bare;
                    return Verdict::Message { bytes: position, end_bytes: 0 };
                }
                (Some(true), _) if self.is_glued => {
                    return Verdict::Message { bytes: position, end_bytes: 1 };
                }
                (Some(true), _) if is_glued() => return Verdict::Endless,
                (Some(true), b'\n') => return Verdict::Framing(Framing::Newline),
                (Some(true), _) => return Verdict::Framing(Framing::Nul),
            }
        }
    }

    /// The end of a message of another kind.
    fn find_newline(&mut self, held: &[u8], is_json: bool) -> Verdict {
        loop {
            let rest = &held[self.scanned..];
            let Some(found) = memchr::memchr2(b'\n', 0, rest) else {
                self.scanned = held.len();
                return Verdict::More;
            };
            let position = self.scanned + found;
            if held[position] == b'\n' {
                return match self.is_glued {
                    true => Verdict::Message { bytes: position, end_bytes: 1 },
                    false => Verdict::Framing(Framing::Newline),
                };
            }
            match held.get(position + 1) {
                Some(b'{') if is_json => return Verdict::Framing(Framing::Nul),
                None if is_json => {
                    self.scanned = position;
                    return Verdict::More;
                }
                _ => self.scanned = position + 1,
            }
        }
    }

    /// Decides when nothing more arrived for a while, or the stream has ended; at least one byte is
    /// held. At the end of the stream a newline within a message ends a line: a missing last
    /// newline is common. At a pause it does not: a stack trace contains newlines.
    pub fn settle(&self, held: &[u8], is_end: bool) -> Verdict {
        let is_counted = match self.kind {
            Some(Kind::Counted { header_bytes, count }) => header_bytes + count == held.len(),
            _ => false,
        };
        let is_glued = match self.kind {
            Some(Kind::Priority(form)) => glues(held, form),
            _ => false,
        };
        match held.last() {
            _ if self.is_endless || is_glued => Verdict::Endless,
            _ if is_counted => Verdict::Framing(Framing::Counted),
            Some(0) => Verdict::Framing(Framing::Nul),
            Some(b'\n') => Verdict::Framing(Framing::Newline),
            _ if is_end && memchr::memchr(b'\n', held).is_some() && !self.has_next(held, false) => {
                Verdict::Framing(Framing::Newline)
            }
            _ => Verdict::Endless,
        }
    }

    /// Whether it is known that nothing ends messages.
    pub fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// Decides when the limit is reached.
    fn settle_at_limit(&self, held: &[u8]) -> Verdict {
        let Some(Kind::Priority(_) | Kind::Json) = self.kind else {
            return Verdict::Framing(Framing::Newline);
        };
        let has = |byte: u8| memchr::memchr(byte, held).is_some();
        match () {
            () if self.has_next(held, false) => Verdict::Endless,
            () if has(b'\n') => Verdict::Framing(Framing::Newline),
            () if has(0) => Verdict::Framing(Framing::Nul),
            () if self.has_next(held, true) => Verdict::Endless,
            () => Verdict::Framing(Framing::Newline),
        }
    }

    /// Whether another message of the same form begins within; one without a time may be text.
    fn has_next(&self, held: &[u8], may_be_bare: bool) -> bool {
        let Some(Kind::Priority(form)) = self.kind else { return false };
        let begins =
            |position: usize| matches!(head(&held[position..]), Head::Is(found) if found == form);
        (may_be_bare || form != Form::Bare) && memchr::memchr_iter(b'<', held).skip(1).any(begins)
    }

    /// The state for the next message, at its start, if nothing ends messages.
    pub fn next_message(&self) -> Opening {
        let is_glued = self.is_glued;
        Opening { is_text: true, is_endless: true, is_glued, ..Opening::default() }
    }

    /// Whether a pause behind these bytes is short for an end: nothing is known about the sender,
    /// and they may be a part of its first message. The next pause is longer.
    pub fn waits(&mut self, held: &[u8]) -> bool {
        let may_be_part = !self.is_endless
            && !matches!(held.last(), None | Some(b'\n' | 0))
            && !matches!(self.kind, Some(Kind::Priority(form)) if glues(held, form));
        may_be_part && !std::mem::replace(&mut self.has_waited, true)
    }

    /// Whether a longer pause is due next.
    pub fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// The state of a connection of which a newline-framed line so far is this, if it holds several
    /// messages.
    pub fn glued(line: &[u8]) -> Option<Opening> {
        let Head::Is(form) = head(line) else { return None };
        let opening = Opening { is_glued: true, ..Opening::default() };
        glues(line, form).then(|| opening.next_message())
    }
}

/// Whether these bytes are several messages of this form without an end. A message without a time
/// may be text, and so may one behind a blank or a sign that introduces a quotation: relays put the
/// message of another sender into theirs.
fn glues(bytes: &[u8], form: Form) -> bool {
    let begins = |at: usize| {
        let introduces =
            |byte: u8| byte.is_ascii_whitespace() || b"\"'`([{<=:,;|>-".contains(&byte);
        !introduces(bytes[at - 1]) && matches!(head(&bytes[at..]), Head::Is(found) if found == form)
    };
    form != Form::Bare && memchr::memchr_iter(b'<', bytes).filter(|&at| at > 0).any(begins)
}

/// Whether a count without a priority begins behind a counted message; `None`: too short to tell.
fn behind_counted(rest: &[u8]) -> Option<bool> {
    let digits = rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(digits) {
        _ if rest.first() == Some(&b'0') || digits > 9 => Some(false),
        None => None,
        Some(b' ') => Some(digits > 0),
        Some(_) => Some(false),
    }
}

/// How a message without a counted priority begins. `None`: too short to tell.
fn kind_of(held: &[u8]) -> Option<Kind> {
    match held.first()? {
        b'{' => Some(Kind::Json),
        b'<' => match head(held) {
            Head::Is(form) => Some(Kind::Priority(form)),
            Head::Not => Some(Kind::Other),
            Head::TooShort => None,
        },
        _ => match message_start(held, true) {
            MessageStart::Counted { count, header_bytes } => {
                Some(Kind::Counted { header_bytes, count })
            }
            MessageStart::Plain => Some(Kind::Other),
            MessageStart::TooShort => None,
        },
    }
}

enum Head {
    Is(Form),
    Not,
    TooShort,
}

/// A priority, and the text behind it.
fn head(bytes: &[u8]) -> Head {
    let Some(rest) = bytes.strip_prefix(b"<") else { return Head::Not };
    let digits = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(digits) {
        _ if digits > 3 => Head::Not,
        None => Head::TooShort,
        Some(b'>') if digits > 0 => match form_of(&rest[digits + 1..]) {
            Some(form) => Head::Is(form),
            None => Head::TooShort,
        },
        Some(_) => Head::Not,
    }
}

fn form_of(text: &[u8]) -> Option<Form> {
    const MONTHS: [&[u8; 4]; 12] = [
        b"Jan ", b"Feb ", b"Mar ", b"Apr ", b"May ", b"Jun ", b"Jul ", b"Aug ", b"Sep ", b"Oct ",
        b"Nov ", b"Dec ",
    ];
    let digits = text.iter().take(5).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        return match text.get(digits) {
            _ if digits > 4 => Some(Form::Bare),
            None => None,
            Some(b' ') if digits < 4 => Some(Form::Version),
            Some(b'-') if digits == 4 => Some(Form::Year),
            Some(_) => Some(Form::Bare),
        };
    }
    let start = &text[..text.len().min(4)];
    match MONTHS.iter().any(|month| month.starts_with(start)) {
        true if start.len() < 4 => None,
        true => Some(Form::Month),
        false => Some(Form::Bare),
    }
}

/// Whether a message begins with a priority, counted or not.
fn is_message_start(bytes: &[u8]) -> Option<bool> {
    if let Some(rest) = bytes.strip_prefix(b"<") {
        let digits = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        return match rest.get(digits) {
            _ if digits > 3 => Some(false),
            None => None,
            Some(b'>') => Some(digits > 0),
            Some(_) => Some(false),
        };
    }
    match message_start(bytes, false) {
        MessageStart::Counted { .. } => Some(true),
        MessageStart::Plain => Some(false),
        MessageStart::TooShort => None,
    }
}
