//! The one thread that writes.
//!
//! It takes the frames that wait, appends them, syncs once, makes them visible, and calls back. When the disk is
//! full it takes back what was half written and waits; when writing fails otherwise, the segment is left as it is
//! (nothing is known of its last writes) and the frames go to a new one.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use platform::{BLOCK_BYTES, DiskSpace};
use record::Frame;
use segment::{
    FrameEntry, HEADER_BYTES, HotWriter, SegmentError, SegmentHeader, index_bytes, write_index,
};

use crate::catalog::{Catalog, RowState, SegmentRow};
use crate::config::{
    GROUP_BYTES_FULL, GROUP_BYTES_MAX, LOW_DISK_PARTS, MAINTENANCE_INTERVAL_MS, PREALLOCATE_BYTES,
    PROBE_BYTES, RESERVE_INTERNAL_PARTS, SEAL_RESERVE_PARTS, SEGMENT_AGE_PARTS, SEGMENT_AGES_MAX,
};
use crate::error::{AppendError, StoreError};
use crate::segments::{AnySegment, HotSegment, Index, Position, file_name};
use crate::shared::{Shared, lock, read, write};
use crate::stats::{StoreState, add};

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) catalog: Catalog,
    /// Whether a row could not be written; then all are written at the next occasion.
    pub(crate) catalog_stale: bool,
    pub(crate) active: Option<Active>,
    pub(crate) segment_next: u64,
    /// Files of segments that left the list and could not be removed yet.
    pub(crate) removing: Vec<Removing>,
    /// Bytes that a rewrite under way may take; counted for the limit on bytes.
    pub(crate) reserved_bytes: u64,
    /// Whether what is to stay free may be used at present.
    pub(crate) in_reserve: bool,
}

/// A file to be removed.
pub(crate) struct Removing {
    pub(crate) path: PathBuf,
    /// The row of a segment that was replaced; none of a file that was never listed.
    pub(crate) row: Option<SegmentRow>,
}

impl Removing {
    pub(crate) fn bytes(&self) -> u64 {
        self.row.as_ref().map_or(0, |row| row.bytes_disk)
    }
}

/// The segment being written.
pub(crate) struct Active {
    pub(crate) file: HotWriter,
    pub(crate) segment: Arc<HotSegment>,
}

/// Runs until the queue is closed and empty, or closed and the disk does not take what is left.
pub(crate) fn run(shared: &Shared, writer: &Mutex<Writer>) {
    let _finish = FinishQueue(shared);
    let mut pace = Pace::default();
    loop {
        let closed = wait_for_work(shared, &pace);
        if turn(shared, writer, &mut pace, closed) {
            return;
        }
    }
}

/// Writes a group, if one waits, and does maintenance if it is due; true when nothing is left to do for good.
pub(crate) fn turn(shared: &Shared, writer: &Mutex<Writer>, pace: &mut Pace, closed: bool) -> bool {
    let now_ns = shared.clock.monotonic_ns();
    let committed = lock(writer).commit_group();
    pace.commit_ns = now_ns + ms(shared.config.commit_interval_ms);
    if let Err(error) = committed {
        report(shared, &error);
        if error.is_disk_full() {
            let mut writer = lock(writer);
            writer.seal_for_room();
            writer.commit_internal();
        }
        give_up_overdue(shared);
        pace.commit_ns = now_ns + ms(shared.config.retry_ms);
        if closed {
            return true;
        }
    } else {
        recovered(shared);
    }
    if closed && shared.queue.bytes() == 0 {
        return true;
    }
    if now_ns >= pace.maintain_ns {
        lock(writer).maintain(shared.clock.now_ns());
        pace.maintain_ns = now_ns + ms(MAINTENANCE_INTERVAL_MS);
    }
    false
}

/// When the next things are due, monotonic nanoseconds.
#[derive(Default)]
pub(crate) struct Pace {
    commit_ns: u64,
    maintain_ns: u64,
}

/// Whatever ends the thread, nobody waits for it any more.
struct FinishQueue<'a>(&'a Shared);

impl Drop for FinishQueue<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

/// Waits until a group is due, or maintenance; returns whether the queue is closed.
fn wait_for_work(shared: &Shared, pace: &Pace) -> bool {
    let mut waiting = shared.queue.lock();
    loop {
        let now_ns = shared.clock.monotonic_ns();
        if waiting.closed {
            return true;
        }
        let failing = *lock(&shared.state) != StoreState::Ok;
        let idle = waiting.frames.is_empty() && !failing;
        let due_ns = if idle { pace.maintain_ns } else { pace.commit_ns };
        let full = waiting.bytes >= GROUP_BYTES_FULL && !failing;
        if now_ns >= due_ns.min(pace.maintain_ns) || full {
            return false;
        }
        let timeout = Duration::from_nanos(due_ns.min(pace.maintain_ns) - now_ns);
        waiting = shared.queue.wait_for_change(waiting, timeout);
    }
}

fn report(shared: &Shared, error: &SegmentError) {
    let found = match error.is_disk_full() {
        true => StoreState::DiskFull,
        false => StoreState::Failing(error.to_string()),
    };
    let mut state = lock(&shared.state);
    if *state != found {
        tracing::error!("cannot store lines, will try again: {error}");
        *state = found;
    }
}

fn recovered(shared: &Shared) {
    let mut state = lock(&shared.state);
    if *state != StoreState::Ok {
        tracing::info!("lines are stored again");
        *state = StoreState::Ok;
    }
}

/// Why frames are refused in this state.
pub(crate) fn refusal(state: &StoreState) -> Option<AppendError> {
    match state {
        StoreState::Ok => None,
        StoreState::DiskFull => Some(AppendError::DiskFull),
        StoreState::Failing(text) => Some(AppendError::Failed(text.clone())),
        StoreState::Closed => Some(AppendError::Closed),
    }
}

fn give_up_overdue(shared: &Shared) {
    let waited = ms(shared.config.unacknowledged_ms_max);
    let Some(since_ns) = shared.clock.monotonic_ns().checked_sub(waited) else { return };
    let error = refusal(&shared.state()).unwrap_or(AppendError::DiskFull);
    for pending in shared.queue.take_overdue(since_ns) {
        pending.finish(Err(error.clone()));
    }
}

pub(crate) fn ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

impl Writer {
    /// Makes the frames that wait durable and visible, up to a group. An error other than a full disk is given
    /// only when a fresh segment failed as well.
    fn commit_group(&mut self) -> Result<(), SegmentError> {
        let mut group = self.shared.queue.first(GROUP_BYTES_MAX);
        if group.is_empty() && self.shared.state() != StoreState::Ok {
            return self.probe();
        }
        let mut failed_before = false;
        while !group.is_empty() {
            match self.commit_some(&group) {
                Ok(frames) => {
                    group.drain(..frames);
                    recovered(&self.shared);
                    self.acknowledge(frames);
                }
                Err(error) if error.is_disk_full() || failed_before => return Err(error),
                Err(error) => {
                    tracing::warn!("going on with a new segment: {error}");
                    failed_before = true;
                }
            }
        }
        Ok(())
    }

    /// Makes the first frames of a group durable and visible, as many as fit into the segment.
    fn commit_some(&mut self, group: &[Arc<Frame>]) -> Result<usize, SegmentError> {
        let first = group[0].bytes().len() as u64;
        if self.active.as_ref().is_some_and(|active| !active.fits(1, first, self.segment_bytes())) {
            self.roll();
        }
        if self.active.is_none() {
            self.create(first)?;
        }
        let frames = self.reserve(group)?;
        let active = self.active.as_mut().expect("just made");
        match active.write(&group[..frames]) {
            Ok(entries) => {
                self.publish(&group[..frames], entries);
                Ok(frames)
            }
            Err(error) => {
                let taken_back = error.is_disk_full() && active.file.rollback().is_ok();
                if taken_back {
                    write(&active.segment.index).file_bytes = active.file.allocated_bytes();
                } else {
                    self.abandon();
                }
                Err(error)
            }
        }
    }

    /// Finds out whether the disk takes more again, when nothing waits to be tried with.
    fn probe(&mut self) -> Result<(), SegmentError> {
        let bytes = PROBE_BYTES.min(self.segment_bytes());
        match &self.active {
            Some(active) => self.extend(active.file.allocated_bytes() + bytes),
            None => self.create(bytes),
        }
    }

    fn publish(&mut self, frames: &[Arc<Frame>], entries: Vec<FrameEntry>) {
        let active = self.active.as_ref().expect("frames were written to it");
        let mut index = write(&active.segment.index);
        for (frame, entry) in frames.iter().zip(entries) {
            let position =
                Position { segment: active.segment.id, frame: index.frames.len() as u32 };
            self.shared.cache.put_frame(position, frame.clone());
            index.push(entry);
        }
        index.file_bytes = active.file.allocated_bytes();
        drop(index);
        let counters = &self.shared.counters;
        let bytes: usize = frames.iter().map(|frame| frame.bytes().len()).sum();
        let raw: u64 = frames.iter().map(|frame| u64::from(frame.header().payload_bytes)).sum();
        add(&counters.hot_bytes_written, bytes as u64);
        add(&counters.bytes_raw_committed, raw);
        *lock(&self.shared.groups) += 1;
        self.shared.grown.notify_all();
    }

    fn acknowledge(&self, frames: usize) {
        let counters = &self.shared.counters;
        let now_ns = self.shared.clock.monotonic_ns();
        add(&counters.frames_committed, frames as u64);
        add(&counters.groups_committed, 1);
        for pending in self.shared.queue.take(frames) {
            let latency_ns = now_ns.saturating_sub(pending.since_ns);
            add(&counters.commit_latency_ns_sum, latency_ns);
            counters.commit_latency_ns_max.fetch_max(latency_ns, Ordering::Relaxed);
            pending.finish(Ok(()));
        }
    }

    /// Makes the next segment, for a first frame of so many bytes.
    pub(crate) fn create(&mut self, frame_bytes: u64) -> Result<(), SegmentError> {
        let shared = self.shared.clone();
        let dir = shared.config.segments_dir();
        let bytes = HEADER_BYTES as u64 + frame_bytes + index_bytes(1);
        self.make_room(bytes);
        self.check_free(bytes)?;
        let id = self.segment_next;
        // Also when it fails: the file may be there and refuse to go.
        self.segment_next += 1;
        let path = dir.join(file_name(id));
        let header = SegmentHeader {
            node: shared.node,
            segment: id,
            created_ns: shared.clock.now_ns(),
            sequence_next: shared.sequence_next.load(Ordering::Acquire),
        };
        let file = HotWriter::create(&*shared.disk, &path, &header).inspect_err(|_| {
            let _ = shared.disk.remove(&path);
        })?;
        let index = Index::new(RowState::Hot, Vec::new(), file.end(), file.allocated_bytes());
        let segment = Arc::new(HotSegment::new(path, &header, index));
        write(&shared.segments).hot.push(segment.clone());
        self.save_row(&segment);
        self.active = Some(Active { file, segment });
        // Left from failed writes; now they are not the newest any more, which says where numbers go on.
        for segment in self.shared.hot() {
            let index = read(&segment.index);
            let is_useless = index.state == RowState::Kept && index.frames.is_empty();
            drop(index);
            if is_useless {
                self.delete(&AnySegment::Hot(segment));
            }
        }
        Ok(())
    }

    /// Reserves space for the first frames of a group; returns for how many.
    fn reserve(&mut self, group: &[Arc<Frame>]) -> Result<usize, SegmentError> {
        let segment_bytes = self.segment_bytes();
        let active = self.active.as_ref().expect("made before");
        let mut frames = 1;
        let mut bytes = group[0].bytes().len() as u64;
        for frame in &group[1..] {
            let more = bytes + frame.bytes().len() as u64;
            if !active.fits(frames + 1, more, segment_bytes) {
                break;
            }
            (frames, bytes) = (frames + 1, more);
        }
        let (end, allocated) = (active.file.end(), active.file.allocated_bytes());
        loop {
            let needed = (end + bytes).next_multiple_of(BLOCK_BYTES as u64);
            if needed <= allocated {
                return Ok(frames);
            }
            let roomy = (allocated + PREALLOCATE_BYTES).min(segment_bytes).max(needed);
            let error = match self.extend(roomy).or_else(|_| self.extend(needed)) {
                Ok(()) => return Ok(frames),
                Err(error) => error,
            };
            if !error.is_disk_full() {
                self.abandon();
                return Err(error);
            }
            if frames == 1 {
                return Err(error);
            }
            frames /= 2;
            bytes = group[..frames].iter().map(|f| f.bytes().len() as u64).sum();
        }
    }

    fn extend(&mut self, bytes: u64) -> Result<(), SegmentError> {
        let allocated = self.active.as_ref().map_or(0, |active| active.file.allocated_bytes());
        let more = bytes - allocated;
        self.make_room(more);
        self.check_free(more)?;
        let active = self.active.as_mut().expect("made before");
        active.file.preallocate(bytes)?;
        write(&active.segment.index).file_bytes = bytes;
        Ok(())
    }

    /// Fails as a full disk does when taking `bytes` would leave less free than is to be, and room for sealing.
    fn check_free(&self, bytes: u64) -> Result<(), SegmentError> {
        let shared = &self.shared;
        let free_min = self.free_min();
        let space = shared.space()?;
        if !self.in_reserve {
            self.note_free(space, bytes);
        }
        if space.free_bytes < bytes.saturating_add(free_min) {
            let source = std::io::ErrorKind::StorageFull.into();
            let path = shared.config.segments_dir();
            return Err(SegmentError::Io { path, action: "extend", source });
        }
        Ok(())
    }

    /// Bytes that writing leaves free: what is to be, and room to seal the largest segment that is not sealed.
    fn free_min(&self) -> u64 {
        let shared = &self.shared;
        let wanted = shared.config.disk_free_bytes_min;
        if self.in_reserve {
            return wanted / RESERVE_INTERNAL_PARTS;
        }
        if !shared.background.is_attached() {
            return wanted;
        }
        let bytes = |hot: &Arc<HotSegment>| read(&hot.index).data_end;
        let largest = shared.hot().iter().map(bytes).max().unwrap_or(0);
        wanted.saturating_add(largest / SEAL_RESERVE_PARTS)
    }

    /// Tells the background whether another segment would not find room.
    fn note_free(&self, space: DiskSpace, bytes: u64) {
        let wanted = self.segment_bytes().min(space.total_bytes / LOW_DISK_PARTS);
        let wanted = self.free_min().saturating_add(wanted);
        let free_bytes = space.free_bytes.saturating_sub(bytes);
        self.shared.background.set_low_disk(free_bytes < wanted);
    }

    /// Makes rows of the summary durable that wait behind other frames while the disk is full, from what is left free:
    /// without them nothing more is settled, nothing is sealed, and the disk stays full.
    fn commit_internal(&mut self) {
        if !self.shared.background.is_attached() {
            return;
        }
        let frames = self.shared.queue.internal_first();
        if frames.is_empty() {
            return;
        }
        self.in_reserve = true;
        let committed = self.commit_some(&frames);
        self.in_reserve = false;
        match committed {
            Ok(frames) => self.acknowledge(frames),
            Err(error) => tracing::warn!("rows of the summary find no room: {error}"),
        }
    }

    /// The disk is full: lets the background seal what is closed, and closes the active segment when there is nothing
    /// else to seal.
    fn seal_for_room(&mut self) {
        let shared = self.shared.clone();
        shared.background.set_low_disk(true);
        let waiting =
            shared.hot().iter().any(|s| s.is_rolled() && !read(&s.index).frames.is_empty());
        let has_frames =
            self.active.as_ref().is_some_and(|a| !read(&a.segment.index).frames.is_empty());
        if shared.background.is_attached() && !waiting && has_frames {
            self.roll();
        }
    }

    fn segment_bytes(&self) -> u64 {
        self.shared.config.segment_bytes()
    }

    /// Closes the active segment with its index. When that fails, the frames are in the file all the same, and
    /// the index is tried again by [`maintain`](Self::maintain).
    pub(crate) fn roll(&mut self) {
        let Some(active) = self.active.take() else { return };
        let frames = read(&active.segment.index).frames.len();
        let closed_bytes = active.file.end() + index_bytes(frames);
        self.make_room(closed_bytes.saturating_sub(active.file.allocated_bytes()));
        let entries = {
            let mut index = write(&active.segment.index);
            index.unsaved = false;
            index.frames.clone()
        };
        let rolled = active.file.roll(&entries);
        add(&self.shared.counters.hot_bytes_written, index_bytes(frames));
        {
            let mut index = write(&active.segment.index);
            index.state = RowState::Rolled;
            match rolled {
                Ok(bytes) => index.file_bytes = bytes,
                Err(error) => {
                    tracing::warn!("cannot close a segment yet: {error}");
                    index.unsaved = true;
                }
            }
        }
        self.save_row(&active.segment);
        self.shared.background.wake();
    }

    /// Leaves the active segment as it is.
    fn abandon(&mut self) {
        let Some(active) = self.active.take() else { return };
        write(&active.segment.index).state = RowState::Kept;
        self.save_row(&active.segment);
    }

    /// Writes a segment's row; if that fails, later.
    pub(crate) fn save_row(&mut self, segment: &HotSegment) {
        self.save(&segment.row());
    }

    /// Writes the row of a listed segment; if that fails, all are written later. A sealed segment may not be in the
    /// catalog before its sources are marked, so it is not written alone while rows are missing.
    pub(crate) fn save(&mut self, row: &SegmentRow) {
        if self.catalog_stale {
            self.refresh_catalog();
        } else if let Err(error) = self.catalog.put(row) {
            tracing::warn!("{error}");
            self.catalog_stale = true;
        }
    }

    /// Does what is due every few seconds: retention, closing by age, and what could not be done before.
    pub(crate) fn maintain(&mut self, now_ns: i64) {
        self.retain(now_ns);
        self.roll_old(now_ns);
        self.remove_files();
        if let Ok(space) = self.shared.space() {
            self.note_free(space, 0);
        }
        for segment in self.shared.hot() {
            let parsed = read(&segment.index).times_unknown == 0;
            self.save_index(&segment, parsed);
        }
        if self.catalog_stale {
            self.refresh_catalog();
        }
    }

    /// Writes all rows anew, after one could not be written.
    fn refresh_catalog(&mut self) {
        let listed = self.shared.list().by_age();
        let mut rows: Vec<SegmentRow> = listed.iter().map(AnySegment::row).collect();
        let leaving = self.removing.iter().filter_map(|file| file.row.clone());
        rows.extend(leaving.map(|row| SegmentRow { state: RowState::Deleting, ..row }));
        match self.catalog.set_all(&rows) {
            Ok(()) => self.catalog_stale = false,
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Closes the active segment when it is old enough to be sealed.
    fn roll_old(&mut self, now_ns: i64) {
        if !self.shared.background.is_attached() {
            return;
        }
        let age_ns = self.shared.config.segment_age_ns;
        let end = self.active.as_ref().map_or(0, |active| active.file.end());
        let is_large = end >= self.segment_bytes() / SEGMENT_AGE_PARTS;
        let ages = if is_large { 1 } else { SEGMENT_AGES_MAX };
        self.roll_aged(now_ns, age_ns.saturating_mul(ages));
    }

    /// Removes files of segments that left the list, then their rows. What the disk refuses is tried again later.
    pub(crate) fn remove_files(&mut self) {
        if self.removing.is_empty() {
            return;
        }
        let disk = self.shared.disk.clone();
        let (removed, refused): (Vec<_>, Vec<_>) = std::mem::take(&mut self.removing)
            .into_iter()
            .partition(|file| match disk.remove(&file.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!("{}: cannot delete: {error}", file.path.display());
                    false
                }
                _ => true,
            });
        self.removing = refused;
        if !self.sync_segments_dir() {
            // They may be there again after a power cut, so their rows stay until then.
            self.removing.extend(removed);
            return;
        }
        for row in removed.into_iter().filter_map(|file| file.row) {
            if let Err(error) = self.catalog.remove(row.id) {
                // The mark stays, and the next start finishes.
                tracing::warn!("{error}");
            }
        }
    }

    /// Makes removals of files durable; false when the disk refused.
    pub(crate) fn sync_segments_dir(&self) -> bool {
        let dir = self.shared.config.segments_dir();
        let synced = self.shared.disk.sync_dir(&dir);
        if let Err(error) = &synced {
            tracing::warn!("{}: cannot sync: {error}", dir.display());
        }
        synced.is_ok()
    }

    /// Brings the index in a rolled segment's file up to date.
    fn save_index(&mut self, segment: &Arc<HotSegment>, parsed: bool) {
        let (data_end, entries) = {
            let mut index = write(&segment.index);
            if index.state != RowState::Rolled || !index.unsaved || !parsed {
                return;
            }
            index.unsaved = false;
            (index.data_end, index.frames.clone())
        };
        let disk = &*self.shared.disk;
        match write_index(disk, &segment.path, segment.id, data_end, &entries) {
            Ok(bytes) => write(&segment.index).file_bytes = bytes,
            Err(error) => {
                tracing::warn!("{error}");
                write(&segment.index).unsaved = true;
            }
        }
        self.save_row(segment);
    }

    /// Brings files and catalog in order at the end.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        let mut result = Ok(());
        if let Some(active) = self.active.take() {
            match active.file.close() {
                Ok(bytes) => write(&active.segment.index).file_bytes = bytes,
                Err(error) => result = Err(error.into()),
            }
        }
        self.remove_files();
        for segment in self.shared.hot() {
            self.save_index(&segment, true);
            self.save_row(&segment);
        }
        result
    }
}

impl Active {
    /// Whether so many more frames of so many bytes together stay within the size of a segment. The first frame
    /// always does.
    fn fits(&self, frames: usize, bytes: u64, segment_bytes: u64) -> bool {
        let have = read(&self.segment.index).frames.len();
        let end = self.file.end() + bytes + index_bytes(have + frames);
        (have == 0 && frames == 1) || end <= segment_bytes
    }

    /// Writes frames and makes them durable.
    fn write(&mut self, frames: &[Arc<Frame>]) -> Result<Vec<FrameEntry>, SegmentError> {
        let mut entries = Vec::with_capacity(frames.len());
        for frame in frames {
            let offset = self.file.append(frame.bytes())?;
            entries.push(FrameEntry::new(offset, frame.header()));
        }
        self.file.commit()?;
        Ok(entries)
    }
}
