//! The store as its users see it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use platform::{Clock, Disk, DiskLock, DiskSpace, LockError};
use record::Frame;

use crate::config::{COMMITTED_FRAMES_MAX, StoreConfig};
use crate::error::{AppendError, StoreError};
use crate::handle::{CommittedFrame, FrameHandle};
use crate::queue::{OnDurable, Pending};
use crate::recovery::{Recovered, RecoveryReport, recover};
use crate::segments::{Position, Segment, span};
use crate::shared::{Shared, lock, read, write};
use crate::stats::{StoreState, StoreStats, get};
use crate::writer::{self, Active, Writer, ms, refusal};

/// Keeps the frames of one node. All methods may be called from several threads at once.
pub struct Store {
    shared: Arc<Shared>,
    writer: Arc<Mutex<Writer>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl Store {
    /// Opens a data directory, makes it if it is missing, and brings it in order after a crash.
    ///
    /// Errors: another instance has it; a setting cannot work; a file cannot be read, or was written by a newer
    /// version.
    pub fn open(
        config: StoreConfig,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Store>, RecoveryReport), StoreError> {
        config.check()?;
        let dir = config.segments_dir();
        disk.create_dir_all(&dir).map_err(StoreError::io(&dir, "create"))?;
        let lock_file = config.data_dir.join("LOCK");
        let lock = disk.lock(&lock_file).map_err(|error| match error {
            LockError::Held { holder } => {
                StoreError::Locked { data_dir: config.data_dir.clone(), holder }
            }
            LockError::Io(source) => StoreError::Io { path: lock_file, action: "lock", source },
        })?;
        let recovered = recover(&config, &*disk, &*clock)?;
        let Recovered { report, catalog, node, sequence_next, segment_next, segments, active } =
            recovered;
        let active = active.map(|file| {
            let segment = segments.last().expect("the file is that of a segment").clone();
            Active { file, segment }
        });
        let shared = Arc::new(Shared::new(config, disk, clock, node, sequence_next, segments));
        let writer =
            Writer { shared: shared.clone(), catalog, catalog_stale: false, active, segment_next };
        let writer = Arc::new(Mutex::new(writer));
        let thread = {
            let (shared, writer) = (shared.clone(), writer.clone());
            std::thread::Builder::new()
                .name("store-writer".to_owned())
                .spawn(move || writer::run(&shared, &writer))
                .map_err(StoreError::io(&dir, "start the writer for"))?
        };
        let store = Store {
            shared,
            writer,
            thread: Mutex::new(Some(thread)),
            lock: Mutex::new(Some(lock)),
        };
        Ok((Arc::new(store), report))
    }

    /// This node's id: random, made once, kept in the catalog and in each segment.
    pub fn node(&self) -> u32 {
        self.shared.node
    }

    /// Numbers the next frame: this node's id and a sequence number above all that are in the store or were given
    /// before.
    pub fn next_sequence(&self) -> (u32, u64) {
        (self.shared.node, self.shared.sequence_next.fetch_add(1, Ordering::AcqRel))
    }

    /// Takes a frame, to be made durable with others within some milliseconds. Blocks while the queue is full.
    ///
    /// `on_durable` is called exactly once, also when an error is returned. Frames with it are given up, with an
    /// error, when the disk takes nothing for [`StoreConfig::unacknowledged_ms_max`]; frames without it wait as
    /// long as it takes, and so does who brings more.
    pub fn append(&self, frame: Frame, on_durable: Option<OnDurable>) -> Result<(), AppendError> {
        self.append_all(vec![(frame, on_durable)])
    }

    /// As [`append`](Self::append), but the frame is never given up for want of room: it waits as long as it takes,
    /// and so does who brings more. For lines that nobody would send again.
    pub fn append_patiently(&self, frame: Frame, on_durable: OnDurable) -> Result<(), AppendError> {
        let since_ns = self.shared.clock.monotonic_ns();
        let on_durable = Some(on_durable);
        let frame = Arc::new(frame);
        self.enqueue(vec![Pending { frame, on_durable, awaited: false, since_ns }], since_ns)
    }

    /// As [`append`](Self::append), for several frames that go into the queue together, in this order. Together
    /// they may exceed the queue's limit, once; the caller bounds them.
    pub fn append_all(&self, frames: Vec<(Frame, Option<OnDurable>)>) -> Result<(), AppendError> {
        let since_ns = self.shared.clock.monotonic_ns();
        let pending = |(frame, on_durable): (Frame, Option<OnDurable>)| {
            let awaited = on_durable.is_some();
            Pending { frame: Arc::new(frame), on_durable, awaited, since_ns }
        };
        self.enqueue(frames.into_iter().map(pending).collect(), since_ns)
    }

    fn enqueue(&self, pending: Vec<Pending>, since_ns: u64) -> Result<(), AppendError> {
        let shared = &self.shared;
        let bytes: usize = pending.iter().map(|p| p.frame.bytes().len()).sum();
        let awaited = pending.iter().any(|p| p.awaited);
        let mut waiting = shared.queue.lock();
        let error = loop {
            if waiting.closed {
                break AppendError::Closed;
            }
            if waiting.bytes == 0 || waiting.bytes + bytes <= shared.config.queue_bytes_max {
                shared.queue.push(waiting, pending);
                return Ok(());
            }
            let waited_ns = shared.clock.monotonic_ns() - since_ns;
            if awaited
                && waited_ns >= ms(shared.config.unacknowledged_ms_max)
                && let Some(error) = self.refusal()
            {
                break error;
            }
            let timeout = Duration::from_millis(shared.config.retry_ms.max(1));
            waiting = shared.queue.wait_for_room(waiting, timeout);
        };
        drop(waiting);
        for pending in pending {
            pending.finish(Err(error.clone()));
        }
        Err(error)
    }

    /// Why lines would be refused at present, if they would.
    pub fn refusal(&self) -> Option<AppendError> {
        refusal(&self.shared.state())
    }

    /// The frames that may hold event times from the first to the second instant, both inclusive, nanoseconds
    /// since 1970 UTC. Newest first by their latest event time; those whose times are not known come before.
    pub fn snapshot(&self, range_ns: (i64, i64)) -> Vec<FrameHandle> {
        let mut handles = Vec::new();
        for segment in self.shared.list() {
            let index = read(&segment.index);
            if index.times_unknown == 0 && !overlaps(index.totals.time_ns, range_ns) {
                continue;
            }
            let frames = index.frames.iter().enumerate();
            let inside = frames.filter(|(_, entry)| {
                let times = entry.time_range_ns();
                times.is_none() || overlaps(times, range_ns)
            });
            handles.extend(inside.map(|(place, entry)| FrameHandle {
                shared: self.shared.clone(),
                segment: segment.clone(),
                frame: place as u32,
                entry: *entry,
            }));
        }
        handles.sort_unstable_by_key(|handle| {
            let newest = handle.time_range().map_or(i64::MAX, |(_, max)| max);
            std::cmp::Reverse((handle.time_range().is_none(), newest, handle.position()))
        });
        handles
    }

    /// The frame of this node with that sequence number.
    pub fn find_sequence(&self, sequence: u64) -> Option<FrameHandle> {
        let segments = self.shared.list();
        segments.iter().rev().find_map(|segment| {
            let index = read(&segment.index);
            let (first, last) = index.totals.sequence?;
            if sequence < first || last < sequence {
                return None;
            }
            let place = index
                .frames
                .iter()
                .position(|entry| (entry.node, entry.sequence) == (self.shared.node, sequence))?;
            Some(self.handle(segment, place, index.frames[place]))
        })
    }

    /// The cursor just before the first frame whose event times are not known: where the parse stage begins.
    pub fn first_unparsed(&self) -> Position {
        let segments = self.shared.list();
        let mut end = Position::START;
        for segment in &segments {
            let index = read(&segment.index);
            if index.times_unknown > 0 {
                let unknown = index.frames.iter().position(|e| e.time_range_ns().is_none());
                let frame = unknown.expect("it was counted") as u32;
                return Position { segment: segment.id, frame }.before();
            }
            if let Some(last) = index.frames.len().checked_sub(1) {
                end = Position { segment: segment.id, frame: last as u32 };
            }
        }
        end
    }

    /// The first frames behind a cursor, in the order in which they became durable, at most 64. Waits for one up
    /// to `timeout`; empty when none came, or at once when the store is closed and none is left.
    pub fn wait_committed(&self, after: Position, timeout: Duration) -> Vec<CommittedFrame> {
        let deadline = std::time::Instant::now() + timeout;
        let mut groups = lock(&self.shared.groups);
        loop {
            let seen = *groups;
            drop(groups);
            let frames = self.committed(after);
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if !frames.is_empty() || left.is_zero() || self.shared.state() == StoreState::Closed {
                return frames;
            }
            groups = lock(&self.shared.groups);
            if *groups == seen {
                let waited = self.shared.grown.wait_timeout(groups, left);
                groups = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            }
        }
    }

    /// Tells the event times of a frame, earliest and latest, both inclusive, nanoseconds since 1970 UTC. Nothing
    /// happens if the frame was deleted meanwhile.
    pub fn set_times(&self, position: Position, range_ns: (i64, i64)) {
        if let Some(segment) = self.shared.segment(position.segment) {
            write(&segment.index).set_times(position.frame, range_ns);
        }
    }

    /// Deletes what is beyond the limits at `now_ns`, nanoseconds since 1970 UTC. Also done by itself every few
    /// seconds and before the store grows.
    pub fn run_retention(&self, now_ns: i64) {
        lock(&self.writer).maintain(now_ns);
    }

    /// Closes the segment being written, as when it is full.
    pub fn roll(&self) {
        lock(&self.writer).roll();
    }

    /// Room on the file system of the data directory.
    pub fn disk_space(&self) -> Result<DiskSpace, StoreError> {
        let dir = &self.shared.config.data_dir;
        self.shared.disk.space(dir).map_err(StoreError::io(dir, "get free space"))
    }

    /// Numbers at this moment.
    pub fn stats(&self) -> StoreStats {
        let shared = &self.shared;
        let mut stats = StoreStats {
            state: shared.state(),
            lines_expired: get(&shared.counters.lines_expired),
            bytes_expired: get(&shared.counters.bytes_expired),
            frames_committed: get(&shared.counters.frames_committed),
            groups_committed: get(&shared.counters.groups_committed),
            commit_latency_ns_sum: get(&shared.counters.commit_latency_ns_sum),
            commit_latency_ns_max: get(&shared.counters.commit_latency_ns_max),
            queue_bytes: shared.queue.bytes() as u64,
            cache_bytes: shared.cache.bytes() as u64,
            ..StoreStats::default()
        };
        for segment in shared.list() {
            let index = read(&segment.index);
            stats.segments += 1;
            stats.frames += index.frames.len() as u64;
            stats.frames_unparsed += index.times_unknown as u64;
            stats.lines += index.totals.lines;
            stats.bytes_raw += index.totals.bytes_raw;
            stats.bytes_disk += index.file_bytes;
            stats.time_ns = span(stats.time_ns, index.totals.time_ns);
            stats.received_ns = span(stats.received_ns, index.totals.received_ns);
        }
        stats
    }

    /// Takes nothing more, makes durable what waits, and ends the writer. What is there can still be read. A
    /// second call does nothing. Dropping the store does the same.
    ///
    /// Errors: frames that waited could not be written; those with `on_durable` were told so.
    pub fn close(&self) -> Result<(), StoreError> {
        self.shared.queue.close();
        let Some(thread) = lock(&self.thread).take() else { return Ok(()) };
        let panicked = thread.join().is_err();
        let reason = match refusal(&self.shared.state()) {
            _ if panicked => AppendError::Failed("the writer failed".to_owned()),
            reason => reason.unwrap_or(AppendError::Closed),
        };
        *lock(&self.shared.state) = StoreState::Closed;
        *lock(&self.shared.groups) += 1;
        self.shared.grown.notify_all();
        let waiting = self.shared.queue.lock().frames.len();
        let unwritten = self.shared.queue.take(waiting);
        let lines = unwritten.iter().map(|p| u64::from(p.frame.header().lines)).sum();
        for pending in unwritten {
            pending.finish(Err(reason.clone()));
        }
        let closed = lock(&self.writer).close();
        *lock(&self.lock) = None;
        if lines > 0 {
            return Err(StoreError::Unwritten { lines, reason: reason.to_string() });
        }
        closed
    }

    fn committed(&self, after: Position) -> Vec<CommittedFrame> {
        let segments = self.shared.list();
        let mut frames = Vec::new();
        for segment in segments.iter().filter(|s| s.id >= after.segment) {
            let index = read(&segment.index);
            let from = match segment.id == after.segment {
                true => (after.frame as usize).saturating_add(1),
                false => 0,
            };
            for place in from..index.frames.len() {
                let handle = self.handle(segment, place, index.frames[place]);
                let (position, sequence) = (handle.position(), handle.sequence());
                frames.push(CommittedFrame { position, sequence, handle });
                if frames.len() == COMMITTED_FRAMES_MAX {
                    return frames;
                }
            }
        }
        frames
    }

    fn handle(
        &self,
        segment: &Arc<Segment>,
        place: usize,
        entry: segment::FrameEntry,
    ) -> FrameHandle {
        FrameHandle {
            shared: self.shared.clone(),
            segment: segment.clone(),
            frame: place as u32,
            entry,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("closing the store: {error}");
        }
    }
}

fn overlaps(times: Option<(i64, i64)>, range: (i64, i64)) -> bool {
    times.is_some_and(|(min, max)| min <= range.1 && range.0 <= max)
}
