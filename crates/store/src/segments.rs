//! The segments of a store in memory: hot ones with the entries of their frames, sealed ones with
//! their row.

pub(crate) mod cache;
pub(crate) mod damage;
pub(crate) mod fate;
pub(crate) mod file_names;
pub(crate) mod hot;
pub(crate) mod sealed;
pub(crate) mod table;

use std::path::Path;
use std::sync::Arc;

use crate::catalog::SegmentRow;
use crate::segments::fate::Fate;
use crate::segments::hot::HotSegment;
use crate::segments::sealed::SealedSegment;
use crate::sync::read;

/// The list of segments. One list has both kinds, so that one lock lets a sealed segment replace
/// its sources at once.
#[derive(Clone, Default)]
pub(crate) struct SegmentList {
    /// By id, which is the order of their frames.
    pub(crate) hot: Vec<Arc<HotSegment>>,
    /// By id, which is not the order of their lines.
    pub(crate) sealed: Vec<Arc<SealedSegment>>,
}

impl SegmentList {
    /// All segments, the oldest lines first.
    pub(crate) fn by_age(&self) -> Vec<AnySegment> {
        let hot = self.hot.iter().cloned().map(AnySegment::Hot);
        let mut all: Vec<AnySegment> =
            self.sealed.iter().cloned().map(AnySegment::Sealed).chain(hot).collect();
        all.sort_by_cached_key(|segment| {
            let newest_ns = segment.received_ns().map_or(i64::MIN, |(_, newest)| newest);
            (newest_ns, segment.sequence(), segment.id())
        });
        all
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.hot.retain(|s| s.id != id);
        self.sealed.retain(|s| s.id != id);
    }

    pub(crate) fn add_sealed(&mut self, segment: Arc<SealedSegment>) {
        let place = self.sealed.partition_point(|s| s.id < segment.id);
        self.sealed.insert(place, segment);
    }
}

/// A segment of either kind.
#[derive(Clone)]
pub(crate) enum AnySegment {
    Hot(Arc<HotSegment>),
    Sealed(Arc<SealedSegment>),
}

impl AnySegment {
    pub(crate) fn id(&self) -> u64 {
        match self {
            AnySegment::Hot(hot) => hot.id,
            AnySegment::Sealed(sealed) => sealed.id,
        }
    }

    /// The store that made the file. The numbers and watermarks in it are those of that store.
    pub(crate) fn node(&self) -> u32 {
        match self {
            AnySegment::Hot(hot) => hot.node,
            AnySegment::Sealed(sealed) => sealed.node,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            AnySegment::Hot(hot) => &hot.path,
            AnySegment::Sealed(sealed) => &sealed.path,
        }
    }

    pub(crate) fn row(&self) -> SegmentRow {
        match self {
            AnySegment::Hot(hot) => hot.row(),
            AnySegment::Sealed(sealed) => sealed.row(),
        }
    }

    /// Earliest and latest arrival.
    pub(crate) fn received_ns(&self) -> Option<(i64, i64)> {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).totals.received_ns,
            AnySegment::Sealed(sealed) => sealed.received_ns,
        }
    }

    /// Least and greatest sequence number.
    pub(crate) fn sequence(&self) -> Option<(u64, u64)> {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).totals.sequence,
            AnySegment::Sealed(sealed) => sealed.sequence,
        }
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).file_bytes,
            AnySegment::Sealed(sealed) => sealed.bytes_disk,
        }
    }

    pub(crate) fn lines(&self) -> u64 {
        match self {
            AnySegment::Hot(hot) => read(&hot.index).totals.lines,
            AnySegment::Sealed(sealed) => sealed.lines,
        }
    }

    /// Whether nothing is appended to it any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            AnySegment::Hot(hot) => hot.is_rolled(),
            AnySegment::Sealed(_) => true,
        }
    }

    /// Whether the segment is closed and all its lines arrived before `oldest_ns`.
    pub(crate) fn is_aged(&self, oldest_ns: i64) -> bool {
        self.is_closed() && self.received_ns().map_or(i64::MIN, |r| r.1) < oldest_ns
    }

    /// The first sequence number that this file does not record as issued. All smaller numbers may
    /// have been issued.
    pub(crate) fn sequence_known(&self, node: u32) -> u64 {
        let next = match self {
            AnySegment::Hot(hot) => hot.sequence_next,
            AnySegment::Sealed(sealed) => sealed.sequence_next,
        };
        let own = self.sequence().filter(|_| self.node() == node);
        next.max(own.map_or(0, |(_, last)| last.saturating_add(1)))
    }

    pub(crate) fn is_listed(&self) -> bool {
        match self {
            AnySegment::Hot(hot) => hot.fate.is_listed(),
            AnySegment::Sealed(sealed) => sealed.fate.is_listed(),
        }
    }

    /// Whether its file may be gone, so that failing to read it is no fault.
    pub(crate) fn may_be_gone(&self) -> bool {
        match self {
            AnySegment::Hot(hot) => hot.fate.may_be_gone(),
            AnySegment::Sealed(sealed) => sealed.fate.may_be_gone(),
        }
    }

    pub(crate) fn mark(&self, fate: Fate) {
        match self {
            AnySegment::Hot(hot) => hot.fate.set(fate),
            AnySegment::Sealed(sealed) => sealed.fate.set(fate),
        }
    }
}
