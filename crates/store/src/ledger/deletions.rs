//! Deletions in memory and in the catalog, changed together.

use super::Ledger;
use crate::catalog::{Deletion, DeletionState};
use crate::error::StoreError;
use crate::store_core::deletions::LATE_NS;

impl Ledger {
    /// Ends a running deletion; false when none of that number runs.
    pub(crate) fn end_deletion(
        &mut self,
        id: u64,
        state: DeletionState,
        note: Option<String>,
    ) -> Result<bool, StoreError> {
        let now_ns = self.core.clock.now_ns();
        // Another node may still bring lines that it received before.
        let stays = state != DeletionState::Done || self.takes_from_others()?;
        let end = |deletion: &mut Deletion| {
            (deletion.state, deletion.finished_ns, deletion.note) = (state, Some(now_ns), note);
            if !stays {
                deletion.filter.clear();
            }
        };
        self.core.deletions.change(id, end, |ended| {
            self.catalog.save_deletion(ended)?;
            let lines = ended.lines;
            tracing::info!(target: "audit", "deletion {id} is {}: {lines} lines", state.name());
            Ok(())
        })
    }

    /// Removes the filters of deletions that are not in force any more at `now_ns`.
    pub(crate) fn remove_filters(&self, now_ns: i64) {
        let before_ns = now_ns.saturating_sub(LATE_NS);
        let save = |deletion: &Deletion| self.catalog.save_deletion(deletion);
        if let Err(error) = self.core.deletions.remove_filters(before_ns, save) {
            tracing::warn!("{error}");
        }
    }

    fn takes_from_others(&self) -> Result<bool, StoreError> {
        Ok(self.core.nodes.holds_any() || !self.catalog.nodes()?.is_empty())
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
