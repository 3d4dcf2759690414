//! `key=value key="quoted value" alone`, as Loki parses it. Quoted values are parsed as by
//! `unpack_logfmt` of LogsQL.
//!
//! Otherwise Loki differs from `unpack_logfmt`: any blank or control character separates pairs, a
//! lone key has an empty value, a quote inside an unquoted value is an error, and malformed parts
//! are skipped, or with `--strict` are an error.

use std::borrow::Cow;

use text::quoted::{Dialect, unquote};

/// Calls `each` with every key and value of a line; a lone key has an empty value. Malformed parts
/// are skipped; with `strict` they are an error.
pub fn pairs(
    line: &str,
    strict: bool,
    mut each: impl FnMut(&str, Cow<'_, str>),
) -> Result<(), &'static str> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(|c: char| c <= ' ');
        if rest.is_empty() {
            return Ok(());
        }
        let end = rest.find(|c: char| c <= ' ' || c == '=' || c == '"').unwrap_or(rest.len());
        let key = &rest[..end];
        rest = &rest[end..];
        let Some(behind) = rest.strip_prefix('=') else {
            if rest.starts_with('"') {
                if strict {
                    return Err("unexpected '\"'");
                }
                rest = skip_word(rest);
            } else {
                each(key, Cow::Borrowed(""));
            }
            continue;
        };
        if key.is_empty() {
            if strict {
                return Err("unexpected '='");
            }
            rest = skip_word(behind);
            continue;
        }
        if behind.starts_with('"') {
            match quoted(behind) {
                Some((value, length)) => {
                    each(key, value);
                    rest = &behind[length..];
                }
                None if strict => return Err("wrong quoted value"),
                None => rest = skip_word(behind),
            }
        } else {
            let end = behind.find(|c: char| c <= ' ' || c == '"').unwrap_or(behind.len());
            rest = &behind[end..];
            if rest.starts_with('"') {
                if strict {
                    return Err("unexpected '\"'");
                }
                rest = skip_word(rest);
                continue;
            }
            each(key, Cow::Borrowed(&behind[..end]));
        }
    }
}

fn skip_word(text: &str) -> &str {
    &text[text.find(|c: char| c <= ' ').unwrap_or(text.len())..]
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
