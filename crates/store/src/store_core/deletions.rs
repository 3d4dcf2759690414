//! Deletion of lines by a filter, for instance for requests about privacy.
//!
//! A deletion covers the lines that are in the store when it is requested. The catalog records it
//! until it is done, so it resumes after a restart. Hot segments are closed at once and lose the
//! lines when they are sealed; sealed ones are searched one after the other, and rewritten without
//! the lines if there are any. The row of each segment says which deletions it was searched for, so
//! that none is searched twice.
//!
//! A deletion that is done stays in force for lines that another node received before the deletion
//! was requested and that come later, for instance from the spool of a collector: they are left out
//! when their segment is sealed. For this the filter is kept for [`LATE_NS`], in stores that take
//! lines of other nodes. Then, or at once in other stores, the filter is removed, since it may hold
//! the very value that had to go.
//!
//! Left out: counts in the summary, which say how many lines there were and not what was in them.

use std::sync::Mutex;

use crate::catalog::{Deletion, DeletionState};
use crate::error::StoreError;
use crate::segments::AnySegment;
use crate::sync::{lock, read};

/// Most deletions that run at a time. Further ones are refused: each segment is searched for all of
/// them.
pub const DELETIONS_MAX: usize = 100;
/// Ended deletions that are still listed. Beyond this number the oldest are forgotten, with a
/// warning if they were still in force for lines that come late.
pub const DELETIONS_KEPT: usize = 100;
/// Time for which a deletion that is done stays in force for lines that come late, nanoseconds.
/// Lines that were in a collector's spool for longer come back. After this time a store may also
/// forget the collector.
pub const LATE_NS: i64 = 30 * 24 * 3_600_000_000_000;
/// Longest text of a filter, bytes. Longer ones are refused.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

/// How far a deletion is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletionProgress {
    /// Segments that are still to be searched, and their lines with newlines.
    pub segments_left: u64,
    /// Bytes of the lines in them.
    pub bytes_left: u64,
}

impl Deletion {
    fn is_running(&self) -> bool {
        self.state == DeletionState::Running
    }

    /// Whether lines that come late are still deleted.
    pub(crate) fn is_in_force(&self) -> bool {
        self.is_running() || (self.state == DeletionState::Done && !self.filter.is_empty())
    }

    /// Whether a segment is still to be searched.
    pub(crate) fn concerns(&self, segment: &AnySegment) -> bool {
        match segment {
            AnySegment::Hot(hot) => {
                hot.id <= self.scope.hot_through && !read(&hot.index).frames.is_empty()
            }
            AnySegment::Sealed(sealed) => {
                sealed.deletions_through() < self.id
                    && sealed.sequence.is_some_and(|(first, _)| first < self.scope.sequence_before)
            }
        }
    }
}

/// The deletions of one store, by id: those that run, and some that ended.
pub(crate) struct DeletionTable {
    rows: Mutex<Vec<Deletion>>,
}

impl DeletionTable {
    pub(crate) fn new(rows: Vec<Deletion>) -> Self {
        DeletionTable { rows: Mutex::new(rows) }
    }

    /// The deletions that run, by id.
    pub(crate) fn running(&self) -> Vec<Deletion> {
        lock(&self.rows).iter().filter(|d| d.is_running()).cloned().collect()
    }

    /// The deletions that are in force for lines that come late, by id.
    pub(crate) fn in_force(&self) -> Vec<Deletion> {
        lock(&self.rows).iter().filter(|d| d.is_in_force()).cloned().collect()
    }

    /// Removes the filters of deletions that were done before `before_ns`, each once `save` has
    /// written the deletion without it.
    pub(crate) fn remove_filters(
        &self,
        before_ns: i64,
        mut save: impl FnMut(&Deletion) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let is_over = |d: &&mut Deletion| {
            let ended = d.finished_ns.is_some_and(|ns| ns < before_ns);
            d.state == DeletionState::Done && ended && !d.filter.is_empty()
        };
        for deletion in lock(&self.rows).iter_mut().filter(is_over) {
            let without = Deletion { filter: String::new(), ..deletion.clone() };
            save(&without)?;
            *deletion = without;
        }
        Ok(())
    }

    /// The id of the newest deletion, 0 when there was none.
    pub(crate) fn last_id(&self) -> u64 {
        lock(&self.rows).last().map_or(0, |d| d.id)
    }

    pub(crate) fn all(&self) -> Vec<Deletion> {
        lock(&self.rows).clone()
    }

    /// Adds the newest deletion; returns an ended one that is beyond [`DELETIONS_KEPT`] and was
    /// dropped for it.
    pub(crate) fn add(&self, deletion: Deletion) -> Option<Deletion> {
        let mut rows = lock(&self.rows);
        rows.push(deletion);
        let ended = |d: &Deletion| !d.is_running();
        let is_full = rows.iter().filter(|d| ended(d)).count() > DELETIONS_KEPT;
        rows.iter().position(ended).filter(|_| is_full).map(|at| rows.remove(at))
    }

    /// Changes a running deletion, once `save` has written the changed one; false when none of that
    /// id runs. When `save` fails, nothing changes.
    pub(crate) fn change(
        &self,
        id: u64,
        change: impl FnOnce(&mut Deletion),
        save: impl FnOnce(&Deletion) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let mut rows = lock(&self.rows);
        let Some(deletion) = rows.iter_mut().find(|d| d.id == id && d.is_running()) else {
            return Ok(false);
        };
        let mut changed = deletion.clone();
        change(&mut changed);
        save(&changed)?;
        *deletion = changed;
        Ok(true)
    }

    /// Adds lines to the count of a deletion; returns the deletion as it is then.
    pub(crate) fn count(&self, id: u64, lines: u64) -> Option<Deletion> {
        let mut rows = lock(&self.rows);
        let deletion = rows.iter_mut().find(|d| d.id == id)?;
        deletion.lines += lines;
        Some(deletion.clone())
    }

    /// Sets the note of all running deletions that concern a segment that cannot be searched.
    pub(crate) fn note_unsearched(&self, segment: &AnySegment, note: &str) {
        let mut rows = lock(&self.rows);
        for deletion in rows.iter_mut().filter(|d| d.is_running() && d.concerns(segment)) {
            deletion.note = Some(note.to_owned());
        }
    }
}
