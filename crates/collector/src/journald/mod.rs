//! Reads the journal of systemd through `journalctl`: this needs no systemd library and does not
//! depend on the format of journal files.
//!
//! A child process writes entries as JSON, one per line, starting behind a cursor, and continues as
//! new ones arrive. When it ends, it is restarted after a growing pause. The cursor of the last
//! durable entry is the checkpoint. After a crash, the durable entries behind the checkpoint are
//! recalled from the store, and skipped when `journalctl` returns them again. They are compared by
//! content, since the journal may return older entries of another file later than before. The same
//! happens when a frame was not kept.
//!
//! Bounded: while delivery blocks, the pipe fills and `journalctl` waits. Left out: reading
//! journals of other machines; systemd has a service for that, whose output can be read here.

mod entry;
mod lines;

#[cfg(test)]
mod tests;

pub use entry::{JournalEntry, parse as parse_entry};

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use platform::pauses::Pauses;
use platform::{Clock, Disk};
use record::Origin;
use record::frame::{Format, Hints, LINE_BYTES_MAX, Transport};
use serde::{Deserialize, Serialize};

use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::Deliver;
use crate::file::{FileError, Frames, Ledger, NoRecall, Recall, RecordPiece, Slot, Tracked};
use crate::outlet::Destination;
use crate::source::{LogLimit, STOP_DRAIN_MAX, SourceThread, StopSignal};
use lines::{JournalLines, Line};

/// Pauses before `journalctl` is restarted.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(60));
/// A checkpoint is written at most this often.
const CHECKPOINT_MS: u64 = 1_000;
/// The longest entry in JSON (a message of 8 MiB that is not valid text). Of a longer one only the
/// start is kept, unparsed, as of any line that is too long.
///
/// limits.md, Lines on their way in: an entry of the journal | 64 MiB of JSON | the first 8 MiB of
/// that JSON are kept
const ENTRY_BYTES_MAX: usize = 8 * LINE_BYTES_MAX;
/// Bytes at the end of `journalctl`'s standard error that are reported when it ends.
const COMPLAINTS_BYTES_MAX: usize = 4096;
/// A checkpoint is also written this often when nothing arrived, so that little has to be recalled.
const CHECKPOINT_IDLE_MS: u64 = 10_000;
/// When no entry arrived for this long, the remaining recalled entries are not expected any more.
const RECALL_QUIET_MS: u64 = 60_000;
/// Name of the checkpoint.
const CHECKPOINT_FILE: &str = "journald.checkpoint";
/// Checkpoint version that this code writes, and the only one it reads.
const VERSION: u32 = 1;
/// The type of the lines.
const LOG_TYPE: &str = "journald";

const WAKE: Token = Token(0);
const ENTRIES: Token = Token(1);
const COMPLAINTS: Token = Token(2);

/// Which journal to read.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// The program, searched in `PATH`.
    pub program: PathBuf,
    /// Units whose entries are read; if empty, all units.
    pub units: Vec<String>,
    /// Directory of the journal; `None` for the journal of this machine.
    pub directory: Option<PathBuf>,
    /// The directory of the checkpoint.
    pub data_dir: PathBuf,
}

/// Reads the journal until it is dropped.
pub struct JournalSource {
    thread: SourceThread,
    board: Arc<Mutex<JournalStatus>>,
}

/// State of the journal source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStatus {
    /// `journalctl` runs and its existing output was read.
    pub reading: bool,
    /// Entries delivered since the start.
    pub entries: u64,
    /// Why `journalctl` does not run; it will be retried.
    pub error: Option<String>,
}

fn board(board: &Mutex<JournalStatus>) -> MutexGuard<'_, JournalStatus> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that survives a restart.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    version: u32,
    /// Entries in frames up to this number are at or before the cursor.
    sequence: u64,
    cursor: Option<String>,
}

impl JournalSource {
    /// Starts to read: behind the checkpoint, or from the beginning of the journal. `recall`
    /// returns the lines that are durable behind the checkpoint; `None` if frames leave this
    /// machine, and those entries are then stored twice.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, or the thread cannot be started. A missing `journalctl`
    /// is not an error here: it is logged and retried.
    pub fn start(
        config: JournalConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
        disk: Arc<dyn Disk>,
        recall: Option<Box<dyn Recall>>,
    ) -> Result<JournalSource, FileError> {
        let recall = recall.unwrap_or(Box::new(NoRecall));
        let board = Arc::<Mutex<JournalStatus>>::default();
        let slot = Slot::new(&config.data_dir, CHECKPOINT_FILE);
        let checkpoint: Option<Checkpoint> = slot.read(&*disk)?;
        if let Some(found) = checkpoint.as_ref().filter(|found| found.version != VERSION) {
            let found = found.version;
            let why = format!("it has version {found}, but this program reads version {VERSION}");
            return Err(FileError::Checkpoint { path: config.data_dir.join(CHECKPOINT_FILE), why });
        }
        let (sequence, cursor) = match checkpoint {
            Some(checkpoint) => (checkpoint.sequence, checkpoint.cursor),
            None => {
                // Set before the first entry is delivered: entries in later frames can be recalled.
                let sequence = deliver.mark();
                let first = Checkpoint { version: VERSION, sequence, cursor: None };
                slot.write(&*disk, &first)?;
                (sequence, None)
            }
        };
        let stop = Arc::<StopSignal>::default();
        let ledger = Ledger::new(sequence);
        let counted = (Arc::clone(&accounting), SourceKind::Journald);
        let destination = Destination::new(SourceKind::Journald, Arc::clone(&deliver), accounting);
        let frames =
            Frames::new(destination, Arc::clone(&clock), Arc::clone(&stop), Arc::clone(&ledger));
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        let hints = Hints { log_type: Some(LOG_TYPE.into()), ..Hints::default() };
        let origin = Origin {
            hints: Arc::new(hints),
            ..Origin::new(Transport::Journald, Format::Json, None)
        };
        let mut reader = Reader {
            config,
            poll,
            origin,
            clock,
            disk,
            deliver,
            recall,
            slot,
            ledger,
            frames,
            tracked: tracked(0),
            read: 0,
            marks: VecDeque::new(),
            cursor,
            delivered: HashMap::new(),
            hasher: foldhash::fast::FixedState::default(),
            cursor_number: 0,
            sequence,
            look_before: (sequence, 0),
            sequence_recalled: sequence,
            skipped: 0,
            read_ns: 0,
            checkpoint_ns: 0,
            checkpoint_idle_ns: 0,
            limit: LogLimit::default(),
            board: Arc::clone(&board),
            stop: Arc::clone(&stop),
        };
        let thread = SourceThread::start("journald", counted, stop, waker, move || {
            reader.recall();
            reader.run();
        })?;
        Ok(JournalSource { thread, board })
    }

    /// The current state.
    pub fn status(&self) -> JournalStatus {
        board(&self.board).clone()
    }

    /// Whether the thread ended by a panic. The caller then drops the source and starts it again.
    pub fn has_failed(&self) -> bool {
        self.thread.has_failed()
    }
}

struct Reader {
    config: JournalConfig,
    poll: Poll,
    origin: Origin,
    clock: Arc<dyn Clock>,
    disk: Arc<dyn Disk>,
    deliver: Arc<dyn Deliver>,
    recall: Box<dyn Recall>,
    slot: Slot,
    ledger: Arc<Ledger>,
    frames: Frames,
    /// How many entries are durable.
    tracked: Arc<Tracked>,
    /// How many entries were delivered.
    read: u64,
    /// Cursors of some delivered entries, with the entries' numbers.
    marks: VecDeque<(u64, String)>,
    /// The last cursor known to be durable.
    cursor: Option<String>,
    /// Hashes of the lines that are durable behind the checkpoint, and how often each occurs.
    delivered: HashMap<u64, usize>,
    hasher: foldhash::fast::FixedState,
    /// The number of the entry at `cursor`.
    cursor_number: u64,
    /// No entry behind `cursor` is in this frame or an earlier one.
    sequence: u64,
    /// An earlier durable frame, and the number of entries up to it.
    look_before: (u64, u64),
    /// Entries behind this frame were recalled. It stays in the checkpoint until the cursor is
    /// behind all of them.
    sequence_recalled: u64,
    /// The last repeated entry that was skipped.
    skipped: u64,
    /// When the last entry arrived, in monotonic nanoseconds; 0 before the first.
    read_ns: u64,
    checkpoint_ns: u64,
    checkpoint_idle_ns: u64,
    limit: LogLimit,
    board: Arc<Mutex<JournalStatus>>,
    stop: Arc<StopSignal>,
}

impl Reader {
    /// Reads from the store which entries behind the cursor are durable.
    fn recall(&mut self) {
        let (delivered, hasher) = (&mut self.delivered, &self.hasher);
        delivered.clear();
        let result = self.recall.lines_since(self.sequence, &mut |origin, line| {
            if origin.transport == Transport::Journald {
                *delivered.entry(hasher.hash_one(line)).or_default() += 1;
            }
        });
        if let Err(error) = result {
            tracing::error!(
                "the durable journal entries behind the cursor cannot be looked up; some may be stored twice: {error}"
            );
        }
    }

    /// Restarts behind the cursor, because an entry behind it was not kept.
    fn go_back(&mut self) {
        tracing::warn!("entries of the journal were not kept; they are read again");
        self.frames.clear();
        self.marks.clear();
        self.read = self.cursor_number;
        self.tracked = tracked(self.cursor_number);
        self.look_before = (self.sequence, self.cursor_number);
        self.sequence_recalled = self.sequence;
        self.skipped = 0;
        self.recall();
    }

    fn run(&mut self) {
        let mut pauses = PAUSES;
        loop {
            let before = self.read;
            match self.follow() {
                Ok(()) if self.stop.is_raised() => break,
                Ok(()) => {}
                Err(error) => {
                    let program = self.config.program.display();
                    let error =
                        format!("the journal cannot be read by {program}, will try again: {error}");
                    tracing::error!("{error}");
                    let mut board = board(&self.board);
                    (board.reading, board.error) = (false, Some(error));
                }
            }
            if self.read > before {
                pauses.reset();
            }
            if self.stop.wait(pauses.pause()) {
                break;
            }
        }
        self.frames.flush();
        self.ledger.wait_idle(STOP_DRAIN_MAX);
        self.checkpoint();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.config.program);
        command.env_remove("LOGINSON_NODE_SECRET");
        command.args(["--output=json", "--all", "--no-pager", "--quiet", "--follow"]);
        // Without it journalctl starts with the last ten entries only.
        command.arg("--no-tail");
        match self.marks.back().map(|mark| &mark.1).or(self.cursor.as_ref()) {
            Some(cursor) => command.arg(format!("--after-cursor={cursor}")),
            None => &mut command,
        };
        if let Some(directory) = &self.config.directory {
            command.arg("--directory").arg(directory);
        }
        for unit in &self.config.units {
            command.arg("--unit").arg(unit);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Reads the output of one process until it ends or the source stops.
    fn follow(&mut self) -> io::Result<()> {
        let mut process = Process(self.command().spawn()?);
        let stdout = process.0.stdout.take().expect("piped");
        let stderr = process.0.stderr.take().expect("piped");
        for (fd, token) in [(stdout.as_raw_fd(), ENTRIES), (stderr.as_raw_fd(), COMPLAINTS)] {
            self.poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        }
        rustix::io::ioctl_fionbio(&stdout, true)?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        let result = self.entries(stdout, stderr);
        self.frames.flush();
        result
    }

    /// Takes the entries of a process. Returns without an error when the source stops, or when the
    /// entries must be read again.
    fn entries(&mut self, mut stdout: ChildStdout, mut stderr: ChildStderr) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let mut lines = JournalLines::new(ENTRY_BYTES_MAX, LINE_BYTES_MAX);
        let mut complaints = Vec::new();
        loop {
            let mut readable = true;
            while readable && !self.stop.is_raised() && !self.ledger.has_failed() {
                match lines.read_from(&mut stdout) {
                    Ok(0) => {
                        let _ = stderr.read_to_end(&mut complaints);
                        return Err(ended(&complaints));
                    }
                    Ok(_) if self.take(&mut lines) => {}
                    // The source is stopping.
                    Ok(_) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => readable = false,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
                self.upkeep();
            }
            if self.stop.is_raised() {
                return Ok(());
            }
            if self.ledger.take_failure() {
                self.go_back();
                return Ok(());
            }
            // Only the end says what is wrong. An error means that there is no more for now.
            let _ = stderr.by_ref().take(COMPLAINTS_BYTES_MAX as u64).read_to_end(&mut complaints);
            complaints.drain(..complaints.len().saturating_sub(COMPLAINTS_BYTES_MAX));
            {
                let mut board = board(&self.board);
                (board.reading, board.error) = (true, None);
            }
            let _ = self.poll.poll(&mut events, Some(self.idle()));
            let quiet_ns = self.clock.monotonic_ns() - self.read_ns;
            if self.read_ns > 0 && quiet_ns > RECALL_QUIET_MS * 1_000_000 {
                // The remaining recalled entries are before the cursor.
                self.delivered.clear();
            }
            self.upkeep();
        }
    }

    /// Delivers the entries that have arrived. Returns false when stopping.
    fn take(&mut self, lines: &mut JournalLines) -> bool {
        let now_ns = self.clock.now_ns();
        let mut mark = None;
        let all = lines.take(|line| {
            let (taken, cursor) = match line {
                Line::Whole(json) => {
                    let Some(entry) = entry::parse(json) else {
                        self.log_invalid_entry(json);
                        return true;
                    };
                    let bytes = entry.line.len() as u64;
                    (self.deliver_line(&entry.line, bytes, now_ns), Some(entry.cursor))
                }
                Line::Start(json, bytes) => {
                    (self.deliver_line(json, bytes, now_ns), entry::cursor(json))
                }
            };
            mark = cursor.map(|cursor| (self.read, cursor)).or(mark.take());
            taken
        });
        self.read_ns = self.clock.monotonic_ns().max(1);
        board(&self.board).entries = self.read;
        self.marks.extend(mark.filter(|_| all));
        all
    }

    /// Delivers the line of an entry, or the start of a line of `bytes` bytes. Returns false when
    /// stopping.
    fn deliver_line(&mut self, line: &[u8], bytes: u64, now_ns: i64) -> bool {
        let kept = &line[..line.len().min(LINE_BYTES_MAX)];
        let rest = bytes - kept.len() as u64;
        self.read += 1;
        if self.was_delivered(kept) {
            self.skipped = self.read;
            self.frames.skip(&self.tracked, self.read);
            return true;
        }
        let piece = if rest > 0 { RecordPiece::Start(kept) } else { RecordPiece::Record(kept) };
        if !self.frames.push(&self.origin, now_ns, piece, &self.tracked, self.read) {
            return false;
        }
        if rest > 0 {
            let counters = self.frames.counters();
            counters.received(0, rest);
            counters.dropped(DropReason::Oversized, 1);
            counters.dropped_bytes(DropReason::Oversized, rest);
        }
        true
    }

    fn log_invalid_entry(&mut self, json: &[u8]) {
        if let Some(held_back) = self.limit.pass() {
            let start = String::from_utf8_lossy(&json[..json.len().min(100)]);
            tracing::warn!(held_back, ?start, "not an entry of the journal");
        }
    }

    /// Whether the line is one of those that were recalled.
    fn was_delivered(&mut self, line: &[u8]) -> bool {
        if self.delivered.is_empty() {
            return false;
        }
        let hash = self.hasher.hash_one(line);
        let Some(times) = self.delivered.get_mut(&hash) else { return false };
        *times -= 1;
        if *times == 0 {
            self.delivered.remove(&hash);
        }
        true
    }

    fn idle(&self) -> Duration {
        let frame_ns = self.frames.due_in_ns().unwrap_or(u64::MAX);
        Duration::from_nanos(frame_ns.min(CHECKPOINT_MS * 1_000_000))
    }

    fn upkeep(&mut self) {
        self.frames.flush_if_old();
        if self.clock.monotonic_ns() >= self.checkpoint_ns {
            self.checkpoint();
        }
    }

    /// Writes a cursor and a frame number such that no entry behind the cursor is in that frame or
    /// an earlier one. The entries in later frames are recalled after a crash; it does no harm if
    /// some of them are before the cursor.
    fn checkpoint(&mut self) {
        let now_ns = self.clock.monotonic_ns();
        self.checkpoint_ns = now_ns + CHECKPOINT_MS * 1_000_000;
        let (deliver, tracked) = (&self.deliver, &self.tracked);
        let look = self.ledger.look(|sequence| {
            (sequence.unwrap_or_else(|| deliver.mark()), tracked.durable.load(Relaxed))
        });
        let mut moved = false;
        while self.marks.front().is_some_and(|mark| mark.0 <= look.1) {
            let (number, cursor) = self.marks.pop_front().expect("it was looked at");
            (self.cursor, self.cursor_number, moved) = (Some(cursor), number, true);
        }
        // The durable entries may end between two marks; then the previous pair has a suitable
        // frame.
        let suits = |look: &(u64, u64)| look.1 <= self.cursor_number;
        let Some((sequence, _)) = [look, self.look_before].into_iter().find(suits) else { return };
        self.look_before = look;
        let recalled_all = self.delivered.is_empty() && self.skipped <= self.cursor_number;
        let sequence = if recalled_all { sequence } else { self.sequence_recalled };
        self.sequence = sequence;
        if !moved && now_ns < self.checkpoint_idle_ns {
            return;
        }
        self.checkpoint_idle_ns = now_ns + CHECKPOINT_IDLE_MS * 1_000_000;
        let checkpoint = Checkpoint { version: VERSION, sequence, cursor: self.cursor.clone() };
        if let Err(error) = self.slot.write(&*self.disk, &checkpoint)
            && let Some(held_back) = self.limit.pass()
        {
            tracing::error!(held_back, "the checkpoint of the journal cannot be written: {error}");
        }
    }
}

/// The tracked position, initially `entries` durable entries.
fn tracked(entries: u64) -> Arc<Tracked> {
    Tracked::new(0, Path::new("journal"), entries)
}

fn ended(complaints: &[u8]) -> io::Error {
    let complaints = String::from_utf8_lossy(complaints);
    io::Error::other(format!("it ended: {}", complaints.trim()))
}

/// Kills the process when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
