//! Words and phrases in values: substring search with word boundaries.
//!
//! An occurrence of a phrase is a match if no word continues beyond its ends: before it, if it
//! begins with a word character, and behind it, if it ends with one. Bytes that are not UTF-8 are
//! not word characters.

use memchr::memmem::Finder;

use crate::base::Pulse;
use crate::lang::syntax::cursor::is_word_char;

/// Finds a phrase or a prefix of one.
pub(crate) struct PhraseFinder {
    finder: Finder<'static>,
    starts_with_word: bool,
    ends_with_word: bool,
    prefix: bool,
}

impl PhraseFinder {
    /// `prefix`: what follows the phrase does not matter.
    pub fn new(phrase: &str, prefix: bool) -> Self {
        PhraseFinder {
            finder: Finder::new(phrase.as_bytes()).into_owned(),
            starts_with_word: phrase.chars().next().is_some_and(is_word_char),
            prefix,
            ends_with_word: !prefix && phrase.chars().next_back().is_some_and(is_word_char),
        }
    }

    /// Whether a match may end within a word.
    pub fn is_prefix(&self) -> bool {
        self.prefix
    }

    /// Whether an occurrence at `start` is a match: no word continues beyond its ends.
    #[inline]
    pub fn accepts(&self, value: &[u8], start: usize) -> bool {
        let end = start + self.finder.needle().len();
        !(self.starts_with_word && word_before(value, start)
            || self.ends_with_word && word_behind(value, end))
    }

    /// The end of the first match at or behind `from`. A phrase may begin again and again within
    /// itself, so that the search takes its length for each byte of the value: the pulse counts
    /// these.
    pub fn find_from(&self, value: &[u8], mut from: usize, pulse: &Pulse<'_>) -> Option<usize> {
        let length = self.finder.needle().len();
        while let Some(found) = self.finder.find(&value[from..]) {
            let (start, end) = (from + found, from + found + length);
            if self.accepts(value, start) {
                return Some(end);
            }
            if !pulse.may_continue(length) {
                return None;
            }
            from = start + 1;
        }
        None
    }
}

/// Whether the character before `at` belongs to a word.
#[inline]
pub(crate) fn word_before(value: &[u8], at: usize) -> bool {
    let Some(&last) = value[..at].last() else { return false };
    if last < 0x80 {
        return is_word_char(last as char);
    }
    let before = &value[at.saturating_sub(4)..at];
    let start = before.iter().rposition(|b| b & 0xc0 != 0x80).unwrap_or(0);
    std::str::from_utf8(&before[start..])
        .ok()
        .and_then(|s| s.chars().next())
        .is_some_and(is_word_char)
}

/// Whether the character at `at` belongs to a word.
#[inline]
pub(super) fn word_behind(value: &[u8], at: usize) -> bool {
    let Some(&first) = value.get(at) else { return false };
    if first < 0x80 {
        return is_word_char(first as char);
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return false,
    };
    let character = value.get(at..at + length).and_then(|b| std::str::from_utf8(b).ok());
    character.and_then(|s| s.chars().next()).is_some_and(is_word_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_match_at_word_boundaries() {
        let check = |phrase: &str, prefix: bool, value: &str, expected: bool| {
            let finder = PhraseFinder::new(phrase, prefix);
            let found = finder.find_from(value.as_bytes(), 0, &Pulse::endless()).is_some();
            assert_eq!(found, expected, "{phrase:?} in {value:?}");
        };
        check("error", false, "an error: x", true);
        check("error", false, "errors, error_1, Error", false);
        check("error", false, "errors error", true);
        check("ssh: login", false, "xssh: login", false);
        check(": ", false, "a: b", true);
        check("é", false, "caf\u{e9}", false);
        check("caf", false, "caf\u{e9}", false);
        check("caf", false, "caf\u{20ac}", true);
        check("тест", false, "(bar,\"тест\")", true);
        check("err", true, "an error", true);
        check("err", true, "fooerror", false);
    }

    #[test]
    fn broken_utf8_is_no_word() {
        let finder = PhraseFinder::new("a", false);
        let is_in = |value: &[u8]| finder.find_from(value, 0, &Pulse::endless()).is_some();
        assert!(is_in(b"\xffa\xff"));
        assert!(is_in(b"\x80\x80\x80\x80a\xe2\x82"));
        assert!(!is_in("\u{e9}a".as_bytes()));
    }
}
