//! What a runner needs of a destination, and the ways in which a destination answers.

use std::fmt;
use std::time::Duration;

use crate::document::Document;

/// Receives documents: one implementation for each kind of server or file.
pub trait Destination: Send {
    /// Sends documents from the start of `documents`, as many as one request holds, and returns
    /// what became of them. `documents` is never empty. The call may block up to the time limits of
    /// the destination.
    ///
    /// A document may be sent again after any answer but [`Outcome::Accepted`],
    /// [`Outcome::Ignored`] and [`Outcome::Rejected`], and after a crash.
    fn deliver(&mut self, documents: &[Document]) -> Delivered;

    /// Whether documents are to arrive in their order. A destination that knows ids returns false:
    /// documents that it keeps putting off may then be overtaken by others with other ids.
    fn keeps_order(&self) -> bool {
        true
    }
}

/// What became of documents that were handed to [`Destination::deliver`].
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// The destination answered for the first documents, at least one. Documents without an outcome
    /// were not sent.
    Answered {
        /// One for each document that was sent, in their order.
        outcomes: Vec<Outcome>,
        /// How long the destination asked to wait before documents are sent again.
        retry_after: Option<Duration>,
    },
    /// The destination refused the request as a whole because of its size or content, and kept none
    /// of it or can tell repeated documents. A request with fewer documents may be accepted; a
    /// single document that gets this answer is rejected.
    Refused(Fault),
    /// No answer came in time. A request with fewer documents may be answered sooner.
    TimedOut(Fault),
    /// Nothing can be delivered now, whatever the documents.
    Unavailable {
        /// Why.
        fault: Fault,
        /// How long the destination asked to wait.
        retry_after: Option<Duration>,
    },
}

/// What became of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The destination has it.
    Accepted,
    /// The destination will never take it, for this reason.
    Rejected(String),
    /// It deletes another document, which this destination cannot do; nothing was sent.
    Ignored,
    /// It was not taken for this reason, which may pass.
    Retry(Fault),
}

/// Something that went wrong, and what an administrator can do about it. Neither text contains a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub what: String,
    /// What to do; empty if waiting is the remedy.
    pub remedy: String,
}

impl Fault {
    /// A fault with a remedy.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault { what: what.into(), remedy: remedy.into() }
    }

    /// A fault that passes by itself, if at all.
    pub fn passing(what: impl Into<String>) -> Fault {
        Fault::new(what, "")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

impl From<cluster::engines::Error> for Fault {
    fn from(error: cluster::engines::Error) -> Fault {
        Fault { what: error.what, remedy: error.remedy }
    }
}

impl Delivered {
    /// Nothing can be delivered now.
    pub fn unavailable(fault: Fault) -> Delivered {
        Delivered::Unavailable { fault, retry_after: None }
    }

    /// The same answer for all documents of a request of which the lines for some, whose outcome
    /// in `outcomes` is [`Outcome::Ignored`], were left out.
    pub(crate) fn with_ignored(self, mut outcomes: Vec<Outcome>) -> Delivered {
        match self {
            Delivered::Answered { outcomes: sent, retry_after } => {
                let places = outcomes.iter_mut().filter(|outcome| **outcome != Outcome::Ignored);
                for (place, outcome) in places.zip(sent) {
                    *place = outcome;
                }
                Delivered::Answered { outcomes, retry_after }
            }
            other => other,
        }
    }

    /// The first `count` documents were accepted.
    pub fn accepted(count: usize) -> Delivered {
        Delivered::Answered { outcomes: vec![Outcome::Accepted; count], retry_after: None }
    }
}
