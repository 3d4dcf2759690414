//! The segments of a store: their list, their open files, and the cache of their content.
//!
//! Handles of frames and blocks hold this table and nothing else of the store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use platform::{Disk, DiskFile};
use segment::SegmentError;
use segment::sealed::SealedFile;

use crate::catalog::{Departed, DepartedLines};
use crate::config::OPEN_FILES_MAX;
use crate::segments::cache::Cache;
use crate::segments::damage::is_damage;
use crate::segments::fate::{Fate, FateCell};
use crate::segments::hot::HotSegment;
use crate::segments::sealed::{SealedFiles, SealedSegment};
use crate::segments::{AnySegment, SegmentList};
use crate::sync::{lock, read, write};

pub(crate) struct SegmentTable {
    disk: Arc<dyn Disk>,
    list: RwLock<SegmentList>,
    /// The number of the next segment.
    id_next: AtomicU64,
    pub(crate) cache: Cache,
    /// Hot segments with an open file, in the order of opening.
    hot_files: Mutex<VecDeque<Arc<HotSegment>>>,
    sealed_files: SealedFiles,
    departed: DepartedLines,
    /// Bytes of files that left the list and are not removed yet.
    leaving_bytes: AtomicU64,
    /// Bytes that the new files of rewrites under way may take.
    rewriting_bytes: AtomicU64,
}

impl SegmentTable {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        list: SegmentList,
        id_next: u64,
        departed: Vec<Departed>,
        cache_bytes_max: usize,
    ) -> Self {
        SegmentTable {
            disk,
            list: RwLock::new(list),
            id_next: AtomicU64::new(id_next),
            cache: Cache::new(cache_bytes_max),
            hot_files: Mutex::default(),
            sealed_files: SealedFiles::new(cache_bytes_max),
            departed: DepartedLines::new(departed),
            leaving_bytes: AtomicU64::new(0),
            rewriting_bytes: AtomicU64::new(0),
        }
    }

    /// A copy of the list as it is now.
    pub(crate) fn list(&self) -> SegmentList {
        read(&self.list).clone()
    }

    /// The hot segments as they are now, by id.
    pub(crate) fn hot(&self) -> Vec<Arc<HotSegment>> {
        read(&self.list).hot.clone()
    }

    pub(crate) fn find_hot(&self, id: u64) -> Option<Arc<HotSegment>> {
        let list = read(&self.list);
        let at = list.hot.binary_search_by_key(&id, |s| s.id).ok()?;
        Some(list.hot[at].clone())
    }

    /// Whether a newer hot segment than this one is listed.
    pub(crate) fn has_newer_hot(&self, id: u64) -> bool {
        read(&self.list).hot.last().is_some_and(|newest| newest.id > id)
    }

    /// Whether another file records as issued all sequence numbers that the file of `segment`
    /// records.
    pub(crate) fn records_numbers_without(&self, segment: &AnySegment, node: u32) -> bool {
        let known = segment.sequence_known(node);
        let list = read(&self.list);
        // Usually the newest hot segment records them.
        let hot = list.hot.iter().rev().cloned().map(AnySegment::Hot);
        let mut all = hot.chain(list.sealed.iter().rev().cloned().map(AnySegment::Sealed));
        all.any(|s| s.id() != segment.id() && s.sequence_known(node) >= known)
    }

    /// Issues the number of a new segment. It is used up even when creating the file fails: the
    /// file may exist and resist removal.
    pub(crate) fn issue_id(&self) -> u64 {
        self.id_next.fetch_add(1, Ordering::AcqRel)
    }

    /// Lists a new hot segment. Its id must be the greatest so far.
    pub(crate) fn push_hot(&self, segment: Arc<HotSegment>) {
        write(&self.list).hot.push(segment);
    }

    /// Puts a sealed segment in the place of its sources, in one step for all readers; with None
    /// only removes them.
    pub(crate) fn replace(&self, sources: &[AnySegment], new: Option<SealedSegment>) {
        let mut list = write(&self.list);
        sources.iter().for_each(|source| list.remove(source.id()));
        if let Some(new) = new {
            list.add_sealed(Arc::new(new));
        }
    }

    /// Takes a segment off the list whose file is deleted, with its lines, which are in `departed`.
    pub(crate) fn remove_deleted(&self, segment: &AnySegment, departed: Vec<Departed>) {
        // Before the segment leaves the list: a reader that misses it finds its lines here.
        self.departed.set(departed);
        write(&self.list).remove(segment.id());
        self.forget(segment, Fate::Deleted);
    }

    /// All that retention deleted. Only the ledger changes it.
    pub(crate) fn departed(&self) -> Vec<Departed> {
        self.departed.all()
    }

    /// Lines that retention deleted, of frames behind `after` and up to `through`.
    pub(crate) fn departed_between(&self, after: u64, through: u64) -> u64 {
        self.departed.lines_between(after, through)
    }

    /// A hot segment's file for reading. When too many are open, the one opened first is closed.
    pub(crate) fn open_hot(
        &self,
        segment: &Arc<HotSegment>,
    ) -> Result<Arc<dyn DiskFile>, SegmentError> {
        let (file, fresh) = segment.open(&*self.disk)?;
        if fresh {
            let mut open = lock(&self.hot_files);
            open.push_back(segment.clone());
            if open.len() > OPEN_FILES_MAX
                && let Some(oldest) = open.pop_front()
                && oldest.fate.is_listed()
            {
                oldest.forget_file();
            }
        }
        Ok(file)
    }

    /// A sealed segment's file with its footer.
    pub(crate) fn open_sealed(
        &self,
        segment: &SealedSegment,
    ) -> Result<Arc<SealedFile>, SegmentError> {
        self.sealed_files.get(segment, &*self.disk, &self.cache)
    }

    /// Opens a sealed segment's file and reads its footer from the disk, whatever is in memory;
    /// notes damage.
    pub(crate) fn open_fresh(&self, segment: &SealedSegment) -> Result<SealedFile, SegmentError> {
        SealedFile::open(&*self.disk, &segment.path).inspect_err(|error| {
            if is_damage(error) && !segment.fate.may_be_gone() {
                segment.note_all_damaged(error);
            }
        })
    }

    /// As [`open_sealed`](Self::open_sealed); notes damage, if opening fails twice.
    pub(crate) fn open_checked(
        &self,
        segment: &SealedSegment,
    ) -> Result<Arc<SealedFile>, SegmentError> {
        let opened = self.open_sealed(segment);
        if !opened.as_ref().is_err_and(is_damage) || segment.fate.may_be_gone() {
            return opened;
        }
        self.open_sealed(segment).inspect_err(|error| {
            if is_damage(error) {
                segment.note_all_damaged(error);
            }
        })
    }

    /// Drops everything in memory of a segment that left the list. The file of a replaced segment
    /// stays open for its handles.
    pub(crate) fn forget(&self, segment: &AnySegment, fate: Fate) {
        segment.mark(fate);
        match segment {
            AnySegment::Hot(hot) => {
                lock(&self.hot_files).retain(|open| open.id != hot.id);
                if fate == Fate::Deleted {
                    hot.forget_file();
                }
            }
            AnySegment::Sealed(sealed) => self.sealed_files.forget(sealed.id, &self.cache),
        }
        self.cache.remove_segment(segment.id());
    }

    /// Runs `put` on the cache, unless the segment has left the list.
    pub(crate) fn keep<T>(
        &self,
        segment: u64,
        fate: &FateCell,
        put: impl FnOnce(&Cache) -> T,
    ) -> Option<T> {
        let kept = fate.is_listed().then(|| put(&self.cache))?;
        // The segment may have left the list since, after its part of the cache was cleared.
        if !fate.is_listed() {
            self.cache.remove_segment(segment);
        }
        Some(kept)
    }

    /// Bytes of all segment files, including files that wait for removal: what the limit on bytes
    /// is compared with.
    ///
    /// Files that rewrites are writing are left out. Were they counted, the limit would delete
    /// lines to make room for a rewrite, those that the rewrite is to keep among them.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let list = read(&self.list);
        let hot: u64 = list.hot.iter().map(|hot| read(&hot.index).file_bytes).sum();
        let sealed: u64 = list.sealed.iter().map(|sealed| sealed.bytes_disk).sum();
        hot + sealed + self.leaving_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_leaving_bytes(&self, bytes: u64) {
        self.leaving_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that the new files of rewrites under way may take.
    pub(crate) fn rewriting_bytes(&self) -> u64 {
        self.rewriting_bytes.load(Ordering::Relaxed)
    }

    /// Changes what a rewrite may take from `before` bytes (0: it begins) to `after` bytes.
    pub(crate) fn set_rewriting(&self, before: u64, after: u64) {
        // In this order the sum never falls below what is in use.
        self.rewriting_bytes.fetch_add(after, Ordering::Relaxed);
        self.rewriting_bytes.fetch_sub(before, Ordering::Relaxed);
    }
}
