//! Reads the text of a query piece by piece: words, quoted strings, punctuation.
//!
//! LogsQL is lexed by context (a time is written without quotes, `-` is NOT before a filter and a
//! sign before a number), so there is no list of tokens; the parser asks for what may stand at the
//! cursor. Positions are byte offsets in the text. Nothing here panics for any text.

use text::quoted::{Dialect, Fault, What, quote, unquote};

use crate::lang::filter::Filter;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::macros::{Expansion, parameter_value};
use crate::lang::syntax::regexes::RegexBudget;

/// Most levels of nested parentheses, NOTs and field groups. A deeper query is refused, which
/// bounds the stack of the parser.
pub const NESTING_MAX: usize = 100;

/// Levels that a query inside a query counts as. So at most ten queries are nested.
const QUERY_LEVELS: usize = 10;
/// Levels that a shorthand such as `{a!="b" or c="d"}` counts as. The filters that it stands for
/// are nested at most this much deeper.
const SHORTHAND_LEVELS: usize = 2;
/// Levels that the text of a macro or of its argument counts as. So at most ten of them are in each
/// other.
const EXPANSION_LEVELS: usize = 10;

/// Most bytes of field names that the filters of a query hold; a query with more is refused. Each
/// filter in a group such as `name:(a or b)` holds the name.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Whether `c` belongs to words of a log message: letters, digits and underscore.
#[inline]
pub fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A place in the text of a query.
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    names_bytes: usize,
    /// The time that `now` stands for, nanoseconds since 1970 UTC.
    pub now_ns: i64,
    /// What is left of the budget of regular expressions.
    pub regexes: RegexBudget,
    /// Options of the query that hold for the queries inside it too.
    pub inherited: Inherited,
    /// The macros that the query may call, and the one whose text this is.
    pub expansion: Expansion,
}

/// Options of a query that hold for the queries inside it too.
#[derive(Clone, Default)]
pub(crate) struct Inherited {
    /// What is taken off the times in filters on `_time`, and added to the times of rows.
    pub time_offset_ns: i64,
    /// A filter that each query gets.
    pub filter: Option<Filter>,
}

/// A word or a quoted string of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub text: String,
    pub quoted: bool,
    pub position: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str, now_ns: i64) -> Self {
        Cursor {
            text,
            at: 0,
            depth: 0,
            names_bytes: 0,
            now_ns,
            regexes: RegexBudget::default(),
            inherited: Inherited::default(),
            expansion: Expansion::default(),
        }
    }

    /// The position of the next character that is not a space.
    pub fn position(&mut self) -> usize {
        self.skip_spaces();
        self.at
    }

    /// The text from the cursor on.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips spaces and comments. A comment begins with a `#` that is not directly behind a word,
    /// and ends with the line.
    pub fn skip_spaces(&mut self) {
        loop {
            self.at = self.text.len() - self.rest().trim_start().len();
            if self.adjacent() != Some('#') {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// The character at the cursor, spaces included.
    pub fn adjacent(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The next character that is not a space; none at the end.
    pub fn peek(&mut self) -> Option<char> {
        self.skip_spaces();
        self.adjacent()
    }

    /// Takes `c` if it is the next character that is not a space. Otherwise takes nothing, not even
    /// the spaces.
    pub fn eat(&mut self, c: char) -> bool {
        let before = self.at;
        self.skip_spaces();
        let found = self.eat_adjacent(c);
        if !found {
            self.at = before;
        }
        found
    }

    /// Takes `c` if it stands at the cursor.
    pub fn eat_adjacent(&mut self, c: char) -> bool {
        let found = self.adjacent() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    /// Takes `text` if it stands at the cursor.
    pub fn eat_text(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Takes `c`. The error says that it is missing behind `what`.
    pub fn expect(&mut self, c: char, what: &str) -> Result<(), ParseError> {
        if self.eat(c) {
            return Ok(());
        }
        let message = match self.found() {
            None => format!("the query ends in the middle of {what}"),
            Some(found) => format!("unexpected {found} in {what}"),
        };
        Err(self.error(&[&format!("\"{c}\"")], message))
    }

    /// The text at the cursor, for messages.
    pub fn found(&mut self) -> Option<String> {
        let c = self.peek()?;
        let word: String = self.rest().chars().take_while(|&c| is_word_char(c)).take(30).collect();
        Some(if word.is_empty() { format!("\"{c}\"") } else { format!("\"{word}\"") })
    }

    pub fn error(&mut self, expected: &[&str], message: impl Into<String>) -> ParseError {
        let position = self.position();
        self.error_at(position, expected, message)
    }

    pub fn error_at(
        &self,
        position: usize,
        expected: &[&str],
        message: impl Into<String>,
    ) -> ParseError {
        let expected = expected.iter().map(|e| e.to_string()).collect();
        let query = self.text.to_owned();
        ParseError { position, expected, message: message.into(), query }
    }

    /// The place of the cursor, for [`Cursor::go_back`].
    pub fn place(&self) -> usize {
        self.at
    }

    /// Returns to an earlier place.
    pub fn go_back(&mut self, place: usize) {
        self.at = place;
    }

    /// Runs `parse`, which reads a query inside a query: [`QUERY_LEVELS`] deeper.
    pub fn nested_query<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        let message = || format!("more than {} queries in each other", NESTING_MAX / QUERY_LEVELS);
        self.deeper(QUERY_LEVELS, message, parse)
    }

    /// Runs `parse`, which reads a shorthand: [`SHORTHAND_LEVELS`] deeper.
    pub fn shorthand<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        self.deeper(SHORTHAND_LEVELS, too_deep, parse)
    }

    /// Runs `parse` one level deeper.
    pub fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        self.deeper(1, too_deep, parse)
    }

    /// Runs `parse` over another text in the place of this one: the text of a macro, or of an
    /// argument. What this query has used up of its limits counts there too.
    pub fn expanded<T>(
        &mut self,
        text: &str,
        expansion: Expansion,
        parse: impl FnOnce(&mut Cursor<'_>) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        let message =
            || format!("more than {} macros in each other", NESTING_MAX / EXPANSION_LEVELS);
        self.deeper(EXPANSION_LEVELS, message, |outer| {
            let mut inner = Cursor {
                text,
                at: 0,
                depth: outer.depth,
                names_bytes: outer.names_bytes,
                now_ns: outer.now_ns,
                regexes: std::mem::take(&mut outer.regexes),
                inherited: std::mem::take(&mut outer.inherited),
                expansion,
            };
            let result = parse(&mut inner);
            outer.names_bytes = inner.names_bytes;
            outer.regexes = inner.regexes;
            outer.inherited = inner.inherited;
            outer.expansion.bytes = inner.expansion.bytes;
            result
        })
    }

    fn deeper<T>(
        &mut self,
        levels: usize,
        message: impl FnOnce() -> String,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth + levels > NESTING_MAX {
            return Err(self.error(&[], message()));
        }
        self.depth += levels;
        let result = parse(self);
        self.depth -= levels;
        result
    }

    /// Counts the bytes of a name that `filters` filters hold.
    pub fn take_name(&mut self, name: &str, filters: usize) -> Result<(), ParseError> {
        self.names_bytes = self.names_bytes.saturating_add(name.len().saturating_mul(filters));
        if self.names_bytes <= NAMES_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the names of fields of all filters together have more than {NAMES_BYTES_MAX} bytes; write in(…) or fewer values \
             behind a long name"
        );
        Err(self.error(&[], message))
    }

    /// The next bare word, which is not taken; empty if there is none. Words end at spaces, quotes,
    /// brackets and `| , ! * :`; with `colons` a colon is part of the word.
    pub fn peek_word(&mut self, colons: bool) -> &'a str {
        self.skip_spaces();
        let rest = self.rest();
        let end = rest.find(|c: char| match c {
            ':' => !colons,
            c => c.is_whitespace() || "\"'`()[]{}|,!*".contains(c),
        });
        &rest[..end.unwrap_or(rest.len())]
    }

    /// The character directly behind the next bare word.
    pub fn behind_word(&mut self) -> Option<char> {
        let length = self.peek_word(false).len();
        self.rest()[length..].chars().next()
    }

    /// Takes the bare word `keyword` if it comes next, in upper or lower case. `keyword` is in
    /// lower case.
    pub fn eat_keyword(&mut self, keyword: &str) -> bool {
        let found = self.peek_word(false).eq_ignore_ascii_case(keyword);
        if found {
            self.at += keyword.len();
        }
        found
    }

    /// Takes `name(` if it comes next, in upper or lower case; otherwise nothing. `name` is in
    /// lower case.
    pub fn eat_call(&mut self, name: &str) -> bool {
        let before = self.at;
        let found = self.eat_keyword(name) && self.eat_adjacent('(');
        if !found {
            self.at = before;
        }
        found
    }

    /// Takes a word or a quoted string, if one comes next.
    pub fn string(&mut self, colons: bool) -> Result<Option<Written>, ParseError> {
        match self.peek() {
            Some('"' | '\'' | '`') => self.quoted().map(Some),
            _ => {
                let word = self.peek_word(colons);
                if word.is_empty() {
                    return Ok(None);
                }
                let position = self.at;
                let value = parameter_value(self, word)?;
                self.at += word.len();
                let quoted = value.is_some();
                let text = value.unwrap_or_else(|| word.to_owned());
                Ok(Some(Written { text, quoted, position }))
            }
        }
    }

    /// Takes a word or a quoted string. The error says that `what` is missing.
    pub fn expect_string(&mut self, colons: bool, what: &str) -> Result<Written, ParseError> {
        if let Some(string) = self.string(colons)? {
            return Ok(string);
        }
        let message = match self.found() {
            None => "the query ends too early".to_owned(),
            Some(found) => format!("unexpected {found}"),
        };
        Err(self.error(&[what], message))
    }

    /// Takes the text up to a space or one of `stops`, for times and numbers, which contain colons
    /// and signs. Of a quoted string, the content is taken.
    pub fn run(&mut self, stops: &str, what: &str) -> Result<Written, ParseError> {
        if let Some('"' | '\'' | '`') = self.peek() {
            return self.quoted();
        }
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || stops.contains(c));
        let text = &rest[..end.unwrap_or(rest.len())];
        if text.is_empty() {
            return self.expect_string(true, what);
        }
        let position = self.at;
        let value = parameter_value(self, text)?;
        self.at += text.len();
        let quoted = value.is_some();
        Ok(Written { text: value.unwrap_or_else(|| text.to_owned()), quoted, position })
    }

    /// Takes a quoted string. In backticks there are no escapes; other quotes have the escapes of
    /// Go.
    fn quoted(&mut self) -> Result<Written, ParseError> {
        let position = self.at;
        let mut bytes = Vec::new();
        match unquote(&self.text.as_bytes()[position..], Dialect::Go, &mut bytes) {
            Ok(length) => self.at += length,
            Err(fault) => return Err(self.quoted_error(position, fault)),
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Written { text, quoted: true, position }),
            Err(_) => {
                let message = "the escapes do not make valid UTF-8; search such bytes with a regex";
                Err(self.error_at(position, &[], message))
            }
        }
    }

    fn quoted_error(&self, begin: usize, fault: Fault) -> ParseError {
        let position = begin + fault.at;
        let wrong = "the quoted text has an unknown escape; write \\\\ for a backslash";
        match fault.what {
            What::NoQuote | What::Open => {
                let expected = format!("a closing {}", &self.text[begin..=begin]);
                self.error_at(position, &[&expected], "the quoted text does not end")
            }
            What::Escape => self.error_at(position, &[], wrong),
            What::Digits(digits) => {
                self.error_at(position, &[&format!("{digits} hexadecimal digits")], wrong)
            }
            What::Character => {
                self.error_at(position, &[], "the escape does not stand for a character")
            }
        }
    }
}

fn too_deep() -> String {
    format!(
        "more than {NESTING_MAX} filters in each other; write fewer parentheses and NOTs, or send several queries"
    )
}

/// Writes a field name, in quotes when it needs them.
pub(crate) fn quote_name(name: &str) -> String {
    let plain = |c: char| is_word_char(c) || c == '.' || c == '/' || c == '@';
    let reserved = ["and", "or", "not", "as", "by", "in", "if", "limit", "offset", "with"];
    let word = name.starts_with(|c: char| is_word_char(c)) && name.chars().all(plain);
    if word && !reserved.iter().any(|r| name.eq_ignore_ascii_case(r)) {
        name.to_owned()
    } else {
        quote(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_strings() {
        let check = |text: &str, expected: &str| {
            let string = Cursor::new(text, 0).string(false).unwrap().unwrap();
            assert_eq!((string.text.as_str(), string.quoted), (expected, true), "{text}");
        };
        check(r#""a b""#, "a b");
        check(r#"'it"s'"#, "it\"s");
        check(r"`a\nb`", "a\\nb");
        check(r#""\"\\\n\t\x41\u00e9\U0001F600""#, "\"\\\n\tA\u{e9}\u{1F600}");
        check(r#""\xc3\xa9""#, "\u{e9}");
        for wrong in
            ["\"a", "'a\\'", r#""\q""#, r#""\x4""#, r#""\ud800""#, r#""\xff""#, r#""\x+f""#]
        {
            assert!(Cursor::new(wrong, 0).string(false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_end_at_punctuation() {
        let check = |text: &str, colons: bool, expected: &str| {
            assert_eq!(Cursor::new(text, 0).peek_word(colons), expected, "{text}");
        };
        check("  10.0.0.1 x", false, "10.0.0.1");
        check("a:b", false, "a");
        check("a:b|", true, "a:b");
        check("/var/log/x.log*", false, "/var/log/x.log");
        check("key=value)", false, "key=value");
        check("(", false, "");
    }
}
