//! Parses filters.
//!
//! ```text
//! or    = and { "or" and }
//! and   = not { ["and"] not }
//! not   = ("not" | "!" | "-") not | "(" or ")" | selector | [(field | [beginning] "*") ":"] test
//! ```

use super::Filter;
use super::stream::parse_selector;
use super::time::parse_time_filter;
use super::value::{self, Test, parse_comparison, parse_exact, parse_regex, parse_substring};
use crate::base::names::{MSG, NamePattern};
use crate::lang::syntax::cursor::{Cursor, Written};
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::macros::{self, MacroForm};

/// What a filter may begin with, for error messages.
const FILTER: &[&str] = &["a word", "a \"phrase\"", "field:value", "\"(\"", "\"*\""];

/// Parses a filter up to the end of the query, a pipe or a closing bracket.
pub(crate) fn parse_filter(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
    parse_or(cursor, None)
}

fn parse_or(cursor: &mut Cursor<'_>, field: Option<&NamePattern>) -> Result<Filter, ParseError> {
    let mut alternatives = vec![parse_and(cursor, field)?];
    while cursor.eat_keyword("or") {
        alternatives.push(parse_and(cursor, field)?);
    }
    Ok(Filter::or(alternatives))
}

fn parse_and(cursor: &mut Cursor<'_>, field: Option<&NamePattern>) -> Result<Filter, ParseError> {
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

fn parse_not(cursor: &mut Cursor<'_>, field: Option<&NamePattern>) -> Result<Filter, ParseError> {
    if let Some(field) = field {
        cursor.take_name(&field.name, 1)?;
    }
    if let Some(filter) = parse_expanded(cursor, |inner| parse_or(inner, field))? {
        return Ok(filter);
    }
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
        Some('{') if field.is_none() => cursor.shorthand(parse_selector),
        Some('*') if field.is_none() && cursor.eat_text("*:") => {
            parse_value(cursor, &NamePattern::ANY)
        }
        Some('*' | '=' | '~' | '<' | '>') => parse_sign(cursor, field),
        Some('"' | '\'' | '`') => parse_word_or_field(cursor, field),
        Some(_) if !cursor.peek_word(false).is_empty() => {
            if cursor.eat_keyword("not") {
                return negated(cursor, |c| parse_not(c, field));
            }
            let word = cursor.peek_word(false);
            if word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or") {
                let message =
                    format!("\"{word}\" cannot begin a filter; quote it to search for the word");
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

/// Takes the call of a macro, or a parameter in the text of one, and parses what it stands for.
fn parse_expanded(
    cursor: &mut Cursor<'_>,
    parse: impl Fn(&mut Cursor<'_>) -> Result<Filter, ParseError>,
) -> Result<Option<Filter>, ParseError> {
    if let Some(called) = macros::called(cursor)? {
        if called.form() != MacroForm::Filter {
            let name = called.name();
            let message = match called.form() {
                MacroForm::Query => format!(
                    "@{name} stands for a filter with pipes; it can only be the beginning of a query"
                ),
                _ => format!("@{name} stands for pipes; write it behind \"|\""),
            };
            return Err(cursor.error(FILTER, message));
        }
        return macros::expand(cursor, called, parse).map(Some);
    }
    match macros::expression_is_next(cursor)? {
        true => macros::expand_argument(cursor, parse).map(Some),
        false => Ok(None),
    }
}

fn negated<'a>(
    cursor: &mut Cursor<'a>,
    parse: impl FnOnce(&mut Cursor<'a>) -> Result<Filter, ParseError>,
) -> Result<Filter, ParseError> {
    Ok(Filter::Not(Box::new(cursor.nested(parse)?)))
}

/// A filter that begins with a word or a quoted string.
fn parse_word_or_field(
    cursor: &mut Cursor<'_>,
    field: Option<&NamePattern>,
) -> Result<Filter, ParseError> {
    let written = cursor.expect_string(false, "a filter")?;
    refuse_equals_sign(cursor, &written)?;
    let message = NamePattern::exact(MSG);
    let of = field.unwrap_or(&message);
    if let Some(filter) = parse_function(cursor, of, &written)? {
        return Ok(filter);
    }
    let prefix = cursor.eat_text("*:");
    if prefix || cursor.eat(':') {
        let named = NamePattern { name: written.text, prefix };
        return parse_value(cursor, &named);
    }
    Ok(of.filter(phrase_or_prefix(cursor, written)))
}

/// Refuses `level="error"`, `level!="error"` and `level=~"err"`. They would be a search for the
/// word `level=` and the phrase `error` in the message, which nobody means.
fn refuse_equals_sign(cursor: &Cursor<'_>, written: &Written) -> Result<(), ParseError> {
    let quote = matches!(cursor.adjacent(), Some('"' | '\'' | '`'));
    let signs = [
        ("!=", ":!="),
        ("!~", ":!~"),
        ("=~", ":~"),
        ("==", ":="),
        (">=", ":>="),
        ("<=", ":<="),
        ("=", ":="),
    ];
    let found = signs.into_iter().find_map(|(sign, right)| {
        let name = written.text.strip_suffix(sign).filter(|name| !name.is_empty())?;
        Some((name, sign, right))
    });
    let Some((name, sign, right)) = found.filter(|_| quote && !written.quoted) else {
        return Ok(());
    };
    let message = format!(
        "a field is compared with a colon, not with \"{sign}\"; to search for the text itself, quote all of it"
    );
    Err(cursor.error_at(written.position, &[&format!("{name}{right}\"…\"")], message))
}

/// Parses the text behind `name:`.
fn parse_value(cursor: &mut Cursor<'_>, field: &NamePattern) -> Result<Filter, ParseError> {
    let values: &[&str] =
        &["a word", "a \"phrase\"", "=exact", "~regex", "*", "a comparison", "a function", "\"(\""];
    let is_time = !field.prefix && field.name == "_time";
    if !(is_time && macros::value_is_next(cursor)) {
        // The argument may be one value, or several with "or" between them.
        let parse_values = |inner: &mut Cursor<'_>| {
            let begin = inner.place();
            let value = parse_value(inner, field)?;
            if is_time || inner.peek().is_none() {
                return Ok(value);
            }
            inner.go_back(begin);
            parse_or(inner, Some(field))
        };
        if let Some(filter) = parse_expanded(cursor, parse_values)? {
            if is_time && cursor.peek_word(false).eq_ignore_ascii_case("offset") {
                let message = "an offset cannot follow here; write it in the argument or the macro";
                return Err(cursor.error(&[], message));
            }
            return Ok(filter);
        }
    }
    match cursor.peek() {
        _ if is_time => parse_time_filter(cursor),
        Some('{') if !field.prefix && field.name == "_stream" => cursor.shorthand(parse_selector),
        Some('(') => {
            cursor.eat('(');
            let filter = cursor.nested(|c| parse_or(c, Some(field)))?;
            cursor.expect(')', "the filters in parentheses")?;
            Ok(filter)
        }
        Some('!') => {
            cursor.eat('!');
            negated(cursor, |c| parse_value(c, field))
        }
        Some('*' | '=' | '~' | '<' | '>') => parse_sign(cursor, Some(field)),
        Some('-') if !negative_number(cursor.peek_word(true)) => {
            cursor.eat('-');
            negated(cursor, |c| parse_value(c, field))
        }
        _ => {
            // `field:not(x)` and `field:in(…)`: a word directly before a bracket.
            let word = cursor.peek_word(false);
            if word.eq_ignore_ascii_case("not") {
                cursor.eat_keyword("not");
                return negated(cursor, |c| parse_value(c, field));
            }
            let Some(written) = cursor.string(true)? else {
                let message = match cursor.found() {
                    None => {
                        format!("the query ends where the value of {} should be", quoted(field))
                    }
                    Some(found) => format!("unexpected {found} as the value of {}", quoted(field)),
                };
                return Err(cursor.error(values, message));
            };
            if let Some(filter) = parse_function(cursor, field, &written)? {
                return Ok(filter);
            }
            Ok(field.filter(phrase_or_prefix(cursor, written)))
        }
    }
}

/// The field as it is quoted in error messages.
fn quoted(field: &NamePattern) -> String {
    format!("\"{}{}\"", field.name, if field.prefix { "*" } else { "" })
}

fn negative_number(word: &str) -> bool {
    word.as_bytes().get(1).is_some_and(|b| b.is_ascii_digit() || *b == b'.')
}

/// A prefix if a `*` follows directly, else a phrase.
fn phrase_or_prefix(cursor: &mut Cursor<'_>, written: Written) -> Test {
    if cursor.eat_adjacent('*') { Test::Prefix(written.text) } else { Test::Phrase(written.text) }
}

/// Filters that begin with a sign: `*`, `*substring*`, `=exact`, `~regex`, comparisons. Without a
/// field they test the message.
fn parse_sign(cursor: &mut Cursor<'_>, field: Option<&NamePattern>) -> Result<Filter, ParseError> {
    let message = NamePattern::exact(MSG);
    let of = field.unwrap_or(&message);
    if cursor.eat('*') {
        let substring = matches!(cursor.adjacent(), Some('"' | '\'' | '`'))
            || cursor.adjacent().is_some_and(|c| !c.is_whitespace())
                && !cursor.peek_word(true).is_empty();
        return match (substring, field) {
            (true, _) => parse_substring(cursor, of),
            (false, None) => Ok(Filter::All),
            (false, Some(field)) => Ok(field.filter(Test::Prefix(String::new()))),
        };
    }
    if cursor.eat('=') {
        return parse_exact(cursor, of);
    }
    if cursor.eat('~') {
        return parse_regex(cursor, of);
    }
    parse_comparison(cursor, of)
}

/// Filters of the form `name(…)`. None if `written` is not the name of one; then nothing is
/// consumed.
fn parse_function(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    written: &Written,
) -> Result<Option<Filter>, ParseError> {
    let function = written.text.to_ascii_lowercase();
    let bracket = cursor.adjacent();
    let opens = bracket == Some('(') || bracket == Some('[') && function == "range";
    match value::function(&function).filter(|_| opens && !written.quoted) {
        Some(parse) => parse(cursor, field, &function).map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;

    #[test]
    fn a_field_without_a_colon_is_refused_with_a_hint() {
        for (wrong, hint) in [
            ("lvl=\"error\"", "lvl:=\"…\""),
            ("a or lvl='error'", "lvl:=\"…\""),
            ("lvl==`error`", "lvl:=\"…\""),
            ("lvl=~\"err.*\"", "lvl:~\"…\""),
            ("took>=\"5\"", "took:>=\"…\""),
            ("* | filter lvl=\"error\"", "lvl:=\"…\""),
        ] {
            let error = Query::parse(wrong, 0).expect_err(wrong).to_string();
            assert!(error.contains(hint) && error.contains("colon"), "{wrong}: {error}");
        }
        // These search for a text of the message.
        for right in [
            "lvl=error",
            "\"lvl=\"error",
            "\"lvl=\\\"error\\\"\"",
            "lvl= \"error\"",
            "lvl:=\"error\"",
        ] {
            assert!(Query::parse(right, 0).is_ok(), "{right}");
        }
    }
}
