//! Cache of the syslog heads that occurred in a batch.
//!
//! The lines of one program differ in time and message, and hardly in the text between: `<30>` and
//! ` web1 sshd[712]: `. Such a head is parsed once per batch, and its fields become a stem of the
//! batch; a line with the same bytes around its time gets that stem.
//!
//! Only heads of the two usual forms are cached, with host, application and a blank before the
//! message:
//!
//! ```text
//! <PRI>Jan 31 12:00:00 HOST APP[PID]: MESSAGE         also without PRI, and with a time as below
//! <PRI>1 2026-01-31T12:00:00Z HOST APP PID MSGID - MESSAGE
//! ```
//!
//! Invariant: the parser only examines bytes up to the blank before the message to find the parts
//! of a cached head, so lines with the same bytes up to there, except for the time, have the same
//! parts. [`HeadSight::fits`] defines for which heads that holds. Left out: structured data, whose
//! values mostly differ from line to line.

use super::head::Head;
use super::servers::Program;
use super::short;
use super::time::Context;
use super::times::Times;
use crate::batch::StemId;
use crate::frame::{Line, MessageFormat};

/// Heads that are cached at a time.
const HEADS_MAX: usize = 1 << 10;
/// Slots in which a head may be stored, checked one after the other. If all are taken, the first
/// one is overwritten.
const WAYS: usize = 4;
/// Shorter heads are not cached: this many bytes behind a time of RFC 3164 are examined to find
/// where the time ends.
const SPAN_BYTES_MIN: usize = 9;
/// Longer heads are not cached.
const SPAN_BYTES_MAX: usize = 255;
/// Kinds of messages, without and with a level of their own.
const VARIANTS: usize = 16;

/// What is seen of a head before it is looked up: the positions of its parts, and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadSight {
    pub time_ns: i64,
    /// The bytes before the time and, in the highest byte, the offset where the time ends.
    prefix: u64,
    hash: u64,
    /// The text between time and message, with the blanks around it: its offset in the line.
    span_at: u32,
    span_bytes: u32,
}

/// A cached head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    batch: u32,
    hash: u64,
    prefix: u64,
    /// Offset of the span in the frame.
    frame_at: u32,
    span_bytes: u32,
    origin: u16,
    /// Whether the head has a priority.
    pub severe: bool,
    /// Whether a byte order mark may precede the message.
    pub bom: bool,
    pub format: MessageFormat,
    pub program: Program,
    /// Index of the rule that determines the type.
    pub rule: Option<u16>,
    /// Offset and length in the span.
    hostname: (u8, u8),
    app_name: (u8, u8),
    /// By kind of message; `NO_STEM` if no line had this kind yet.
    stems: [u16; VARIANTS],
}

const NO_STEM: u16 = u16::MAX;

/// The heads cached for the batch.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Empty before the first use, then [`HEADS_MAX`] long.
    slots: Vec<Known>,
    batch: u32,
    #[cfg(test)]
    pub off: bool,
}

/// A cached head is valid for one batch only, so a clone starts empty.
impl Clone for Heads {
    fn clone(&self) -> Self {
        Heads {
            #[cfg(test)]
            off: self.off,
            ..Heads::default()
        }
    }
}

impl Heads {
    /// Discards everything that is only valid for one batch.
    pub fn begin_batch(&mut self) {
        self.batch = self.batch.wrapping_add(1);
        if self.batch == 0 {
            self.slots.clear();
            self.batch = 1;
        }
    }

    /// Checks whether `text`, a whole line, may have a head that is cached or can be.
    #[inline]
    pub fn sight(
        &self,
        text: &[u8],
        origin: u16,
        times: &mut Times,
        context: Context,
    ) -> Option<HeadSight> {
        #[cfg(test)]
        if self.off {
            return None;
        }
        let begin = text.first_chunk::<8>()?;
        let pri = match *begin {
            [b'<', _, b'>', ..] => 3,
            [b'<', _, _, b'>', ..] => 4,
            [b'<', _, _, _, b'>', ..] => 5,
            _ => 0,
        };
        let versioned = begin[pri..pri + 2] == *b"1 ";
        let time_at = pri + 2 * usize::from(versioned);
        match text.get(time_at)? {
            b'0'..=b'9' => {}
            b'A'..=b'Z' if !versioned => {}
            _ => return None,
        }
        let (length, time_ns) = times.read(&text[time_at..], context)?;
        let span_at = time_at + length;
        let bytes = u64::from_le_bytes(*begin) & ((1 << (8 * time_at)) - 1);
        let prefix = bytes | (span_at as u64) << 56;
        let blanks = if versioned { 6 } else { 3 };
        // Two senders may send the same heads in turn: each gets its slot.
        let seed = prefix ^ u64::from(origin) << 32;
        let (hash, span_bytes) = span(&text[span_at..], blanks, seed)?;
        Some(HeadSight { time_ns, prefix, hash, span_at: span_at as u32, span_bytes })
    }

    /// The cached head, if there is one; `frame` is the text of the batch.
    #[inline]
    pub fn find(&self, sight: &HeadSight, line: &Line<'_>, frame: &[u8]) -> Option<&Known> {
        if self.slots.is_empty() {
            return None;
        }
        let slots = (0..WAYS).map(|way| &self.slots[sight.slot_index(way)]);
        let mut slots = slots.take_while(|known| known.batch == self.batch);
        slots.find(|known| {
            known.hash == sight.hash
                && known.prefix == sight.prefix
                && known.origin == line.origin_index
                && known.span_bytes == sight.span_bytes
                && short::same(
                    sight.span(line.bytes),
                    &frame[known.frame_at as usize..][..known.span_bytes as usize],
                )
        })
    }

    /// The slot for a head: its current one, or a free one.
    fn slot(&self, sight: &HeadSight, known: &Known) -> usize {
        let free = |index: &usize| {
            let slot = &self.slots[*index];
            let is_it = (slot.hash, slot.prefix, slot.origin, slot.span_bytes)
                == (known.hash, known.prefix, known.origin, known.span_bytes);
            slot.batch != self.batch || is_it
        };
        (0..WAYS).map(|way| sight.slot_index(way)).find(free).unwrap_or(sight.slot_index(0))
    }

    /// Adds a stem for one kind of message to a head. `head` was found in the line by parsing, and
    /// must fit.
    pub fn learn(
        &mut self,
        sight: &HeadSight,
        line: &Line<'_>,
        frame: &[u8],
        learnt: ParsedHead<'_>,
    ) {
        let known = self.find(sight, line, frame).copied().filter(|k| k.rule == learnt.rule);
        let known = known.unwrap_or_else(|| {
            let part = |part: &[u8]| {
                let at = part.as_ptr().addr() - line.bytes.as_ptr().addr() - sight.span_at as usize;
                (at as u8, part.len() as u8)
            };
            Known {
                batch: self.batch,
                hash: sight.hash,
                prefix: sight.prefix,
                frame_at: line.offset + sight.span_at,
                span_bytes: sight.span_bytes,
                origin: line.origin_index,
                severe: learnt.head.priority.is_some(),
                bom: learnt.head.format == Some("rfc5424"),
                format: learnt.format,
                program: learnt.program,
                rule: learnt.rule,
                hostname: part(learnt.head.hostname),
                app_name: part(learnt.head.app_name),
                stems: [NO_STEM; VARIANTS],
            }
        });
        if self.slots.is_empty() {
            self.slots.resize(HEADS_MAX, Known { batch: 0, ..known });
        }
        let index = self.slot(sight, &known);
        let slot = &mut self.slots[index];
        *slot = known;
        slot.stems[learnt.variant] = learnt.stem.0;
    }
}

/// What parsing found out about a line and its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedHead<'a> {
    pub head: &'a Head<'a>,
    pub format: MessageFormat,
    pub program: Program,
    pub rule: Option<u16>,
    pub variant: usize,
    pub stem: StemId,
}

impl Known {
    /// The stem of lines with messages of this variant.
    #[inline]
    pub fn stem(&self, variant: usize) -> Option<StemId> {
        Some(self.stems[variant]).filter(|stem| *stem != NO_STEM).map(StemId)
    }

    pub fn hostname<'a>(&self, sight: &HeadSight, line: &'a [u8]) -> &'a [u8] {
        part(sight.span(line), self.hostname)
    }

    pub fn app_name<'a>(&self, sight: &HeadSight, line: &'a [u8]) -> &'a [u8] {
        part(sight.span(line), self.app_name)
    }
}

fn part(span: &[u8], (at, length): (u8, u8)) -> &[u8] {
    &span[usize::from(at)..][..usize::from(length)]
}

impl HeadSight {
    #[inline]
    fn slot_index(&self, way: usize) -> usize {
        ((self.hash >> 32) as usize + way) % HEADS_MAX
    }

    #[inline]
    fn span<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[self.span_at as usize..][..self.span_bytes as usize]
    }

    /// Where the message behind a cached head begins in the line.
    #[inline]
    pub fn message_at(&self) -> usize {
        (self.span_at + self.span_bytes) as usize
    }

    /// Whether `head`, found in `line`, can be cached: its parts are in the span, and only the span
    /// was examined to find them.
    ///
    /// - RFC 5424: six words, each up to a blank, the last one `-`.
    /// - RFC 3164: the word behind the time is the host and not a zone or year; it is followed by a
    ///   tag with its blank. A tag ends with the colon or the bracket, and the byte behind shows
    ///   whether it is one.
    pub fn fits(&self, head: &Head<'_>, line: &[u8]) -> bool {
        let offset = |part: &[u8]| part.as_ptr().addr() - line.as_ptr().addr();
        (SPAN_BYTES_MIN..=SPAN_BYTES_MAX).contains(&(self.span_bytes as usize))
            && !head.clock_unset
            && head.note.is_none()
            && head.structured.is_empty()
            && head.sequence.is_empty()
            && !head.hostname.is_empty()
            && offset(head.hostname) == self.span_at as usize + 1
            && !head.app_name.is_empty()
            && (offset(head.hostname)..self.message_at()).contains(&offset(head.app_name))
            && !head.message.is_empty()
            && offset(head.message) == self.message_at()
            && (head.format != Some("rfc5424") || self.span(line).ends_with(b" - "))
    }
}

/// Hash and length of the bytes up to and including the `blanks`-th blank; `None` if they are too
/// many.
#[inline]
fn span(text: &[u8], blanks: u32, seed: u64) -> Option<(u64, u32)> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut left = blanks;
    let mut hash = seed.wrapping_mul(FACTOR);
    let mut at = 0;
    while at <= SPAN_BYTES_MAX - 8 {
        let word = short::eight(text, at)?;
        let mut found = short::blanks(word);
        let count = ((found >> 7).wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32;
        if count < left {
            left -= count;
            hash = mixed(hash, word);
            at += 8;
            continue;
        }
        for _ in 1..left {
            found &= found - 1;
        }
        let bits = found.trailing_zeros() + 1;
        let last = word << (64 - bits);
        return Some((mixed(hash, last), at as u32 + bits / 8));
    }
    None
}

#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    let product = u128::from(hash ^ word) * u128::from(FACTOR);
    product as u64 ^ (product >> 64) as u64
}
