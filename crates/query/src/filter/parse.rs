//! Reads filters.
//!
//! ```text
//! or    = and { "or" and }
//! and   = not { ["and"] not }
//! not   = ("not" | "!" | "-") not | "(" or ")" | selector | [field ":"] test
//! ```

use super::stream::parse_selector;
use super::time::parse_time_filter;
use super::value::{self, Test, parse_comparison, parse_exact, parse_regex, parse_substring};
use super::{Filter, MSG};
use crate::cursor::{Cursor, Written};
use crate::error::ParseError;

/// What a filter may begin with, for messages.
const FILTER: &[&str] = &["a word", "a \"phrase\"", "field:value", "\"(\"", "\"*\""];

/// Reads a filter up to the end, a pipe or a closing bracket.
pub(crate) fn parse_filter(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
    parse_or(cursor, None)
}

fn parse_or(cursor: &mut Cursor<'_>, field: Option<&str>) -> Result<Filter, ParseError> {
    let mut alternatives = vec![parse_and(cursor, field)?];
    while cursor.eat_keyword("or") {
        alternatives.push(parse_and(cursor, field)?);
    }
    Ok(Filter::or(alternatives))
}

fn parse_and(cursor: &mut Cursor<'_>, field: Option<&str>) -> Result<Filter, ParseError> {
    let mut filters = vec![parse_not(cursor, field)?];
    loop {
        let explicit = cursor.eat_keyword("and");
        let ends = matches!(cursor.peek(), None | Some(')' | '|' | ',' | ']' | '}'));
        let or = cursor.peek_word(false).eq_ignore_ascii_case("or");
        if !explicit && (ends || or) {
            return Ok(Filter::and(filters));
        }
        filters.push(parse_not(cursor, field)?);
    }
}

fn parse_not(cursor: &mut Cursor<'_>, field: Option<&str>) -> Result<Filter, ParseError> {
    let name = field.unwrap_or(MSG);
    match cursor.peek() {
        Some('(') => {
            cursor.eat('(');
            let filter = cursor.nested(|c| parse_or(c, field))?;
            cursor.expect(')', "the filters in parentheses")?;
            Ok(filter)
        }
        Some('!') => {
            cursor.eat('!');
            negated(cursor, |c| parse_not(c, field))
        }
        Some('-') => {
            cursor.eat('-');
            negated(cursor, |c| parse_not(c, field))
        }
        Some('{') if field.is_none() => parse_selector(cursor),
        Some('*' | '=' | '~' | '<' | '>') => parse_sign(cursor, name, field.is_none()),
        Some('"' | '\'' | '`') => parse_word_or_field(cursor, field),
        Some(_) if !cursor.peek_word(false).is_empty() => {
            if cursor.eat_keyword("not") {
                return negated(cursor, |c| parse_not(c, field));
            }
            let word = cursor.peek_word(false);
            if word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or") {
                let message = format!(
                    "\"{word}\" stands where a filter should; quote it to search for the word"
                );
                return Err(cursor.error(FILTER, message));
            }
            parse_word_or_field(cursor, field)
        }
        None => Err(cursor.error(FILTER, "the query ends where a filter should be")),
        Some(_) => {
            let found = cursor.found().expect("not at the end");
            Err(cursor.error(FILTER, format!("unexpected {found}")))
        }
    }
}

fn negated<'a>(
    cursor: &mut Cursor<'a>,
    parse: impl FnOnce(&mut Cursor<'a>) -> Result<Filter, ParseError>,
) -> Result<Filter, ParseError> {
    Ok(Filter::Not(Box::new(cursor.nested(parse)?)))
}

/// A filter that begins with a word or a quoted string.
fn parse_word_or_field(cursor: &mut Cursor<'_>, field: Option<&str>) -> Result<Filter, ParseError> {
    let name = field.unwrap_or(MSG);
    let written = cursor.expect_string(false, "a filter")?;
    if let Some(filter) = parse_function(cursor, name, &written)? {
        return Ok(filter);
    }
    if cursor.eat(':') {
        return cursor.nested(|c| parse_value(c, &written.text));
    }
    Ok(Filter::field(name, phrase_or_prefix(cursor, written)))
}

/// What stands behind `name:`.
fn parse_value(cursor: &mut Cursor<'_>, name: &str) -> Result<Filter, ParseError> {
    let values: &[&str] =
        &["a word", "a \"phrase\"", "=exact", "~regex", "*", "a comparison", "a function", "\"(\""];
    match cursor.peek() {
        _ if name == "_time" => parse_time_filter(cursor),
        Some('{') if name == "_stream" => parse_selector(cursor),
        Some('(') => {
            cursor.eat('(');
            let filter = cursor.nested(|c| parse_or(c, Some(name)))?;
            cursor.expect(')', "the filters in parentheses")?;
            Ok(filter)
        }
        Some('!') => {
            cursor.eat('!');
            negated(cursor, |c| parse_value(c, name))
        }
        Some('*' | '=' | '~' | '<' | '>') => parse_sign(cursor, name, false),
        Some('-') if !negative_number(cursor.peek_word(true)) => {
            cursor.eat('-');
            negated(cursor, |c| parse_value(c, name))
        }
        _ => {
            // `field:not(x)` and `field:in(…)`: words directly before a bracket.
            let word = cursor.peek_word(false);
            if word.eq_ignore_ascii_case("not") {
                cursor.eat_keyword("not");
                return negated(cursor, |c| parse_value(c, name));
            }
            let Some(written) = cursor.string(true)? else {
                let message = match cursor.found() {
                    None => format!("the query ends where the value of \"{name}\" should be"),
                    Some(found) => format!("unexpected {found} as the value of \"{name}\""),
                };
                return Err(cursor.error(values, message));
            };
            if let Some(filter) = parse_function(cursor, name, &written)? {
                return Ok(filter);
            }
            Ok(Filter::field(name, phrase_or_prefix(cursor, written)))
        }
    }
}

fn negative_number(word: &str) -> bool {
    word.as_bytes().get(1).is_some_and(|b| b.is_ascii_digit() || *b == b'.')
}

/// A phrase, or with a `*` right behind it a prefix.
fn phrase_or_prefix(cursor: &mut Cursor<'_>, written: Written) -> Test {
    if cursor.eat_adjacent('*') { Test::Prefix(written.text) } else { Test::Phrase(written.text) }
}

/// Filters that begin with a sign: `*`, `*substring*`, `=exact`, `~regex`, comparisons.
fn parse_sign(cursor: &mut Cursor<'_>, name: &str, bare: bool) -> Result<Filter, ParseError> {
    if cursor.eat('*') {
        let substring = matches!(cursor.adjacent(), Some('"' | '\'' | '`'))
            || cursor.adjacent().is_some_and(|c| !c.is_whitespace())
                && !cursor.peek_word(true).is_empty();
        return match (substring, bare) {
            (true, _) => parse_substring(cursor, name),
            (false, true) => Ok(Filter::All),
            (false, false) => Ok(Filter::field(name, Test::Prefix(String::new()))),
        };
    }
    if cursor.eat('=') {
        return parse_exact(cursor, name);
    }
    if cursor.eat('~') {
        return parse_regex(cursor, name);
    }
    parse_comparison(cursor, name)
}

/// `name(…)` filters; none when `written` names none of them, and nothing is taken.
fn parse_function(
    cursor: &mut Cursor<'_>,
    name: &str,
    written: &Written,
) -> Result<Option<Filter>, ParseError> {
    let function = written.text.to_ascii_lowercase();
    let bracket = cursor.adjacent();
    let opens = bracket == Some('(') || bracket == Some('[') && function == "range";
    match value::function(&function).filter(|_| opens && !written.quoted) {
        Some(parse) => parse(cursor, name, &function).map(Some),
        None => Ok(None),
    }
}
