//! Trailing: sealing the active segment while its parsed frames are still in memory.
//!
//! Reading frames back that were written a gibibyte ago, and parsing them again, took a seventh of
//! the processor time of sealing. So the background seals the active segment as far as it is
//! parsed, some MiB behind the writer. This comes before all other work: frames that are not sealed
//! now will have left the cache. Segments that were not trailed from their first frame on, because
//! the background was busy or too slow, are sealed from the disk when they are closed.
//!
//! ```text
//! frames   committed → parsed ──────────────► sealed, some MiB at a time      the segment is closed
//!                                                 → complete: footer, synced     ... and the parse stage is through it
//!                                                       → published
//! ```
//!
//! A few complete files may wait for the parse stage while later segments are trailed already. A
//! crash, or the end of the process, loses the work on files that are not published.

use crate::background::plan;
use crate::background::rewrite::Rewrite;
use crate::ledger::Ledger;
use crate::store_core::StoreCore;

/// Part of a full segment that is sealed at a time: enough work for several threads.
const STEP_PARTS: u64 = 64;
/// Most files in this state, complete or not. At this number, no further segment is trailed.
const REWRITES_MAX: usize = 8;

/// Rewrites of segments that were active when the rewrite began, by age. All but the last are
/// complete.
#[derive(Default)]
pub(crate) struct Trailing {
    rewrites: Vec<Rewrite>,
}

impl Trailing {
    /// Whether one more segment may be trailed.
    pub(crate) fn has_room(&self) -> bool {
        self.rewrites.len() < REWRITES_MAX && self.rewrites.iter().all(Rewrite::is_whole)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rewrites.is_empty()
    }

    /// Adds a new rewrite, or puts the last one back.
    pub(crate) fn put(&mut self, rewrite: Rewrite) {
        self.rewrites.push(rewrite);
    }

    /// The segments that are trailed, or whose sealed file waits to be published.
    pub(crate) fn segments(&self) -> Vec<u64> {
        self.rewrites.iter().flat_map(|rewrite| rewrite.source_ids()).collect()
    }

    /// Drops the rewrites of segments that were deleted meanwhile.
    pub(crate) fn drop_overtaken(&mut self, ledger: &std::sync::Mutex<Ledger>) {
        for mut gone in self.rewrites.extract_if(.., |rewrite| rewrite.is_overtaken()) {
            gone.abandon(ledger);
        }
    }

    /// Takes the rewrite that can write more now.
    pub(crate) fn take_due(&mut self, core: &StoreCore) -> Option<Rewrite> {
        let bytes = core.segment_bytes() / STEP_PARTS;
        self.rewrites.pop_if(|rewrite| !rewrite.is_whole() && rewrite.is_due(bytes))
    }

    /// Whether there is a complete file whose lines are all parsed.
    pub(crate) fn can_publish(&self, core: &StoreCore) -> bool {
        self.place_to_publish(core).is_some()
    }

    /// Takes a complete file whose lines are all parsed.
    pub(crate) fn take_to_publish(&mut self, core: &StoreCore) -> Option<Rewrite> {
        Some(self.rewrites.remove(self.place_to_publish(core)?))
    }

    fn place_to_publish(&self, core: &StoreCore) -> Option<usize> {
        let mut whole = self.rewrites.iter().take_while(|rewrite| rewrite.is_whole()).peekable();
        whole.peek()?;
        let sealable = plan::sealable_ids(core);
        whole.position(|rewrite| rewrite.source_ids().iter().all(|id| sealable.contains(id)))
    }

    pub(crate) fn abandon(&mut self, ledger: &std::sync::Mutex<Ledger>) {
        self.rewrites.drain(..).for_each(|mut rewrite| rewrite.abandon(ledger));
    }
}
