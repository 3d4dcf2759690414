//! Retention, as far as the active segment is concerned.

use super::Writer;
use crate::config::RETENTION_PARTS;
use crate::segments::AnySegment;
use crate::sync::{lock, read};

impl Writer {
    /// Prepares for retention at `now_ns`, nanoseconds since 1970 UTC: closes the active segment
    /// when its lines will soon be too old, and creates a new one when only segments that are about
    /// to be deleted record which sequence numbers were issued.
    pub(crate) fn prepare_retention(&mut self, now_ns: i64) {
        let Some(age_ns) = self.core.retention().age_ns else { return };
        let now_ns = self.core.retention_ns(now_ns);
        self.roll_expiring(now_ns);
        let (node, oldest_ns) = (self.core.node, now_ns.saturating_sub(age_ns));
        let (goes, stays): (Vec<_>, Vec<_>) =
            self.core.segments.list().by_age().into_iter().partition(|s| s.is_aged(oldest_ns));
        let known = |segments: &[AnySegment]| segments.iter().map(|s| s.sequence_known(node)).max();
        if !goes.is_empty()
            && (known(&stays) < known(&goes)
                || goes.iter().any(|s| self.core.is_last_record_of_nodes(s)))
            && let Err(error) = self.create_number_record()
        {
            tracing::warn!("the last segment stays: {error}");
        }
    }

    /// Closes the active segment when its first line is so old at `now_ns` that younger lines in
    /// the same file would keep it beyond its age.
    pub(crate) fn roll_expiring(&mut self, now_ns: i64) {
        if let Some(age_ns) = self.core.retention().age_ns {
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
        let bytes_max = self.core.retention().bytes_max;
        if bytes_max.is_some_and(|bytes_max| self.core.segments.kept_bytes() + bytes > bytes_max) {
            lock(&self.ledger).make_room(bytes);
        }
    }
}
