//! Reads filters.
//!
//! ```text
//! or    = and { "or" and }
//! and   = not { ["and"] not }
//! not   = ("not" | "!" | "-") not | "(" or ")" | selector | [field ":"] test
//! ```

use super::parse_time::parse_time_filter;
use super::{Comparison, Filter, MSG, Number, Pattern, Test};
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
    if !written.quoted
        && matches!(cursor.adjacent(), Some('(' | '['))
        && let Some(filter) = parse_function(cursor, name, &written)?
    {
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
            if !written.quoted
                && matches!(cursor.adjacent(), Some('(' | '['))
                && let Some(filter) = parse_function(cursor, name, &written)?
            {
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
        return parse_star(cursor, name, bare);
    }
    if cursor.eat('=') {
        let value = cursor.expect_string(true, "a value")?;
        let prefix = cursor.eat_adjacent('*');
        let test = if prefix { Test::ExactPrefix(value.text) } else { Test::Exact(value.text) };
        return Ok(Filter::field(name, test));
    }
    if cursor.eat('~') {
        let pattern = parse_pattern(cursor, |text| text.to_owned())?;
        return Ok(Filter::field(name, Test::Regex(pattern)));
    }
    let less = cursor.eat('<');
    if !less {
        cursor.eat('>');
    }
    let comparison = match (less, cursor.eat_adjacent('=')) {
        (true, false) => Comparison::Less,
        (true, true) => Comparison::LessOrEqual,
        (false, false) => Comparison::Greater,
        (false, true) => Comparison::GreaterOrEqual,
    };
    let value = cursor.expect_string(true, "a number or text to compare with")?.text;
    Ok(Filter::field(name, Test::Compare { comparison, value }))
}

fn parse_star(cursor: &mut Cursor<'_>, name: &str, bare: bool) -> Result<Filter, ParseError> {
    let follows = matches!(cursor.adjacent(), Some('"' | '\'' | '`'))
        || cursor.adjacent().is_some_and(|c| !c.is_whitespace())
            && !cursor.peek_word(true).is_empty();
    if !follows {
        let any = Filter::field(name, Test::Prefix(String::new()));
        return Ok(if bare { Filter::All } else { any });
    }
    let written = cursor.expect_string(true, "a substring")?;
    if !cursor.eat_adjacent('*') {
        let message = "a substring needs a \"*\" on both sides";
        return Err(cursor.error(&["\"*\""], message));
    }
    Ok(Filter::field(name, Test::Substring(written.text)))
}

fn parse_pattern(
    cursor: &mut Cursor<'_>,
    anchor: impl FnOnce(&str) -> String,
) -> Result<Pattern, ParseError> {
    let written = cursor.expect_string(true, "a \"regular expression\"")?;
    Pattern::new(&anchor(&written.text)).map_err(|e| {
        let message = format!("the regular expression cannot be used: {e}");
        cursor.error_at(written.position, &["a regular expression"], message)
    })
}

/// `name(…)` filters; none when `written` names none of them, and nothing is taken.
fn parse_function(
    cursor: &mut Cursor<'_>,
    name: &str,
    written: &Written,
) -> Result<Option<Filter>, ParseError> {
    let function = written.text.to_ascii_lowercase();
    if function == "range" {
        return parse_range(cursor, name).map(Some);
    }
    let known = ["i", "in", "contains_any", "contains_all", "seq", "len_range"];
    if !known.contains(&function.as_str()) || cursor.adjacent() != Some('(') {
        return Ok(None);
    }
    cursor.eat('(');
    if function == "i" {
        let text = cursor.expect_string(true, "a word or \"phrase\"")?.text;
        let prefix = cursor.eat_adjacent('*');
        cursor.expect(')', "i(…)")?;
        let test = if prefix { Test::AnyCasePrefix(text) } else { Test::AnyCasePhrase(text) };
        return Ok(Some(Filter::field(name, test)));
    }
    if function == "len_range" {
        let min = parse_length(cursor)?;
        cursor.expect(',', "len_range(…)")?;
        let max = parse_length(cursor)?;
        cursor.expect(')', "len_range(…)")?;
        return Ok(Some(Filter::field(name, Test::Length { min, max })));
    }
    if cursor.peek() == Some('*') && function != "seq" {
        cursor.eat('*');
        cursor.expect(')', &format!("{function}(…)"))?;
        return Ok(Some(Filter::All));
    }
    let values = parse_values(cursor, &function)?;
    let phrases = |values: Vec<String>| {
        values.into_iter().map(|v| Filter::field(name, Test::Phrase(v))).collect::<Vec<_>>()
    };
    Ok(Some(match function.as_str() {
        "in" => Filter::field(name, Test::In(values)),
        "seq" => Filter::field(name, Test::Sequence(values)),
        "contains_all" => Filter::and(phrases(values)),
        _ if values.is_empty() => Filter::field(name, Test::In(values)),
        _ => Filter::or(phrases(values)),
    }))
}

/// `a, "b", c)`.
fn parse_values(cursor: &mut Cursor<'_>, function: &str) -> Result<Vec<String>, ParseError> {
    let mut values = Vec::new();
    loop {
        if cursor.eat(')') {
            return Ok(values);
        }
        values.push(cursor.expect_string(true, "a value or \")\"")?.text);
        if !cursor.eat(',') {
            if matches!(cursor.peek(), Some(c) if c != ')') {
                let message = format!(
                    "{function}(…) takes a list of values; queries inside it are not supported"
                );
                return Err(cursor.error(&["\",\"", "\")\""], message));
            }
            cursor.expect(')', &format!("{function}(…)"))?;
            return Ok(values);
        }
    }
}

fn parse_length(cursor: &mut Cursor<'_>) -> Result<u64, ParseError> {
    let written = cursor.expect_string(false, "a number of characters")?;
    if written.text.eq_ignore_ascii_case("inf") {
        return Ok(u64::MAX);
    }
    match Number::parse(&written.text) {
        Some(number) if number.value >= 0.0 => Ok(number.value as u64),
        _ => Err(cursor.error_at(written.position, &["a number of characters"], "not a length")),
    }
}

fn parse_range(cursor: &mut Cursor<'_>, name: &str) -> Result<Filter, ParseError> {
    let low_inside = cursor.eat('[');
    if !low_inside {
        cursor.expect('(', "range(…)")?;
    }
    let low = parse_number_argument(cursor)?;
    cursor.expect(',', "range(…)")?;
    let high = parse_number_argument(cursor)?;
    let high_inside = cursor.eat(']');
    if !high_inside {
        cursor.expect(')', "range(…)")?;
    }
    Ok(Filter::field(name, Test::Range { low, low_inside, high, high_inside }))
}

fn parse_number_argument(cursor: &mut Cursor<'_>) -> Result<Number, ParseError> {
    let what = "a number such as 10, 1.5KB or 250ms";
    let written = cursor.run(",()[]|", what)?;
    Number::parse(&written.text)
        .ok_or_else(|| cursor.error_at(written.position, &[what], "not a number"))
}

/// A stream selector `{a="b",c=~"x" or d!="e"}`, read as filters on the fields.
fn parse_selector(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
    cursor.expect('{', "the stream selector")?;
    let mut alternatives = Vec::new();
    let mut filters = Vec::new();
    loop {
        if cursor.eat('}') {
            alternatives.push(Filter::and(filters));
            return Ok(Filter::or(alternatives));
        }
        filters.push(parse_label(cursor)?);
        if cursor.eat_keyword("or") {
            alternatives.push(Filter::and(std::mem::take(&mut filters)));
        } else if !cursor.eat(',') && cursor.peek() != Some('}') {
            let message = "the stream selector does not end";
            return Err(cursor.error(&["\",\"", "\"or\"", "\"}\""], message));
        }
    }
}

fn parse_label(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
    let signs = &["\"=\"", "\"!=\"", "\"=~\"", "\"!~\"", "\"in (…)\"", "\"not_in (…)\""];
    let name = match cursor.peek() {
        Some('"' | '\'' | '`') => cursor.expect_string(false, "a label")?.text,
        _ => {
            // A label ends at its sign, which in other places belongs to words.
            let label = cursor.run("=!~,{}()\"'`|", "a label of the stream")?;
            label.text
        }
    };
    if name == "_time" {
        return Err(cursor.error(&[], "write _time outside of the stream selector"));
    }
    let name = name.as_str();
    let exact = |c: &mut Cursor<'_>| -> Result<Filter, ParseError> {
        let value = c.expect_string(true, "a value")?.text;
        Ok(Filter::field(name, Test::Exact(value)))
    };
    let regex = |c: &mut Cursor<'_>| -> Result<Filter, ParseError> {
        let pattern = parse_pattern(c, |text| format!("^(?:{text})$"))?;
        Ok(Filter::field(name, Test::Regex(pattern)))
    };
    let values = |c: &mut Cursor<'_>| -> Result<Filter, ParseError> {
        c.expect('(', "the stream selector")?;
        Ok(Filter::field(name, Test::In(parse_values(c, "in")?)))
    };
    let not = |filter: Filter| Filter::Not(Box::new(filter));
    if cursor.eat('=') {
        return if cursor.eat_adjacent('~') { regex(cursor) } else { exact(cursor) };
    }
    if cursor.eat('!') {
        if cursor.eat_adjacent('=') {
            return exact(cursor).map(not);
        }
        if cursor.eat_adjacent('~') {
            return regex(cursor).map(not);
        }
    } else if cursor.eat_keyword("in") {
        return values(cursor);
    } else if cursor.eat_keyword("not_in") {
        return values(cursor).map(not);
    }
    Err(cursor.error(signs, format!("no comparison behind the label \"{name}\"")))
}
