//! A fetch under way, for which several threads may wait.

use std::sync::{Condvar, Mutex, PoisonError};

use bytes::Bytes;

use crate::engines::error::Error;

/// A fetch and, when it has ended, its outcome.
#[derive(Debug, Default)]
pub struct Flight {
    outcome: Mutex<Option<Result<Bytes, Error>>>,
    ended: Condvar,
}

impl Flight {
    /// Ends the fetch. Only the first outcome counts.
    pub fn end(&self, outcome: Result<Bytes, Error>) {
        let mut held = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        held.get_or_insert(outcome);
        self.ended.notify_all();
    }

    /// Waits for the end.
    pub fn wait(&self) -> Result<Bytes, Error> {
        let mut held = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &*held {
                return outcome.clone();
            }
            held = self.ended.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
