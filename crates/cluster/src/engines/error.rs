//! Why a call to an engine failed.

use std::fmt;

/// What a failure means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing was done, and the same call may succeed later.
    Retriable,
    /// The engine may or may not have done what was asked. Repeating an append may store messages
    /// twice.
    OutcomeUnknown,
    /// Nothing was done, and the same call fails until an administrator changes something.
    Refused,
    /// Nothing was done: a message, or the messages that were sent together, are larger than the
    /// engine permits.
    TooLarge,
    /// Nothing was done: the engine will never take some message for what it contains.
    Content,
    /// Nothing was done: the object, or the position in the log, is not there.
    NotFound,
    /// Nothing was done: an object of this name is there already.
    Exists,
    /// Nothing was done: the bytes that were to be stored cannot be read on this machine.
    Body,
}

/// A failed call: what happened, and what an administrator can do. Neither text contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// What the failure means for the caller.
    pub kind: ErrorKind,
    /// What happened.
    pub what: String,
    /// What to do; empty if waiting is the remedy.
    pub remedy: String,
}

impl Error {
    /// A failure with a remedy.
    pub fn new(kind: ErrorKind, what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error { kind, what: what.into(), remedy: remedy.into() }
    }

    /// Whether the engine failed, or the way to it. Other errors are its answers.
    pub fn is_failure(&self) -> bool {
        matches!(self.kind, ErrorKind::Retriable | ErrorKind::OutcomeUnknown | ErrorKind::Refused)
    }

    /// Whether the same call may succeed later although nobody changes anything.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, ErrorKind::Retriable | ErrorKind::OutcomeUnknown)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}
