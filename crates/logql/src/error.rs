//! Errors in a query, and reasons why a query ended early.

use std::fmt;

/// A query that cannot be parsed, or uses a feature that is not supported. Shown to the user in
/// Loki's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Offset of the error in the query, in bytes; at most its length.
    pub position: usize,
    line: usize,
    column: usize,
    message: String,
}

impl ParseError {
    /// An error at byte `position` of `text`.
    pub fn new(text: &str, position: usize, message: impl Into<String>) -> ParseError {
        let before = &text[..position];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        ParseError { position, line, column, message: message.into() }
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse error at line {}, col {}: {}", self.line, self.column, self.message)
    }
}

/// Why a query ended early. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// It was cancelled, exceeded a limit, or the store could not be read.
    #[error(transparent)]
    Run(#[from] query::RunError),
    /// A parser or filter failed on a line of an aggregation.
    #[error(
        "pipeline error: '{error}' for series: '{series}'.\nUse a label filter to intentionally skip this error. (e.g | __error__!=\"{error}\").\nTo skip all potential errors you can match empty errors.(e.g __error__=\"\")\nThe label filter can also be specified after unwrap. (e.g | unwrap latency | __error__=\"\" )\n"
    )]
    Pipeline {
        /// The value of `__error__`.
        error: String,
        /// The labels of the first such line.
        series: String,
    },
    /// The operation is not defined for these values.
    #[error("{0}")]
    Refused(String),
}
