//! `i(error)`, `i("cannot open"*)`: the value contains a word, phrase or prefix, regardless of
//! case.
//!
//! Letters are compared by the simple case folding of Unicode: `i(straße)` does not find `STRASSE`.

use regex_syntax::ParserBuilder;

use super::{Matches, Test};
use crate::base::Pulse;
use crate::base::expression::Expression;
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::filter::word::{word_before, word_behind};
use crate::lang::syntax::cursor::{Cursor, is_word_char};
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::regexes::LARGE_BYTES;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    _function: &str,
) -> Result<Filter, ParseError> {
    cursor.expect('(', "i(…)")?;
    let written = cursor.expect_string(true, "a word or \"phrase\"")?;
    let too_many = cursor.regexes.take_text(&written.text);
    too_many.map_err(|message| cursor.error_at(written.position, &[], message))?;
    let text = written.text;
    let prefix = cursor.eat_adjacent('*');
    cursor.expect(')', "i(…)")?;
    let test = if prefix { Test::AnyCasePrefix(text) } else { Test::AnyCasePhrase(text) };
    Ok(field.filter(test))
}

/// The expression that finds a text regardless of case.
pub(in crate::lang::filter) fn expression(text: &str) -> Expression {
    let mut parser = ParserBuilder::new().utf8(false).case_insensitive(true).build();
    let hir = parser.parse(&regex::escape(text)).expect("an escaped text is an expression");
    // The budget of the query has counted the text.
    Expression::new(hir, (usize::MAX, LARGE_BYTES), true).expect("it has no limit, and no groups")
}

/// Finds a phrase that is not empty.
pub(in crate::lang::filter) struct Matcher {
    expression: Expression,
    starts_with_word: bool,
    ends_with_word: bool,
}

impl Matcher {
    /// `prefix`: what follows the phrase does not matter.
    pub fn new(text: &str, prefix: bool) -> Matcher {
        Matcher {
            expression: expression(text),
            starts_with_word: text.chars().next().is_some_and(is_word_char),
            ends_with_word: !prefix && text.chars().next_back().is_some_and(is_word_char),
        }
    }

    /// Whether the value contains the phrase at word boundaries, in a spelling that `accept`
    /// accepts.
    #[inline]
    pub fn any(
        &self,
        value: &[u8],
        pulse: &Pulse<'_>,
        mut accept: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let mut from = 0;
        while let Some(found) = self.expression.find(value, from, pulse) {
            let goes_on = self.starts_with_word && word_before(value, found.start)
                || self.ends_with_word && word_behind(value, found.end);
            if !goes_on && accept(&value[found.range()]) {
                return true;
            }
            from = found.start + 1;
        }
        false
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        20
    }

    #[inline]
    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        self.any(value, pulse, |_| true)
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn any_case_of_letters() {
        check(
            "i(error)",
            &[
                "unknown error happened",
                "ERROR: cannot read file",
                "Error: unknown arg",
                "An ErRoR occurred",
            ],
            &["FooError", "too many Errors"],
        );
        check("i(err*)", &["Errors"], &["FooError"]);
        check("i(\"ÄRGER x\")", &["ärger X"], &["ärgerx"]);
        check_fields("\"log:level\":i(\"error\")", &[("log:level", "ERROR")], true);
    }
}
