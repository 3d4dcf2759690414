//! `~"err|warn"`, `re("err|warn")`: a regular expression matches anywhere in the value.
//!
//! The syntax is that of the crate `regex`, which is close to RE2's: no back references, time linear in the value.
//! `(?i)` ignores case, `^` and `$` are the ends of the value.

use super::{Matches, Test};
use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::filter::Filter;

/// Memory of one compiled regular expression; a bigger one is refused.
pub(in crate::filter) const REGEX_BYTES_MAX: usize = 4 << 20;

/// A compiled regular expression; equal when its text is.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: regex::bytes::Regex,
}

impl Pattern {
    /// Compiles `text`. The error says what is wrong in one line.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let regex = regex::bytes::RegexBuilder::new(text)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build()
            .map_err(|e| match e {
                regex::Error::CompiledTooBig(_) => {
                    format!("the regular expression is larger than {REGEX_BYTES_MAX} bytes when compiled")
                }
                other => other.to_string().lines().last().unwrap_or_default().trim().to_owned(),
            })?;
        Ok(Pattern { text: text.to_owned(), regex })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compiled.
    pub(crate) fn regex(&self) -> &regex::bytes::Regex {
        &self.regex
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Reads a regular expression; `anchor` says what is compiled for the text.
pub(in crate::filter) fn parse_pattern(
    cursor: &mut Cursor<'_>,
    anchor: impl FnOnce(&str) -> String,
) -> Result<Pattern, ParseError> {
    let written = cursor.expect_string(true, "a \"regular expression\"")?;
    Pattern::new(&anchor(&written.text)).map_err(|e| {
        let message = format!("the regular expression cannot be used: {e}");
        cursor.error_at(written.position, &["a regular expression"], message)
    })
}

/// Reads what stands behind `~`.
pub(in crate::filter) fn parse_sign(
    cursor: &mut Cursor<'_>,
    name: &str,
) -> Result<Filter, ParseError> {
    let pattern = parse_pattern(cursor, |text| text.to_owned())?;
    Ok(Filter::field(name, Test::Regex(pattern)))
}

/// Reads `re("…")`.
pub(in crate::filter) fn parse(
    cursor: &mut Cursor<'_>,
    name: &str,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "re(…)")?;
    let filter = parse_sign(cursor, name)?;
    cursor.expect(')', "re(…)")?;
    Ok(filter)
}

pub(in crate::filter) struct Matcher(regex::bytes::Regex);

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
    use crate::filter::tests::{check, check_fields};

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
        check("re('^a.c$')", &["abc"], &["abcd"]);
        check("!~'^a'", &["b"], &["a"]);
        check_fields("event.original:~\"err|warn\"", &[("event.original", "a warn")], true);
    }
}
