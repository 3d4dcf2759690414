//! Cuts a text into words, phrases, expressions, ranges and signs.

use std::fmt;

use super::{SyntaxError, end};
use crate::leaf::{End, Wild};

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word, perhaps with wildcards.
    Term(Written),
    /// What stands in quotes, without its escapes.
    Phrase(String),
    /// What stands between slashes.
    Regex(String),
    /// `[a TO b]`, `>=a` and so on.
    Range(Option<End>, Option<End>),
    /// A word or phrase with a colon behind it.
    Field(Written),
    /// `AND`, `&&`
    And,
    /// `OR`, `||`
    Or,
    /// `NOT`, `!`
    Not,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `^` and a number
    Boost,
    /// `~`
    Tilde,
}

/// A word with its wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written(Vec<Wild>);

impl Written {
    /// `*`
    pub fn star() -> Written {
        Written(vec![Wild::Any])
    }

    /// Its parts; at least one.
    pub fn parts(&self) -> &[Wild] {
        &self.0
    }

    /// As a text.
    pub fn text(&self) -> String {
        let part = |part: &Wild| match part {
            Wild::Any => "*".to_owned(),
            Wild::One => "?".to_owned(),
            Wild::Text(text) => text.clone(),
        };
        self.0.iter().map(part).collect()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Term(written) => write!(f, "\"{}\"", crate::object::cut(&written.text())),
            Token::Field(written) => write!(f, "\"{}:\"", crate::object::cut(&written.text())),
            Token::Phrase(_) => f.write_str("a phrase"),
            Token::Regex(_) => f.write_str("a regular expression"),
            Token::Range(..) => f.write_str("a range"),
            Token::And => f.write_str("AND"),
            Token::Or => f.write_str("OR"),
            Token::Not => f.write_str("NOT"),
            Token::Plus => f.write_str("\"+\""),
            Token::Minus => f.write_str("\"-\""),
            Token::Open => f.write_str("\"(\""),
            Token::Close => f.write_str("\")\""),
            Token::Boost => f.write_str("\"^\""),
            Token::Tilde => f.write_str("\"~\""),
        }
    }
}

/// The tokens of a text, with their positions.
pub struct Lexer<'t> {
    text: &'t str,
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl<'t> Lexer<'t> {
    /// Cuts all of a text.
    pub fn new(text: &'t str) -> Result<Lexer<'t>, SyntaxError> {
        let mut tokens = Vec::new();
        let mut at = 0;
        loop {
            at += text[at..].len() - text[at..].trim_start().len();
            if at == text.len() {
                return Ok(Lexer { text, tokens, at: 0 });
            }
            let (token, length) = token(text, at)?;
            tokens.push((at, token));
            at += length;
        }
    }

    /// The position of the next token.
    pub fn position(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |(position, _)| *position)
    }

    /// The next token.
    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    /// Takes the next token.
    pub fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Takes a token if it comes next.
    pub fn eat(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// Takes the name of a field.
    pub fn eat_field(&mut self) -> Option<Written> {
        let Some(Token::Field(name)) = self.peek() else { return None };
        let name = name.clone();
        self.at += 1;
        Some(name)
    }

    /// Takes a `*`.
    pub fn eat_star(&mut self) -> bool {
        self.eat(&Token::Term(Written::star()))
    }

    /// Takes a `~`.
    pub fn eat_tilde(&mut self) -> bool {
        self.eat(&Token::Tilde)
    }

    /// Takes a boost.
    pub fn eat_boost(&mut self) {
        self.eat(&Token::Boost);
    }
}

/// The token at a byte, which is no space, and its length.
fn token(text: &str, at: usize) -> Result<(Token, usize), SyntaxError> {
    let rest = &text[at..];
    let first = rest.chars().next().expect("not at the end");
    let simple = |token: Token, length: usize| Ok((token, length));
    match first {
        '(' => simple(Token::Open, 1),
        ')' => simple(Token::Close, 1),
        '+' => simple(Token::Plus, 1),
        '-' => simple(Token::Minus, 1),
        '!' => simple(Token::Not, 1),
        '&' if rest.starts_with("&&") => simple(Token::And, 2),
        '|' if rest.starts_with("||") => simple(Token::Or, 2),
        '"' => {
            let (phrase, length) = quoted(rest, '"')
                .ok_or_else(|| SyntaxError::new(at, "a phrase is open; expected a closing \""))?;
            match rest[length..].starts_with(':') {
                true => simple(Token::Field(Written(vec![Wild::Text(phrase)])), length + 1),
                false => simple(Token::Phrase(phrase), length),
            }
        }
        '/' => {
            let end = closing(rest, '/').ok_or_else(|| {
                SyntaxError::new(
                    at,
                    "a regular expression is open; expected a closing / (write \\/ for the sign)",
                )
            })?;
            simple(Token::Regex(rest[1..end].replace("\\/", "/")), end + 1)
        }
        '[' | '{' => range(rest, at),
        '>' | '<' => {
            let sign = if rest[1..].starts_with('=') { 2 } else { 1 };
            let spaces = rest[sign..].len() - rest[sign..].trim_start().len();
            let begin = sign + spaces;
            let (value, length) = match rest[begin..].starts_with('"') {
                true => quoted(&rest[begin..], '"').unwrap_or_default(),
                false => bound(&rest[begin..]),
            };
            if value.is_empty() {
                return Err(SyntaxError::new(at + begin, "expected a value to compare with"));
            }
            let end = Some(End { value, inside: sign == 2 });
            let token = match first {
                '>' => Token::Range(end, None),
                _ => Token::Range(None, end),
            };
            simple(token, begin + length)
        }
        '^' => {
            let digits = rest[1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
            match digits {
                0 => {
                    Err(SyntaxError::new(at, "expected a number behind ^; write \\^ for the sign"))
                }
                digits => simple(Token::Boost, digits + 1),
            }
        }
        '~' => {
            let digits = rest[1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
            simple(Token::Tilde, digits + 1)
        }
        ']' | '}' | ':' => {
            let message = format!("unexpected \"{first}\"; write \\{first} for the sign");
            Err(SyntaxError::new(at, message))
        }
        _ => Ok(word(rest)),
    }
}

/// A word with its escapes and wildcards.
fn word(rest: &str) -> (Token, usize) {
    let mut length = 0;
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                length = at + 1;
                if let Some((at, c)) = chars.next() {
                    length = at + c.len_utf8();
                }
                continue;
            }
            // A date has colons, where it has no name of a field before.
            ':' | '(' | ')' | '"' | '[' | ']' | '{' | '}' | '^' | '~' => break,
            c if c.is_whitespace() => break,
            '!' if at == 0 => break,
            '&' | '|' if rest[at..].starts_with("&&") || rest[at..].starts_with("||") => break,
            _ => length = at + c.len_utf8(),
        }
    }
    let written = &rest[..length];
    match written {
        "AND" => return (Token::And, 3),
        "OR" => return (Token::Or, 2),
        "NOT" => return (Token::Not, 3),
        _ => {}
    }
    let mut parts = Wild::parse(written);
    if parts.is_empty() {
        parts.push(Wild::Text(String::new()));
    }
    match rest[length..].starts_with(':') {
        true => (Token::Field(Written(parts)), length + 1),
        false => (Token::Term(Written(parts)), length.max(1)),
    }
}

/// The byte of the closing sign, which is not escaped. The text begins with the opening one.
fn closing(rest: &str, sign: char) -> Option<usize> {
    let mut escaped = false;
    rest.char_indices().skip(1).find_map(|(at, c)| {
        let found = !escaped && c == sign;
        escaped = !escaped && c == '\\';
        found.then_some(at)
    })
}

/// A quoted text without its escapes, and the length of what was read.
fn quoted(rest: &str, sign: char) -> Option<(String, usize)> {
    let end = closing(rest, sign)?;
    Some((unescaped(&rest[1..end]), end + 1))
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}

/// The text up to a space or a bracket, without its escapes, and its length.
fn bound(rest: &str) -> (String, usize) {
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let ends = !escaped && (c.is_whitespace() || "()]}[{".contains(c));
        escaped = !escaped && c == '\\';
        ends
    });
    let length = end.unwrap_or(rest.len());
    (unescaped(&rest[..length]), length)
}

fn range(rest: &str, position: usize) -> Result<(Token, usize), SyntaxError> {
    let wrong = || {
        SyntaxError::new(
            position,
            "a range is wrong; write for example [1 TO 5], {1 TO 5} or [1 TO *]",
        )
    };
    let low_inside = rest.starts_with('[');
    let mut at = 1;
    let mut one = || {
        at += rest[at..].len() - rest[at..].trim_start().len();
        let is_quoted = rest[at..].starts_with('"');
        let (value, length) = match is_quoted {
            true => quoted(&rest[at..], '"')?,
            false => bound(&rest[at..]),
        };
        at += length;
        (is_quoted || !value.is_empty()).then_some((value, is_quoted))
    };
    let (low, low_quoted) = one().ok_or_else(wrong)?;
    let (to, to_quoted) = one().ok_or_else(wrong)?;
    let (high, high_quoted) = one().ok_or_else(wrong)?;
    at += rest[at..].len() - rest[at..].trim_start().len();
    let high_inside = match rest[at..].chars().next() {
        Some(']') => true,
        Some('}') => false,
        _ => return Err(wrong()),
    };
    if to != "TO" || to_quoted {
        return Err(wrong());
    }
    let range = Token::Range(end(low, low_inside, low_quoted), end(high, high_inside, high_quoted));
    Ok((range, at + 1))
}
