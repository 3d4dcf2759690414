//! The error of the parser: what is wrong with the text of a query, and where.

use std::fmt;

/// The query cannot be parsed. The error is shown to the user; it names the position and what could
/// stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte offset of the mistake in the text of the query; at most its length.
    pub position: usize,
    /// What could stand there instead, in words for the user; may be empty.
    pub expected: Vec<String>,
    /// What is wrong, without the position.
    pub message: String,
    /// The text of the query.
    pub query: String,
}

impl std::error::Error for ParseError {}

/// Most characters of the query that are shown on each side of the position.
const CONTEXT_CHARS_MAX: usize = 60;

impl fmt::Display for ParseError {
    /// Writes the message, the part of the query around the position, and a caret below the
    /// position.
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
