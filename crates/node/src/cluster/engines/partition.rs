//! A partition that this node owns: its newest frames with their records.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{HotFrame, HotPart, Lease, Partition, Publisher, Reader};
use programs::summary::SummaryConfig;
use query::source::{ChooseLines, ScanUnit, SomeLines, SourceError, UnitKey};
use record::frame::{FORWARDED_NUMBER_MAX, FRAME_INTERNAL};
use record::{Batch, LineId};

use super::summaries::RowMaker;
use crate::storage::stored::Parsers;

/// Bits of an offset in the numbers of summary rows.
const PARTITION_SHIFT: u32 = 40;

/// A partition that this node owns. Reader and publisher are stepped by a thread each; queries read
/// the frames in between.
pub struct OwnedPartition {
    /// Its number.
    pub number: u32,
    /// The right to it.
    pub lease: Lease,
    /// Its newest frames.
    pub hot: Arc<HotPart>,
    pub(super) reader: Mutex<Reader>,
    pub(super) publisher: Mutex<Publisher>,
    /// The lease is over: the threads end.
    pub(super) is_over: AtomicBool,
    /// What went wrong, and has not gone right since.
    troubles: Mutex<Troubles>,
    /// Why the log may delete messages before they are in segments.
    risk: Mutex<Option<String>>,
    /// Copies of frames that were dropped, and messages that were no frames.
    pub(super) duplicates: AtomicU64,
    pub(super) rejected: AtomicU64,
    /// Messages that the log deleted before they were read.
    pub(super) lost: AtomicU64,
    parsers: Arc<Parsers>,
    /// The records of frames in memory, by their offsets.
    batches: Mutex<BTreeMap<u64, Arc<Batch>>>,
}

impl OwnedPartition {
    pub(super) fn new(
        number: u32,
        lease: Lease,
        partition: Partition,
        parsers: Arc<Parsers>,
    ) -> OwnedPartition {
        let Partition { hot, reader, publisher } = partition;
        OwnedPartition {
            number,
            lease,
            hot,
            reader: Mutex::new(reader),
            publisher: Mutex::new(publisher),
            is_over: AtomicBool::new(false),
            troubles: Mutex::default(),
            risk: Mutex::default(),
            duplicates: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            parsers,
            batches: Mutex::default(),
        }
    }

    /// The records of a frame, parsed now if they are not kept.
    pub fn batch(&self, hot: &HotFrame) -> Arc<Batch> {
        if let Some(batch) = self.batches().get(&hot.offset) {
            return Arc::clone(batch);
        }
        let batch = Arc::new(self.parsers.parse(Arc::clone(&hot.frame)));
        // A frame that left the memory meanwhile is not kept.
        if hot.offset >= self.hot.base() {
            self.batches().insert(hot.offset, Arc::clone(&batch));
        }
        batch
    }

    /// The rows of the summary for batches that begin with the frame at an offset.
    pub(super) fn summary_rows(
        &self,
        batches: &[Arc<Batch>],
        first: u64,
        node: u32,
        config: &SummaryConfig,
        now_ns: i64,
    ) -> Vec<Arc<Batch>> {
        // An offset of a partition is in one segment at a time, which has these numbers.
        let number = (u64::from(self.number) << PARTITION_SHIFT | first) & FORWARDED_NUMBER_MAX;
        RowMaker { config, parsers: &self.parsers, node, number }.rows(batches, now_ns)
    }

    /// Drops the records of frames that are not in memory any more.
    pub(super) fn trim(&self) {
        let base = self.hot.base();
        let mut batches = self.batches();
        let kept = batches.split_off(&base);
        *batches = kept;
    }

    /// Notes that something failed. Says so once in the log.
    pub(super) fn note(&self, what: &'static str, error: &impl ToString) {
        let text = format!("partition {}: {what}: {}", self.number, error.to_string());
        if self.troubles().note(what, text.clone()) {
            tracing::warn!("{text}");
        }
    }

    /// Notes that `what` works again.
    pub(super) fn works(&self, what: &str) {
        self.troubles().0.remove(what);
    }

    fn troubles(&self) -> MutexGuard<'_, Troubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies of frames that were dropped.
    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Relaxed)
    }

    /// Messages that were no frames, and were passed over.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// Messages that the log deleted before this node could read them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// What went wrong, and has not gone right since; else why messages are at risk.
    pub fn trouble(&self) -> Option<String> {
        let shown = self.troubles().shown();
        shown.or_else(|| self.risk())
    }

    /// Why the log may soon delete messages before they are in segments.
    pub fn risk(&self) -> Option<String> {
        self.risk.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes whether messages are at risk. Says so once in the log.
    pub(super) fn set_risk(&self, risk: Option<String>) {
        let risk = risk.map(|risk| format!("partition {}: {risk}", self.number));
        let mut known = self.risk.lock().unwrap_or_else(PoisonError::into_inner);
        match (&risk, &*known) {
            (Some(risk), None) => tracing::error!("{risk}"),
            (None, Some(_)) => {
                tracing::info!("partition {}: no message is at risk any more", self.number);
            }
            _ => {}
        }
        *known = risk;
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn batches(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Batch>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with a partition, by what failed. Each stays until that goes right again, whatever
/// else fails and is mended meanwhile.
#[derive(Default)]
struct Troubles(BTreeMap<&'static str, String>);

impl Troubles {
    /// Notes why something fails. True if that is not known yet.
    fn note(&mut self, what: &'static str, text: String) -> bool {
        let is_new = self.0.get(what) != Some(&text);
        self.0.insert(what, text);
        is_new
    }

    /// All of them; none if there are none.
    fn shown(&self) -> Option<String> {
        let all: Vec<&str> = self.0.values().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// A frame of a partition, for a query.
pub struct HotUnit {
    pub(super) partition: Arc<OwnedPartition>,
    pub(super) hot: HotFrame,
    /// Its records, unless they are not parsed yet.
    pub(super) batch: Option<Arc<Batch>>,
}

impl HotUnit {
    pub(super) fn new(partition: &Arc<OwnedPartition>, hot: HotFrame) -> HotUnit {
        let batch = partition.batches().get(&hot.offset).cloned();
        HotUnit { partition: Arc::clone(partition), hot, batch }
    }

    /// Whether Loginson made its lines itself.
    pub fn is_internal(&self) -> bool {
        self.hot.frame.header().flags & FRAME_INTERNAL != 0
    }

    /// Whether a line is in the frame.
    pub fn has(&self, id: LineId) -> bool {
        self.hot.frame.header().name() == (id.node, id.sequence)
    }
}

impl ScanUnit for HotUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.batch.as_ref().map(|batch| batch.time_range_ns())
    }

    fn lines(&self) -> u64 {
        u64::from(self.hot.frame.header().lines)
    }

    fn bytes(&self) -> u64 {
        self.hot.frame.bytes().len() as u64
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        let parsed = || self.partition.batch(&self.hot);
        Ok(Some(self.batch.clone().unwrap_or_else(parsed)))
    }

    fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        let Some(batch) = self.batch.clone() else { return Ok(None) };
        let rows = batch.frame().and_then(|frame| choose(frame));
        Ok(rows.map(|rows| SomeLines { batch, rows }))
    }

    /// The name of its frame, which no other frame has. A block of a segment has the hash of the
    /// name of its object in place of the sequence.
    fn key(&self) -> Option<UnitKey> {
        let (node, sequence) = self.hot.frame.header().name();
        Some((sequence, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages that the log deleted unread do not come back, so that stays noted.
    #[test]
    fn what_fails_and_works_again_hides_nothing_else() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.shown(), None);
        assert!(troubles.note("retention", "5 messages are lost".to_owned()));
        assert!(troubles.note("reading", "refused".to_owned()));
        assert!(!troubles.note("reading", "refused".to_owned()));
        assert_eq!(troubles.shown().unwrap(), "refused; 5 messages are lost");
        troubles.0.remove("reading");
        assert_eq!(troubles.shown().unwrap(), "5 messages are lost");
        assert!(troubles.note("reading", "refused".to_owned()), "it fails once more");
    }
}
