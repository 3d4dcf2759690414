//! Errors in a request, in Elasticsearch's terms, and reasons why a search ended early.

use serde_json::{Value, json};

/// A request that is wrong, or asks for something that there is not. Shown to the user in
/// Elasticsearch's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// Elasticsearch's name for such an error.
    pub kind: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, where, and what would be right.
    pub reason: String,
}

impl Refused {
    /// 400: a part of the request that is wrong or unknown.
    pub fn parsing(reason: impl Into<String>) -> Refused {
        Refused { kind: "parsing_exception", status: 400, reason: reason.into() }
    }

    /// 400: a value that is not possible.
    pub fn argument(reason: impl Into<String>) -> Refused {
        Refused { kind: "illegal_argument_exception", status: 400, reason: reason.into() }
    }

    /// The error as Elasticsearch writes it.
    pub fn to_json(&self) -> Value {
        error_json(self.kind, &self.reason, self.status)
    }
}

/// An error as Elasticsearch writes it.
pub fn error_json(kind: &str, reason: &str, status: u16) -> Value {
    let cause = json!({ "type": kind, "reason": reason });
    json!({
        "error": { "root_cause": [cause], "type": kind, "reason": reason },
        "status": status,
    })
}

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// It was cancelled, exceeded a limit, or the store could not be read.
    #[error(transparent)]
    Run(#[from] query::RunError),
    /// The request is wrong.
    #[error(transparent)]
    Refused(#[from] Refused),
}
