//! What is wrong with a query, and how one ends before it is done.

use std::fmt;

/// A query that cannot be understood, or asks for what is not there. Shown to the user as Loki
/// shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Byte in the query at which it went wrong; at most its length.
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

/// Why a query ended before it was done. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// It was cancelled, ran into a limit, or the store could not be read.
    #[error(transparent)]
    Run(#[from] query::RunError),
    /// Lines that a parser or a filter could not take, where numbers are made of them.
    #[error(
        "pipeline error: '{error}' for series: '{series}'.\nUse a label filter to intentionally skip this error. (e.g | __error__!=\"{error}\").\nTo skip all potential errors you can match empty errors.(e.g __error__=\"\")\nThe label filter can also be specified after unwrap. (e.g | unwrap latency | __error__=\"\" )\n"
    )]
    Pipeline {
        /// The value of `__error__`.
        error: String,
        /// The labels of the first such line.
        series: String,
    },
    /// What was asked of numbers makes no sense for those that are there.
    #[error("{0}")]
    Refused(String),
}
