//! The frame that a source is building, and its delivery: full or old frames are delivered and
//! accounted for.
//!
//! Invariants: a line is counted as received when its frame is delivered (so a line costs no atomic
//! operation), and as kept or dropped when the outcome of the frame is known, so the sums agree
//! once a source is idle. A frame exceeds [`PAYLOAD_BYTES_TARGET`] only if a single piece is
//! larger. Left out: the arrival clock, which the source reads once per run.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::frame::{Doubt, PAYLOAD_BYTES_TARGET};
use record::{FrameBuilder, Origin};

use crate::accounting::{Accounting, DropReason, SourceCounters, SourceKind};
use crate::deliver::{Deliver, KeepError, Patience};
use crate::source::{LogLimit, StopSignal};

/// How long a frame of lines that nobody waits for (syslog) stays open when it is not full, unless
/// configured otherwise. Each frame costs the store some 100 bytes of memory while it is hot: at 50
/// ms a trickle makes 20 frames a second, at 5 ms it would make 200.
pub const FRAME_AGE_MS: u64 = 50;
/// As [`FRAME_AGE_MS`], for lines whose sender waits until they are durable (HTTP).
pub const FRAME_AGE_AWAITED_MS: u64 = 5;
/// How often a full disk is checked for room again.
const DISK_FULL_RETRY: Duration = Duration::from_millis(100);

/// Called once with the number of a frame and its outcome.
pub(crate) type Fate = Box<dyn FnOnce(u64, &Result<(), KeepError>) + Send>;

/// The error for lines whose frame was held by a thread that panicked.
pub(crate) const FAULT: &str = "a bug in Loginson, see its log; send the lines again";

/// Where frames are delivered, and the counters they are accounted to.
pub(crate) struct Destination {
    deliver: Arc<dyn Deliver>,
    accounting: Arc<Accounting>,
    source: SourceKind,
    log_limit: Mutex<LogLimit>,
}

impl Destination {
    pub fn new(
        source: SourceKind,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
    ) -> Destination {
        Destination { deliver, accounting, source, log_limit: Mutex::default() }
    }

    pub fn counters(&self) -> &SourceCounters {
        self.accounting.source(self.source)
    }

    pub fn has_room(&self) -> bool {
        self.deliver.has_room()
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        self.deliver.refusal() == Some(KeepError::DiskFull)
    }

    /// Waits while the disk is full. Returns false if it is still full and `stop` was raised.
    pub fn wait_for_room(&self, stop: &StopSignal) -> bool {
        while self.deliver.refusal() == Some(KeepError::DiskFull) {
            if stop.wait(DISK_FULL_RETRY) {
                return false;
            }
        }
        true
    }

    /// Numbers the next frame. Called before anything of that frame is changed or counted, because
    /// it may panic.
    pub fn next_number(&self) -> (u32, u64) {
        self.deliver.next_sequence()
    }

    /// Finishes the frame under its number and delivers it; does nothing when it is empty. `fate`
    /// is called once the outcome is known, also if a panic decides it.
    pub fn deliver(
        &self,
        (node, sequence): (u32, u64),
        builder: &mut FrameBuilder,
        patience: Patience,
        fate: Option<Fate>,
    ) {
        if builder.is_empty() {
            return;
        }
        let mut handed = Handed {
            accounting: Arc::clone(&self.accounting),
            source: self.source,
            sequence,
            lines: u64::from(builder.lines()),
            bytes: 0,
            fate,
            told: false,
        };
        let frame = builder.finish(node, sequence).expect("lines are in it");
        handed.bytes = frame.line_bytes();
        let lines = handed.lines;
        let on_durable = move |result: Result<(), KeepError>| handed.tell(&result);
        let delivered = self.deliver.deliver(frame, Box::new(on_durable), patience);
        if let Err(error) = delivered
            && let Some(held_back) = lock(&self.log_limit).pass()
        {
            let source = self.source.name();
            tracing::error!(source, lines, %error, held_back, "lines were not kept");
        }
    }
}

fn lock(log_limit: &Mutex<LogLimit>) -> MutexGuard<'_, LogLimit> {
    log_limit.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A frame that was handed to `Deliver`. If it is dropped before the outcome was reported, a thread
/// that held it has panicked.
struct Handed {
    accounting: Arc<Accounting>,
    source: SourceKind,
    sequence: u64,
    lines: u64,
    bytes: u64,
    fate: Option<Fate>,
    told: bool,
}

impl Handed {
    fn tell(&mut self, result: &Result<(), KeepError>) {
        self.told = true;
        let counters = self.accounting.source(self.source);
        match result {
            Ok(()) => counters.kept(self.lines, self.bytes),
            Err(error) => {
                counters.dropped(drop_reason(error), self.lines);
                counters.dropped_bytes(drop_reason(error), self.bytes);
            }
        }
        if let Some(fate) = self.fate.take() {
            fate(self.sequence, result);
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.told {
            self.tell(&Err(KeepError::Failed(FAULT.to_owned())));
        }
    }
}

fn drop_reason(error: &KeepError) -> DropReason {
    match error {
        KeepError::DiskFull | KeepError::NoRoom => DropReason::DiskFull,
        KeepError::Closed => DropReason::ShuttingDown,
        KeepError::Failed(_) => DropReason::WriteFailed,
    }
}

/// The frame that one thread is building.
pub(crate) struct Outlet {
    destination: Destination,
    builder: FrameBuilder,
    frame_age: Duration,
    /// When the first line of the frame arrived.
    begun: Option<Instant>,
    /// Bytes of the frame's lines.
    line_bytes: u64,
    /// While the disk is full, delivery waits until this is raised.
    stop: Arc<StopSignal>,
}

impl Outlet {
    pub fn new(destination: Destination, frame_age_ms: u64, stop: Arc<StopSignal>) -> Self {
        let frame_age = Duration::from_millis(frame_age_ms);
        let builder = FrameBuilder::new();
        Outlet { destination, builder, frame_age, begun: None, line_bytes: 0, stop }
    }

    /// Room in the frame for a source to read lines into, at least `bytes_min` bytes. Blocks while
    /// delivery does.
    pub fn spare(&mut self, bytes_min: usize) -> &mut [u8] {
        if self.builder.payload_bytes() + bytes_min > PAYLOAD_BYTES_TARGET {
            self.flush();
        }
        self.builder.spare()
    }

    /// Takes the first `bytes` bytes of the spare room as `lines` lines, each with its newline.
    /// Blocks while delivery does.
    pub fn commit_lines(&mut self, origin: &Origin, received_ns: i64, bytes: usize, lines: u32) {
        if lines == 0 {
            return;
        }
        self.begun.get_or_insert_with(Instant::now);
        self.builder.commit_lines(origin, received_ns, bytes, lines);
        self.line_bytes += bytes as u64 - u64::from(lines);
        self.flush_if_full();
    }

    /// Takes whole lines, each with its newline. Blocks while delivery does.
    pub fn push_lines(&mut self, origin: &Origin, received_ns: i64, bytes: &[u8]) {
        self.make_room(bytes.len());
        let lines_before = self.builder.lines();
        self.builder.push_lines(origin, received_ns, bytes);
        let lines = u64::from(self.builder.lines() - lines_before);
        self.line_bytes += bytes.len() as u64 - lines;
        self.flush_if_full();
    }

    /// Takes one line that may contain newlines. Blocks while delivery does.
    pub fn push_line(&mut self, origin: &Origin, received_ns: i64, line: &[u8], cut: bool) {
        self.push_line_in_doubt(origin, received_ns, line, cut, None);
    }

    /// As [`push_line`](Self::push_line), for a line of which its source could not make out
    /// everything, which is counted.
    pub fn push_line_in_doubt(
        &mut self,
        origin: &Origin,
        received_ns: i64,
        line: &[u8],
        cut: bool,
        doubt: Option<Doubt>,
    ) {
        self.make_room(line.len());
        self.builder.push_line_in_doubt(origin, received_ns, line, cut, doubt);
        let counter = doubt.map(|doubt| match doubt {
            Doubt::Framing => &self.destination.counters().framing_lost,
            Doubt::Compression | Doubt::Decoding => &self.destination.counters().undecompressed,
        });
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
        self.line_bytes += line.len() as u64;
        if cut {
            self.destination.counters().dropped(DropReason::Oversized, 1);
        }
        self.flush_if_full();
    }

    /// Time until [`Outlet::flush_if_old`] has something to do; `None` while no line waits.
    pub fn due_in(&self) -> Option<Duration> {
        self.begun.map(|begun| self.frame_age.saturating_sub(begun.elapsed()))
    }

    /// Delivers the frame if it has waited long enough.
    pub fn flush_if_old(&mut self) {
        if self.due_in() == Some(Duration::ZERO) {
            self.flush();
        }
    }

    /// Delivers the waiting lines. Blocks while delivery does, and while the disk is full, so that
    /// senders are pushed back. Only while stopping are lines given up, and counted.
    pub fn flush(&mut self) {
        if self.builder.is_empty() {
            return;
        }
        let _ = self.destination.wait_for_room(&self.stop);
        let number = self.destination.next_number();
        self.begun = None;
        let line_bytes = std::mem::take(&mut self.line_bytes);
        self.destination.counters().received(u64::from(self.builder.lines()), line_bytes);
        self.destination.deliver(number, &mut self.builder, Patience::Unlimited, None);
    }

    /// After a panic the frame may be inconsistent: its lines are counted as lost.
    fn give_up(&mut self) {
        let lines = u64::from(self.builder.lines());
        let counters = self.destination.counters();
        counters.received(lines, self.line_bytes);
        counters.dropped(DropReason::WriteFailed, lines);
        counters.dropped_bytes(DropReason::WriteFailed, self.line_bytes);
    }

    fn make_room(&mut self, bytes: usize) {
        if self.builder.payload_bytes() + bytes > PAYLOAD_BYTES_TARGET {
            self.flush();
        }
        self.begun.get_or_insert_with(Instant::now);
    }

    fn flush_if_full(&mut self) {
        if self.builder.is_full() {
            self.flush();
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.give_up();
        }
    }
}
