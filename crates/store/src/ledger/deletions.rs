//! Deletions in memory and in the catalog, changed together.

use super::Ledger;
use crate::catalog::{Deletion, DeletionState};
use crate::error::StoreError;

impl Ledger {
    /// Ends a running deletion; false when none of that number runs.
    pub(crate) fn end_deletion(
        &mut self,
        id: u64,
        state: DeletionState,
        note: Option<String>,
    ) -> Result<bool, StoreError> {
        let now_ns = self.core.clock.now_ns();
        let end = |deletion: &mut Deletion| {
            (deletion.state, deletion.finished_ns, deletion.note) = (state, Some(now_ns), note);
        };
        self.core.deletions.change(id, end, |ended| self.catalog.save_deletion(ended))
    }

    /// Adds lines to the count of a running deletion.
    pub(crate) fn count_deleted(&mut self, id: u64, lines: u64) {
        if let Some(deletion) = self.core.deletions.count(id, lines)
            && let Err(error) = self.catalog.save_deletion(&deletion)
        {
            // The number is for people; the next write includes these lines.
            tracing::warn!("{error}");
        }
    }
}
