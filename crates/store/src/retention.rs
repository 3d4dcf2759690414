//! Deletes whole segments, the oldest first, when they are too old or too much.
//!
//! A row is marked before its file is removed and removed after it, so that a crash in between leaves a mark to
//! finish by, never lines that come back. There is always a file left: its header says which sequence numbers were
//! given, so that none is given again after everything else is deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::catalog::RowState;
use crate::config::RETENTION_PARTS;
use crate::segments::Segment;
use crate::shared::{read, write};
use crate::stats::add;
use crate::writer::Writer;

impl Writer {
    /// Deletes what is beyond the limits on age and bytes at `now_ns`, nanoseconds since 1970 UTC.
    pub(crate) fn retain(&mut self, now_ns: i64) {
        if let Some(age_ns) = self.shared.config.age_ns {
            self.roll_aged(now_ns, age_ns);
            self.delete_aged(now_ns.saturating_sub(age_ns));
        }
        self.make_room(0);
    }

    /// Closes the active segment when its first line is an eighth of the age old: lines leave by segments.
    fn roll_aged(&mut self, now_ns: i64, age_ns: i64) {
        let Some(active) = &self.active else { return };
        let received = read(&active.segment.index).totals.received_ns;
        let span_ns = age_ns / RETENTION_PARTS as i64;
        if received.is_some_and(|(first, _)| first < now_ns.saturating_sub(span_ns)) {
            self.roll();
        }
    }

    /// Deletes closed segments whose newest arrival was before `oldest_ns`, from the oldest on.
    fn delete_aged(&mut self, oldest_ns: i64) {
        for segment in self.shared.list() {
            let newest = read(&segment.index).totals.received_ns.map_or(i64::MIN, |r| r.1);
            if !segment.is_rolled() || newest >= oldest_ns {
                continue;
            }
            if self.is_newest(&segment)
                && let Err(error) = self.create(0)
            {
                tracing::warn!("the last segment stays: {error}");
                return;
            }
            if !self.delete(&segment) {
                return;
            }
        }
    }

    /// Deletes closed segments, from the oldest on, until `bytes` more are within the limit.
    pub(crate) fn make_room(&mut self, bytes: u64) {
        let Some(bytes_max) = self.shared.config.bytes_max else { return };
        let segments = self.shared.list();
        let mut sum: u64 = segments.iter().map(|s| read(&s.index).file_bytes).sum();
        for segment in segments {
            if sum + bytes <= bytes_max {
                return;
            }
            let file_bytes = read(&segment.index).file_bytes;
            if segment.is_rolled() && !self.is_newest(&segment) {
                if !self.delete(&segment) {
                    return;
                }
                sum -= file_bytes;
            }
        }
    }

    /// Whether a segment is the newest, so that another must be there before it may go.
    fn is_newest(&self, segment: &Segment) -> bool {
        read(&self.shared.segments).last().is_some_and(|last| last.id == segment.id)
    }

    /// Deletes a segment that is not the newest; false when the disk refused, to be tried again later.
    pub(crate) fn delete(&mut self, segment: &Arc<Segment>) -> bool {
        let shared = self.shared.clone();
        let before = std::mem::replace(&mut write(&segment.index).state, RowState::Deleting);
        self.save_row(segment);
        match shared.disk.remove(&segment.path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!("{}: cannot delete: {error}", segment.path.display());
                write(&segment.index).state = before;
                return false;
            }
        }
        let dir = shared.config.segments_dir();
        if let Err(error) = shared.disk.sync_dir(&dir) {
            tracing::warn!("{}: cannot sync: {error}", dir.display());
        }
        segment.deleted.store(true, Ordering::Release);
        write(&shared.segments).retain(|s| s.id != segment.id);
        shared.forget(segment);
        if let Err(error) = self.catalog.remove(segment.id) {
            // The mark stays, and the next start finishes.
            tracing::warn!("{error}");
        }
        let index = read(&segment.index);
        if index.totals.lines > 0 {
            add(&shared.counters.lines_expired, index.totals.lines);
            add(&shared.counters.bytes_expired, index.file_bytes);
        }
        true
    }
}
