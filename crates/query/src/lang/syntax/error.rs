//! What is wrong with the text of a query, and where.

use std::fmt;

/// A query that cannot be understood. Shown to the user: it names the place and what could stand
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte in the query's text at which it went wrong; at most its length.
    pub position: usize,
    /// What could stand there, in words for people; may be empty.
    pub expected: Vec<String>,
    /// What is wrong, without the place.
    pub message: String,
    /// The query's text.
    pub query: String,
}

impl std::error::Error for ParseError {}

/// Characters of the query shown on each side of the place.
const CONTEXT_CHARS_MAX: usize = 60;

impl fmt::Display for ParseError {
    /// The message, the part of the query around the place, and a caret below the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if !self.expected.is_empty() {
            write!(f, "; expected {}", self.expected.join(" or "))?;
        }
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let (before, after) = self.query.split_at(self.position);
        let skipped = before.chars().count().saturating_sub(CONTEXT_CHARS_MAX);
        let before: String = before.chars().skip(skipped).map(clean).collect();
        let after: String = after.chars().take(CONTEXT_CHARS_MAX).map(clean).collect();
        write!(f, "\n  {before}{after}\n  {:width$}^", "", width = before.chars().count())
    }
}
