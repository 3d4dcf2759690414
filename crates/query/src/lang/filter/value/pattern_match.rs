//! `pattern_match("user_id=<N>, ip=<IP4>, time=<DATETIME>")`: the value contains the text with
//! numbers, times, addresses or words in place of the placeholders ([`Placeholder`]).
//! `pattern_match_full`: the text is the whole value; `pattern_match_prefix`,
//! `pattern_match_suffix`: the value begins or ends with the text.
//!
//! `<*>` stands for any text, also for none, as in the patterns that the pipe `patterns` finds.
//! Other texts in `<…>` stand for themselves. As in these patterns, white space of any length is
//! the same as one space, and `pattern_match_full` ignores it at both ends.

use std::borrow::Cow;

use analysis::patterns::{is_space, trimmed};
use memchr::memmem::Finder;

use super::{Matches, Needed, Test};
use crate::base::Pulse;
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::placeholder::{PLACEHOLDER_BYTES_MAX, Placeholder};

/// Where in a value a pattern must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternPlace {
    /// `pattern_match`
    Anywhere,
    /// `pattern_match_full`
    Whole,
    /// `pattern_match_prefix`
    Beginning,
    /// `pattern_match_suffix`
    End,
}

impl PatternPlace {
    const NAMES: [(&str, PatternPlace); 4] = [
        ("pattern_match", PatternPlace::Anywhere),
        ("pattern_match_full", PatternPlace::Whole),
        ("pattern_match_prefix", PatternPlace::Beginning),
        ("pattern_match_suffix", PatternPlace::End),
    ];

    /// The name of the filter.
    pub(super) fn function(self) -> &'static str {
        let named = PatternPlace::NAMES.iter().find(|(_, place)| *place == self);
        named.expect("each has a name").0
    }
}

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let (_, place) = PatternPlace::NAMES
        .iter()
        .find(|(name, _)| *name == function)
        .expect("it is called for these names");
    cursor.expect('(', &format!("{function}(…)"))?;
    let pattern = cursor.expect_string(true, "a \"pattern\" such as \"took <N>ms\"")?.text;
    cursor.expect(')', &format!("{function}(…)"))?;
    Ok(field.filter(Test::PatternMatch { pattern, place: *place }))
}

/// Splits a pattern into the text before its first placeholder, and the placeholders each with the
/// text behind it.
fn split(pattern: &str) -> (String, Vec<(Placeholder, String)>) {
    let (mut first, mut parts): (String, Vec<(Placeholder, String)>) = Default::default();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some((placeholder, behind)) = Placeholder::strip(rest) {
            parts.push((placeholder, String::new()));
            rest = behind;
        } else {
            parts.last_mut().map_or(&mut first, |(_, text)| text).push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    (first, parts)
}

/// Most bytes for which a placeholder stands: a date and a time, with their numbers.
const PLACEHOLDER_BYTES: usize = 8 * PLACEHOLDER_BYTES_MAX;

/// Stands for any text.
const ANY: &str = "<*>";

pub(super) fn needed(pattern: &str) -> Needed {
    let texts = pattern.split(ANY).flat_map(|segment| {
        let (first, parts) = split(segment);
        std::iter::once(first).chain(parts.into_iter().map(|(_, text)| text))
    });
    Needed::all_of(texts.map(|text| needed_of_text(&text)))
}

/// The phrases between white space, since the length of white space is not known.
fn needed_of_text(text: &str) -> Needed {
    let words: Vec<&str> = text.split(|c: char| c.is_ascii() && is_space(c as u8)).collect();
    let last = words.len() - 1;
    let word = |(number, word): (usize, &&str)| Needed::one(word, number > 0, number < last);
    Needed::all_of(words.iter().enumerate().map(word))
}

/// The text with each run of white space replaced by one space; for [`PatternPlace::Whole`],
/// without white space at both ends.
fn settled(text: &[u8], place: PatternPlace) -> Cow<'_, [u8]> {
    let text = if place == PatternPlace::Whole { trimmed(text) } else { text };
    let mut behind_space = false;
    // The first byte that changes.
    let changed = text.iter().position(|&byte| {
        let was_behind = std::mem::replace(&mut behind_space, is_space(byte));
        behind_space && (was_behind || byte != b' ')
    });
    let Some(changed) = changed else { return Cow::Borrowed(text) };
    let mut settled = text[..changed].to_vec();
    for &byte in &text[changed..] {
        if !is_space(byte) {
            settled.push(byte);
        } else if settled.last() != Some(&b' ') {
            settled.push(b' ');
        }
    }
    Cow::Owned(settled)
}

pub(in crate::lang::filter) struct Matcher {
    /// The parts of the pattern between `<*>`; at least one.
    segments: Vec<Segment>,
    place: PatternPlace,
}

/// A part of a pattern in which each placeholder ends at one place.
struct Segment {
    first: Finder<'static>,
    parts: Vec<(Placeholder, Vec<u8>)>,
    /// Most bytes that are looked at for one beginning.
    bytes: usize,
}

impl Segment {
    fn new(pattern: &str) -> Segment {
        let (first, parts) = split(pattern);
        let first = Finder::new(first.as_bytes()).into_owned();
        let parts: Vec<_> = parts.into_iter().map(|(p, text)| (p, text.into_bytes())).collect();
        let bytes = pattern.len().saturating_add(parts.len() * PLACEHOLDER_BYTES);
        Segment { first, parts, bytes }
    }

    /// The end of a match that begins at `from`.
    fn end(&self, value: &[u8], from: usize) -> Option<usize> {
        let first = self.first.needle();
        let mut at = value[from..].starts_with(first).then_some(from + first.len())?;
        for (placeholder, text) in &self.parts {
            at = placeholder.end(value, at)?;
            at = value[at..].starts_with(text).then_some(at + text.len())?;
        }
        Some(at)
    }

    /// The first position at or behind `from` where a match may begin.
    fn start(&self, value: &[u8], from: usize) -> Option<usize> {
        match (self.first.needle(), self.parts.first()) {
            (b"", Some((placeholder, _))) => placeholder.start(value, from),
            _ => self.first.find(value.get(from..)?).map(|found| from + found),
        }
    }

    /// The end of the first match at or behind `from`, which begins there if it is `anchored`, and
    /// ends with the value if it is `to_end`.
    fn find(
        &self,
        value: &[u8],
        from: usize,
        (anchored, to_end): (bool, bool),
        pulse: &Pulse<'_>,
    ) -> Option<usize> {
        let ends = |end: &usize| !to_end || *end == value.len();
        if anchored {
            return self.end(value, from).filter(ends);
        }
        let mut from = from;
        while let Some(start) = self.start(value, from) {
            let end = self.end(value, start).filter(ends);
            // Each beginning may be compared with the whole pattern.
            if end.is_some() || !pulse.may_continue(self.bytes.min(value.len() - start)) {
                return end;
            }
            from = start + 1;
        }
        None
    }
}

impl Matcher {
    pub fn new(pattern: &str, place: PatternPlace) -> Matcher {
        let settled = settled(pattern.as_bytes(), place);
        let pattern = String::from_utf8_lossy(&settled);
        Matcher { segments: pattern.split(ANY).map(Segment::new).collect(), place }
    }

    /// Each segment is taken where it is found first: a later place would leave less for those
    /// behind it.
    fn matches_settled(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        let mut at = 0;
        let last = self.segments.len() - 1;
        for (number, segment) in self.segments.iter().enumerate() {
            let anchored =
                number == 0 && matches!(self.place, PatternPlace::Beginning | PatternPlace::Whole);
            let to_end =
                number == last && matches!(self.place, PatternPlace::End | PatternPlace::Whole);
            match segment.find(value, at, (anchored, to_end), pulse) {
                Some(end) => at = end,
                None => return false,
            }
        }
        true
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        10
    }

    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        pulse.may_continue(value.len()) && self.matches_settled(&settled(value, self.place), pulse)
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn patterns() {
        let line = "user_id=123, ip=45.67.89.12, time=2025-10-20T23:32:12Z";
        let inside = format!("a {line} b");
        let (behind, before) = (format!("a {line}"), format!("{line} b"));
        let all = [line, &inside, &behind, &before];
        let pattern = "(\"user_id=<N>, ip=<IP4>, time=<DATETIME>\")";
        check(&format!("pattern_match{pattern}"), &all, &["user_id=x, ip=<IP4>", "user_id=123"]);
        check(&format!("pattern_match_full{pattern}"), &[line], &all[1..]);
        check(&format!("pattern_match_prefix{pattern}"), &[line, &before], &[&inside, &behind]);
        check(&format!("pattern_match_suffix{pattern}"), &[line, &behind], &[&inside, &before]);
        check("pattern_match(\"<N>ms\")", &["took 5ms", "12ms"], &["took ms", "y5ms"]);
        check("pattern_match(\"<W>=<W>\")", &["a=b", "x: é=\"b c\""], &["=b", "a="]);
        check("pattern_match(\"<a> <N>\")", &["<a> 1"], &["a 1"]);
        check("pattern_match_suffix(\"a\")", &["b a", "aba"], &["ab"]);
        check_fields("x:pattern_match(\"\")", &[], true);
        // Any text, also none.
        let any = "(\"user <*> took <N>ms<*>!\")";
        let whole =
            ["user joe took 5ms!", "user  took 5ms, took 7ms now!", "user x took y took 9ms!"];
        check(
            &format!("pattern_match_full{any}"),
            &whole,
            &["a user x took 5ms!", "user x took 5ms! b"],
        );
        check(
            &format!("pattern_match{any}"),
            &["a user x took 5ms! b", whole[0]],
            &["user took 5ms!", "user x took ms!"],
        );
        check("pattern_match_full(\"<*>\")", &["a", "a b"], &[]);
        check("pattern_match_full(\"<*>a\")", &["a", "ba", "aba"], &["ab"]);
        check("pattern_match_suffix(\"b<*>a\")", &["xb y a", "ba"], &["ab", "bab"]);
        check_fields("x:pattern_match_full(\"<N>\")", &[("x", "12")], true);
    }

    #[test]
    fn white_space_of_any_length_is_one_space() {
        let spaced = ["LOG:  took 5 ms", "LOG:\ttook\r\n 5 ms", "LOG: took 5 ms"];
        for name in ["", "_full", "_prefix", "_suffix"] {
            check(
                &format!("pattern_match{name}(\"LOG: took <*> ms\")"),
                &spaced,
                &["LOG:took 5 ms"],
            );
            check(
                &format!("pattern_match{name}(\"LOG:  took <N>\\tms\")"),
                &spaced,
                &["LOG: took5 ms"],
            );
        }
        // Only a match of the whole value ignores white space at both ends.
        let ends = [" a b", "a b\n", "\u{0} a  b\u{7f}"];
        check("pattern_match_full(\"a b\")", &ends, &["x a b", "a b x"]);
        check("pattern_match_full(\" a b \")", &ends, &["ab"]);
        check("pattern_match_prefix(\"a b\")", &ends[1..2], &ends[..1]);
        check("pattern_match_suffix(\"a b\")", &ends[..1], &ends[1..2]);
        check("pattern_match(\" b \")", &["a  b  c"], &["a b", "b c"]);
        // Of several lines, the first one is the pattern.
        check("pattern_match_full(\"failed: <*>\")", &["failed:\n  at main"], &["failed"]);
    }
}
