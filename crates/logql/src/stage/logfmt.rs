//! `key=value key="quoted value" alone`, as Loki parses it. Quoted values are parsed as by
//! `unpack_logfmt` of LogsQL.
//!
//! Otherwise Loki differs from `unpack_logfmt`: any blank or control character separates pairs, a
//! lone key has an empty value, a quote inside an unquoted value is an error, and malformed parts
//! are skipped, or with `--strict` are an error.

use std::borrow::Cow;

use text::quoted::{Dialect, unquote};

/// Calls `each` with every key and value of a line; a lone key has an empty value. Malformed parts
/// are skipped up to the next blank; with `strict` they are an error.
pub fn pairs(
    line: &str,
    strict: bool,
    mut each: impl FnMut(&str, Cow<'_, str>),
) -> Result<(), &'static str> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(is_blank);
        if rest.is_empty() {
            return Ok(());
        }
        match pair(rest) {
            Ok((key, value, behind)) => {
                each(key, value);
                rest = behind;
            }
            Err((what, _)) if strict => return Err(what),
            Err((_, part)) => rest = &part[part.find(is_blank).unwrap_or(part.len())..],
        }
    }
}

/// Key and value at the start, and the text behind them; or what is wrong, and the text from there
/// on.
fn pair(text: &str) -> Result<(&str, Cow<'_, str>, &str), (&'static str, &str)> {
    let (key, rest) = split(text, |c| is_blank(c) || c == '=' || c == '"');
    if rest.starts_with('"') {
        return Err(("unexpected '\"'", rest));
    }
    let Some(value) = rest.strip_prefix('=') else { return Ok((key, Cow::Borrowed(""), rest)) };
    if key.is_empty() {
        return Err(("unexpected '='", value));
    }
    if value.starts_with('"') {
        let (text, length) = quoted(value).ok_or(("wrong quoted value", value))?;
        return Ok((key, text, &value[length..]));
    }
    let (value, rest) = split(value, |c| is_blank(c) || c == '"');
    match rest.starts_with('"') {
        true => Err(("unexpected '\"'", rest)),
        false => Ok((key, Cow::Borrowed(value), rest)),
    }
}

fn is_blank(c: char) -> bool {
    c <= ' '
}

/// Splits before the first character that ends a part.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// The quoted string at the start, and the length of its source text. `None` if the quotes do not
/// end or an escape is invalid.
fn quoted(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let plain = memchr::memchr2(b'"', b'\\', &text.as_bytes()[1..])? + 1;
    if text.as_bytes()[plain] == b'"' {
        return Some((Cow::Borrowed(&text[1..plain]), plain + 1));
    }
    let mut value = Vec::new();
    let length = unquote(text.as_bytes(), Dialect::GoOrJson, &mut value).ok()?;
    Some((Cow::Owned(String::from_utf8_lossy(&value).into_owned()), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values() {
        let check = |line: &str, strict: bool, expected: &str| {
            let mut found = Vec::new();
            let result = pairs(line, strict, |key, value| found.push(format!("{key}={value}")));
            assert_eq!(result.map_or("error".to_owned(), |()| found.join("|")), expected, "{line}");
        };
        check("a=1 b=\"x y\" c", true, "a=1|b=x y|c=");
        check(r#"m="q\"r\n" n="#, true, "m=q\"r\n|n=");
        check("=x a=1", false, "a=1");
        check("=x a=1", true, "error");
        check("a=\"x b=1", false, "b=1");
        check("a=\"x b=1", true, "error");
        check(r#"a="\d+" b="\u00e9\t""#, false, "b=\u{e9}\t");
        check(r#"a="\d+" b=1"#, true, "error");
        check("a=b\"c d=1", false, "d=1");
        check("\"x\" d=1", false, "d=1");
        check("", true, "");
    }
}
