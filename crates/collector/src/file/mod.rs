//! Follows files: reads appended data, cuts it into records, and delivers them.
//!
//! - [`glob`](Pattern): which files are meant.
//! - `identity`: recognises a file whatever its name.
//! - `follow`, `follower`: how far each file is read; renamed, truncated and deleted files; turns.
//! - [`records`](Join): lines, and lines that belong together; `woven`: those of containers.
//! - `ledger`, `checkpoint`, `recall`: what is durable, also across a crash.
//! - `watch`: notifications from the kernel. `board`: the published state of the files.
//!
//! Invariants:
//! - Every line is stored once, whatever happens to this process and to the names of the files. A
//!   line is stored twice only if frames leave this machine, so that nothing can be recalled, and
//!   this process is killed or ends before a frame is durable.
//! - Bytes stay as they are: NULs, carriage returns, invalid UTF-8.
//! - Memory does not grow with the length of lines: an incomplete record stays in the file.
//! - One thread reads all files in turn, so a flood in one does not hold up the others for more
//!   than their turns.
//!
//! Limits: overwriting a file in place is not noticed beyond its first KiB. Data that was not read
//! before a truncation is lost (`copytruncate` of logrotate; the bytes are counted), as is data
//! written between logrotate's copy and its truncation. If the file system does not record creation
//! times, a file is not recognised that was truncated while this process did not run and was
//! renamed to a name that no pattern matches. Left out: compressed files, which `loginson import`
//! reads.

mod board;
mod checkpoint;
mod follow;
mod follower;
mod glob;
mod identity;
mod ledger;
mod path_fields;
mod recall;
mod records;
mod watch;
mod woven;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use platform::{Clock, Disk};
use record::MessageFormat;
use record::frame::LINE_BYTES_MAX;

pub use board::{FileInfo, FileState, FileTotals};
pub use glob::{Exclude, Pattern};
pub use path_fields::PathFields;
pub(crate) use recall::NoRecall;
pub use recall::Recall;
pub use records::{Done, End, Join, RecordPiece, Shape, cut};

pub(crate) use board::Tracked;
pub(crate) use checkpoint::Slot;
pub(crate) use ledger::{Frames, Ledger};

use crate::accounting::{Accounting, SourceKind};
use crate::deliver::Deliver;
use crate::outlet::Destination;
use crate::source::{STOP_DRAIN_MAX, SourceThread, StopSignal};
use board::Board;
use checkpoint::Checkpoint;
use follower::{Dependencies, Follower};
use watch::Watch;

/// Files followed at the same time. Further ones are not followed, and are reported as unreadable.
pub const FILES_MAX: usize = 65_536;
/// The longest record that a rule may ask for.
pub const RECORD_BYTES_MAX: usize = LINE_BYTES_MAX;
/// Files open at the same time, if the process may open four times as many; beyond that, quiet
/// files are closed.
pub const OPEN_FILES_MAX: usize = 1024;
/// After a notification from the kernel, how long to wait for further ones, so that lines written
/// one by one are read together.
const GATHER: Duration = Duration::from_millis(5);

const WAKE: Token = Token(0);
const NOTICE: Token = Token(1);

/// Why files cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not a pattern.
    #[error("'{pattern}' is not a pattern for files: {why}")]
    Pattern {
        /// The pattern as it was written.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not a regular expression.
    #[error("'{regex}' is not a regular expression: {why}")]
    Regex {
        /// The expression as it was written.
        regex: String,
        /// What is wrong with it.
        why: String,
    },
    /// The checkpoint is unusable.
    #[error(
        "cannot read {}, the checkpoint of followed files or of the journal: {why}; remove it to read them from their beginning",
        path.display()
    )]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The thread cannot be started.
    #[error("cannot follow files: {0}")]
    Start(#[from] io::Error),
}

/// A set of files, and how they are read.
#[derive(Clone, Debug)]
pub struct FileRule {
    /// Patterns of the files. A file that several rules match belongs to the first.
    pub paths: Vec<Pattern>,
    /// Exclusions from these patterns.
    pub exclude: Vec<Exclude>,
    /// The type of their lines.
    pub log_type: Option<String>,
    /// How their lines are parsed; detected from each line if not set.
    pub format: Option<MessageFormat>,
    /// Keys of their lines that hold the time, the message, and the level.
    pub time_fields: Vec<String>,
    /// See `time_fields`.
    pub msg_fields: Vec<String>,
    /// See `time_fields`.
    pub level_fields: Vec<String>,
    /// Zone of times that name none.
    pub zone: Option<String>,
    /// Fields that each line gets in addition.
    pub fields: Vec<(String, String)>,
    /// Fields that the paths of the files give in addition.
    pub path_fields: Option<PathFields>,
    /// Whether files that exist when a pattern is first used are read from their end.
    pub from_end: bool,
    /// How they are cut into records.
    pub shape: Shape,
    /// A last line without newline is taken when its file has not grown for this long.
    pub line_age_ms: u64,
    /// Whether lines carry the number of their file, which recall needs. Frames for another machine
    /// do not carry it: there it would denote another file.
    pub(crate) numbered: bool,
}

impl FileRule {
    /// Files read from their beginning, line by line.
    pub fn new(paths: Vec<Pattern>) -> FileRule {
        FileRule {
            paths,
            exclude: Vec::new(),
            log_type: None,
            format: None,
            time_fields: Vec::new(),
            msg_fields: Vec::new(),
            level_fields: Vec::new(),
            zone: None,
            fields: Vec::new(),
            path_fields: None,
            from_end: false,
            shape: Shape {
                join: None,
                containers: false,
                record_bytes_max: 1 << 20,
                record_lines_max: 1000,
                record_age_ms: 2_000,
            },
            line_age_ms: 60_000,
            numbered: true,
        }
    }
}

/// The files to follow.
#[derive(Clone, Debug)]
pub struct FileConfig {
    /// The rules, in order of precedence.
    pub rules: Vec<FileRule>,
    /// The data directory: the checkpoint is kept there, and no file in it is followed.
    pub data_dir: PathBuf,
    /// Files open at the same time.
    pub open_files_max: usize,
}

impl FileConfig {
    /// A configuration with as many open files as the process's limit allows.
    pub fn new(rules: Vec<FileRule>, data_dir: PathBuf) -> FileConfig {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let quarter = limit.map_or(usize::MAX, |limit| (limit / 4) as usize);
        FileConfig { rules, data_dir, open_files_max: OPEN_FILES_MAX.min(quarter).max(16) }
    }
}

/// Follows files until it is dropped.
pub struct FileSource {
    board: Arc<Board>,
    thread: SourceThread,
}

impl FileSource {
    /// Starts to follow. The thread searches for files, so many files do not delay this call.
    /// `recall` returns the lines that are durable behind the last checkpoint; `None` if frames
    /// leave this machine, and those lines are then stored twice.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, or the thread cannot be started.
    pub fn start(
        mut config: FileConfig,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
        disk: Arc<dyn Disk>,
        recall: Option<Box<dyn Recall>>,
    ) -> Result<FileSource, FileError> {
        config.rules.iter_mut().for_each(|rule| rule.numbered = recall.is_some());
        let recall = recall.unwrap_or(Box::new(NoRecall));
        if let Ok(path) = config.data_dir.canonicalize() {
            config.data_dir = path;
        }
        let slot = Slot::new(&config.data_dir, "files.checkpoint");
        let checkpoint = Checkpoint::read(&slot, &*disk)?;
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint::new(deliver.mark()));
        let (board, stop) = (Arc::<Board>::default(), Arc::<StopSignal>::default());
        let sequence = checkpoint.sequence;
        let ledger = Ledger::new(sequence);
        let counted = (Arc::clone(&accounting), SourceKind::File);
        let destination = Destination::new(SourceKind::File, Arc::clone(&deliver), accounting);
        let frames =
            Frames::new(destination, Arc::clone(&clock), Arc::clone(&stop), Arc::clone(&ledger));
        let with = Dependencies { clock, disk, deliver, board: Arc::clone(&board), ledger, frames };
        let mut follower = Follower::new(config, checkpoint, slot, with);

        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        let mut notices = Notifications::new(poll);
        let stopping = Arc::clone(&stop);
        let thread = SourceThread::start("files", counted, stop, waker, move || {
            follower.begin(sequence, &*recall);
            while !stopping.is_raised() {
                let Some(idle_ns) = follower.step() else { break };
                notices.wait(idle_ns, &mut follower, &stopping);
            }
            follower.end(STOP_DRAIN_MAX);
        })?;
        Ok(FileSource { board, thread })
    }

    /// Whether one of the threads ended by a panic. The caller then drops the source and starts it
    /// again.
    pub fn has_failed(&self) -> bool {
        self.thread.has_failed()
    }

    /// Totals over all files.
    pub fn totals(&self) -> FileTotals {
        self.board.totals()
    }

    /// Unreadable paths first, then the files by path: at most `take` entries, after skipping
    /// `skip`.
    pub fn list(&self, skip: usize, take: usize) -> Vec<FileInfo> {
        self.board.list(skip, take)
    }
}

/// Waits for notifications from the kernel.
struct Notifications {
    poll: Poll,
    events: Events,
    watch: Option<Watch>,
}

impl Notifications {
    fn new(poll: Poll) -> Notifications {
        let watch = Watch::new().filter(|watch| {
            let fd: RawFd = watch.fd();
            poll.registry().register(&mut SourceFd(&fd), NOTICE, Interest::READABLE).is_ok()
        });
        Notifications { poll, events: Events::with_capacity(8), watch }
    }

    /// Waits until something has changed or the time is over, and notifies the follower.
    fn wait(&mut self, idle_ns: u64, follower: &mut Follower, stop: &StopSignal) {
        if let Some(watch) = &mut self.watch
            && let Some(directories) = follower.directories_if_changed()
        {
            watch.set(directories);
        }
        // If the wait is interrupted, the caller waits again.
        let _ = self.poll.poll(&mut self.events, Some(Duration::from_nanos(idle_ns)));
        if self.events.iter().any(|event| event.token() == NOTICE)
            && let Some(watch) = &mut self.watch
        {
            if idle_ns > 0 {
                stop.wait(GATHER.min(Duration::from_nanos(idle_ns)));
            }
            let mut changes = std::collections::HashSet::new();
            watch.changes(&mut |change| {
                changes.insert(change);
            });
            changes.into_iter().for_each(|change| follower.changed(change));
        }
    }
}
