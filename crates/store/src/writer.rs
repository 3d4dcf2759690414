//! The one thread that writes frames.
//!
//! It takes the queued frames, appends them, syncs once, makes them visible, and calls back. When
//! the disk is full, it rolls the half-written frames back and waits. When writing fails otherwise,
//! it leaves the segment as it is (the outcome of its last writes is unknown), and the frames go to
//! a new one. Work that no frame need wait for is done by the [`Ledger`].

mod retention;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use platform::{BLOCK_BYTES, DiskSpace};
use record::Frame;
use segment::{FrameEntry, HotWriter, SegmentError, SegmentHeader, index_bytes};

use crate::catalog::RowState;
use crate::config::{
    GROUP_BYTES_FULL, GROUP_BYTES_MAX, LOW_DISK_PARTS, PREALLOCATE_BYTES, PREALLOCATE_BYTES_MIN,
    PROBE_BYTES, RESERVE_INTERNAL_PARTS, SEAL_RESERVE_PARTS, ns_of_ms,
};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::position::Position;
use crate::segments::file_names::hot_name;
use crate::segments::hot::{HotIndex, HotSegment};
use crate::store_core::StoreCore;
use crate::store_core::counters::add;
use crate::store_core::write_state::StoreState;
use crate::sync::{lock, read, write};
use platform::KeepError;

/// Longest sleep of the thread while the queue is empty. It is woken when a frame arrives.
const IDLE_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct Writer {
    pub(crate) core: Arc<StoreCore>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) active: Option<Active>,
    /// Whether the reserve of the disk may be used at present.
    pub(crate) in_reserve: bool,
}

/// The segment that frames are appended to.
pub(crate) struct Active {
    pub(crate) file: HotWriter,
    pub(crate) segment: Arc<HotSegment>,
}

/// Runs until the queue is closed and empty, or closed and the disk does not take the rest.
pub(crate) fn run(core: &StoreCore, writer: &Mutex<Writer>) {
    let _finish = FinishQueue(core);
    let mut timer = CommitTimer::default();
    loop {
        let closed = wait_for_work(core, &timer);
        if turn(core, writer, &mut timer, closed) {
            return;
        }
    }
}

/// Writes one group of the queued frames, if there are any; returns true when the thread is to end.
pub(crate) fn turn(
    core: &StoreCore,
    writer: &Mutex<Writer>,
    timer: &mut CommitTimer,
    closed: bool,
) -> bool {
    let now_ns = core.clock.monotonic_ns();
    let committed = lock(writer).commit_group();
    timer.commit_ns = now_ns + ns_of_ms(core.config.commit_interval_ms);
    if let Err(error) = committed {
        core.write_state.note_failure(&error);
        if error.is_disk_full() {
            let mut writer = lock(writer);
            writer.seal_for_room();
            writer.commit_internal();
        }
        give_up_overdue(core);
        timer.commit_ns = now_ns + ns_of_ms(core.config.retry_ms);
        if closed {
            return true;
        }
    } else {
        core.write_state.note_success();
    }
    if closed && core.queue.bytes() == 0 {
        return true;
    }
    false
}

/// When the next group is due, monotonic nanoseconds.
#[derive(Default)]
pub(crate) struct CommitTimer {
    commit_ns: u64,
}

/// Closes the queue however the thread ends, so that nobody waits for it.
struct FinishQueue<'a>(&'a StoreCore);

impl Drop for FinishQueue<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

/// Waits until a group is due; returns whether the queue is closed.
fn wait_for_work(core: &StoreCore, timer: &CommitTimer) -> bool {
    let mut waiting = core.queue.lock();
    loop {
        let now_ns = core.clock.monotonic_ns();
        if waiting.closed {
            return true;
        }
        let failing = !core.write_state.is(&StoreState::Ok);
        let idle = waiting.frames.is_empty() && !failing;
        // A sender that waits for an answer should wait for the disk alone, not for the interval.
        // Frames that come during the sync are the next group.
        let urgent = (waiting.bytes >= GROUP_BYTES_FULL || waiting.awaited > 0) && !failing;
        if !idle && (now_ns >= timer.commit_ns || urgent) {
            return false;
        }
        let timeout = match idle {
            true => IDLE_WAIT,
            false => Duration::from_nanos(timer.commit_ns - now_ns),
        };
        waiting = core.queue.wait_for_change(waiting, timeout);
    }
}

fn give_up_overdue(core: &StoreCore) {
    let waited = ns_of_ms(core.config.unacknowledged_ms_max);
    let Some(since_ns) = core.clock.monotonic_ns().checked_sub(waited) else { return };
    let error = core.write_state.get().refusal().unwrap_or(KeepError::DiskFull);
    for pending in core.queue.take_overdue(since_ns) {
        pending.finish(Err(error.clone()));
    }
}

impl Writer {
    /// Makes queued frames durable and visible, up to one group. Returns an error other than a full
    /// disk only when a fresh segment failed as well.
    fn commit_group(&mut self) -> Result<(), SegmentError> {
        let mut group = self.core.queue.first(GROUP_BYTES_MAX);
        if group.is_empty() && !self.core.write_state.is(&StoreState::Ok) {
            return self.probe();
        }
        let mut failed_before = false;
        while !group.is_empty() {
            match self.commit_some(&group) {
                Ok(frames) => {
                    group.drain(..frames);
                    self.core.write_state.note_success();
                    self.acknowledge(frames);
                }
                Err(error) if error.is_disk_full() || failed_before => return Err(error),
                Err(error) => {
                    tracing::warn!("going on with a new segment: {error}");
                    failed_before = true;
                }
            }
        }
        self.roll_old(self.core.clock.now_ns());
        Ok(())
    }

    /// Makes the first frames of a group durable and visible, as many as fit into the segment;
    /// returns how many.
    fn commit_some(&mut self, group: &[Arc<Frame>]) -> Result<usize, SegmentError> {
        let first = group[0].bytes().len() as u64;
        let (bytes_max, frames_max) = (self.segment_bytes(), self.core.config.segment_frames_max);
        if self.active.as_ref().is_some_and(|active| !active.fits(1, first, bytes_max, frames_max))
        {
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

    /// Tests whether the disk takes writes again, while the queue is empty and no frame would show
    /// it.
    fn probe(&mut self) -> Result<(), SegmentError> {
        let bytes = PROBE_BYTES.min(self.segment_bytes());
        match &self.active {
            Some(active) => self.extend(active.file.allocated_bytes() + bytes),
            None => self.create(bytes),
        }
    }

    fn publish(&mut self, frames: &[Arc<Frame>], entries: Vec<FrameEntry>) {
        self.core.nodes.note_durable(&entries);
        let active = self.active.as_ref().expect("frames were written to it");
        let mut index = write(&active.segment.index);
        for (frame, entry) in frames.iter().zip(entries) {
            let position =
                Position { segment: active.segment.id, frame: index.frames.len() as u32 };
            self.core.segments.cache.put_frame(position, frame.clone());
            index.push(entry);
        }
        index.file_bytes = active.file.allocated_bytes();
        drop(index);
        let counters = &self.core.counters;
        let bytes: usize = frames.iter().map(|frame| frame.bytes().len()).sum();
        let raw: u64 = frames.iter().map(|frame| u64::from(frame.header().payload_bytes)).sum();
        add(&counters.hot_bytes_written, bytes as u64);
        add(&counters.bytes_raw_committed, raw);
        self.core.progress.note_change();
    }

    fn acknowledge(&self, frames: usize) {
        let counters = &self.core.counters;
        let now_ns = self.core.clock.monotonic_ns();
        add(&counters.frames_committed, frames as u64);
        add(&counters.groups_committed, 1);
        for pending in self.core.queue.take(frames) {
            let latency_ns = now_ns.saturating_sub(pending.since_ns);
            counters.commit_latency.add(Duration::from_nanos(latency_ns));
            pending.finish(Ok(()));
        }
        // Readers may pass the numbers of these frames now.
        self.core.progress.note_change();
    }

    /// Creates an empty segment that records which sequence numbers were issued, before retention
    /// deletes the last segment that records them. It may use the disk reserve, because the
    /// deletion frees more space than this file takes.
    pub(crate) fn create_number_record(&mut self) -> Result<(), SegmentError> {
        self.roll();
        self.with_reserve(|writer| {
            // Its few bytes may exceed the limit on bytes until the deletion: nothing is deleted to
            // make room for it, since that could be what a rewrite is about to keep.
            writer.check_free(writer.created_bytes(0))?;
            writer.create_file()
        })
    }

    /// Runs `work`, which may use the reserve of the disk.
    fn with_reserve<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.in_reserve = true;
        let done = work(self);
        self.in_reserve = false;
        done
    }

    /// Creates the next segment, with room for a first frame of `frame_bytes`.
    pub(crate) fn create(&mut self, frame_bytes: u64) -> Result<(), SegmentError> {
        let bytes = self.created_bytes(frame_bytes);
        self.make_room(bytes);
        self.check_free(bytes)?;
        self.create_file()
    }

    /// Bytes of a new segment with one frame of `frame_bytes`.
    fn created_bytes(&self, frame_bytes: u64) -> u64 {
        let header = SegmentHeader::bytes_of(self.core.nodes.header_ranges_count());
        header + frame_bytes + index_bytes(1)
    }

    fn create_file(&mut self) -> Result<(), SegmentError> {
        assert!(self.active.is_none(), "one segment is written at a time");
        let core = self.core.clone();
        let dir = core.config.segments_dir();
        let id = core.segments.issue_id();
        let path = dir.join(hot_name(id));
        let (held, omitted) = core.nodes.header_ranges();
        if omitted > 0 {
            add(&core.counters.held_ranges_omitted, omitted as u64);
            tracing::warn!(
                "the numbers of collectors' frames have more gaps than a segment's header has room for; {omitted} ranges \
                 are left out, and their frames would be kept twice if they came again"
            );
        }
        let header = SegmentHeader {
            node: core.node,
            segment: id,
            created_ns: core.clock.now_ns(),
            sequence_next: core.numbers.next(),
            held,
        };
        let file = HotWriter::create(&*core.disk, &path, &header).inspect_err(|_| {
            let _ = core.disk.remove(&path);
        })?;
        let mut index =
            HotIndex::new(RowState::Hot, Vec::new(), file.end(), file.allocated_bytes());
        index.unlisted = true;
        let segment = Arc::new(HotSegment::new(path, &header, index, 0));
        core.segments.push_hot(segment.clone());
        self.active = Some(Active { file, segment });
        core.signals.ledger.wake();
        Ok(())
    }

    /// Preallocates space for the first frames of a group; returns for how many.
    fn reserve(&mut self, group: &[Arc<Frame>]) -> Result<usize, SegmentError> {
        let segment_bytes = self.segment_bytes();
        let frames_max = self.core.config.segment_frames_max;
        let active = self.active.as_ref().expect("made before");
        let mut frames = 1;
        let mut bytes = group[0].bytes().len() as u64;
        for frame in &group[1..] {
            let more = bytes + frame.bytes().len() as u64;
            if !active.fits(frames + 1, more, segment_bytes, frames_max) {
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
            let step = allocated.clamp(PREALLOCATE_BYTES_MIN, PREALLOCATE_BYTES);
            let roomy = (allocated + step).min(segment_bytes).max(needed);
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
        if self.core.retention().bytes_max.is_some() {
            // The ledger deletes ahead, so that the next preallocation finds room.
            self.core.signals.ledger.wake();
        }
        Ok(())
    }

    /// Fails like a full disk when taking `bytes` would leave less free than
    /// [`free_min`](Self::free_min).
    fn check_free(&self, bytes: u64) -> Result<(), SegmentError> {
        let core = &self.core;
        let free_min = self.free_min();
        let space = core.space()?;
        if !self.in_reserve {
            self.note_free(space, bytes);
        }
        if space.free_bytes < bytes.saturating_add(free_min) {
            let source = std::io::ErrorKind::StorageFull.into();
            let path = core.config.segments_dir();
            return Err(SegmentError::Io { path, action: "extend", source });
        }
        Ok(())
    }

    /// Bytes that writing leaves free: the configured reserve, and room to seal the largest
    /// unsealed segment.
    fn free_min(&self) -> u64 {
        let core = &self.core;
        let wanted = core.config.disk_free_bytes_min;
        if self.in_reserve {
            return wanted / RESERVE_INTERNAL_PARTS;
        }
        if !core.signals.sealing.is_attached() {
            return wanted;
        }
        let bytes = |hot: &Arc<HotSegment>| read(&hot.index).data_end;
        let largest = core.segments.hot().iter().map(bytes).max().unwrap_or(0);
        wanted.saturating_add(largest / SEAL_RESERVE_PARTS)
    }

    /// Records for the background whether another segment would find no room.
    fn note_free(&self, space: DiskSpace, bytes: u64) {
        let wanted = self.segment_bytes().min(space.total_bytes / LOW_DISK_PARTS);
        let wanted = self.free_min().saturating_add(wanted);
        let free_bytes = space.free_bytes.saturating_sub(bytes);
        self.core.signals.sealing.set_low_disk(free_bytes < wanted);
    }

    /// While the disk is full, makes queued rows of the summary durable before other frames, out of
    /// the reserve. Without them nothing more is settled or sealed, and the disk stays full.
    fn commit_internal(&mut self) {
        if !self.core.signals.sealing.is_attached() {
            return;
        }
        let frames = self.core.queue.internal_first();
        if frames.is_empty() {
            return;
        }
        match self.with_reserve(|writer| writer.commit_some(&frames)) {
            Ok(frames) => self.acknowledge(frames),
            Err(error) => tracing::warn!("rows of the summary find no room: {error}"),
        }
    }

    /// Called when the disk is full: has the background seal closed segments, and closes the active
    /// segment when there is no other to seal.
    fn seal_for_room(&mut self) {
        let core = self.core.clone();
        core.signals.sealing.set_low_disk(true);
        let waiting =
            core.segments.hot().iter().any(|s| s.is_rolled() && !read(&s.index).frames.is_empty());
        let has_frames =
            self.active.as_ref().is_some_and(|a| !read(&a.segment.index).frames.is_empty());
        if core.signals.sealing.is_attached() && !waiting && has_frames {
            self.roll();
        }
    }

    fn segment_bytes(&self) -> u64 {
        self.core.segment_bytes()
    }

    /// Closes the active segment. The ledger ends its file with an index.
    pub(crate) fn roll(&mut self) {
        let Some(active) = self.active.take() else { return };
        {
            let mut index = write(&active.segment.index);
            index.state = RowState::Rolled;
            index.closing = true;
        }
        self.core.signals.ledger.wake();
        self.core.signals.sealing.wake();
    }

    /// Abandons the active segment as it is, after a failed write.
    fn abandon(&mut self) {
        let Some(active) = self.active.take() else { return };
        write(&active.segment.index).state = RowState::Kept;
        lock(&self.ledger).save_row(&active.segment);
    }

    /// Runs the periodic work on the active segment: closing it by age, preparing retention, and
    /// measuring the free space.
    pub(crate) fn maintain(&mut self, now_ns: i64) {
        self.roll_old(now_ns);
        self.prepare_retention(now_ns);
        if let Ok(space) = self.core.space() {
            self.note_free(space, 0);
        }
    }

    /// Closes the active segment when it is old enough to be sealed. Its age counts from its first
    /// arrival, or from the creation of its file if that is later: lines may have waited at a
    /// collector for days.
    pub(crate) fn roll_old(&mut self, now_ns: i64) {
        if !self.core.signals.sealing.is_attached() {
            return;
        }
        let Some(active) = &self.active else { return };
        let age_ns = self.core.config.closing_age_ns(active.file.end(), self.segment_bytes());
        let Some((first_ns, _)) = read(&active.segment.index).totals.received_ns else { return };
        let since_ns = first_ns.max(active.segment.created_ns);
        if since_ns < now_ns.saturating_sub(age_ns) {
            self.roll();
        }
    }

    /// Gives preallocated space back, when the store is closed.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        let Some(active) = self.active.take() else { return Ok(()) };
        write(&active.segment.index).file_bytes = active.file.close()?;
        Ok(())
    }
}

impl Active {
    /// Whether `frames` more frames of together `bytes` stay within the limits of a segment. The
    /// first frame always fits.
    fn fits(&self, frames: usize, bytes: u64, segment_bytes: u64, frames_max: usize) -> bool {
        let all = read(&self.segment.index).frames.len() + frames;
        let end = self.file.end() + bytes + index_bytes(all);
        all == 1 || (end <= segment_bytes && all <= frames_max)
    }

    /// Appends frames and syncs.
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
