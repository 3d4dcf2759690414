//! Deletion of lines by a filter, as for requests about privacy.
//!
//! A deletion covers the lines that are in the store when it is asked for. It stands in the catalog
//! until it is done, so it goes on after a restart. Hot segments are closed at once and lose the
//! lines when they are sealed; sealed ones are searched one after the other, and rewritten without
//! the lines if there are any. Each segment's row says which deletions it has behind it, so that
//! none is searched twice.
//!
//! Left out: counts in the summary, which say how many lines there were and not what was in them.

use crate::error::StoreError;
use crate::segments::AnySegment;
use crate::shared::{Shared, lock, read};
use crate::store::Store;

/// Deletions that run at a time. Further ones are refused: each segment is searched for all of
/// them.
pub const DELETIONS_MAX: usize = 100;
/// Deletions that ended and are still listed. Beyond that the oldest are forgotten.
pub const DELETIONS_KEPT: usize = 100;
/// Longest text of a filter, bytes. Longer ones are refused.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

/// How a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionState {
    /// Being carried out, or waiting for it.
    Running,
    /// All segments were searched.
    Done,
    /// It cannot be carried out; [`Deletion::note`] says why.
    Failed,
    /// It was ended before it was done. What was deleted until then is gone.
    Cancelled,
}

impl DeletionState {
    pub(crate) const ALL: [DeletionState; 4] = [
        DeletionState::Running,
        DeletionState::Done,
        DeletionState::Failed,
        DeletionState::Cancelled,
    ];

    /// Its name in the catalog and for people.
    pub fn name(self) -> &'static str {
        match self {
            DeletionState::Running => "running",
            DeletionState::Done => "done",
            DeletionState::Failed => "failed",
            DeletionState::Cancelled => "cancelled",
        }
    }
}

/// A deletion of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Its number, from 1; never given twice.
    pub id: u64,
    /// Which lines.
    pub filter: String,
    /// How it is.
    pub state: DeletionState,
    /// When it was asked for, nanoseconds since 1970 UTC.
    pub created_ns: i64,
    /// When it ended.
    pub finished_ns: Option<i64>,
    /// Lines deleted so far.
    pub lines: u64,
    /// What an operator should know: why it failed, what could not be searched.
    pub note: Option<String>,
    pub(crate) scope: Scope,
}

/// Which lines a deletion is about, besides its filter: those there when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Lines of frames below this number.
    pub(crate) sequence_before: u64,
    /// The hot segments up to this one.
    pub(crate) hot_through: u64,
}

/// How far a deletion is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletionProgress {
    /// Segments that are still to be searched, and their lines with newlines.
    pub segments_left: u64,
    /// Bytes of the lines in them.
    pub bytes_left: u64,
}

impl Deletion {
    pub(crate) fn new(filter: &str, created_ns: i64, scope: Scope) -> Self {
        Deletion {
            id: 0,
            filter: filter.to_owned(),
            state: DeletionState::Running,
            created_ns,
            finished_ns: None,
            lines: 0,
            note: None,
            scope,
        }
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

impl Shared {
    /// The deletions that run, by id.
    pub(crate) fn running_deletions(&self) -> Vec<Deletion> {
        let running = |d: &&Deletion| d.state == DeletionState::Running;
        lock(&self.deletions).iter().filter(running).cloned().collect()
    }

    /// The number of the newest deletion, 0 when there was none.
    pub(crate) fn deletion_last(&self) -> u64 {
        lock(&self.deletions).last().map_or(0, |d| d.id)
    }

    fn progress(&self, deletion: &Deletion) -> DeletionProgress {
        let mut progress = DeletionProgress::default();
        if deletion.state == DeletionState::Running {
            for segment in self.list().by_age().iter().filter(|s| deletion.concerns(s)) {
                progress.segments_left += 1;
                progress.bytes_left += segment.row().bytes_raw;
            }
        }
        progress
    }
}

impl Store {
    /// Deletes the lines that are there now and that `filter` selects, in the background. The
    /// filter must be one that [`Host::filter`](crate::Host::filter) takes.
    ///
    /// Errors: too many run; the filter is too long; the catalog cannot be written.
    pub fn delete_lines(&self, filter: &str) -> Result<Deletion, StoreError> {
        if filter.len() > FILTER_BYTES_MAX {
            let text = format!("the filter is longer than {FILTER_BYTES_MAX} bytes");
            return Err(StoreError::Refused(text));
        }
        let shared = &self.shared;
        // What is there now is in closed segments from here on.
        lock(&self.writer).roll();
        let books = lock(&self.books);
        if shared.running_deletions().len() >= DELETIONS_MAX {
            let text = format!("{DELETIONS_MAX} deletions run; wait for one to end, or cancel one");
            return Err(StoreError::Refused(text));
        }
        let scope = Scope {
            sequence_before: shared.numbers.next(),
            hot_through: shared.hot().last().map_or(0, |hot| hot.id),
        };
        let mut deletion = Deletion::new(filter, shared.clock.now_ns(), scope);
        books.catalog.add_deletion(&mut deletion)?;
        let mut deletions = lock(&shared.deletions);
        deletions.push(deletion.clone());
        let ended = |d: &Deletion| d.state != DeletionState::Running;
        if deletions.iter().filter(|d| ended(d)).count() > DELETIONS_KEPT
            && let Some(place) = deletions.iter().position(ended)
        {
            let oldest = deletions.remove(place);
            if let Err(error) = books.catalog.remove_deletion(oldest.id) {
                tracing::warn!("{error}");
            }
        }
        drop(deletions);
        drop(books);
        shared.background.wake();
        Ok(deletion)
    }

    /// All deletions, the oldest first, each with how far it is.
    pub fn deletions(&self) -> Vec<(Deletion, DeletionProgress)> {
        let all = lock(&self.shared.deletions).clone();
        all.into_iter().map(|d| (d.clone(), self.shared.progress(&d))).collect()
    }

    /// Ends a deletion that runs; false when there is none of that number or it has ended.
    ///
    /// Errors: the catalog cannot be written; then it goes on.
    pub fn cancel_deletion(&self, id: u64) -> Result<bool, StoreError> {
        lock(&self.books).end_deletion(id, DeletionState::Cancelled, None)
    }
}

impl crate::books::Books {
    /// Ends a deletion that runs; false when there is none of that number that runs.
    pub(crate) fn end_deletion(
        &mut self,
        id: u64,
        state: DeletionState,
        note: Option<String>,
    ) -> Result<bool, StoreError> {
        let now_ns = self.shared.clock.now_ns();
        let mut deletions = lock(&self.shared.deletions);
        let running = |d: &&mut Deletion| d.id == id && d.state == DeletionState::Running;
        let Some(deletion) = deletions.iter_mut().find(running) else { return Ok(false) };
        let ended = Deletion { state, finished_ns: Some(now_ns), note, ..deletion.clone() };
        self.catalog.save_deletion(&ended)?;
        *deletion = ended;
        Ok(true)
    }

    /// Counts lines that a running deletion has deleted.
    pub(crate) fn count_deleted(&mut self, id: u64, lines: u64) {
        let mut deletions = lock(&self.shared.deletions);
        let Some(deletion) = deletions.iter_mut().find(|d| d.id == id) else { return };
        deletion.lines += lines;
        if let Err(error) = self.catalog.save_deletion(deletion) {
            // The number is for people; the next one written holds it.
            tracing::warn!("{error}");
        }
    }
}
