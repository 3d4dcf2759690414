//! `~"err|warn"`, `re("err|warn")`: a regular expression matches anywhere in the value.
//!
//! The syntax is that of the crate `regex`, which is close to RE2's: no back references, time
//! linear in the value. `(?i)` ignores case, `^` and `$` are the ends of the value.
//!
//! If every match contains a certain text, as `Failed password for ` in `Failed password for
//! (root|admin)`, blocks and values without it are skipped before the expression runs.

use regex_syntax::hir::{Hir, HirKind};

use super::{Matches, Needed, Test};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::regexes::{REGEX_NESTING_MAX, RegexBudget};

/// A compiled regular expression; two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// The expression that is compiled for the text.
    source: String,
    regex: regex::bytes::Regex,
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
        let regex = budget.build(written, |bytes| {
            let mut builder = regex::bytes::RegexBuilder::new(&source);
            builder.nest_limit(REGEX_NESTING_MAX);
            builder.size_limit(bytes).dfa_size_limit(bytes).build()
        })?;
        // Parsed for bytes, so that every expression that was compiled can be parsed.
        let hir = regex_syntax::ParserBuilder::new().utf8(false).build().parse(&source);
        let literal = hir.ok().and_then(|hir| String::from_utf8(literal_of(&hir)).ok());
        let literal = literal.unwrap_or_default();
        Ok(Pattern { text, source, regex, literal })
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
    pub(crate) fn regex(&self) -> &regex::bytes::Regex {
        &self.regex
    }
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

pub(in crate::lang::filter) struct Matcher(regex::bytes::Regex);

impl Matcher {
    pub fn new(pattern: &Pattern) -> Matcher {
        Matcher(pattern.regex.clone())
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        30
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        self.0.is_match(value)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use crate::lang::filter::tests::{check, check_fields};

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
