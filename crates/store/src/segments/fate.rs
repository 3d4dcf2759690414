//! What became of a segment that handles may still refer to.

use std::sync::atomic::{AtomicU8, Ordering};

/// What became of a segment that handles may still refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The segment is listed, and its file is there.
    Listed = 0,
    /// Another segment has its lines now. Handles continue to read the old file, which is kept open
    /// for them.
    Replaced = 1,
    /// Its lines are deleted. Handles find nothing.
    Deleted = 2,
    /// Its file is being removed, which takes a while. Lines that can still be read are valid. If
    /// the disk refuses the removal, the segment is listed again.
    Deleting = 3,
}

/// A [`Fate`] that several threads read and the ledger sets.
#[derive(Debug, Default)]
pub(crate) struct FateCell(AtomicU8);

impl FateCell {
    pub(crate) fn set(&self, fate: Fate) {
        self.0.store(fate as u8, Ordering::Release);
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.is_one_of([Fate::Deleted])
    }

    /// Whether the file may be gone, so that failing to read it is no fault.
    pub(crate) fn may_be_gone(&self) -> bool {
        self.is_one_of([Fate::Deleting, Fate::Deleted])
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.is_one_of([Fate::Listed, Fate::Deleting])
    }

    fn is_one_of<const N: usize>(&self, fates: [Fate; N]) -> bool {
        let fate = self.0.load(Ordering::Acquire);
        fates.into_iter().any(|one| one as u8 == fate)
    }
}
