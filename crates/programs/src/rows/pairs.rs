//! Pairs `name=value` between blanks; the grammar stands in [`super::parse`].

use super::Value;
use super::parse::{Fields, RowProblem};

/// A word in an error is cut behind so many characters.
const WORD_CHARS_MAX: usize = 64;

pub(super) fn parse(line: &str, fields: &mut Fields) -> Result<(), RowProblem> {
    let mut rest = line.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let end = rest.find(|c| c == '=' || is_blank(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let Some(value) = rest[end..].strip_prefix('=') else {
            return Err(RowProblem::NoPair { word: name.chars().take(WORD_CHARS_MAX).collect() });
        };
        if name.contains('"') {
            return Err(RowProblem::BadName { name: name.chars().take(WORD_CHARS_MAX).collect() });
        }
        let value = match value.strip_prefix('"') {
            Some(quoted) => {
                let (text, behind) = unquote(name, quoted)?;
                rest = behind;
                Value::Text(text)
            }
            None => {
                let end = value.find(is_blank).unwrap_or(value.len());
                rest = &value[end..];
                bare(&value[..end])
            }
        };
        fields.push(name.to_owned(), value)?;
        rest = rest.trim_start_matches(is_blank);
    }
    Ok(())
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// The text up to the closing quote, and what stands behind it.
fn unquote<'a>(name: &str, quoted: &'a str) -> Result<(String, &'a str), RowProblem> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => {
                let behind = &quoted[i + 1..];
                if behind.chars().next().is_some_and(|c| !is_blank(c)) {
                    return Err(RowProblem::AfterQuote { name: name.to_owned() });
                }
                return Ok((text, behind));
            }
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(c @ ('"' | '\\')) => text.push(c),
                // A backslash that escapes nothing stands for itself.
                Some(c) => text.extend(['\\', c]),
                None => break,
            },
            c => text.push(c),
        }
    }
    Err(RowProblem::OpenQuote { name: name.to_owned() })
}

/// The value that text without quotes stands for.
pub(super) fn bare(text: &str) -> Value {
    match text {
        "" | "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "nan" | "-nan" | "+nan" | "inf" | "-inf" | "+inf" => return Value::Null,
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>()
        && is_json_number(text)
    {
        return Value::Integer(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && is_json_number(text) => Value::Float(number),
        _ => Value::Text(text.to_owned()),
    }
}

/// Whether a number is written as JSON writes numbers. Assumes that Rust parses the text as one.
fn is_json_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let integer = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
    let has_leading_zero = integer.len() > 1 && integer.starts_with('0');
    let is_fraction_empty = digits.contains(".e") || digits.contains(".E") || digits.ends_with('.');
    digits.starts_with(|c: char| c.is_ascii_digit()) && !has_leading_zero && !is_fraction_empty
}
