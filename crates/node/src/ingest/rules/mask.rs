//! Masks: what a rule replaces in a line before the line is written to disk.
//!
//! A mask never leaves what it looks for because of the form of a line: it works on the bytes, not
//! on fields. In JSON, a number that is replaced is put in quotes, so that the line stays JSON.
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
    /// Numbers of cards.
    Cards,
    /// Addresses of IP version 6.
    Ipv6,
    /// Matches of a pattern that never depends on where a line begins or ends.
    Known(&'static Regex, &'static [u8]),
    /// Matches of a pattern of the user's.
    Own(Box<Regex>, Vec<u8>),
}

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

impl Mask {
    /// The mask, or what is wrong with it.
    pub fn new(spec: &MaskSpec) -> Result<Mask, String> {
        let own = match spec {
            MaskSpec::Kind(kind) => match &**kind {
                "cards" => return Ok(Mask::Cards),
                "tokens" => return Ok(Mask::Known(&TOKENS, b"[token]")),
                "emails" => return Ok(Mask::Known(&EMAILS, b"[email]")),
                "ipv4" => return Ok(Mask::Known(&IPV4, b"[ip]")),
                "ipv6" => return Ok(Mask::Ipv6),
                _ => {
                    return Err(format!(
                        "'{kind}' is not a kind of mask; use {}, or {{ regex = \"…\" }}",
                        KINDS.join(", ")
                    ));
                }
            },
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

    /// Whether any line of a payload may have something to mask. Only for a payload whose lines
    /// hold no newline, and no tables of lengths.
    pub fn may_be_in(&self, payload: &[u8]) -> bool {
        match self {
            Mask::Cards => next_card(payload, 0).is_some(),
            Mask::Ipv6 => memchr::memmem::find(payload, b":").is_some(),
            Mask::Known(regex, _) => regex.is_match(payload),
            // Where its lines begin and end matters.
            Mask::Own(..) => true,
        }
    }

    /// The next part to replace at or behind `from`.
    fn next(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            Mask::Cards => next_card(text, from),
            Mask::Ipv6 => next_ipv6(text, from),
            Mask::Known(regex, _) => part_of(regex, text, from),
            Mask::Own(regex, _) => part_of(regex, text, from),
        }
    }

    fn replacement(&self) -> &[u8] {
        match self {
            Mask::Cards => b"[card]",
            Mask::Ipv6 => b"[ip]",
            Mask::Known(_, with) => with,
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
/// check digit is right (ISO/IEC 7812).
fn next_card(text: &[u8], mut from: usize) -> Option<(usize, usize)> {
    loop {
        from += text[from..].iter().position(u8::is_ascii_digit)?;
        let end = digits_end(text, from);
        if CARD_DIGITS.contains(&(end - from)) && passes_luhn(text[from..end].iter().copied()) {
            return Some((from, end));
        }
        if end - from == 4
            && let Some(end) = groups_end(text, from)
        {
            return Some((from, end));
        }
        from = end;
    }
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
    use super::*;

    fn check(kind: &str, rows: &[(&str, &str)]) {
        let mask = Mask::new(&MaskSpec::Kind(kind.into())).unwrap();
        for (text, expected) in rows {
            let masked = mask.masked(text.as_bytes());
            let shown = masked.as_deref().map_or(*text, |masked| str::from_utf8(masked).unwrap());
            assert_eq!(shown, *expected, "{kind}: {text}");
            assert!(masked.is_none() || mask.may_be_in(text.as_bytes()), "{text}");
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
