//! Whether the store takes lines at present.

use std::sync::Mutex;

use segment::SegmentError;

use crate::sync::lock;
use platform::KeepError;

/// Whether a store takes lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// The store takes lines.
    #[default]
    Ok,
    /// The disk is full; frames in the queue are tried again every second.
    DiskFull,
    /// Writing fails for the reason given; frames in the queue are tried again every second.
    Failing(String),
    /// The store was closed.
    Closed,
}

impl StoreState {
    /// Why frames are refused in this state; None when they are taken.
    pub(crate) fn refusal(&self) -> Option<KeepError> {
        match self {
            StoreState::Ok => None,
            StoreState::DiskFull => Some(KeepError::DiskFull),
            StoreState::Failing(text) => Some(KeepError::Failed(text.clone())),
            StoreState::Closed => Some(KeepError::Closed),
        }
    }
}

/// The state of one store, changed by its writer. Changes are logged once each.
#[derive(Default)]
pub(crate) struct WriteState {
    state: Mutex<StoreState>,
}

impl WriteState {
    pub(crate) fn get(&self) -> StoreState {
        lock(&self.state).clone()
    }

    pub(crate) fn is(&self, state: &StoreState) -> bool {
        *lock(&self.state) == *state
    }

    pub(crate) fn note_failure(&self, error: &SegmentError) {
        let found = match error.is_disk_full() {
            true => StoreState::DiskFull,
            false => StoreState::Failing(error.to_string()),
        };
        let mut state = lock(&self.state);
        if *state != found {
            tracing::error!("cannot store lines, will try again: {error}");
            *state = found;
        }
    }

    pub(crate) fn note_success(&self) {
        let mut state = lock(&self.state);
        if *state != StoreState::Ok {
            tracing::info!("lines are stored again");
            *state = StoreState::Ok;
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.state) = StoreState::Closed;
    }
}
