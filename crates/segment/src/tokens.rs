//! Word filters: they record which words a block may contain, so that most blocks need not be read
//! for a word that they do not contain.
//!
//! A token is a maximal run of *firm* characters: ASCII letters and digits, `_`, and the letters of
//! some large ranges of Unicode that will never be reclassified. All of them are word characters of
//! LogsQL; any other character ends a token even if it is a word character. So a word or phrase
//! that occurs in a value at word boundaries has each of its tokens in that value as a token,
//! whatever surrounds it, and a filter never hides a match. The price: text of other characters
//! only cannot be looked up.
//!
//! Numbers of up to three digits occur in nearly every block. Filters omit them. Instead, four of
//! them with points between, an address, are a token of their own besides its parts, wherever they
//! occur: `1.10.0.0.7` has two of them. So an address can be looked up whatever surrounds it.
//!
//! The tokens of a block are hashed ([`crate::hash`]) into a binary fuse filter of 8 bits
//! ([`fuse`]): about 9 to 10 bits a distinct token, and a false positive for one of 256 absent
//! tokens.
//!
//! ```text
//! version u8 = 2 | segment length, log2 u8 | seed u16 | segments u32 | fingerprints u8 …
//! ```
//!
//! All integers are little-endian. With 0 segments there are no fingerprints, and the block may
//! contain anything.
//!
//! Left out: case folding. A filter of folded tokens would serve both kinds of queries, but worse,
//! and case-sensitive ones are by far more frequent.

mod fuse;

use fuse::{Fuse, FuseView};

use crate::hash::hash64;

/// Most distinct tokens of a filter; a block with more gets a filter that answers yes to all.
pub const TOKENS_MAX: usize = 1 << 22;
/// Initial slots of the set of hashes; the set doubles when half full.
const SLOTS_MIN: usize = 1 << 10;

/// The bytes are not a valid filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token filter of {bytes} bytes is damaged: {problem}")]
pub struct FilterError {
    /// Size of the filter.
    pub bytes: usize,
    /// The problem.
    pub problem: &'static str,
}

/// The hash of a token. Filters contain these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(u64);

/// Digits of the longest number that is no token, and of the longest part of an address.
const SHORT_DIGITS_MAX: usize = 3;
/// Parts of an address.
const ADDRESS_PARTS: usize = 4;

/// Calls `found` with each token of a value.
#[inline]
pub fn for_each_token<'a>(value: &'a [u8], mut found: impl FnMut(&'a [u8])) {
    each_token(value, |from, to| found(&value[from..to]));
}

/// Whether a byte ends tokens and addresses, whatever surrounds it.
#[inline]
pub(crate) fn separates(byte: u8) -> bool {
    byte != b'.' && is_other(byte)
}

/// Calls `found` with the position of each token that filters contain: of the words and addresses
/// of a value, but not of its short numbers.
#[inline]
fn each_kept(value: &[u8], mut found: impl FnMut(usize, usize)) {
    // End of the short numbers that are joined by points, starts of the last ones, end of the last
    // one.
    let (mut joined, mut starts, mut last) = (0, [0; ADDRESS_PARTS], 0);
    each_token(value, |from, to| {
        if to - from > SHORT_DIGITS_MAX || !value[from..to].iter().all(u8::is_ascii_digit) {
            joined = 0;
            return found(from, to);
        }
        let goes_on = joined > 0 && from == last + 1 && value[last] == b'.';
        joined = if goes_on { joined + 1 } else { 1 };
        starts[joined % ADDRESS_PARTS] = from;
        last = to;
        if joined >= ADDRESS_PARTS {
            found(starts[(joined + 1) % ADDRESS_PARTS], to);
        }
    });
}

/// Calls `found` with the position of each token of a value.
#[inline]
fn each_token(value: &[u8], mut found: impl FnMut(usize, usize)) {
    let mut at = 0;
    loop {
        while value.get(at).is_some_and(|&byte| is_other(byte)) {
            at += 1;
        }
        let start = at;
        while let Some(&byte) = value.get(at) {
            if byte < 0x80 {
                if !ASCII[usize::from(byte)] {
                    break;
                }
                at += 1;
                continue;
            }
            match firm_length_beyond_ascii(&value[at..]) {
                0 => break,
                length => at += length,
            }
        }
        if at > start {
            found(start, at);
        } else if at < value.len() {
            // The first byte of another character.
            at += 1;
        } else {
            return;
        }
    }
}

/// Whether a byte is an ASCII character that is not firm.
#[inline]
fn is_other(byte: u8) -> bool {
    byte < 0x80 && !ASCII[usize::from(byte)]
}

static ASCII: [bool; 128] = {
    let mut table = [false; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

/// The bytes of the non-ASCII firm character at the start of a text, 0 if there is none.
fn firm_length_beyond_ascii(rest: &[u8]) -> usize {
    let continuation =
        |at: usize| rest.get(at).filter(|&&b| b & 0xc0 == 0x80).map(|b| u32::from(b & 0x3f));
    let lead = u32::from(rest[0]);
    let (length, character) = match lead {
        0xc2..=0xdf => {
            let Some(a) = continuation(1) else { return 0 };
            (2, (lead & 0x1f) << 6 | a)
        }
        0xe0..=0xef => {
            let (Some(a), Some(b)) = (continuation(1), continuation(2)) else { return 0 };
            (3, (lead & 0x0f) << 12 | a << 6 | b)
        }
        _ => return 0,
    };
    // Latin, Greek, Cyrillic, Armenian capitals, kana, Han, Hangul. Never extend these ranges:
    // existing filters do not have the added characters.
    let firm = match character {
        0xd7 | 0xf7 => false,
        0xc0..=0x24f
        | 0x3a3..=0x3e1
        | 0x400..=0x481
        | 0x48a..=0x52f
        | 0x531..=0x556
        | 0x3041..=0x3096
        | 0x30a1..=0x30fa
        | 0x4e00..=0x9fa5
        | 0xac00..=0xd7a3 => true,
        _ => false,
    };
    if firm { length } else { 0 }
}

/// The tokens that a value must have if `text` occurs in it, each once.
///
/// `whole_start` and `whole_end`: whether a word boundary is certain at that end of the text. It is
/// at both ends of a word or phrase, at the start of a prefix, and at no end of any other
/// substring. A token that touches an open end may be longer in the value, and is left out.
pub fn required_tokens(text: &[u8], whole_start: bool, whole_end: bool) -> Vec<TokenHash> {
    let mut hashes = Vec::new();
    each_kept(text, |from, to| {
        let open = from == 0 && !whole_start || to == text.len() && !whole_end;
        if !open {
            hashes.push(TokenHash(hash64(&text[from..to])));
        }
    });
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Collects the distinct tokens of a block.
pub struct TokenSet {
    /// Each hash is in the slot of its low bits or the next free one; 0 marks a free slot. The hash
    /// 0 is stored as 1.
    slots: Vec<u64>,
    count: usize,
}

impl Default for TokenSet {
    fn default() -> Self {
        TokenSet { slots: vec![0; SLOTS_MIN], count: 0 }
    }
}

impl TokenSet {
    /// Clears the set; keeps its memory.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.count = 0;
    }

    /// Adds the tokens of a value. Beyond [`TOKENS_MAX`] it only records that there are more.
    pub fn add(&mut self, value: &[u8]) {
        each_kept(value, |from, to| self.insert(hash64(&value[from..to])));
    }

    #[inline]
    fn insert(&mut self, hash: u64) {
        let hash = hash.max(1);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            if self.slots[slot] == hash {
                return;
            }
            slot = (slot + 1) & mask;
        }
        if self.count > TOKENS_MAX {
            return;
        }
        self.slots[slot] = hash;
        self.count += 1;
        if self.count * 2 > self.slots.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![0; self.slots.len() * 2];
        let mask = slots.len() - 1;
        for hash in std::mem::replace(&mut self.slots, slots) {
            if hash != 0 {
                let mut slot = hash as usize & mask;
                while self.slots[slot] != 0 {
                    slot = (slot + 1) & mask;
                }
                self.slots[slot] = hash;
            }
        }
    }

    /// Number of distinct tokens, at most [`TOKENS_MAX`] and one.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The hashes of the tokens, ascending, so that they do not depend on the order of the values.
    #[cfg(test)]
    pub(crate) fn hashes(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> = self.slots.iter().copied().filter(|&hash| hash != 0).collect();
        hashes.sort_unstable();
        hashes
    }

    /// The filter's bytes.
    pub fn build(&self) -> Vec<u8> {
        let fuse = if self.count > TOKENS_MAX {
            None
        } else {
            let hashes: Vec<u64> = self.slots.iter().copied().filter(|&h| h != 0).collect();
            Fuse::build(&hashes)
        };
        fuse.unwrap_or_default().write()
    }
}

/// An encoded filter.
#[derive(Clone, Copy, Debug)]
pub struct TokenFilter<'a>(FuseView<'a>);

impl<'a> TokenFilter<'a> {
    /// Reads a filter. Bytes that cannot be a filter are an error; flipped fingerprints are found
    /// by the caller's checksum only.
    pub fn open(bytes: &'a [u8]) -> Result<Self, FilterError> {
        FuseView::read(bytes).map(TokenFilter)
    }

    /// Whether the block may contain the token. False means that it does not.
    #[inline]
    pub fn may_contain(&self, token: TokenHash) -> bool {
        self.0.may_contain(token.0.max(1))
    }

    /// Whether the block may contain a value with all of these tokens, as [`required_tokens`]
    /// returns them.
    pub fn may_contain_all(&self, tokens: &[TokenHash]) -> bool {
        tokens.iter().all(|&token| self.may_contain(token))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter_of<T: AsRef<[u8]>>(values: &[T]) -> Vec<u8> {
        let mut set = TokenSet::default();
        values.iter().for_each(|value| set.add(value.as_ref()));
        set.build()
    }

    #[test]
    fn tokens_are_runs_of_firm_characters() {
        let check = |value: &[u8], expected: &[&str]| {
            let mut found = Vec::new();
            for_each_token(value, |token| found.push(String::from_utf8_lossy(token).into_owned()));
            assert_eq!(found, expected, "{}", value.escape_ascii());
        };
        check(b"", &[]);
        check(b"a-b_1 [c]", &["a", "b_1", "c"]);
        check("caf\u{e9} na\u{ef}ve\u{20ac}5".as_bytes(), &["caf\u{e9}", "na\u{ef}ve", "5"]);
        check("\u{201c}тест\u{201d} 日本".as_bytes(), &["тест", "日本"]);
        check(b"a\xc3", &["a"]);
        check(b"a\xe4\xc3\xa9b\xff", &["a", "\u{e9}b"]);
        check("1\u{d7}2".as_bytes(), &["1", "2"]);
    }

    #[test]
    fn firm_characters_are_letters() {
        for character in (0x80..0x11_0000).filter_map(char::from_u32) {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            let mut length = 0;
            each_token(bytes, |from, to| {
                assert_eq!(from, 0);
                length = to;
            });
            assert!(
                length == 0 || length == bytes.len() && character.is_alphanumeric(),
                "{character:?}"
            );
        }
    }

    fn hash(text: &str) -> TokenHash {
        TokenHash(hash64(text.as_bytes()))
    }

    fn words(text: &str) -> Vec<TokenHash> {
        required_tokens(text.as_bytes(), true, true)
    }

    #[test]
    fn addresses_are_tokens_anywhere() {
        let check = |value: &str, expected: &[&str]| {
            let mut found = Vec::new();
            each_kept(value.as_bytes(), |from, to| found.push(&value[from..to]));
            found.retain(|token| token.contains('.'));
            assert_eq!(found, expected, "{value}");
        };
        check("from 10.0.0.7:514 to 10.0.0.8.", &["10.0.0.7", "10.0.0.8"]);
        check("1.10.0.0.7.2", &["1.10.0.0", "10.0.0.7", "0.0.7.2"]);
        check("10.0.0 10..0.0.7 10.0.0.1234 a.1.2.3 1.2.3,4 1.2.3.b", &[]);
        check("v1.2.3.4 1.2.3.4b 1.2.3.4", &["1.2.3.4"]);
        check("\u{e9}1.2.3.4 1\u{d7}2.3.4.5", &["2.3.4.5"]);
        let filter = filter_of(&["port 7 of 203.0.113.77:22", "10.203.0.113 and 0.113.78"]);
        let filter = TokenFilter::open(&filter).unwrap();
        for there in ["203.0.113.77", "7", "10.203.0.113", "port", "113.78"] {
            assert!(filter.may_contain_all(&words(there)), "{there}");
        }
        for absent in ["203.0.113.78", "113.203.0.113", "10.203.0.77", "ports"] {
            assert!(!filter.may_contain_all(&words(absent)), "{absent}");
        }
        // A token at an open end is not required.
        assert!(filter.may_contain_all(&required_tokens(b"203.0.113.7", true, false)));
        assert!(!filter.may_contain_all(&required_tokens(b".203.0.114.77.", false, false)));
    }

    #[test]
    fn a_filter_that_was_written_before_is_read() {
        let bytes = [
            2, 3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 111, 0, 0, 0, 143, 0, 0, 0, 0, 0, 14, 117,
            0, 0, 0, 0, 0,
        ];
        let filter = TokenFilter::open(&bytes).unwrap();
        assert!(filter.may_contain_all(&words("Failed password for root")));
        assert!(!filter.may_contain_all(&words("Accepted")));
        assert!(filter.may_contain_all(&words("22")));
        assert!(!filter.may_contain_all(&words("10.0.0.7")));
        assert_eq!(filter_of(&["Failed password for root"]), bytes);
    }

    #[test]
    fn a_set_is_used_again() {
        let mut set = TokenSet::default();
        (0..5_000).for_each(|i| set.add(format!("word{i}").as_bytes()));
        set.clear();
        assert!(set.is_empty());
        set.add(b"Failed password for root");
        assert_eq!(set.hashes(), {
            let mut other = TokenSet::default();
            other.add(b"Failed password for root");
            other.hashes()
        });
    }

    #[test]
    fn open_ends_are_left_out() {
        let hashes = |tokens: &[&str]| {
            let mut hashes: Vec<_> = tokens.iter().map(|token| hash(token)).collect();
            hashes.sort_unstable();
            hashes
        };
        let check = |text: &str, start, end, expected: &[&str]| {
            assert_eq!(required_tokens(text.as_bytes(), start, end), hashes(expected), "{text}");
        };
        check("a b a c", true, true, &["a", "b", "c"]);
        check("ab c de", false, true, &["c", "de"]);
        check("ab c de", true, false, &["ab", "c"]);
        check(" ab ", false, false, &["ab"]);
        check("ab", false, true, &[]);
        check("...", true, true, &[]);
    }

    #[test]
    fn held_tokens_are_found_and_few_others() {
        for count in [0usize, 1, 2, 3, 10, 100, 1000, 20_000] {
            let values: Vec<String> = (0..count).map(|i| format!("token{i} again")).collect();
            let bytes = filter_of(&values);
            let filter = TokenFilter::open(&bytes).unwrap();
            for value in &values {
                assert!(filter.may_contain_all(&required_tokens(value.as_bytes(), true, true)));
            }
            let absent = 20_000;
            let false_hits = (0..absent)
                .filter(|i| {
                    filter.may_contain_all(&required_tokens(
                        format!("other{i}").as_bytes(),
                        true,
                        true,
                    ))
                })
                .count();
            assert!(false_hits * 200 < absent, "{false_hits} of {absent} with {count} tokens");
            assert!(bytes.len() < 64 + count * 13 / 8, "{} bytes for {count}", bytes.len());
        }
    }

    #[test]
    fn damaged_filters_are_errors_or_answers() {
        let bytes = filter_of(&["some tokens of a value", "and of another"]);
        for length in 0..bytes.len() {
            assert!(TokenFilter::open(&bytes[..length]).is_err(), "{length}");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[length] ^= 1 << bit;
                if let Ok(filter) = TokenFilter::open(&damaged) {
                    for i in 0..1000u16 {
                        let _ = filter.may_contain(hash(&i.to_string()));
                    }
                }
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(TokenFilter::open(&longer).is_err());
        for version in [0, 1, 3] {
            assert!(TokenFilter::open(&[version, 2, 0, 0, 0, 0, 0, 0]).is_err());
        }
    }

    #[test]
    fn a_filter_without_fingerprints_says_yes() {
        let bytes = Fuse::default().write();
        let filter = TokenFilter::open(&bytes).unwrap();
        assert!(filter.may_contain_all(&required_tokens(b"what ever", true, true)));
    }

    proptest! {
        #[test]
        fn no_phrase_is_hidden(
            value in prop::collection::vec(prop::sample::select("ab_1é€ .т“2345.....".chars().collect::<Vec<_>>()), 0..16),
            from in 0usize..16,
            length in 1usize..12,
        ) {
            let phrase: String = value.iter().skip(from).take(length).collect();
            let word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
            let whole_start = !word(from.checked_sub(1).and_then(|at| value.get(at)));
            let whole_end = !word(value.get(from + length));
            let text: String = value.iter().collect();
            let bytes = filter_of(&[text]);
            let tokens = required_tokens(phrase.as_bytes(), whole_start, whole_end);
            prop_assert!(TokenFilter::open(&bytes).unwrap().may_contain_all(&tokens));
        }
    }
}
