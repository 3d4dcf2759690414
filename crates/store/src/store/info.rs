//! The segments of a store, for code that copies, checks and shows them.

use std::collections::HashMap;
use std::path::PathBuf;

use record::Tenant;

use super::Store;
use crate::catalog::RowState;
use crate::config::{Cutoff, Retention};
use crate::error::StoreError;
use crate::segments::AnySegment;
use crate::sync::lock;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Frames are appended to it.
    Hot,
    /// Closed with an index; waits to be sealed.
    Rolled,
    /// Closed without an index after a failed write; only bytes up to `data_end` count. Waits to be
    /// sealed.
    Kept,
    /// Damaged: its readable part can be read, and it is not sealed.
    Damaged,
    /// Sealed.
    Sealed,
}

impl SegmentState {
    /// Its name in the catalog and for people.
    pub fn name(self) -> &'static str {
        match self {
            SegmentState::Hot => "hot",
            SegmentState::Rolled => "rolled",
            SegmentState::Kept => "kept",
            SegmentState::Damaged => "damaged",
            SegmentState::Sealed => "sealed",
        }
    }

    pub(crate) fn of(state: RowState) -> Option<SegmentState> {
        match state {
            RowState::Hot => Some(SegmentState::Hot),
            RowState::Rolled => Some(SegmentState::Rolled),
            RowState::Kept => Some(SegmentState::Kept),
            RowState::Damaged => Some(SegmentState::Damaged),
            RowState::Sealed => Some(SegmentState::Sealed),
            RowState::Deleting => None,
        }
    }
}

/// A segment as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number, which is in the name of its file.
    pub id: u64,
    /// Its file.
    pub path: PathBuf,
    /// Its state.
    pub state: SegmentState,
    /// Lines in it.
    pub lines: u64,
    /// Bytes of the lines with their newlines.
    pub bytes_raw: u64,
    /// Length of the file, including preallocated space.
    pub bytes_disk: u64,
    /// The valid length of the file: of a segment that is written, or was left after a failed
    /// write, up to the end of its last durable frame; of others the whole file.
    pub data_end: u64,
    /// Least and greatest sequence number.
    pub sequence: Option<(u64, u64)>,
    /// Earliest and latest arrival, nanoseconds since 1970 UTC.
    pub received_ns: Option<(i64, i64)>,
    /// Earliest and latest event time, as far as known, nanoseconds since 1970 UTC.
    pub time_ns: Option<(i64, i64)>,
}

impl SegmentInfo {
    fn of(segment: &AnySegment) -> Option<SegmentInfo> {
        let row = segment.row();
        let state = SegmentState::of(row.state)?;
        let whole = !matches!(state, SegmentState::Hot | SegmentState::Kept);
        Some(SegmentInfo {
            id: row.id,
            path: segment.path().to_owned(),
            state,
            lines: row.lines,
            bytes_raw: row.bytes_raw,
            bytes_disk: row.bytes_disk,
            data_end: if whole { row.bytes_disk } else { row.data_end },
            sequence: row.sequence,
            received_ns: row.received_ns,
            time_ns: row.time_ns,
        })
    }
}

/// What a sealed segment holds of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Whose lines they are.
    pub tenant: Tenant,
    /// When the newest line of the segment arrived, nanoseconds since 1970 UTC.
    pub received_max_ns: i64,
    /// Lines of the tenant.
    pub lines: u64,
    /// Bytes of these lines with their newlines.
    pub bytes_raw: u64,
    /// Bytes that their blocks take on disk.
    pub bytes_disk: u64,
}

/// What the sealed segments hold, by segment. Sealed segments do not change, so that each is
/// opened once.
#[derive(Debug, Default)]
pub struct Holdings(HashMap<u64, Vec<Holding>>);

impl Holdings {
    /// All, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Holding> {
        self.0.values().flatten()
    }
}

impl Store {
    /// What is deleted when.
    pub fn retention(&self) -> Retention {
        (*self.core.retention()).clone()
    }

    /// Changes that from now on. Nothing that was deleted comes back.
    ///
    /// Errors: a start would refuse it; nothing changes.
    pub fn set_retention(&self, retention: Retention) -> Result<(), StoreError> {
        self.core.config.check_retention(&retention)?;
        self.core.set_retention(retention);
        Ok(())
    }

    /// From now on, segments from before these cutoffs lose the lines that they select. The store
    /// does not keep them: set them again after a start, where too much is still kept.
    pub fn set_cutoffs(&self, cutoffs: Vec<Cutoff>) {
        self.core.set_cutoffs(cutoffs);
    }

    /// Brings what the sealed segments hold up to date, without rows of the summary. A segment that
    /// cannot be read is left out.
    pub fn holdings(&self, known: &mut Holdings) {
        let sealed = self.core.segments.list().sealed;
        known.0.retain(|id, _| sealed.iter().any(|segment| segment.id == *id));
        for segment in sealed {
            if known.0.contains_key(&segment.id) {
                continue;
            }
            let Ok(file) = self.core.segments.open_sealed(&segment) else { continue };
            let received_max_ns = segment.received_ns.map_or(i64::MIN, |(_, newest)| newest);
            let mut of: Vec<Holding> = Vec::new();
            let sent = |block: &&segment::sealed::BlockEntry| block.lines_internal < block.lines;
            for block in file.footer().blocks.iter().filter(sent) {
                let place = of.iter().position(|held| held.tenant == block.tenant);
                let held = match place {
                    Some(place) => &mut of[place],
                    None => {
                        let tenant = block.tenant;
                        of.push(Holding { tenant, received_max_ns, ..Holding::default() });
                        of.last_mut().expect("it was pushed")
                    }
                };
                held.lines += u64::from(block.lines);
                held.bytes_raw += block.bytes_raw;
                held.bytes_disk += block.bytes_disk();
            }
            known.0.insert(segment.id, of);
        }
    }

    /// The segments at this moment, the oldest lines first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.core.segments.list().by_age().iter().filter_map(SegmentInfo::of).collect()
    }

    /// As [`segments`](Self::segments), and no file is written, replaced or removed while `work`
    /// runs: for making hard links, which are a consistent copy then. Senders wait meanwhile, so
    /// `work` must take milliseconds only. The file of a hot segment continues to grow afterwards;
    /// only `data_end` bytes of it count.
    pub fn freeze<R>(&self, work: impl FnOnce(&[SegmentInfo]) -> R) -> R {
        let _writer = lock(&self.writer);
        let mut ledger = lock(&self.ledger);
        // Files that are due to be closed are closed before they are linked.
        ledger.catch_up();
        work(&self.segments())
    }
}
