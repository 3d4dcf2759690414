//! The ledger of the store: keeps catalog, indexes and segment files in agreement. No frame waits
//! for this work.
//!
//! The writer only appends, syncs, and creates a file when it needs one. The thread `store-ledger`
//! ([`maintenance`](crate::maintenance)) does the rest: catalog rows (several syncs each), indexes
//! of closed segments, retention. Retention by bytes runs a little ahead, so that the writer finds
//! room; the writer itself deletes only when this thread is behind.
//!
//! After a crash, or after a failed write of the catalog, the files may be newer than the catalog.
//! The next start trusts the files.
//!
//! A thread that holds the ledger never waits for the writer ([`sync`](crate::sync) has the order
//! of locks).

mod deletions;
mod retention;

use std::path::PathBuf;
use std::sync::Arc;

use segment::{index_bytes, write_index};

use crate::catalog::{Catalog, RowState, SegmentRow};
use crate::config::{PREALLOCATE_BYTES, ROOM_AHEAD_PARTS};
use crate::segments::AnySegment;
use crate::segments::hot::HotSegment;
use crate::store_core::StoreCore;
use crate::store_core::retention_log::Limit;
use crate::sync::{lock, read, write};

pub(crate) struct Ledger {
    pub(crate) core: Arc<StoreCore>,
    pub(crate) catalog: Catalog,
    /// Whether a row could not be written. Then the next write of a row writes all rows.
    pub(crate) catalog_stale: bool,
    /// Files of segments that left the list and could not be removed yet.
    removing: Vec<Removing>,
    /// Removed files whose removal is not durable: a power cut may undo it. Their rows stay in the
    /// catalog until the directory is synced.
    unsynced: Vec<Removing>,
}

/// A file to be removed.
pub(crate) struct Removing {
    pub(crate) path: PathBuf,
    /// The row of the replaced segment; None for a file that was never listed.
    pub(crate) row: Option<SegmentRow>,
}

impl Removing {
    fn bytes(&self) -> u64 {
        self.row.as_ref().map_or(0, |row| row.bytes_disk)
    }
}

impl Ledger {
    pub(crate) fn new(core: Arc<StoreCore>, catalog: Catalog) -> Self {
        Ledger { core, catalog, catalog_stale: false, removing: Vec::new(), unsynced: Vec::new() }
    }

    /// Does the work that the writer has left to the ledger.
    pub(crate) fn catch_up(&mut self) {
        let hot = self.core.segments.hot();
        let newest = hot.last().map(|segment| segment.id);
        for segment in hot {
            let index = read(&segment.index);
            let (closing, unlisted) = (index.closing, index.unlisted);
            // A failed write left this file without frames. It is removed once it is no longer the
            // newest, since the newest records where sequence numbers resume.
            let is_useless = index.state == RowState::Kept && index.frames.is_empty();
            drop(index);
            if is_useless && newest != Some(segment.id) {
                self.delete(&AnySegment::Hot(segment), Limit::Age);
            } else if closing {
                self.close_file(&segment);
            } else if unlisted {
                self.save_row(&segment);
            }
        }
        self.make_room_ahead();
        if self.catalog_stale {
            self.refresh_catalog();
        }
    }

    /// Ends a closed segment's file with its index. If this fails, the frames are in the file all
    /// the same, and maintenance tries again.
    fn close_file(&mut self, segment: &Arc<HotSegment>) {
        let more = {
            let mut index = write(&segment.index);
            index.closing = false;
            index.unsaved = true;
            let closed_bytes = index.data_end + index_bytes(index.frames.len());
            closed_bytes.saturating_sub(index.file_bytes)
        };
        self.make_room(more);
        if segment.fate.is_listed() {
            // Before the index: the next start must know where the frames end, since a power cut
            // may leave any part of the index, which looks like damaged frames.
            self.save_row(segment);
            self.save_index(segment, true);
        }
    }

    /// Deletes by the limit on bytes ahead of need, so that the writer does not have to.
    fn make_room_ahead(&mut self) {
        if let Some(bytes_max) = self.core.retention().bytes_max {
            self.make_room(PREALLOCATE_BYTES.min(bytes_max / ROOM_AHEAD_PARTS));
        }
    }

    /// Writes a segment's row, or notes that it is to be written later.
    pub(crate) fn save_row(&mut self, segment: &HotSegment) {
        write(&segment.index).unlisted = false;
        self.save(&segment.row());
    }

    /// Writes the row of a listed segment; if this fails, all rows are written later. While any row
    /// is missing, no row is written by itself: a sealed segment may not be in the catalog before
    /// its sources are marked for deletion.
    pub(crate) fn save(&mut self, row: &SegmentRow) {
        if self.catalog_stale {
            self.refresh_catalog();
        } else if let Err(error) = self.catalog.put(row) {
            tracing::warn!("{error}");
            self.catalog_stale = true;
        }
    }

    /// Writes all rows, after one could not be written.
    fn refresh_catalog(&mut self) {
        let listed = self.core.segments.list().by_age();
        let mut rows: Vec<SegmentRow> = listed.iter().map(AnySegment::row).collect();
        let leaving = self.removing.iter().chain(&self.unsynced);
        let leaving = leaving.filter_map(|file| file.row.clone());
        rows.extend(leaving.map(|row| SegmentRow { state: RowState::Deleting, ..row }));
        match self.catalog.set_all(&rows) {
            Ok(()) => self.catalog_stale = false,
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Whether any file still has to be removed, or any removal to become durable.
    pub(crate) fn is_removing(&self) -> bool {
        !self.removing.is_empty() || !self.unsynced.is_empty()
    }

    /// Registers files for the next [`remove_files`](Self::remove_files).
    pub(crate) fn leave(&mut self, files: impl IntoIterator<Item = Removing>) {
        self.removing.extend(files);
        self.note_leaving();
    }

    fn note_leaving(&self) {
        let bytes = self.removing.iter().map(Removing::bytes).sum();
        self.core.segments.set_leaving_bytes(bytes);
    }

    /// Removes the files of segments that left the list, then their rows. A removal that the disk
    /// refuses is tried again later.
    pub(crate) fn remove_files(&mut self) {
        if !self.is_removing() {
            return;
        }
        let disk = self.core.disk.clone();
        // The list stays whole if a bug ends the thread here: a file that is gone is removed again.
        let removes = |file: &Removing| match disk.remove(&file.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!("{}: cannot delete: {error}", file.path.display());
                false
            }
            _ => true,
        };
        let mut are_removed = self.removing.iter().map(removes).collect::<Vec<_>>().into_iter();
        let (removed, refused): (Vec<_>, Vec<_>) = std::mem::take(&mut self.removing)
            .into_iter()
            .partition(|_| are_removed.next().unwrap_or(false));
        self.removing = refused;
        self.note_leaving();
        self.removed(removed);
    }

    /// Makes removals of files durable, then removes the rows of those segments. If the sync fails,
    /// the files may reappear after a power cut. So their rows stay for the next start, and the
    /// sync is tried again later.
    pub(crate) fn removed(&mut self, files: impl IntoIterator<Item = Removing>) {
        self.unsynced.extend(files);
        let dir = self.core.config.segments_dir();
        if let Err(error) = self.core.disk.sync_dir(&dir) {
            tracing::warn!("{}: cannot sync: {error}", dir.display());
            return;
        }
        for row in self.unsynced.drain(..).filter_map(|file| file.row) {
            if let Err(error) = self.catalog.remove(row.id) {
                // The row stays, marked for deletion, and the next start removes it.
                tracing::warn!("{error}");
            }
        }
    }

    /// Writes the index of a closed segment to its file, if it has changed and all frames are
    /// `parsed`.
    pub(crate) fn save_index(&mut self, segment: &Arc<HotSegment>, parsed: bool) {
        let (data_end, entries) = {
            let mut index = write(&segment.index);
            if index.state != RowState::Rolled || !index.unsaved || !parsed {
                return;
            }
            index.unsaved = false;
            index.closing = false;
            (index.data_end, index.frames.clone())
        };
        let disk = &*self.core.disk;
        match write_index(disk, &segment.path, segment.id, data_end, &entries) {
            Ok(bytes) => {
                let written = bytes - data_end;
                crate::store_core::counters::add(&self.core.counters.hot_bytes_written, written);
                write(&segment.index).file_bytes = bytes;
            }
            Err(error) => {
                tracing::warn!("cannot close a segment yet: {error}");
                write(&segment.index).unsaved = true;
            }
        }
        self.save_row(segment);
    }

    /// Completes the pending writes, when the store is closed.
    pub(crate) fn close(&mut self) {
        self.remove_files();
        self.core.retention_ns(self.core.clock.now_ns());
        let record = lock(&self.core.retention_clock).record();
        if let Err(error) = self.catalog.set_clock(record) {
            tracing::warn!("{error}");
        }
        for segment in self.core.segments.hot() {
            if read(&segment.index).closing {
                self.close_file(&segment);
            }
            self.save_index(&segment, true);
            self.save_row(&segment);
        }
    }
}
