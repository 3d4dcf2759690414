//! `{app="nginx",host=~"web.*" or type in (a, b)}`: stream selectors.
//!
//! A selector is parsed into filters on the fields of lines and printed as these: it may name every
//! field, not only those that make up `_stream`. It also knows `!=`, `!~` and `not_in (…)`; a
//! regular expression has to match the whole value. `_stream:` may precede the braces.

use super::Filter;
use super::value::{Test, parse_pattern, parse_values};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Parses a stream selector.
pub(super) fn parse_selector(cursor: &mut Cursor<'_>) -> Result<Filter, ParseError> {
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
            // A label ends at its sign; elsewhere these signs are part of words.
            let label = cursor.run("=!~,{}()\"'`|", "a label of the stream")?;
            label.text
        }
    };
    if name == "_time" {
        return Err(cursor
            .error(&[], "a stream selector cannot select by _time; write _time outside of it"));
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
        let values = parse_values(c, "in")?;
        Ok(values.map_or(Filter::All, |values| Filter::field(name, Test::In(values))))
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
    Err(cursor.error(signs, format!("the label \"{name}\" needs a comparison behind it")))
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::check_fields as check;

    #[test]
    fn streams() {
        let fields = [("hostname", "web1"), ("_type", "syslog")];
        check("{hostname=\"web1\"}", &fields, true);
        check("_stream:{hostname=\"web1\",_type!=\"syslog\"}", &fields, false);
        check("{hostname=~\"web\"}", &fields, false);
        check("{hostname=~\"web.\", _type=~\"a|syslog\"}", &fields, true);
        check("{hostname!~\"web.\"}", &fields, false);
        check("{hostname in (\"a\", web1)} foo", &fields, false);
        check("{hostname not_in (\"a\")}", &fields, true);
        check("{hostname=a or _type=syslog}", &fields, true);
        check("{}", &fields, true);
        check("_stream:=`{_type=\"syslog\",hostname=\"web1\"}`", &fields, true);
    }
}
