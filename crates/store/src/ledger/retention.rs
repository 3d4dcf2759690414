//! Deletes whole segments, the oldest first, by the limits on age and bytes.
//!
//! A row is marked before its file is removed, and removed after it. So a crash in between leaves a
//! marked row, which the next start completes, and lines never reappear. One file that records
//! which sequence numbers were issued always stays, so that none is issued again after everything
//! else is deleted.

use super::{Ledger, Removing};
use crate::catalog::{Departed, RowState, SegmentRow, note_departed};
use crate::segments::AnySegment;
use crate::segments::fate::Fate;
use crate::store_core::counters::add;
use crate::store_core::retention_log::{self, Limit};
use crate::sync::lock;
use crate::sync::read;

impl Ledger {
    /// Deletes the segments that are beyond the limits on age and bytes at `now_ns`, nanoseconds
    /// since 1970 UTC.
    pub(crate) fn retain(&mut self, now_ns: i64) {
        let now_ns = self.core.retention_ns(now_ns);
        self.record_clock();
        self.remove_filters(now_ns);
        if let Some(age_ns) = self.core.retention().age_ns {
            self.delete_aged(now_ns.saturating_sub(age_ns));
        }
        self.make_room(0);
    }

    /// Writes the clock of retention to the catalog when that is due. A failed write is tried again
    /// at the next maintenance.
    fn record_clock(&mut self) {
        let due = lock(&self.core.retention_clock).to_be_recorded();
        if let Some(record) = due {
            match self.catalog.set_clock(record) {
                Ok(()) => lock(&self.core.retention_clock).set_recorded(record),
                Err(error) => tracing::warn!("{error}"),
            }
        }
    }

    /// Deletes closed segments whose newest arrival was before `oldest_ns`, from the oldest on.
    fn delete_aged(&mut self, oldest_ns: i64) {
        for segment in self.core.segments.list().by_age() {
            // A segment without lines that only records numbers sorts as the oldest; it must not
            // stop the deletion of others.
            if segment.is_aged(oldest_ns)
                && !is_evidence(&segment)
                && !self.core.is_last_record_of_numbers(&segment)
                && !self.delete(&segment, Limit::Age)
            {
                return;
            }
        }
    }

    /// Deletes closed segments, from the oldest on, until `bytes` more are within the limit.
    pub(crate) fn make_room(&mut self, bytes: u64) {
        let Some(bytes_max) = self.core.retention().bytes_max else { return };
        let mut sum = self.core.segments.kept_bytes();
        if sum + bytes <= bytes_max {
            return;
        }
        for segment in self.core.segments.list().by_age() {
            if sum + bytes <= bytes_max {
                return;
            }
            if segment.is_closed()
                && !is_evidence(&segment)
                && !self.core.is_last_record_of_numbers(&segment)
            {
                let file_bytes = segment.file_bytes();
                if !self.delete(&segment, Limit::Bytes) {
                    return;
                }
                sum -= file_bytes;
            }
        }
    }

    /// Deletes a segment that is not the last record of sequence numbers, by a limit; false when
    /// the disk refused, to be tried again later.
    pub(crate) fn delete(&mut self, segment: &AnySegment, limit: Limit) -> bool {
        let mut row = segment.row();
        let before = std::mem::replace(&mut row.state, RowState::Deleting);
        let mut departed = self.core.segments.departed();
        if let Some(new) = self.departed(&row) {
            note_departed(&mut departed, new);
        }
        if let Err(error) = self.catalog.depart(&row, &departed) {
            tracing::warn!("{error}");
            self.catalog_stale = true;
        }
        // A reader that finds no file meanwhile must not report a fault.
        segment.mark(Fate::Deleting);
        match self.core.disk.remove(segment.path()) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!("{}: cannot delete: {error}", segment.path().display());
                segment.mark(Fate::Listed);
                row.state = before;
                if let Err(error) = self.catalog.set_departed(&self.core.segments.departed()) {
                    tracing::warn!("{error}");
                }
                self.save(&row);
                return false;
            }
        }
        self.core.segments.remove_deleted(segment, departed);
        self.removed([Removing { path: segment.path().to_owned(), row: Some(row) }]);
        if segment.lines() > 0 {
            let core = &self.core;
            retention_log::note_segment(&core.retention(), segment, limit);
            add(&core.counters.lines_expired, segment.lines());
            add(&core.counters.bytes_expired, segment.file_bytes());
        }
        true
    }
}

/// Whether nothing of a damaged file can be read: when its lines arrived is not known then, so that
/// no limit applies to them.
fn is_evidence(segment: &AnySegment) -> bool {
    let AnySegment::Hot(hot) = segment else { return false };
    let index = read(&hot.index);
    index.state == RowState::Damaged && index.frames.is_empty()
}

impl Ledger {
    /// The lines that readers lose with a segment. None for a segment whose lines have the numbers
    /// of another store.
    fn departed(&self, row: &SegmentRow) -> Option<Departed> {
        let is_ours = row.node == self.core.node && row.lines > 0;
        row.sequence.filter(|_| is_ours).map(|sequence| Departed { sequence, lines: row.lines })
    }
}
