//! The newest frames of a partition, in the memory of its owner.
//!
//! ```text
//!            base              committed             position          end of the log
//!   deleted   │ published, kept    │ not published       │ not read yet     │
//!             └── answers queries from here … to here ───┘
//! ```
//!
//! A query names the offsets that it wants: from the offset that its snapshot of the catalog has,
//! to the end that the log had after the query began. The frames between two offsets never change,
//! whoever reads them. So an answer is either exactly these frames or a refusal, and a query is
//! right even if it asks an owner whose lease has ended, or asks while a segment is published. So a
//! node whose lease ended because the catalog does not answer goes on answering
//! ([`crate::Change::Expired`]).

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::Frame;

use crate::duplicates::{Duplicates, Seen};
use crate::ids::NodeId;
use crate::member::nanos;

/// A frame with its place in the log.
#[derive(Clone)]
pub struct HotFrame {
    /// Offset of its message.
    pub offset: u64,
    /// The frame.
    pub frame: Arc<Frame>,
}

/// Why the owner of a partition cannot answer with the offsets that a query wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HotError {
    /// The node does not own the partition any more. The query plans again.
    #[error("this node does not own the partition any more; the query is planned again")]
    NotOwner,
    /// The frames were published and are not kept any more. The query plans again, and finds them
    /// in segments.
    #[error("the frames below offset {base} are in segments only; the query is planned again")]
    Published {
        /// The first offset that the owner still has.
        base: u64,
    },
    /// The owner has not read so far. The query waits a little and asks again.
    #[error("the owner has read the log up to offset {position} only; the query asks again")]
    Behind {
        /// What it has read.
        position: u64,
    },
}

/// What is published next: the oldest frames that are not published.
pub(crate) struct Cut {
    pub offsets: Range<u64>,
    pub frames: Vec<HotFrame>,
    pub producers: Vec<(NodeId, Seen)>,
    pub lost: u64,
}

/// The newest frames of a partition. The reader appends, the publisher publishes, queries read;
/// shared by their threads.
pub struct HotPart {
    state: Mutex<State>,
    read_on: Condvar,
}

struct State {
    frames: VecDeque<HotFrame>,
    base: u64,
    committed: u64,
    position: u64,
    /// Bytes of frames that are not published.
    bytes_unpublished: usize,
    /// Bytes of published frames that are kept.
    bytes_published: usize,
    /// When the first message that is not published was read.
    unpublished_since_ns: Option<u64>,
    /// Messages between `committed` and `position` that the log deleted unread.
    lost: u64,
    /// Everything below is published as soon as possible, whatever its size and age.
    wanted: u64,
    /// The frames below `committed`.
    seen: Duplicates,
    /// Ends of published offsets, with the times of their publication.
    published: VecDeque<(u64, u64)>,
    /// Ends of the log above `position`, with the times when they were first heard of.
    ends: VecDeque<(u64, u64)>,
    serve_until_ns: u64,
}

/// Ends of the log that are remembered with their times. Of more, the age of the newest is taken
/// for greater than it is.
const ENDS_MAX: usize = 64;

/// What the log has, and the owner of the partition does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Offsets between the last one read and the end of the log.
    pub messages: u64,
    /// How long ago the node heard of the oldest of them.
    pub age: Duration,
}

impl HotPart {
    /// An empty part that begins at an offset. It answers queries once
    /// [`extend`](Self::extend) was called.
    pub fn new(offset: u64) -> HotPart {
        HotPart::resume(offset, Duplicates::default())
    }

    /// As [`new`](Self::new), behind the frames that the catalog knows of.
    pub fn resume(offset: u64, seen: Duplicates) -> HotPart {
        let state = State {
            frames: VecDeque::new(),
            base: offset,
            committed: offset,
            position: offset,
            bytes_unpublished: 0,
            bytes_published: 0,
            unpublished_since_ns: None,
            lost: 0,
            wanted: 0,
            seen,
            published: VecDeque::new(),
            ends: VecDeque::new(),
            serve_until_ns: 0,
        };
        HotPart { state: Mutex::new(state), read_on: Condvar::new() }
    }

    /// Answers queries until then: the end of the lease, by the node's monotonic clock.
    pub fn extend(&self, until_ns: u64) {
        self.lock().serve_until_ns = until_ns;
    }

    /// Answers no query any more: the lease is over.
    pub fn stop(&self) {
        self.extend(0);
    }

    /// The frames from offset `from` on and below `until`, without duplicates: all of them, or an
    /// error. They stay in memory for as long as the caller has them.
    pub fn read(&self, from: u64, until: u64, now_ns: u64) -> Result<Vec<HotFrame>, HotError> {
        self.read_between(from, until, false, now_ns)
    }

    /// As [`read`](Self::read), and with all frames behind `until` that the owner has, for a query
    /// that does not know where the log ends.
    pub fn read_open(&self, from: u64, until: u64, now_ns: u64) -> Result<Vec<HotFrame>, HotError> {
        self.read_between(from, until, true, now_ns)
    }

    fn read_between(
        &self,
        from: u64,
        until: u64,
        is_open: bool,
        now_ns: u64,
    ) -> Result<Vec<HotFrame>, HotError> {
        let mut state = self.lock();
        state.hear_end(until, now_ns);
        if now_ns >= state.serve_until_ns {
            return Err(HotError::NotOwner);
        }
        if from < state.base {
            return Err(HotError::Published { base: state.base });
        }
        if state.position < until {
            return Err(HotError::Behind { position: state.position });
        }
        let until = if is_open { state.position } else { until };
        let first = state.frames.partition_point(|frame| frame.offset < from);
        let end = state.frames.partition_point(|frame| frame.offset < until);
        Ok(state.frames.range(first..end.max(first)).cloned().collect())
    }

    /// Blocks until the log is read up to `until`, or `wait` is over. For a query that was told
    /// [`HotError::Behind`].
    pub fn wait_for(&self, until: u64, wait: Duration) {
        let state = self.lock();
        let behind = |state: &mut State| state.position < until;
        drop(self.read_on.wait_timeout_while(state, wait, behind));
    }

    /// The frames from offset `from` on that were read so far, for the owner itself: whether its
    /// lease holds is not asked.
    pub fn frames_from(&self, from: u64) -> Vec<HotFrame> {
        let state = self.lock();
        let first = state.frames.partition_point(|frame| frame.offset < from);
        state.frames.range(first..).cloned().collect()
    }

    /// Somebody found that the log ends there. What is below is to be read.
    pub fn hear_end(&self, end: u64, now_ns: u64) {
        self.lock().hear_end(end, now_ns);
    }

    /// The end of the log as far as anybody told, or what was read if that is more.
    pub fn end(&self) -> u64 {
        let state = self.lock();
        state.ends.back().map_or(state.position, |(end, _)| *end)
    }

    /// What is still to be read.
    pub fn lag(&self, now_ns: u64) -> Lag {
        let state = self.lock();
        let (Some((_, oldest_ns)), Some((end, _))) = (state.ends.front(), state.ends.back()) else {
            return Lag::default();
        };
        Lag {
            messages: end - state.position,
            age: Duration::from_nanos(now_ns.saturating_sub(*oldest_ns)),
        }
    }

    /// How long ago the oldest frame that is not published was read. After a publication, how long
    /// ago that was.
    pub fn unpublished_age(&self, now_ns: u64) -> Duration {
        let since_ns = self.lock().unpublished_since_ns;
        Duration::from_nanos(since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns)))
    }

    /// The first offset that is in memory.
    pub fn base(&self) -> u64 {
        self.lock().base
    }

    /// The next offset to read.
    pub fn position(&self) -> u64 {
        self.lock().position
    }

    /// The offset below which everything is published.
    pub fn committed(&self) -> u64 {
        self.lock().committed
    }

    /// Lines of frames that are not published.
    pub fn lines_unpublished(&self) -> u64 {
        let state = self.lock();
        let first = state.frames.partition_point(|hot| hot.offset < state.committed);
        state.frames.range(first..).map(|hot| u64::from(hot.frame.header().lines)).sum()
    }

    /// Bytes of frames that are not published.
    pub fn bytes_unpublished(&self) -> usize {
        self.lock().bytes_unpublished
    }

    /// Appends what was read up to `position`.
    pub(crate) fn append(&self, frames: Vec<HotFrame>, position: u64, lost: u64, now_ns: u64) {
        let mut state = self.lock();
        if position > state.position {
            state.unpublished_since_ns.get_or_insert(now_ns);
        }
        state.bytes_unpublished += frames.iter().map(|f| f.frame.memory_bytes()).sum::<usize>();
        state.frames.extend(frames);
        state.position = position.max(state.position);
        let position = state.position;
        while state.ends.pop_front_if(|(end, _)| *end <= position).is_some() {}
        state.lost += lost;
        self.read_on.notify_all();
    }

    /// Has everything that was read so far published as soon as possible. Returns the number of
    /// frames that waited for it.
    pub fn publish_now(&self) -> usize {
        let mut state = self.lock();
        state.wanted = state.position;
        let committed = state.committed;
        state.frames.len() - state.frames.partition_point(|frame| frame.offset < committed)
    }

    /// Up to about `bytes_max` of what is not published, if there are as many, or the oldest was
    /// read `age` ago, or [`publish_now`](Self::publish_now) asked for it.
    pub(crate) fn cut(&self, bytes_max: usize, age: Duration, now_ns: u64) -> Option<Cut> {
        let state = self.lock();
        let since = state.unpublished_since_ns?;
        let is_due = state.bytes_unpublished >= bytes_max
            || now_ns.saturating_sub(since) >= nanos(age)
            || state.committed < state.wanted;
        if !is_due {
            return None;
        }
        let first = state.frames.partition_point(|frame| frame.offset < state.committed);
        let (mut frames, mut bytes, mut end) = (Vec::new(), 0, state.position);
        let (mut nodes, mut seen) = (BTreeSet::new(), state.seen.clone());
        for frame in state.frames.range(first..) {
            if bytes >= bytes_max {
                end = frame.offset;
                break;
            }
            bytes += frame.frame.memory_bytes();
            let (node, sequence) = frame.frame.header().name();
            seen.is_new(NodeId(node), sequence);
            nodes.insert(NodeId(node));
            frames.push(frame.clone());
        }
        // Counted with the last piece, since it is not known where between the frames they were.
        let lost = if end == state.position { state.lost } else { 0 };
        let producers = nodes.into_iter().filter_map(|node| Some((node, seen.of(node)?)));
        let producers = producers.collect();
        Some(Cut { offsets: state.committed..end, frames, producers, lost })
    }

    /// Everything below `cut`'s end is published now.
    pub(crate) fn published(&self, end: u64, lost: u64, now_ns: u64) {
        let mut state = self.lock();
        let first = state.frames.partition_point(|frame| frame.offset < state.committed);
        let last = state.frames.partition_point(|frame| frame.offset < end);
        let State { frames, seen, .. } = &mut *state;
        let mut bytes = 0;
        for HotFrame { frame, .. } in frames.range(first..last.max(first)) {
            let (node, sequence) = frame.header().name();
            seen.is_new(NodeId(node), sequence);
            bytes += frame.memory_bytes();
        }
        state.bytes_unpublished = state.bytes_unpublished.saturating_sub(bytes);
        state.bytes_published += bytes;
        state.committed = end.max(state.committed);
        state.lost = state.lost.saturating_sub(lost);
        state.unpublished_since_ns = (state.position > state.committed).then_some(now_ns);
        state.published.push_back((end, now_ns));
    }

    /// Frees published frames that were kept for `keep`, or earlier when they take more than
    /// `bytes_max`. They are kept so that queries planned before their publication can be answered.
    pub(crate) fn free(&self, keep: Duration, bytes_max: usize, now_ns: u64) {
        let mut state = self.lock();
        while let Some(&(end, at_ns)) = state.published.front()
            && (state.bytes_published > bytes_max || now_ns.saturating_sub(at_ns) >= nanos(keep))
        {
            state.published.pop_front();
            state.base = end;
            while let Some(frame) = state.frames.pop_front_if(|frame| frame.offset < end) {
                let bytes = frame.frame.memory_bytes();
                state.bytes_published = state.bytes_published.saturating_sub(bytes);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed by statements that do not panic; a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hear_end(&mut self, end: u64, now_ns: u64) {
        if end <= self.ends.back().map_or(self.position, |(end, _)| *end) {
            return;
        }
        if self.ends.len() >= ENDS_MAX {
            self.ends.pop_back();
        }
        self.ends.push_back((end, now_ns));
    }
}
