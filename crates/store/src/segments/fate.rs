//! What became of a segment that handles may still refer to.

use std::sync::atomic::{AtomicU8, Ordering};

/// What became of a segment that handles may still refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there, and its file is.
    Listed = 0,
    /// Its lines stand in another segment now. Handles go on reading the old file, which is kept
    /// open for them.
    Replaced = 1,
    /// Its lines were deleted. Handles find nothing.
    Deleted = 2,
    /// Its file is being removed, which takes a while. What can be read still is; the disk may
    /// refuse, and it is there again.
    Deleting = 3,
}

/// A [`Fate`] that is decided once.
#[derive(Debug, Default)]
pub(crate) struct FateCell(AtomicU8);

impl FateCell {
    pub(crate) fn set(&self, fate: Fate) {
        self.0.store(fate as u8, Ordering::Release);
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.is_one_of([Fate::Deleted])
    }

    /// Whether its file may be gone, so that there is nothing wrong when it cannot be read.
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
