//! Cuts a message into tokens: words, values, spaces and punctuation marks.
//!
//! A word is a run of letters, digits and the signs that names are made of (`_-./\*%$` and others).
//! It is a value if its form says so (see [`crate::patterns::value`]). Paths and URLs are values as
//! a whole.

use crate::patterns::value::{self, Form};

/// Stands in a skeleton for a value that was recognised by its form.
pub(crate) const VALUE: u8 = 1;
/// Stands in a template for words that were found to vary.
pub(crate) const VARIED: u8 = 2;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A run of spaces and control characters.
    Space,
    /// A punctuation mark, or several dots.
    Mark,
    /// A word that may be part of the text of a template.
    Word,
    /// Varies from message to message.
    Value,
    /// A value that is the name of a host.
    Host,
}

/// A token of a message: `bytes[start..end]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub start: u32,
    pub end: u32,
}

impl Token {
    pub fn text<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    pub fn is_value(&self) -> bool {
        matches!(self.kind, Kind::Value | Kind::Host)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Value,
    Mark,
    Letter,
    Digit,
    Sign,
    Dot,
    Slash,
    Backslash,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Letter; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            VALUE | VARIED => Class::Value,
            0..=b' ' | 127 => Class::Space,
            b'0'..=b'9' => Class::Digit,
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'.' => Class::Dot,
            b'/' => Class::Slash,
            b'\\' => Class::Backslash,
            b'_' | b'-' | b'+' | b'*' | b'%' | b'$' | b'&' | b'^' | b'~' | b'`' => Class::Sign,
            _ => Class::Mark,
        };
        byte += 1;
    }
    classes
};

/// Whether a byte is white space in the text of messages: a space or a control character. The text
/// of a pattern has one space in place of all of them that are next to each other.
pub fn is_space(byte: u8) -> bool {
    CLASSES[byte as usize] == Class::Space
}

/// The text without white space at its ends; see [`is_space`].
pub fn trimmed(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| !is_space(byte)).map_or(begin, |last| last + 1);
    &text[begin..end]
}

fn class(bytes: &[u8], at: usize) -> Class {
    bytes.get(at).map_or(Class::Space, |&byte| CLASSES[byte as usize])
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    !matches!(class(bytes, at), Class::Space | Class::Mark | Class::Value)
}

/// Cuts `bytes` into tokens, at most `tokens_max`. Returns whether these are all.
pub(crate) fn tokenise(bytes: &[u8], tokens: &mut Vec<Token>, tokens_max: usize) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        if tokens.len() >= tokens_max {
            return false;
        }
        let start = at;
        let mut kind = Kind::Mark;
        match class(bytes, at) {
            Class::Space => {
                while at < bytes.len() && class(bytes, at) == Class::Space {
                    at += 1;
                }
                kind = Kind::Space;
            }
            Class::Value => {
                at += 1;
                kind = Kind::Value;
            }
            Class::Mark => at += 1,
            Class::Dot if !continues_word(bytes, at + 1) || class(bytes, at + 1) == Class::Dot => {
                while class(bytes, at) == Class::Dot {
                    at += 1;
                }
                if class(bytes, at) == Class::Slash {
                    (at, kind) = (path_end(bytes, at), Kind::Value);
                }
            }
            Class::Slash => {
                at = path_end(bytes, at);
                kind = if at > start + 1 { Kind::Value } else { Kind::Word };
            }
            _ => (at, kind) = word(bytes, start),
        }
        tokens.push(Token { kind, start: start as u32, end: at as u32 });
    }
    true
}

/// Reads the word at `start`: where it ends, and what it is.
fn word(bytes: &[u8], start: usize) -> (usize, Kind) {
    let mut at = start;
    // The counts of a [`Form`], side by side in one number.
    let mut counts: u64 = 0;
    loop {
        while let Some(&byte) = bytes.get(at)
            && IN_WORD[byte as usize] != 0
        {
            counts = counts.wrapping_add(IN_WORD[byte as usize]);
            at += 1;
        }
        match class(bytes, at) {
            Class::Dot if continues_word(bytes, at + 1) && class(bytes, at + 1) != Class::Dot => {
                counts = counts.wrapping_add(Form::DOT);
            }
            // An apostrophe within a word: "can't".
            Class::Mark
                if bytes[at] == b'\''
                    && at > start
                    && class(bytes, at - 1) == Class::Letter
                    && class(bytes, at + 1) == Class::Letter => {}
            _ => break,
        }
        at += 1;
    }
    let form = Form::from_counts(counts);
    if bytes.get(at) == Some(&b':') {
        let behind = &bytes[at + 1..];
        let is_url = behind.starts_with(b"//") && form.letters as usize == at - start;
        if is_url || (behind.starts_with(b"\\") && at - start == 1) {
            return (path_end(bytes, at), Kind::Value);
        }
    }
    (at, value::kind(&bytes[start..at], form))
}

/// What a byte within a word adds to the counts of its form; 0 for dots, which may end a word, and
/// for bytes that no word has.
const IN_WORD: [u64; 256] = {
    let mut counts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        counts[byte] = match CLASSES[byte] {
            Class::Letter => Form::LETTER,
            Class::Digit => Form::DIGIT,
            Class::Sign => Form::SIGN,
            Class::Slash => Form::SLASH,
            Class::Backslash => Form::BACKSLASH,
            Class::Space | Class::Value | Class::Mark | Class::Dot => 0,
        };
        byte += 1;
    }
    counts
};

/// Where a path or URL ends. Brackets are a part of it if they are opened in it; punctuation of the
/// sentence behind it is not.
fn path_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut open) = (from, 0u32);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' if open > 0 => open -= 1,
            b')' | b']' | b'}' | b'"' | b'\'' | b'<' | b'>' => break,
            _ if matches!(class(bytes, at), Class::Space | Class::Value) => break,
            _ => {}
        }
        at += 1;
    }
    while at > from + 1 && b".,:;!?|([{".contains(&bytes[at - 1]) {
        at -= 1;
    }
    at.max(from + 1)
}
