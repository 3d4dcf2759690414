//! A pattern as it is shown: text, name and numbers.

use std::cmp::Ordering;
use std::fmt;

use crate::patterns::lex::{VALUE, VARIED};

/// What stands in the text of a pattern for what varies.
pub const PLACEHOLDER: &str = "<*>";

/// Names a pattern: a hash of its text. The same text has the same id on every machine and in every
/// version; 16 hexadecimal digits as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternId(pub u64);

impl PatternId {
    /// The id of a pattern with this text: FNV-1a with 64 bits
    /// (<http://www.isthe.com/chongo/tech/comp/fnv/>).
    pub fn of(text: &[u8]) -> PatternId {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        PatternId(text.iter().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

impl fmt::Display for PatternId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Messages with the same text, apart from what varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The name of the pattern.
    pub id: PatternId,
    /// The text, with [`PLACEHOLDER`] for what varies. UTF-8 if the messages are.
    pub text: Vec<u8>,
    /// The messages of the pattern.
    pub group: Group,
}

/// What is known of messages that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of messages.
    pub hits: u64,
    /// Smallest time of a message, in nanoseconds since 1970; none if no message has a time.
    pub first_ns: Option<i64>,
    /// Greatest time of a message, in nanoseconds since 1970; none if no message has a time.
    pub last_ns: Option<i64>,
    /// The message of the smallest time, and of several the smallest one; cut to
    /// [`EXAMPLE_BYTES_MAX`].
    pub example: Box<[u8]>,
}

/// Most bytes of an example. Of a longer message, the beginning is kept, up to a whole character.
pub const EXAMPLE_BYTES_MAX: usize = 1024;

impl Group {
    /// A group of one message.
    pub fn of(message: &[u8], time_ns: Option<i64>) -> Group {
        Group { hits: 1, first_ns: time_ns, last_ns: time_ns, example: cut(message).into() }
    }

    /// Adds a message.
    pub fn add(&mut self, message: &[u8], time_ns: Option<i64>) {
        self.hits = self.hits.saturating_add(1);
        self.last_ns = self.last_ns.max(time_ns);
        if self.precedes(time_ns, message) {
            self.first_ns = time_ns;
            self.example = cut(message).into();
        }
    }

    /// Adds the messages of another group. The result is the same for any order.
    pub fn merge(&mut self, other: Group) {
        self.hits = self.hits.saturating_add(other.hits);
        self.last_ns = self.last_ns.max(other.last_ns);
        if self.precedes(other.first_ns, &other.example) {
            self.first_ns = other.first_ns;
            self.example = other.example;
        }
    }

    /// Whether a message comes before the example. A message without a time comes last.
    fn precedes(&self, time_ns: Option<i64>, message: &[u8]) -> bool {
        let order = |time_ns: Option<i64>| (time_ns.is_none(), time_ns);
        match order(time_ns).cmp(&order(self.first_ns)) {
            Ordering::Less => true,
            Ordering::Equal => cut(message) < &self.example[..],
            Ordering::Greater => false,
        }
    }
}

fn cut(message: &[u8]) -> &[u8] {
    if message.len() <= EXAMPLE_BYTES_MAX {
        return message;
    }
    // A character of UTF-8 has up to three bytes behind its first one, all of the form 0b10…
    let ends = (EXAMPLE_BYTES_MAX - 3..=EXAMPLE_BYTES_MAX).rev();
    let end = ends.clone().find(|&at| message[at] & 0b1100_0000 != 0b1000_0000);
    &message[..end.unwrap_or(EXAMPLE_BYTES_MAX)]
}

/// The text of a pattern, from its template.
pub(crate) fn text(template: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(template.len() + 8);
    for &byte in template {
        match byte {
            VALUE | VARIED => text.extend_from_slice(PLACEHOLDER.as_bytes()),
            byte => text.push(byte),
        }
    }
    text
}
