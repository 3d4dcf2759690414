//! Masks: what a rule replaces in a line before the line is written to disk.
//!
//! A mask never leaves what it looks for because of the form of a line: it works on the bytes, not
//! on fields. In JSON, a number that is replaced is put in quotes, so that the line stays JSON.
//!
//! What is looked for in a whole payload ([`Kind::next_in`], [`TOKEN_TEXTS`]) is quicker than the
//! pattern of a kind, and finds at least every line in which the pattern finds something.
//!
//! Left out: values in other encodings (base64, escapes such as `\u0034`), and what is spread over
//! several lines.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// Memory of a compiled pattern. A larger one is an error when the configuration is read.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Length of a replacement. A longer one is an error when the configuration is read.
pub const REPLACEMENT_BYTES_MAX: usize = 32;
/// How many times as long a line may become; a longer one is replaced by [`TOO_LONG`].
const GROWTH_MAX: usize = 4;
/// Bytes that a line may grow by in any case.
const GROWTH_BYTES_MIN: usize = REPLACEMENT_BYTES_MAX;
/// What is left of a line with too many replacements.
pub const TOO_LONG: &[u8] = b"[masked: too many matches]";
/// Digits of a card number.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// What a rule masks, as it is written: a kind, or a pattern of one's own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum MaskSpec {
    /// One of [`KINDS`].
    Kind(String),
    /// A regular expression.
    Own(OwnMask),
}

/// `{ regex = "…", with = "…" }`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnMask {
    /// What is replaced: its first group that matched, or else the whole match.
    pub regex: String,
    /// By what; `[masked]` if it is missing.
    #[serde(default)]
    pub with: Option<String>,
}

/// The kinds by their names.
pub const KINDS: [&str; 5] = ["cards", "tokens", "emails", "ipv4", "ipv6"];

/// A mask, compiled.
pub enum Mask {
    /// One of [`KINDS`].
    Known(Kind),
    /// Matches of a pattern of the user's.
    Own(Box<Regex>, Vec<u8>),
}

/// A kind of mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers of cards.
    Cards,
    /// Keys and passwords.
    Tokens,
    /// E-mail addresses.
    Emails,
    /// Addresses of IP version 4.
    Ipv4,
    /// Addresses of IP version 6.
    Ipv6,
}

/// How a text stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenText {
    /// As it is.
    Exact,
    /// In any case.
    AnyCase,
    /// In any case, as the end of a key: behind it follow `=` or `:`, perhaps behind a quote and
    /// blanks.
    Key,
    /// In any case, and a blank follows.
    Scheme,
}

/// Texts of which each line with a token holds one.
pub const TOKEN_TEXTS: [(&str, TokenText); 23] = [
    ("AKIA", TokenText::Exact),
    ("ASIA", TokenText::Exact),
    ("ghp_", TokenText::Exact),
    ("gho_", TokenText::Exact),
    ("ghu_", TokenText::Exact),
    ("ghs_", TokenText::Exact),
    ("ghr_", TokenText::Exact),
    ("github_pat_", TokenText::Exact),
    ("xox", TokenText::Exact),
    ("eyJ", TokenText::Exact),
    ("bearer", TokenText::Scheme),
    ("basic", TokenText::Scheme),
    ("password", TokenText::Key),
    ("passwd", TokenText::Key),
    ("passphrase", TokenText::Key),
    ("pwd", TokenText::Key),
    ("secret", TokenText::Key),
    // `api_key`, `apikey`, `access-key`, `private_key` …
    ("_key", TokenText::Key),
    ("-key", TokenText::Key),
    ("ikey", TokenText::Key),
    ("skey", TokenText::Key),
    ("ekey", TokenText::Key),
    ("token", TokenText::Key),
];

static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    let key = "(?:password|passwd|passphrase|pwd|secret|client[_-]?secret|api[_-]?key|apikey|\
               access[_-]?key|private[_-]?key|access[_-]?token|refresh[_-]?token|auth[_-]?token|token)";
    let values = r#"(?:\\"([^"\\]+)|"((?:[^"\\]|\\.)+)|'([^']+)|([^\s,;&"'\\}\])]+))"#;
    known(&format!(
        r#"\b(?:(?:AKIA|ASIA)[0-9A-Z]{{16}}|gh[pousr]_[A-Za-z0-9]{{30,}}|github_pat_[A-Za-z0-9_]{{22,}}|xox[a-z]-[A-Za-z0-9-]{{10,}}|eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}(?:\.[A-Za-z0-9_-]*)?|(?i:bearer|basic)\s+([A-Za-z0-9._~+/=-]{{8,}}))|(?i:{key})(?:\\?["'])?\s*[=:]\s*{values}"#
    ))
});
static EMAILS: LazyLock<Regex> =
    LazyLock::new(|| known(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"));
static IPV4: LazyLock<Regex> = LazyLock::new(|| {
    let part = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    known(&format!(r"\b(?:{part}\.){{3}}{part}\b"))
});
static IPV6: LazyLock<Regex> =
    LazyLock::new(|| known(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*"));

fn known(pattern: &str) -> Regex {
    let built = RegexBuilder::new(pattern).unicode(false).build();
    built.expect("a pattern of this file compiles")
}

impl TokenText {
    /// Whether `text` stands there in a payload.
    pub fn is_at(self, text: &str, payload: &[u8], at: usize) -> bool {
        let Some(found) = payload.get(at..at + text.len()) else { return false };
        let behind = &payload[at + text.len()..];
        match self {
            TokenText::Exact => return found == text.as_bytes(),
            _ if !found.eq_ignore_ascii_case(text.as_bytes()) => return false,
            _ => {}
        }
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
        match self {
            TokenText::Exact | TokenText::AnyCase => true,
            TokenText::Scheme => behind.first().is_some_and(is_blank),
            TokenText::Key => {
                let quote = behind.strip_prefix(b"\\").unwrap_or(behind);
                let behind = match quote.first() {
                    Some(b'"' | b'\'') => &quote[1..],
                    _ => behind,
                };
                matches!(behind.iter().find(|byte| !is_blank(byte)), Some(b'=' | b':'))
            }
        }
    }
}

impl Kind {
    /// Of the next line, at or behind `from`, in which this kind may find something, the place of a
    /// byte of it. Only for lines without newlines, and not for tokens, which have [`TOKEN_TEXTS`].
    pub fn next_in(self, payload: &[u8], from: usize) -> Option<usize> {
        match self {
            Kind::Emails => {
                let mut signs = memchr::memchr_iter(b'@', &payload[from..]).map(|at| from + at);
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(byte);
                let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
                signs.find(|&at| {
                    payload[..at].last().is_some_and(is_name)
                        && payload.get(at + 1).is_some_and(is_host)
                })
            }
            kind => kind.next(payload, from).map(|(from, _)| from),
        }
    }

    /// The next part to replace at or behind `from`.
    fn next(self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            Kind::Cards => next_card(text, from),
            Kind::Tokens => part_of(&TOKENS, text, from),
            Kind::Emails => part_of(&EMAILS, text, from),
            Kind::Ipv4 => part_of(&IPV4, text, from),
            Kind::Ipv6 => next_ipv6(text, from),
        }
    }
}

impl Mask {
    /// The mask, or what is wrong with it.
    pub fn new(spec: &MaskSpec) -> Result<Mask, String> {
        let own = match spec {
            MaskSpec::Kind(kind) => {
                let known = match &**kind {
                    "cards" => Kind::Cards,
                    "tokens" => Kind::Tokens,
                    "emails" => Kind::Emails,
                    "ipv4" => Kind::Ipv4,
                    "ipv6" => Kind::Ipv6,
                    _ => {
                        return Err(format!(
                            "'{kind}' is not a kind of mask; use {}, or {{ regex = \"…\" }}",
                            KINDS.join(", ")
                        ));
                    }
                };
                return Ok(Mask::Known(known));
            }
            MaskSpec::Own(own) => own,
        };
        let with = own.with.as_deref().unwrap_or("[masked]");
        if with.len() > REPLACEMENT_BYTES_MAX || with.contains(['\n', '"', '\\']) {
            return Err(format!(
                "'with' has at most {REPLACEMENT_BYTES_MAX} bytes, none of them a newline, '\"' or '\\'"
            ));
        }
        let regex = RegexBuilder::new(&own.regex).size_limit(PATTERN_BYTES_MAX).build();
        let regex = regex.map_err(|error| {
            format!("regex cannot be used: {error}; special characters are escaped with \\")
        })?;
        if regex.is_match(b"") {
            return Err("regex matches the empty text; it must match what is to be hidden".into());
        }
        Ok(Mask::Own(Box::new(regex), with.as_bytes().to_vec()))
    }

    /// Its kind; none of a pattern of one's own.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Mask::Known(kind) => Some(*kind),
            Mask::Own(..) => None,
        }
    }

    /// The next part to replace at or behind `from`.
    fn next(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            Mask::Known(kind) => kind.next(text, from),
            Mask::Own(regex, _) => part_of(regex, text, from),
        }
    }

    fn replacement(&self) -> &[u8] {
        match self {
            Mask::Known(Kind::Cards) => b"[card]",
            Mask::Known(Kind::Tokens) => b"[token]",
            Mask::Known(Kind::Emails) => b"[email]",
            Mask::Known(Kind::Ipv4 | Kind::Ipv6) => b"[ip]",
            Mask::Own(_, with) => with,
        }
    }

    /// The text with all that is to be hidden replaced; `None` if there is nothing. A text that
    /// would become far longer is replaced as a whole.
    pub fn masked(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut next = self.next(text, 0)?;
        let with = self.replacement();
        let is_json = text.trim_ascii_start().first() == Some(&b'{');
        let bytes_max = GROWTH_MAX * text.len() + GROWTH_BYTES_MIN;
        let (mut out, mut through) = (Vec::with_capacity(text.len()), 0);
        loop {
            let (from, to) = next;
            out.extend_from_slice(&text[through..from]);
            match is_json && is_bare(text, from, to) {
                true => out.extend([b"\"", with, b"\""].concat()),
                false => out.extend_from_slice(with),
            }
            through = to;
            if out.len() > bytes_max {
                return Some(TOO_LONG.to_vec());
            }
            match self.next(text, through) {
                Some(found) => next = found,
                None => break,
            }
        }
        out.extend_from_slice(&text[through..]);
        // The same text again, such as a value that is masked already, is no change.
        (out != text).then_some(out)
    }
}

/// The first group that matched, or the whole match.
fn part_of(regex: &Regex, text: &[u8], from: usize) -> Option<(usize, usize)> {
    if regex.captures_len() == 1 {
        return regex.find_at(text, from).map(|found| (found.start(), found.end()));
    }
    let captures = regex.captures_at(text, from)?;
    let part = captures.iter().skip(1).flatten().find(|part| !part.is_empty());
    part.or(captures.get(0)).map(|part| (part.start(), part.end()))
}

/// Whether a part of JSON is a whole value without quotes.
fn is_bare(text: &[u8], from: usize, to: usize) -> bool {
    let before = text[..from].trim_ascii_end().last();
    let behind = text[to..].trim_ascii_start().first();
    matches!(before, Some(b':' | b',' | b'[')) && matches!(behind, Some(b',' | b'}' | b']'))
}

/// The next number of a card: 13 to 19 digits in a row, or in groups as they stand on a card, whose
/// check digit is right (ISO/IEC 7812). `from` is not behind a digit that belongs to a number.
///
/// Logs are full of digits, so 64 bytes are looked at at a time, as bits.
fn next_card(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let (blocks, rest) = text[from..].as_chunks::<64>();
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    let mut runs = DigitRuns::default();
    for (number, block) in blocks.iter().chain([&last]).enumerate() {
        let (long, groups) = runs.ends(digits_of(block));
        let mut ends = long | groups;
        while ends != 0 {
            let bit = ends.trailing_zeros() as usize;
            let before = if long >> bit & 1 == 1 { 12 } else { 8 };
            let start = from + 64 * number + bit - before;
            if let Some(end) = card_end(text, start) {
                return Some((start, end));
            }
            ends &= ends - 1;
        }
    }
    None
}

/// The end of the number of a card that begins there, where a run of digits begins.
fn card_end(text: &[u8], start: usize) -> Option<usize> {
    let end = digits_end(text, start);
    let digits = text[start..end].iter().copied();
    match end - start {
        4 => groups_end(text, start),
        count if CARD_DIGITS.contains(&count) && passes_luhn(digits) => Some(end),
        _ => None,
    }
}

/// Which of 64 bytes are digits: a bit for each, the lowest for the first.
fn digits_of(block: &[u8; 64]) -> u64 {
    // The compiler makes vector instructions of this.
    let are_digits = block.map(|byte| u8::from(byte.is_ascii_digit()));
    let (words, _) = are_digits.as_chunks::<8>();
    // The product has the lowest bits of the bytes of a word in its highest byte.
    let bits = |word: &[u8; 8]| u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    words.iter().rev().fold(0, |all, word| all << 8 | bits(word))
}

/// Where digits stood in the 64 bytes before, and where the second, fourth, and thirteenth digit of
/// a row or a later one did.
#[derive(Default)]
struct DigitRuns {
    digits: u64,
    second: u64,
    fourth: u64,
    thirteenth: u64,
}

impl DigitRuns {
    /// The places of thirteenth digits of a row; and of fourth digits behind four others alone and
    /// one byte that is none.
    fn ends(&mut self, digits: u64) -> (u64, u64) {
        let second = digits & shifted(digits, self.digits, 1);
        let fourth = second & shifted(second, self.second, 2);
        let thirteenth = fourth
            & shifted(fourth, self.fourth, 4)
            & shifted(fourth, self.fourth, 8)
            & shifted(digits, self.digits, 12);
        let long = thirteenth & !shifted(thirteenth, self.thirteenth, 1);
        let groups = fourth
            & !shifted(digits, self.digits, 4)
            & shifted(fourth, self.fourth, 5)
            & !shifted(digits, self.digits, 9);
        *self = DigitRuns { digits, second, fourth, thirteenth };
        (long, groups)
    }
}

/// Bits of 64 bytes, moved to later ones; `before` are those of the 64 bytes before.
fn shifted(bits: u64, before: u64, by: u32) -> u64 {
    bits << by | before >> (64 - by)
}

fn digits_end(text: &[u8], from: usize) -> usize {
    let others = text[from..].iter().position(|byte| !byte.is_ascii_digit());
    others.map_or(text.len(), |others| from + others)
}

/// The end of a number in groups of four, or of four, six and five or four digits, with spaces or
/// hyphens between them.
fn groups_end(text: &[u8], from: usize) -> Option<usize> {
    let mut at = digits_end(text, from);
    let between = *text.get(at).filter(|byte| matches!(byte, b' ' | b'-'))?;
    // The lengths of the groups, and where each ends.
    let (mut lengths, mut ends) = (vec![4], vec![at]);
    while ends.len() < 5 && text.get(at) == Some(&between) {
        let end = digits_end(text, at + 1);
        lengths.push(end - at - 1);
        ends.push(end);
        at = end;
    }
    let fits = |count: usize| match lengths.get(..count) {
        Some([4, 4, 4, 4, last]) => (1..=3).contains(last),
        Some([4, 4, 4, 4] | [4, 6, 4 | 5]) => true,
        _ => false,
    };
    let counts = (3..=5).rev().filter(|count| fits(*count));
    let mut ends = counts.map(|count| ends[count - 1]);
    ends.find(|end| passes_luhn(text[from..*end].iter().copied().filter(u8::is_ascii_digit)))
}

fn passes_luhn(digits: impl DoubleEndedIterator<Item = u8>) -> bool {
    let sum: u32 = digits.rev().enumerate().fold(0, |sum, (place, digit)| {
        let doubled = u32::from(digit - b'0') << (place % 2);
        sum + doubled - if doubled > 9 { 9 } else { 0 }
    });
    // Zeros alone are no number of a card.
    sum > 0 && sum.is_multiple_of(10)
}

fn next_ipv6(text: &[u8], mut from: usize) -> Option<(usize, usize)> {
    loop {
        let found = IPV6.find_at(text, from)?;
        let is_part = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let alone = (found.start() == 0 || !is_part(found.start() - 1)) && !is_part(found.end());
        let mut end = found.end();
        // A colon or full stop behind an address belongs to the sentence.
        while alone && end > found.start() + 2 {
            let address = str::from_utf8(&text[found.start()..end]).expect("it is ASCII");
            if address.parse::<Ipv6Addr>().is_ok() {
                return Some((found.start(), end));
            }
            if !matches!(text[end - 1], b':' | b'.') {
                break;
            }
            end -= 1;
        }
        from = found.end();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn may_be_in(kind: Kind, text: &[u8]) -> bool {
        match kind {
            Kind::Tokens => (0..text.len())
                .any(|at| TOKEN_TEXTS.iter().any(|(token, how)| how.is_at(token, text, at))),
            kind => kind.next_in(text, 0).is_some(),
        }
    }

    /// As [`next_card`], one run of digits after another.
    fn slow_next_card(text: &[u8], mut from: usize) -> Option<(usize, usize)> {
        loop {
            from += text[from..].iter().position(u8::is_ascii_digit)?;
            match card_end(text, from) {
                Some(end) => return Some((from, end)),
                None => from = digits_end(text, from),
            }
        }
    }

    fn cards_by(
        text: &[u8],
        next: impl Fn(&[u8], usize) -> Option<(usize, usize)>,
    ) -> Vec<(usize, usize)> {
        let mut from = 0;
        std::iter::from_fn(|| {
            let found = next(text, from)?;
            from = found.1;
            Some(found)
        })
        .collect()
    }

    /// Pieces of lines that are near to what masks look for.
    fn near() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            "[0-9]{1,20}",
            "(4111|5500|4000)([ -]?[0-9]{4}){1,4}",
            "4111(-1111-1111-1111|111111111111| 1111 1111 1111)",
            "[ -]",
            "[:;@./a-z\u{e9}]{0,3}",
            "(x|k|\u{212a}|pass)?(?i:token|pass(wd|word|phrase)|pwd|secret|api[_-]?key|private-key)\
             \\\\?[\"']?[ \t\u{b}]?[=:][ \t]?[\"']?[a-z]{0,3}",
            "(?i:bearer|basic)[ \t]{1,2}[a-zA-Z0-9=]{6,9}",
            "(AKIA|ASIA|akia)[0-9A-Z]{16}",
            "gh[pousra]_[a-zA-Z0-9]{29,31}",
            "github_pat_[a-z_]{22}",
            "(xoxb|xoxp|XOXB)-[0-9a-z-]{9,11}",
            "eyJ[a-z]{7,9}\\.[a-z]{8}",
            "[a-z.%]{0,2}@[a-z.-]{0,4}\\.[a-z]{0,2}",
            "[0-9a-f:]{2,12}|::1|1?[0-9]{1,2}(\\.[0-9]{1,3}){2,4}",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn cards_are_found_as_by_one_run_after_another(text in near(), cut in 0..70_usize) {
            let text = [&[b' '; 70][cut..], &text].concat();
            prop_assert_eq!(cards_by(&text, next_card), cards_by(&text, slow_next_card));
        }

        #[test]
        fn every_line_with_something_to_mask_is_found(text in near()) {
            for kind in [Kind::Cards, Kind::Tokens, Kind::Emails, Kind::Ipv4, Kind::Ipv6] {
                let masked = Mask::Known(kind).masked(&text);
                prop_assert!(masked.is_none() || may_be_in(kind, &text), "{kind:?}");
            }
        }
    }

    #[test]
    fn every_byte_is_a_digit_or_not() {
        for byte in 0..=u8::MAX {
            let mut block = [b'a'; 64];
            block[usize::from(byte) % 64] = byte;
            let expected = if byte.is_ascii_digit() { 1 << (byte % 64) } else { 0 };
            assert_eq!(digits_of(&block), expected, "{byte}");
            let others = [byte; 64];
            assert_eq!(digits_of(&others), if byte.is_ascii_digit() { u64::MAX } else { 0 });
        }
    }

    fn check(kind: &str, rows: &[(&str, &str)]) {
        let mask = Mask::new(&MaskSpec::Kind(kind.into())).unwrap();
        for (text, expected) in rows {
            let masked = mask.masked(text.as_bytes());
            let shown = masked.as_deref().map_or(*text, |masked| str::from_utf8(masked).unwrap());
            assert_eq!(shown, *expected, "{kind}: {text}");
            assert!(masked.is_none() || may_be_in(mask.kind().unwrap(), text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn numbers_of_cards_are_masked_and_other_numbers_are_not() {
        check(
            "cards",
            &[
                ("paid with 4111111111111111.", "paid with [card]."),
                ("4111 1111 1111 1111 and 5500-0000-0000-0004", "[card] and [card]"),
                ("4111111111111112", "4111111111111112"),
                ("14111111111111111", "14111111111111111"),
                ("order 7 4111111111111111 8", "order 7 [card] 8"),
                ("2026-11-29 4111 1111 1111 1111", "2026-11-29 [card]"),
                ("12 4111 1111 1111 1111 7", "12 [card] 7"),
                ("amex 3782 822463 10005", "amex [card]"),
                ("0000000000000000", "0000000000000000"),
                (r#"{"card":4111111111111111,"n":1}"#, r#"{"card":"[card]","n":1}"#),
                (r#"{"card":"4111111111111111"}"#, r#"{"card":"[card]"}"#),
                ("", ""),
            ],
        );
    }

    #[test]
    fn tokens_are_masked() {
        check(
            "tokens",
            &[
                ("key AKIAIOSFODNN7EXAMPLE used", "key [token] used"),
                ("Authorization: Bearer abc.def-123_x=", "Authorization: Bearer [token]"),
                ("password=hunter2 user=bob", "password=[token] user=bob"),
                (r#"{"Password": "a \"b\" c","x":1}"#, r#"{"Password": "[token]","x":1}"#),
                (r#"{"b":"{\"token\":\"abc\"}"}"#, r#"{"b":"{\"token\":\"[token]\"}"}"#),
                ("?api_key=abc&x=1", "?api_key=[token]&x=1"),
                ("pwd='a b' next", "pwd='[token]' next"),
                ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.SflKxw", "jwt [token]"),
                ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[token]"),
                ("no password here", "no password here"),
            ],
        );
    }

    #[test]
    fn addresses_are_masked() {
        check("emails", &[("from bob@mail.example.org,", "from [email],"), ("a@b", "a@b")]);
        check("ipv4", &[("10.0.0.1:80 and 999.1.1.1", "[ip]:80 and 999.1.1.1")]);
        check(
            "ipv6",
            &[
                ("from fe80::1: at 12:30:45", "from [ip]: at 12:30:45"),
                ("::ffff:10.0.0.1.", "[ip]."),
                ("a::b::c", "a::b::c"),
            ],
        );
    }

    #[test]
    fn own_patterns_have_groups_and_bounds() {
        let own = |regex: &str, with: Option<&str>| {
            Mask::new(&MaskSpec::Own(OwnMask { regex: regex.into(), with: with.map(Into::into) }))
        };
        let mask = own("pin=([0-9]+)", Some("***")).unwrap();
        assert_eq!(mask.masked(b"pin=12 pin=3").unwrap(), b"pin=*** pin=***");
        let every = own("[a-z]", Some(&"x".repeat(32))).unwrap();
        assert_eq!(every.masked(&[b'a'; 100]).unwrap(), TOO_LONG);
        for (regex, with) in [("(", None), ("a*", None), ("a", Some("\n")), ("(a{999}){999}", None)]
        {
            assert!(own(regex, with).is_err(), "{regex}");
        }
        assert!(own("a", Some(&"x".repeat(33))).is_err());
        assert!(Mask::new(&MaskSpec::Kind("card".into())).is_err());
    }
}
