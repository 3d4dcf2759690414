//! `~"err|warn"`, `re("err|warn")`: a regular expression matches anywhere in the value.
//!
//! The syntax is that of the crate `regex`, which is close to RE2's: no back references, time
//! linear in the value. `(?i)` ignores case, `^` and `$` are the ends of the value.
//!
//! If every match contains a certain text, as `Failed password for ` in `Failed password for
//! (root|admin)`, blocks and values without it are skipped before the expression runs.

use std::sync::Arc;

use memchr::memmem::Finder;
use regex_automata::Span;
use regex_automata::util::captures::Captures;
use regex_syntax::hir::{Hir, HirKind};

use super::{Matches, Needed, Test};
use crate::base::Pulse;
use crate::base::expression::Expression;
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::regexes::RegexBudget;

/// A compiled regular expression; two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// The expression that is compiled for the text.
    source: String,
    expression: Arc<Expression>,
    /// A text that every match contains; empty if there is none.
    literal: String,
}

impl Pattern {
    /// Compiles `text`. The error is one line.
    pub fn new(text: &str) -> Result<Pattern, String> {
        Pattern::of_logsql(text, &mut RegexBudget::default())
    }

    /// An expression whose `.` does not match a newline, within the budget that is left for a
    /// query. This flag is part of its text, because queries are distinguished by their text.
    pub fn within(text: &str, budget: &mut RegexBudget) -> Result<Pattern, String> {
        Pattern::compiled(text, format!("(?-s){text}"), text.to_owned(), budget)
    }

    /// An expression of LogsQL, whose `.` matches a newline too, as in VictoriaLogs.
    pub(crate) fn of_logsql(text: &str, budget: &mut RegexBudget) -> Result<Pattern, String> {
        Pattern::compiled(text, text.to_owned(), format!("(?s){text}"), budget)
    }

    fn compiled(
        written: &str,
        text: String,
        source: String,
        budget: &mut RegexBudget,
    ) -> Result<Pattern, String> {
        let expression = Arc::new(budget.build(written, &source)?);
        let literal = String::from_utf8(literal_of(expression.hir())).unwrap_or_default();
        Ok(Pattern { text, source, expression, literal })
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The expression as it is compiled.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// A text that every match contains; may be empty.
    pub(crate) fn literal(&self) -> &str {
        &self.literal
    }

    /// The compiled expression.
    pub(crate) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The names of the groups, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.expression.names().map(|(_, name)| name)
    }

    /// Whether the value has a match.
    pub fn is_match(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        self.expression.is_match(value, pulse)
    }

    /// Calls `each` with the names of the groups and what they match in the first match; with none
    /// for those that take no part in it. Returns whether there is a match.
    pub fn each_group<'v>(
        &self,
        value: &'v [u8],
        pulse: &Pulse<'_>,
        mut each: impl FnMut(&str, Option<&'v [u8]>),
    ) -> bool {
        let mut groups: Captures = self.expression.groups();
        if !self.expression.find_groups(value, 0, &mut groups, pulse) {
            return false;
        }
        for (group, name) in self.expression.names() {
            each(name, groups.get_group(group).map(|place| &value[place.range()]));
        }
        true
    }
}

impl Pattern {
    /// Calls `each` with the matches, one behind the other, until it returns false. Empty matches
    /// inside characters are left out.
    fn each_match(
        &self,
        value: &[u8],
        pulse: &Pulse<'_>,
        mut each: impl FnMut(&Captures, Span) -> bool,
    ) {
        let mut groups = self.expression.groups();
        let (mut from, mut last_end) = (0, None);
        while from <= value.len() && self.expression.find_groups(value, from, &mut groups, pulse) {
            let whole = groups.get_group(0).expect("the whole match is there");
            from = whole.end;
            if whole.is_empty() {
                from += 1;
                // Right behind the match before it, the empty text belongs to that match.
                if last_end == Some(whole.end) || is_inside_character(value, whole.start) {
                    continue;
                }
            }
            last_end = Some(whole.end);
            if !each(&groups, whole) {
                return;
            }
        }
    }

    /// The number of matches; any number if the query ended meanwhile.
    pub fn count(&self, value: &[u8], pulse: &Pulse<'_>) -> usize {
        let mut count = 0;
        self.each_match(value, pulse, |_, _| {
            count += 1;
            true
        });
        count
    }

    /// Appends the value to `out` with the first `count_max` matches replaced by `new`, in which
    /// `$1` and `${name}` stand for groups, and `$$` for a dollar sign. Ends with what makes `out`
    /// longer than `bytes_max`, and anywhere if the query ended meanwhile.
    pub fn replace(
        &self,
        value: &[u8],
        new: &[u8],
        (count_max, bytes_max): (u64, usize),
        out: &mut Vec<u8>,
        pulse: &Pulse<'_>,
    ) {
        let (mut copied, mut left) = (0, count_max);
        self.each_match(value, pulse, |groups, whole| {
            if left == 0 || out.len() > bytes_max {
                return false;
            }
            left -= 1;
            out.extend_from_slice(&value[copied..whole.start]);
            expand(groups, value, new, bytes_max, out);
            copied = whole.end;
            true
        });
        out.extend_from_slice(&value[copied..]);
    }

    /// Appends `new` to `out` with the groups of the first match, as [`Pattern::replace`] does.
    /// Returns whether there is a match.
    pub fn expand_first(
        &self,
        value: &[u8],
        new: &[u8],
        out: &mut Vec<u8>,
        pulse: &Pulse<'_>,
    ) -> bool {
        let mut groups = self.expression.groups();
        let found = self.expression.find_groups(value, 0, &mut groups, pulse);
        if found {
            expand(&groups, value, new, usize::MAX, out);
        }
        found
    }
}

/// Appends `new` with its groups expanded, piece by piece. A text that names a long group many
/// times would otherwise grow far beyond the limit before its length is checked.
fn expand(groups: &Captures, value: &[u8], new: &[u8], bytes_max: usize, out: &mut Vec<u8>) {
    let mut rest = new;
    while !rest.is_empty() && out.len() <= bytes_max {
        let (piece, behind) = rest.split_at(piece_length(rest));
        groups.interpolate_bytes_into(value, piece, out);
        rest = behind;
    }
}

/// Bytes of the first piece of a text with groups: a piece holds at most one group, as a whole.
fn piece_length(text: &[u8]) -> usize {
    let named = match text {
        [b'$', b'$', ..] => return 2,
        [b'$', b'{', ..] => text.iter().position(|&byte| byte == b'}').map_or(1, |end| end + 1),
        [b'$', ..] => 1,
        _ => 0,
    };
    let next = memchr::memchr(b'$', &text[named..]);
    next.map_or(text.len(), |next| named + next)
}

/// Whether `at` is inside a character. Expressions are run over bytes, so those that match the
/// empty text match there too, and a replacement would break the character.
fn is_inside_character(value: &[u8], at: usize) -> bool {
    let begins = (at.saturating_sub(3)..at).rev().find(|&begin| value[begin] & 0xc0 != 0x80);
    let Some(begin) = begins else { return false };
    let length = match value[begin] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let character = value.get(begin..begin + length);
    begin + length > at && character.is_some_and(|bytes| std::str::from_utf8(bytes).is_ok())
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The longest contiguous text that every match contains.
fn literal_of(hir: &Hir) -> Vec<u8> {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.to_vec(),
        HirKind::Capture(capture) => literal_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => literal_of(&repetition.sub),
        HirKind::Concat(parts) => {
            parts.iter().map(literal_of).max_by_key(Vec::len).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

pub(super) fn needed(pattern: &Pattern) -> Needed {
    Needed::one(pattern.literal(), false, false)
}

/// Parses a regular expression; `anchor` makes the expression that is compiled from the text.
pub(in crate::lang::filter) fn parse_pattern(
    cursor: &mut Cursor<'_>,
    anchor: impl FnOnce(&str) -> String,
) -> Result<Pattern, ParseError> {
    let written = cursor.expect_string(true, "a \"regular expression\"")?;
    Pattern::of_logsql(&anchor(&written.text), &mut cursor.regexes).map_err(|e| {
        let message = format!("the regular expression cannot be used: {e}");
        cursor.error_at(written.position, &["a regular expression"], message)
    })
}

/// Parses the text behind `~`.
pub(in crate::lang::filter) fn parse_sign(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
) -> Result<Filter, ParseError> {
    let pattern = parse_pattern(cursor, |text| text.to_owned())?;
    Ok(field.filter(Test::Regex(pattern)))
}

/// Parses `re("…")`.
pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "re(…)")?;
    let filter = parse_sign(cursor, field)?;
    cursor.expect(')', "re(…)")?;
    Ok(filter)
}

pub(in crate::lang::filter) struct Matcher {
    expression: Arc<Expression>,
    /// A text that every match contains; empty if there is none.
    literal: Finder<'static>,
}

impl Matcher {
    pub fn new(pattern: &Pattern) -> Matcher {
        let literal = Finder::new(pattern.literal()).into_owned();
        Matcher { expression: Arc::clone(&pattern.expression), literal }
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        30
    }

    #[inline]
    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        // In a long value the expression is searched step by step, which skips nothing.
        let is_long = !self.expression.is_short(value.len(), pulse);
        if is_long && self.literal.find(value).is_none() {
            pulse.may_continue(value.len());
            return false;
        }
        self.expression.is_match(value, pulse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Pattern, Pulse};
    use crate::lang::filter::tests::{check, check_fields};

    proptest! {
        #[test]
        fn replacing_agrees_with_crate_regex(
            parts in prop::collection::vec(
                prop::sample::select(
                    r"a b é . \b \B a* b+ (a|bb) (a*)(b|ab) x? (?m:^) $ | (ab){1,3} () .*z|a (?P<n>b)"
                        .split(' ')
                        .collect::<Vec<_>>(),
                ),
                0..5,
            ),
            value in "[abzé \n]{0,12}",
            new in prop::sample::select(&["", "x", "[$0]", "$1$$${n}-$2"]),
            count_max in prop::sample::select(&[1, 2, usize::MAX]),
        ) {
            let pattern = parts.concat();
            let Ok(regex) = regex::Regex::new(&format!("(?s){pattern}")) else { return Ok(()) };
            let limit = if count_max == usize::MAX { 0 } else { count_max };
            let expected = regex.replacen(&value, limit, new);
            let pattern = Pattern::new(&pattern).unwrap();
            for piece in [0, 1, 1 << 20] {
                let (mut out, pulse) = (Vec::new(), Pulse::every(piece, || Ok(())));
                let most = (count_max as u64, usize::MAX);
                pattern.replace(value.as_bytes(), new.as_bytes(), most, &mut out, &pulse);
                prop_assert_eq!(String::from_utf8(out).unwrap(), &*expected);
                let count = pattern.count(value.as_bytes(), &pulse);
                prop_assert_eq!(count, regex.find_iter(&value).count());
            }
        }
    }

    #[test]
    fn characters_are_whole() {
        let inside = |value: &[u8]| -> Vec<bool> {
            (0..=value.len()).map(|at| super::is_inside_character(value, at)).collect()
        };
        assert_eq!(inside("aé".as_bytes()), [false, false, true, false]);
        assert_eq!(inside("😀".as_bytes()), [false, true, true, true, false]);
        // Bytes that are not UTF-8 count as single characters.
        assert_eq!(inside(b"\x80\xc3a\xe2\x82"), [false; 6]);
    }

    #[test]
    fn the_text_that_every_match_contains() {
        for (pattern, literal) in [
            ("Failed password for (root|admin)", "Failed password for "),
            ("(ab)+c", "ab"),
            ("(abc)*d", "d"),
            ("abc|abd", ""),
            ("cat|dog", ""),
            ("(?i)abc", ""),
            ("(?i)id 4711", " 4711"),
            ("x{2}", "x"),
            ("a.bcd.e", "bcd"),
            ("^$", ""),
            ("ä[0-9]", "ä"),
            (r"(?-u:\xff)1", ""),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().literal(), literal, "{pattern}");
        }
    }

    #[test]
    fn regular_expressions() {
        check(
            "~\"err|warn\"",
            &["error: cannot read data", "2 warnings have been raised"],
            &["ERROR: cannot open file", "it is war"],
        );
        check("~'\"foo\":\"(bar|baz)\"'", &[r#"{"foo":"baz"}"#], &[r#"{"foo":"bax"}"#]);
        check("~\"a\\\\.b\"", &["a.b"], &["axb"]);
        check("~'(?i)(err|warn)'", &["ERROR"], &["e r r"]);
        check("re('^a.c$')", &["abc", "a\nc"], &["abcd"]);
        check("~'a.*c'", &["a\nb\nc"], &["c\na"]);
        check("!~'^a'", &["b"], &["a"]);
        check_fields("event.original:~\"err|warn\"", &[("event.original", "a warn")], true);
    }
}
