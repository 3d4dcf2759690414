//! Deletion of lines, for the users of a store.

use super::Store;
use crate::catalog::{Deletion, DeletionScope, DeletionState};
use crate::error::StoreError;
use crate::segments::table::SegmentTable;
use crate::store_core::deletions::{
    DELETIONS_KEPT, DELETIONS_MAX, DeletionProgress, FILTER_BYTES_MAX,
};
use crate::sync::lock;

impl Store {
    /// Deletes the lines that are there now and that `filter` selects, in the background; and those
    /// of other nodes that were received before and come later, when their segment is sealed.
    /// [`StoreCallbacks::filter`](crate::StoreCallbacks::filter) must be able to compile the
    /// filter.
    ///
    /// Errors: too many run; the filter is too long; the catalog cannot be written.
    pub fn delete_lines(&self, filter: &str) -> Result<Deletion, StoreError> {
        if filter.len() > FILTER_BYTES_MAX {
            let text = format!("the filter is longer than {FILTER_BYTES_MAX} bytes");
            return Err(StoreError::Refused(text));
        }
        let core = &self.core;
        // From here on all present lines are in closed segments.
        lock(&self.writer).roll();
        let ledger = lock(&self.ledger);
        if core.deletions.running().len() >= DELETIONS_MAX {
            let text = format!("{DELETIONS_MAX} deletions run; wait for one to end, or cancel one");
            return Err(StoreError::Refused(text));
        }
        let scope = DeletionScope {
            sequence_before: core.numbers.next(),
            hot_through: core.segments.hot().last().map_or(0, |hot| hot.id),
        };
        let mut deletion = Deletion::new(filter, core.clock.now_ns(), scope);
        ledger.catalog.add_deletion(&mut deletion)?;
        if let Some(oldest) = core.deletions.add(deletion.clone()) {
            if oldest.is_in_force() {
                tracing::warn!(
                    "deletion {} is forgotten, because {DELETIONS_KEPT} later ones have ended: lines that it names and                      that a collector still has in its spool come back",
                    oldest.id
                );
            }
            if let Err(error) = ledger.catalog.remove_deletion(oldest.id) {
                tracing::warn!("{error}");
            }
        }
        drop(ledger);
        core.signals.sealing.wake();
        Ok(deletion)
    }

    /// All deletions, the oldest first, each with how far it is.
    pub fn deletions(&self) -> Vec<(Deletion, DeletionProgress)> {
        self.core
            .deletions
            .all()
            .into_iter()
            .map(|d| (d.clone(), progress(&self.core.segments, &d)))
            .collect()
    }

    /// Ends a running deletion; false when none of that number runs.
    ///
    /// Errors: the catalog cannot be written; then the deletion continues.
    pub fn cancel_deletion(&self, id: u64) -> Result<bool, StoreError> {
        lock(&self.ledger).end_deletion(id, DeletionState::Cancelled, None)
    }
}

/// How far a deletion is.
fn progress(segments: &SegmentTable, deletion: &Deletion) -> DeletionProgress {
    let mut progress = DeletionProgress::default();
    if deletion.state == DeletionState::Running {
        for segment in segments.list().by_age().iter().filter(|s| deletion.concerns(s)) {
            progress.segments_left += 1;
            progress.bytes_left += segment.row().bytes_raw;
        }
    }
    progress
}
