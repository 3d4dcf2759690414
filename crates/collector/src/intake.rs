//! Frames from lines that come in calls, from many threads: HTTP requests, and Loginson's own rows.
//!
//! Small pushes share frames, so that a thousand small requests are a few frames and a few commits. A frame is
//! delivered when it is full, or when none of this intake is on its way to the disk: a lone request waits for nothing but the
//! disk, and what comes meanwhile goes together. Where the disk takes long, a frame leaves when
//! [`FRAME_AGE_AWAITED_MS`](crate::FRAME_AGE_AWAITED_MS) (or what is configured) has passed since its first line; a thread of
//! the intake sees to both.
//!
//! Invariants: the lines of one push stay in order and in one frame, so that its [`Ticket`] says of all of them what
//! became of them; each ticket resolves exactly once.
//! Bounded: a push blocks while delivery does, so nothing queues up here. Left out: waiting for room on a full
//! disk, since a caller can be told (the ticket's error) and is able to come again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use platform::placement::{self, Role};
use record::frame::{LINE_BYTES_MAX, PAYLOAD_BYTES_TARGET};
use record::{FrameBuilder, Origin};

use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::{Deliver, DeliverError, Patience};
use crate::outlet::Destination;
use crate::ticket::{FrameFate, Ticket};

/// Bytes of lines that [`Intake::deliver_alone`] takes: rows that must be one frame are few.
pub const ALONE_BYTES_MAX: usize = LINE_BYTES_MAX;

/// Builds frames for callers from many threads. See the module.
pub struct Intake {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
}

struct Shared {
    destination: Destination,
    frame_age: Duration,
    building: Mutex<Building>,
    on_its_way: Arc<OnItsWay>,
}

/// Frames that were delivered and whose fate is not known yet.
#[derive(Default)]
struct OnItsWay {
    frames: AtomicUsize,
    /// The first line of a frame came, no frame is on its way any more, or the intake stops.
    changed: Condvar,
}

impl OnItsWay {
    fn none(&self) -> bool {
        self.frames.load(Ordering::Acquire) == 0
    }

    /// One less. Called by whoever knows the fate, who may not wait for the lock of the frame that is being built: its holder
    /// may be waiting for him. So the thread of the intake can miss this call, and then finds the frame when it is old.
    fn settled(&self) {
        if self.frames.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.notify_all();
        }
    }
}

struct Building {
    builder: FrameBuilder,
    /// When the frame's first line came.
    begun: Option<Instant>,
    /// Shared by the tickets of all pushes that have lines in the frame.
    fate: Arc<FrameFate>,
    stopped: bool,
}

impl Intake {
    /// Starts an intake that counts under `source`.
    pub fn start(
        source: SourceKind,
        frame_age_ms: u64,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
    ) -> Intake {
        let building = Building {
            builder: FrameBuilder::new(),
            begun: None,
            fate: Arc::default(),
            stopped: false,
        };
        let shared = Arc::new(Shared {
            destination: Destination::new(source, deliver, accounting),
            frame_age: Duration::from_millis(frame_age_ms),
            building: Mutex::new(building),
            on_its_way: Arc::default(),
        });
        let flushed = Arc::clone(&shared);
        let flusher = std::thread::Builder::new()
            .name(format!("intake-{}", source.name()))
            .spawn(move || {
                placement::enter(Role::Receiver);
                flushed.flush_old_frames();
            })
            .expect("a thread can be started");
        Intake { shared, flusher: Some(flusher) }
    }

    /// Takes lines that arrived at `received_ns` (nanoseconds since 1970 UTC), each with its newline; a last
    /// line without one is taken as if it had one. Lines longer than [`LINE_BYTES_MAX`] are cut there and
    /// counted. Blocks while delivery does.
    ///
    /// Takes as many as fit into one frame, one at least, and gives the rest back, to be pushed next.
    ///
    /// After [`Intake::stop`] the lines are counted as dropped, and the ticket says
    /// [`DeliverError::Closed`].
    pub fn push<'a>(
        &self,
        origin: &Origin,
        received_ns: i64,
        lines: &'a [u8],
    ) -> (Ticket, &'a [u8]) {
        let mut building = self.shared.lock();
        if building.stopped {
            let counters = self.shared.destination.counters();
            let (count, bytes) = count_lines(lines);
            counters.received(count, bytes);
            counters.dropped(DropReason::ShuttingDown, count);
            counters.dropped_bytes(DropReason::ShuttingDown, bytes);
            return (Ticket::settled(Err(DeliverError::Closed), count, bytes), &[]);
        }
        if lines.is_empty() {
            return (Ticket::settled(Ok(()), 0, 0), lines);
        }
        self.shared.push(&mut building, origin, received_ns, lines)
    }

    /// Whether a push would not block, most likely: see [`Deliver::has_room`].
    pub fn has_room(&self) -> bool {
        self.shared.destination.has_room()
    }

    /// Delivers these lines as exactly one frame, at once: all of them become durable, or none.
    ///
    /// # Panics
    /// When there is no line, the last has no newline, or they are more than [`ALONE_BYTES_MAX`].
    pub fn deliver_alone(&self, origin: &Origin, received_ns: i64, lines: &[u8]) -> Ticket {
        assert!(lines.len() <= ALONE_BYTES_MAX, "{} bytes do not fit into one frame", lines.len());
        let mut builder = FrameBuilder::new();
        builder.push_lines(origin, received_ns, lines);
        let count = u64::from(builder.lines());
        let bytes = lines.len() as u64 - count;
        self.shared.destination.counters().received(count, bytes);
        let decided = Arc::new(FrameFate::default());
        let ticket = Ticket::new(Arc::clone(&decided), count, bytes);
        let fate = move |_, result: &Result<(), DeliverError>| decided.settle(result);
        self.shared.destination.deliver(&mut builder, Patience::Awaited, Some(Box::new(fate)));
        ticket
    }

    /// Delivers what waits and ends the intake's thread. Later pushes are refused.
    pub fn stop(&self) {
        let mut building = self.shared.lock();
        building.stopped = true;
        self.shared.flush(&mut building);
        self.shared.on_its_way.changed.notify_all();
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.stop();
        let ended = self.flusher.take().expect("taken only here").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the intake's thread panicked");
    }
}

impl Building {
    /// Bytes that the frame takes before it is full.
    fn room(&self) -> usize {
        PAYLOAD_BYTES_TARGET.saturating_sub(self.builder.payload_bytes())
    }

    /// Bytes of the whole lines at the front that fit into the frame.
    fn whole_lines(&self, lines: &[u8]) -> usize {
        let fitting = &lines[..lines.len().min(self.room())];
        memchr::memrchr(b'\n', fitting).map_or(0, |at| at + 1)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Building> {
        self.building.lock().expect("nothing panics while this is locked")
    }

    /// Puts as many lines into one frame as fit, and delivers it if more are to come. Returns the rest.
    fn push<'a>(
        &self,
        building: &mut Building,
        origin: &Origin,
        received_ns: i64,
        lines: &'a [u8],
    ) -> (Ticket, &'a [u8]) {
        let mut whole = building.whole_lines(lines);
        if whole == 0 && !building.builder.is_empty() && lines.len() > building.room() {
            self.flush(building);
            whole = building.whole_lines(lines);
        }
        let counters = self.destination.counters();
        let (count, bytes, rest);
        if whole > 0 {
            let lines_before = building.builder.lines();
            building.builder.push_lines(origin, received_ns, &lines[..whole]);
            count = u64::from(building.builder.lines() - lines_before);
            bytes = whole as u64 - count;
            counters.received(count, bytes);
            rest = &lines[whole..];
        } else {
            // One line that is longer than a frame should be, or has no newline.
            let end = memchr::memchr(b'\n', lines).unwrap_or(lines.len());
            let line = &lines[..end.min(LINE_BYTES_MAX)];
            building.builder.push_line(origin, received_ns, line, line.len() < end);
            (count, bytes) = (1, end as u64);
            counters.received(count, bytes);
            if line.len() < end {
                counters.dropped(DropReason::Oversized, 1);
                counters.dropped_bytes(DropReason::Oversized, (end - line.len()) as u64);
            }
            rest = &lines[(end + 1).min(lines.len())..];
        }
        let ticket = Ticket::new(Arc::clone(&building.fate), count, bytes);
        if building.begun.is_none() {
            building.begun = Some(Instant::now());
            self.on_its_way.changed.notify_all();
        }
        if !rest.is_empty() || building.builder.is_full() || self.on_its_way.none() {
            self.flush(building);
        }
        (ticket, rest)
    }

    fn flush(&self, building: &mut Building) {
        if building.builder.is_empty() {
            return;
        }
        let decided = std::mem::take(&mut building.fate);
        let on_its_way = Arc::clone(&self.on_its_way);
        let fate = move |_, result: &Result<(), DeliverError>| {
            decided.settle(result);
            on_its_way.settled();
        };
        building.begun = None;
        self.on_its_way.frames.fetch_add(1, Ordering::AcqRel);
        self.destination.deliver(&mut building.builder, Patience::Awaited, Some(Box::new(fate)));
    }

    fn flush_old_frames(&self) {
        let mut building = self.lock();
        while !building.stopped {
            let changed = &self.on_its_way.changed;
            let left = building.begun.map(|begun| match self.on_its_way.none() {
                true => Duration::ZERO,
                false => self.frame_age.saturating_sub(begun.elapsed()),
            });
            building = match left {
                None => changed.wait(building).expect("nothing panics"),
                Some(Duration::ZERO) => {
                    self.flush(&mut building);
                    building
                }
                Some(left) => changed.wait_timeout(building, left).expect("nothing panics").0,
            };
        }
    }
}

/// Lines, and their bytes without newlines.
fn count_lines(lines: &[u8]) -> (u64, u64) {
    let newlines = memchr::memchr_iter(b'\n', lines).count();
    let unterminated = !lines.is_empty() && !lines.ends_with(b"\n");
    ((newlines + usize::from(unterminated)) as u64, (lines.len() - newlines) as u64)
}
