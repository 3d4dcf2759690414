//! Deletes whole segments, the oldest first, when they are too old or too much.
//!
//! A row is marked before its file is removed and removed after it, so that a crash in between
//! leaves a mark to finish by, never lines that come back. There is always a file left that says
//! which sequence numbers were given, so that none is given again after everything else is deleted.

use std::sync::atomic::Ordering::Relaxed;

use crate::arrivals::{Departed, note_departed};
use crate::books::{Books, Removing};
use crate::catalog::{RowState, SegmentRow};
use crate::config::RETENTION_PARTS;
use crate::segments::{AnySegment, Fate};
use crate::shared::{Shared, lock, read, write};
use crate::stats::add;
use crate::writer::Writer;

impl Writer {
    /// Closes the active segment when lines in it will soon be too old, and makes a new one when
    /// only those would say which sequence numbers were given, that are too old at `now_ns`,
    /// nanoseconds since 1970 UTC.
    pub(crate) fn prepare_retention(&mut self, now_ns: i64) {
        let Some(age_ns) = self.shared.config.age_ns else { return };
        self.roll_expiring(now_ns);
        let (node, oldest_ns) = (self.shared.node, now_ns.saturating_sub(age_ns));
        let (goes, stays): (Vec<_>, Vec<_>) =
            self.shared.list().by_age().into_iter().partition(|s| is_aged(s, oldest_ns));
        let known = |segments: &[AnySegment]| segments.iter().map(|s| s.sequence_known(node)).max();
        if !goes.is_empty()
            && (known(&stays) < known(&goes)
                || goes.iter().any(|s| self.shared.is_last_witness_of_nodes(s)))
            && let Err(error) = self.create_witness()
        {
            tracing::warn!("the last segment stays: {error}");
        }
    }

    /// Closes the active segment when its first line is so old at `now_ns` that younger ones would
    /// keep it too long.
    pub(crate) fn roll_expiring(&mut self, now_ns: i64) {
        if let Some(age_ns) = self.shared.config.age_ns {
            self.roll_aged(now_ns, age_ns / RETENTION_PARTS as i64);
        }
    }

    /// Closes the active segment when its first line is older than `span_ns`.
    pub(crate) fn roll_aged(&mut self, now_ns: i64, span_ns: i64) {
        let Some(active) = &self.active else { return };
        let received = read(&active.segment.index).totals.received_ns;
        if received.is_some_and(|(first, _)| first < now_ns.saturating_sub(span_ns)) {
            self.roll();
        }
    }

    /// Deletes closed segments, from the oldest on, until `bytes` more are within the limit.
    pub(crate) fn make_room(&mut self, bytes: u64) {
        let bytes_max = self.shared.config.bytes_max;
        if bytes_max.is_some_and(|bytes_max| self.shared.taken_bytes() + bytes > bytes_max) {
            lock(&self.books).make_room(bytes);
        }
    }
}

impl Books {
    /// Deletes what is beyond the limits on age and bytes at `now_ns`, nanoseconds since 1970 UTC.
    pub(crate) fn retain(&mut self, now_ns: i64) {
        if let Some(age_ns) = self.shared.config.age_ns {
            self.delete_aged(now_ns.saturating_sub(age_ns));
        }
        self.make_room(0);
    }

    /// Deletes closed segments whose newest arrival was before `oldest_ns`, from the oldest on.
    fn delete_aged(&mut self, oldest_ns: i64) {
        for segment in self.shared.list().by_age() {
            // A witness without lines is the oldest by its lines, and keeps nobody else.
            if is_aged(&segment, oldest_ns)
                && !self.shared.is_last_witness(&segment)
                && !self.delete(&segment)
            {
                return;
            }
        }
    }

    /// Deletes closed segments, from the oldest on, until `bytes` more are within the limit.
    pub(crate) fn make_room(&mut self, bytes: u64) {
        let Some(bytes_max) = self.shared.config.bytes_max else { return };
        let mut sum = self.shared.taken_bytes();
        if sum + bytes <= bytes_max {
            return;
        }
        for segment in self.shared.list().by_age() {
            if sum + bytes <= bytes_max {
                return;
            }
            if segment.is_closed() && !self.shared.is_last_witness(&segment) {
                let file_bytes = segment.file_bytes();
                if !self.delete(&segment) {
                    return;
                }
                sum -= file_bytes;
            }
        }
    }

    /// Deletes a segment that is not the last witness; false when the disk refused, to be tried
    /// again later.
    pub(crate) fn delete(&mut self, segment: &AnySegment) -> bool {
        let mut row = segment.row();
        let before = std::mem::replace(&mut row.state, RowState::Deleting);
        let departed = self.departed(&row);
        if let Err(error) = self.catalog.depart(&row, departed.as_ref()) {
            tracing::warn!("{error}");
            self.catalog_stale = true;
        }
        // Who reads meanwhile finds no file, and that is no fault.
        segment.mark(Fate::Deleting);
        match self.shared.disk.remove(segment.path()) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!("{}: cannot delete: {error}", segment.path().display());
                segment.mark(Fate::Listed);
                row.state = before;
                if let Err(error) = self.catalog.forget_departed(departed.as_ref()) {
                    tracing::warn!("{error}");
                }
                self.save(&row);
                return false;
            }
        }
        let shared = self.shared.clone();
        // Before it leaves the list: who finds it gone finds it here.
        if let Some(departed) = departed {
            note_departed(&mut lock(&shared.departed), departed);
        }
        write(&shared.segments).remove(segment.id());
        shared.forget(segment, Fate::Deleted);
        self.removed([Removing { path: segment.path().to_owned(), row: Some(row) }]);
        if segment.lines() > 0 {
            add(&shared.counters.lines_expired, segment.lines());
            add(&shared.counters.bytes_expired, segment.file_bytes());
        }
        true
    }
}

impl Books {
    /// What goes with a segment, for those who have not read it; none of lines that have numbers of
    /// another store.
    fn departed(&self, row: &SegmentRow) -> Option<Departed> {
        let is_ours = row.node == self.shared.node && row.lines > 0;
        row.sequence.filter(|_| is_ours).map(|sequence| Departed { sequence, lines: row.lines })
    }
}

impl Shared {
    /// Bytes of all segment files, those that are leaving or may come included.
    pub(crate) fn taken_bytes(&self) -> u64 {
        let segments = read(&self.segments);
        let hot: u64 = segments.hot.iter().map(|hot| read(&hot.index).file_bytes).sum();
        let sealed: u64 = segments.sealed.iter().map(|sealed| sealed.bytes_disk).sum();
        hot + sealed + self.leaving_bytes.load(Relaxed) + self.reserved_bytes.load(Relaxed)
    }

    /// Whether no other file says that the sequence numbers up to this segment's were given, so
    /// that another must be there before it may go.
    pub(crate) fn is_last_witness(&self, segment: &AnySegment) -> bool {
        if self.is_last_witness_of_nodes(segment) {
            return true;
        }
        let node = self.node;
        let known = segment.sequence_known(node);
        let segments = read(&self.segments);
        // The newest hot one mostly knows.
        let hot = segments.hot.iter().rev().cloned().map(AnySegment::Hot);
        let mut all = hot.chain(segments.sealed.iter().rev().cloned().map(AnySegment::Sealed));
        !all.any(|s| s.id() != segment.id() && s.sequence_known(node) >= known)
    }
}

/// Whether a segment is closed and all its lines arrived before.
fn is_aged(segment: &AnySegment, oldest_ns: i64) -> bool {
    segment.is_closed() && segment.received_ns().map_or(i64::MIN, |r| r.1) < oldest_ns
}
