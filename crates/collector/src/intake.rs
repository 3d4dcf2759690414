//! Builds frames from lines that many threads pass in: HTTP requests, connections that are
//! answered, and Loginson's own rows.
//!
//! Small pushes share frames, so that a thousand small requests cost a few frames and a few
//! commits. A frame is delivered when it is full, or when no other frame of this intake is in
//! flight: a lone request waits only for the disk, and lines that arrive meanwhile share the next
//! frame. If the disk is slow, a frame is delivered once
//! [`FRAME_AGE_AWAITED_MS`](crate::FRAME_AGE_AWAITED_MS) (or the configured time) has passed since
//! its first line. A thread of the intake takes care of both cases.
//!
//! Invariants: the lines of one push stay in order and in one frame, so its [`Ticket`] reports the
//! outcome of all of them. Each ticket resolves exactly once, also if a thread of the intake or of
//! a caller panics while it works on the frame: the lines of the frame are counted as
//! `write_failed`, their tickets resolve with an error, and the next push begins a new frame. The
//! intake's thread resumes after one second, and the panic is counted.
//!
//! Bounded: a push blocks while delivery does, so nothing queues up here. Left out: waiting for
//! room on a full disk, since a caller gets the ticket's error and can push again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use platform::pauses::PANIC_PAUSE;
use platform::placement::{self, Role};
use record::frame::{LINE_BYTES_MAX, PAYLOAD_BYTES_TARGET};
use record::{FrameBuilder, Origin};

use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::{Deliver, KeepError, Patience};
use crate::outlet::{Destination, FAULT};
use crate::ticket::{FrameFate, Ticket};

/// Bytes of lines that [`Intake::deliver_alone`] takes at most: rows that must share one frame are
/// few.
pub const ALONE_BYTES_MAX: usize = LINE_BYTES_MAX;

/// Builds frames for callers from many threads. See the module documentation.
pub struct Intake {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
}

struct Shared {
    destination: Destination,
    frame_age: Duration,
    building: Mutex<Building>,
    on_its_way: Arc<InFlight>,
}

/// Frames that were delivered and whose outcome is not known yet.
#[derive(Default)]
struct InFlight {
    frames: AtomicUsize,
    /// Signalled when a frame got its first line, when no frame is in flight any more, or when the
    /// intake stops.
    changed: Condvar,
}

impl InFlight {
    fn none(&self) -> bool {
        self.frames.load(Ordering::Acquire) == 0
    }

    /// Counts one frame less in flight. Called by the thread that learns the outcome. It must not
    /// wait for the lock of the frame under construction, because the holder of that lock may be
    /// waiting for it. So the intake's thread can miss this signal; it then delivers the frame when
    /// the frame's age is reached.
    fn settled(&self) {
        if self.frames.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.notify_all();
        }
    }
}

struct Building {
    builder: FrameBuilder,
    /// Lines of the frame that are counted as received.
    lines_counted: u64,
    bytes_counted: u64,
    /// When the first line of the frame arrived.
    begun: Option<Instant>,
    /// Shared by the tickets of all pushes that have lines in the frame.
    fate: Arc<FrameFate>,
    stopped: bool,
}

impl Intake {
    /// Starts an intake whose lines are counted for `source`.
    pub fn start(
        source: SourceKind,
        frame_age_ms: u64,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
    ) -> Intake {
        let building = Building {
            builder: FrameBuilder::new(),
            lines_counted: 0,
            bytes_counted: 0,
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
                flushed.run();
            })
            .expect("a thread can be started");
        Intake { shared, flusher: Some(flusher) }
    }

    /// Takes lines that arrived at `received_ns` (nanoseconds since 1970 UTC), each with its
    /// newline; a last line without newline is treated as if it had one. Lines longer than
    /// [`LINE_BYTES_MAX`] are cut there and counted. Blocks while delivery does.
    ///
    /// Takes as many lines as fit into one frame, at least one, and returns the rest, which the
    /// caller pushes next.
    ///
    /// After [`Intake::stop`] the lines are counted as dropped, and the ticket says
    /// [`KeepError::Closed`].
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
            return (Ticket::settled(Err(KeepError::Closed), count, bytes), &[]);
        }
        if lines.is_empty() {
            return (Ticket::settled(Ok(()), 0, 0), lines);
        }
        self.shared.push(&mut building, origin, received_ns, lines)
    }

    /// Takes one record that may contain newlines, and returns its ticket. A record longer than
    /// [`LINE_BYTES_MAX`] is cut there and counted. Otherwise as [`Intake::push`].
    pub fn push_record(&self, origin: &Origin, received_ns: i64, record: &[u8]) -> Ticket {
        let mut building = self.shared.lock();
        if building.stopped {
            let (counters, bytes) = (self.shared.destination.counters(), record.len() as u64);
            counters.received(1, bytes);
            counters.dropped(DropReason::ShuttingDown, 1);
            counters.dropped_bytes(DropReason::ShuttingDown, bytes);
            return Ticket::settled(Err(KeepError::Closed), 1, bytes);
        }
        if !building.builder.is_empty() && record.len() > building.room() {
            self.shared.flush(&mut building);
        }
        self.shared.push_one(&mut building, origin, received_ns, record);
        let fate = Arc::clone(&building.fate);
        self.shared.pushed(&mut building, false);
        Ticket::new(fate, 1, record.len() as u64)
    }

    /// Whether a push would probably not block: see [`Deliver::has_room`].
    pub fn has_room(&self) -> bool {
        self.shared.destination.has_room()
    }

    /// Delivers `lines` as exactly one frame, at once: either all of them become durable or none.
    ///
    /// # Panics
    /// When there is no line, the last has no newline, or they are more than [`ALONE_BYTES_MAX`].
    pub fn deliver_alone(&self, origin: &Origin, received_ns: i64, lines: &[u8]) -> Ticket {
        assert!(lines.len() <= ALONE_BYTES_MAX, "{} bytes do not fit into one frame", lines.len());
        let number = self.shared.destination.next_number();
        let mut builder = FrameBuilder::new();
        builder.push_lines(origin, received_ns, lines);
        let count = u64::from(builder.lines());
        let bytes = lines.len() as u64 - count;
        self.shared.destination.counters().received(count, bytes);
        let decided = Arc::new(FrameFate::default());
        let ticket = Ticket::new(Arc::clone(&decided), count, bytes);
        let fate = move |_, result: &Result<(), KeepError>| decided.settle(result);
        let fate = Some(Box::new(fate) as _);
        self.shared.destination.deliver(number, &mut builder, Patience::Awaited, fate);
        ticket
    }

    /// Delivers the waiting lines and ends the intake's thread. Later pushes are refused.
    pub fn stop(&self) {
        self.shared.lock().stopped = true;
        self.shared.on_its_way.changed.notify_all();
        if !self.shared.survives(|| self.shared.flush(&mut self.shared.lock())) {
            // After a panic the next one to take the lock resolves the tickets of the lost lines.
            // The thread may have ended already, and their senders still wait.
            drop(self.shared.lock());
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.stop();
        let ended = self.flusher.take().expect("taken only here").join();
        assert!(ended.is_ok() || std::thread::panicking(), "panics are caught");
    }
}

impl Building {
    /// Bytes the frame can still take before it is full.
    fn room(&self) -> usize {
        PAYLOAD_BYTES_TARGET.saturating_sub(self.builder.payload_bytes())
    }

    /// The lines and bytes that were counted as received; resets both to zero.
    fn take_counted(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.lines_counted), std::mem::take(&mut self.bytes_counted))
    }

    /// Bytes of the whole lines at the front of `lines` that fit into the frame.
    fn whole_lines(&self, lines: &[u8]) -> usize {
        let fitting = &lines[..lines.len().min(self.room())];
        memchr::memrchr(b'\n', fitting).map_or(0, |at| at + 1)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Building> {
        self.whole(self.building.lock())
    }

    /// After a panic the frame may be inconsistent: its lines are counted as lost and their tickets
    /// resolve with an error.
    fn whole<'a>(
        &'a self,
        building: LockResult<MutexGuard<'a, Building>>,
    ) -> MutexGuard<'a, Building> {
        building.unwrap_or_else(|poisoned| {
            let mut building = poisoned.into_inner();
            self.building.clear_poison();
            let (lines, bytes) = building.take_counted();
            let counters = self.destination.counters();
            counters.dropped(DropReason::WriteFailed, lines);
            counters.dropped_bytes(DropReason::WriteFailed, bytes);
            building.builder = FrameBuilder::new();
            building.begun = None;
            let fate = std::mem::take(&mut building.fate);
            fate.settle(&Err(KeepError::Failed(FAULT.to_owned())));
            building
        })
    }

    /// Runs `work`; returns whether it returned normally. A panic is counted and logged.
    fn survives(&self, work: impl FnOnce()) -> bool {
        // State that a panic leaves half changed is behind the lock, which is then poisoned.
        let survives = catch_unwind(AssertUnwindSafe(work)).is_ok();
        if !survives {
            self.destination.counters().threads_failed.fetch_add(1, Ordering::Relaxed);
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            tracing::error!(
                "thread {name} failed because of a bug in Loginson; the lines it had are lost and counted; it resumes in a second; \
                 please report the messages before this line"
            );
        }
        survives
    }

    /// The thread of the intake.
    fn run(&self) {
        while !self.survives(|| self.flush_old_frames()) {
            let changed = &self.on_its_way.changed;
            // The pause is cut short by a stop, even if the lock is poisoned.
            let _ = changed.wait_timeout_while(self.lock(), PANIC_PAUSE, |now| !now.stopped);
        }
    }

    /// Puts as many lines as fit into one frame, and delivers the frame if more lines follow.
    /// Returns the rest.
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
            building.bytes_counted += bytes;
            building.lines_counted += count;
            rest = &lines[whole..];
        } else {
            // A single line that is longer than a frame should be, or has no newline.
            let end = memchr::memchr(b'\n', lines).unwrap_or(lines.len());
            self.push_one(building, origin, received_ns, &lines[..end]);
            (count, bytes) = (1, end as u64);
            rest = &lines[(end + 1).min(lines.len())..];
        }
        let ticket = Ticket::new(Arc::clone(&building.fate), count, bytes);
        self.pushed(building, !rest.is_empty());
        (ticket, rest)
    }

    /// Puts one line or record into the frame.
    fn push_one(&self, building: &mut Building, origin: &Origin, received_ns: i64, record: &[u8]) {
        let kept = &record[..record.len().min(LINE_BYTES_MAX)];
        building.builder.push_line(origin, received_ns, kept, kept.len() < record.len());
        let counters = self.destination.counters();
        counters.received(1, record.len() as u64);
        building.bytes_counted += kept.len() as u64;
        building.lines_counted += 1;
        if kept.len() < record.len() {
            counters.dropped(DropReason::Oversized, 1);
            counters.dropped_bytes(DropReason::Oversized, (record.len() - kept.len()) as u64);
        }
    }

    /// Delivers the frame if it is full, if more follows, or if no other frame is in flight.
    fn pushed(&self, building: &mut Building, more_follows: bool) {
        if building.begun.is_none() {
            building.begun = Some(Instant::now());
            self.on_its_way.changed.notify_all();
        }
        if more_follows || building.builder.is_full() || self.on_its_way.none() {
            self.flush(building);
        }
    }

    fn flush(&self, building: &mut Building) {
        if building.builder.is_empty() {
            return;
        }
        let number = self.destination.next_number();
        let decided = std::mem::take(&mut building.fate);
        let on_its_way = Arc::clone(&self.on_its_way);
        let fate = move |_, result: &Result<(), KeepError>| {
            decided.settle(result);
            on_its_way.settled();
        };
        building.begun = None;
        building.take_counted();
        self.on_its_way.frames.fetch_add(1, Ordering::AcqRel);
        let fate = Some(Box::new(fate) as _);
        self.destination.deliver(number, &mut building.builder, Patience::Awaited, fate);
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
                None => self.whole(changed.wait(building)),
                Some(Duration::ZERO) => {
                    self.flush(&mut building);
                    building
                }
                Some(left) => {
                    let waited = changed.wait_timeout(building, left).map(|waited| waited.0);
                    self.whole(waited.map_err(|poisoned| PoisonError::new(poisoned.into_inner().0)))
                }
            };
        }
    }
}

/// The number of lines, and their bytes without newlines.
fn count_lines(lines: &[u8]) -> (u64, u64) {
    let newlines = memchr::memchr_iter(b'\n', lines).count();
    let unterminated = !lines.is_empty() && !lines.ends_with(b"\n");
    ((newlines + usize::from(unterminated)) as u64, (lines.len() - newlines) as u64)
}

#[cfg(test)]
mod tests {
    use record::{Format, Frame, Transport};

    use super::*;
    use crate::deliver::OnDurable;

    const NEVER_MS: u64 = u64::MAX;

    /// Keeps the first frame in flight, and panics before the next.
    #[derive(Default)]
    struct OneThenPanic(Mutex<Option<OnDurable>>);

    impl Deliver for OneThenPanic {
        fn next_sequence(&self) -> (u32, u64) {
            assert!(self.0.lock().unwrap().is_none(), "a requested panic");
            (1, 1)
        }

        fn deliver(&self, _: Frame, decided: OnDurable, _: Patience) -> Result<(), KeepError> {
            *self.0.lock().unwrap() = Some(decided);
            Ok(())
        }

        fn refusal(&self) -> Option<KeepError> {
            None
        }
    }

    #[test]
    fn a_panic_at_the_end_resolves_tickets_after_the_thread_has_ended() {
        let accounting = Arc::new(Accounting::default());
        let deliver: Arc<dyn Deliver> = Arc::new(OneThenPanic::default());
        let intake = Intake::start(SourceKind::Http, NEVER_MS, deliver, Arc::clone(&accounting));
        let origin = Origin::new(Transport::Http, Format::Json, None);
        let (_on_its_way, _) = intake.push(&origin, 1, b"a\n");
        let (waiting, _) = intake.push(&origin, 1, b"b\n");
        intake.shared.lock().stopped = true;
        intake.shared.on_its_way.changed.notify_all();
        while !intake.flusher.as_ref().unwrap().is_finished() {
            std::thread::yield_now();
        }
        intake.stop();
        assert!(matches!(waiting.wait(), Err(KeepError::Failed(_))));
        assert_eq!(accounting.source(SourceKind::Http).dropped_count(DropReason::WriteFailed), 1);
    }
}
