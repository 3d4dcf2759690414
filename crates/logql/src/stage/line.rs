//! Tests of the line: `|= "a" or "b"`, `!=`, `|~`, `!~`, `|>`, `!>`, and `ip("…")`.

use std::fmt;

use query::Pulse;

use super::ip::IpRange;
use super::pattern::Pattern;
use crate::lex::quote;
use crate::matcher::Regex;

/// A test of the line.
#[derive(Clone, Debug, PartialEq)]
pub struct LineFilter {
    /// The kind of search.
    pub op: LineOp,
    /// The line passes if nothing is found.
    pub negated: bool,
    /// Any of these has to be found; at least one.
    pub needles: Vec<Needle>,
}

/// The kind of search of a line filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOp {
    /// Contains a string or an address.
    Contains,
    /// Matches a regular expression.
    Match,
    /// The whole line matches a pattern.
    Pattern,
}

/// What a line filter searches for.
#[derive(Clone, Debug, PartialEq)]
pub enum Needle {
    /// A text.
    Text(String),
    /// An address.
    Ip(IpRange),
    /// A match.
    Regex(Regex),
    /// A pattern of the whole line.
    Pattern(Pattern),
}

impl LineFilter {
    /// Whether a line passes; any answer if the query ended meanwhile.
    pub fn passes(&self, line: &str, pulse: &Pulse<'_>) -> bool {
        let may_look = || pulse.may_continue(line.len());
        let found = self.needles.iter().any(|needle| match needle {
            Needle::Regex(regex) => regex.pattern().is_match(line.as_bytes(), pulse),
            _ if !may_look() => false,
            Needle::Text(text) => memchr::memmem::find(line.as_bytes(), text.as_bytes()).is_some(),
            Needle::Ip(range) => range.is_in(line),
            Needle::Pattern(pattern) => pattern.is_match(line),
        });
        found != self.negated
    }
}

impl fmt::Display for LineFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.op, self.negated) {
            (LineOp::Contains, false) => "|=",
            (LineOp::Contains, true) => "!=",
            (LineOp::Match, false) => "|~",
            (LineOp::Match, true) => "!~",
            (LineOp::Pattern, false) => "|>",
            (LineOp::Pattern, true) => "!>",
        })?;
        for (place, needle) in self.needles.iter().enumerate() {
            f.write_str(if place > 0 { " or " } else { " " })?;
            match needle {
                Needle::Text(text) => f.write_str(&quote(text))?,
                Needle::Ip(range) => write!(f, "ip({})", quote(range.text()))?,
                Needle::Regex(regex) => f.write_str(&quote(regex.text()))?,
                Needle::Pattern(pattern) => f.write_str(&quote(pattern.text()))?,
            }
        }
        Ok(())
    }
}
