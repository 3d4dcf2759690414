//! Follows all files: discovers them (`find`), checks what happened to them (`look`), reads them in
//! turn, and records the positions (`save`).
//!
//! A state machine without a thread: [`Follower::step`] does the work that is due at the time of
//! its clock, so that tests control time and files.

mod find;
mod look;
mod save;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use platform::{Clock, Disk};

use super::FileConfig;
use super::board::Board;
use super::checkpoint::{Checkpoint, CheckpointEntry, Slot};
use super::follow::{Follow, Turn};
use super::identity::Inode;
use super::ledger::{Frames, Ledger};
use super::recall::Recall;
use super::records::End;
use super::watch::Change;
use crate::deliver::Deliver;
use crate::source::LogLimit;

/// Searching and checking files takes at most one part in this many of the time, if there are many
/// files or the file system is slow.
const BUSY_PARTS: u64 = 20;
/// Reading pauses for this long after frames were not kept.
const PAUSE_MS: u64 = 1_000;

/// The follower's dependencies.
pub(crate) struct Dependencies {
    pub clock: Arc<dyn Clock>,
    pub disk: Arc<dyn Disk>,
    pub deliver: Arc<dyn Deliver>,
    pub board: Arc<Board>,
    pub ledger: Arc<Ledger>,
    pub frames: Frames,
}

pub(crate) struct Follower {
    config: FileConfig,
    with: Dependencies,
    slot: Slot,
    follows: HashMap<Inode, Follow>,
    /// Inodes by the names under which files were discovered, and by their real paths.
    by_path: HashMap<PathBuf, Inode>,
    /// Checkpoint entries of files that are not followed, by inode.
    remembered: HashMap<u64, Vec<CheckpointEntry>>,
    queue: VecDeque<Inode>,
    patterns_known: HashSet<String>,
    /// The files that were there at the start are followed; those that appear now are new.
    has_begun: bool,
    id_next: u64,
    directories: BTreeSet<PathBuf>,
    directories_changed: bool,
    buffer: Vec<u8>,
    look_ns: u64,
    find_ns: u64,
    /// Nothing is read before this time.
    pause_ns: u64,
    checkpoint_ns: u64,
    checkpoint_idle_ns: u64,
    /// A file waits to be included in a checkpoint, or something was read since the last
    /// checkpoint.
    checkpoint_wanted: bool,
    lost_limit: LogLimit,
    checkpoint_limit: LogLimit,
}

impl Follower {
    /// A follower that resumes behind a checkpoint.
    pub fn new(
        config: FileConfig,
        checkpoint: Checkpoint,
        slot: Slot,
        with: Dependencies,
    ) -> Follower {
        let mut remembered: HashMap<u64, Vec<CheckpointEntry>> = HashMap::new();
        for entry in checkpoint.files {
            remembered.entry(entry.inode).or_default().push(entry);
        }
        Follower {
            config,
            with,
            slot,
            follows: HashMap::new(),
            by_path: HashMap::new(),
            remembered,
            queue: VecDeque::new(),
            patterns_known: checkpoint.patterns.into_iter().collect(),
            has_begun: false,
            id_next: checkpoint.id_next,
            directories: BTreeSet::new(),
            directories_changed: false,
            buffer: Vec::new(),
            look_ns: 0,
            find_ns: 0,
            pause_ns: 0,
            checkpoint_ns: 0,
            checkpoint_idle_ns: 0,
            checkpoint_wanted: true,
            lost_limit: LogLimit::default(),
            checkpoint_limit: LogLimit::default(),
        }
    }

    /// Discovers the existing files, and resumes each behind its durable lines.
    pub fn begin(&mut self, sequence: u64, recall: &dyn Recall) {
        self.find();
        self.find_renamed();
        self.skip_durable(sequence, recall);
        self.patterns_known = self.patterns().collect();
        self.has_begun = true;
        self.follows.values_mut().for_each(|follow| queue_rest(&mut self.queue, follow));
    }

    /// Handles a notification from the kernel.
    pub fn changed(&mut self, change: Change) {
        match change {
            Change::Directories => self.find_ns = 0,
            Change::File(path) => match self.by_path.get(&path).copied() {
                Some(inode) => self.check_files(&[inode]),
                None => {
                    if let Some(rule) = self.rule_of(&path) {
                        self.consider(&path, rule);
                    }
                }
            },
        }
    }

    /// The directories to watch, if they have changed since the last call.
    pub fn directories_if_changed(&mut self) -> Option<&BTreeSet<PathBuf>> {
        std::mem::take(&mut self.directories_changed).then_some(&self.directories)
    }

    /// Does the work that is due, and reads one turn of each file that has more. Returns how long
    /// nothing will be due, in nanoseconds; 0 when there is more to read, `None` when the source
    /// must stop.
    pub fn step(&mut self) -> Option<u64> {
        let now_ns = self.now_ns();
        // In this order, so that the rest of a renamed file comes before the new file with its old
        // name.
        if now_ns >= self.look_ns {
            self.check_all_files();
        }
        if now_ns >= self.find_ns {
            self.find();
        }
        self.checkpoint_if_due();
        for _ in 0..self.queue.len() {
            if !self.may_read() {
                break;
            }
            let Some(inode) = self.queue.pop_front() else { break };
            if !self.turn(inode, End::Open) {
                return None;
            }
        }
        self.with.frames.flush_if_old();
        if self.with.ledger.take_failure() {
            self.go_back();
        }
        let now_ns = self.now_ns();
        let mut due_ns = self.find_ns.min(self.look_ns).min(self.checkpoint_idle_ns);
        let is_ready = |inode: &Inode| self.follows.get(inode).is_some_and(|f| f.recorded);
        if self.queue.iter().any(is_ready) {
            if self.may_read() {
                return Some(0);
            }
            // If the pause is over, reading resumes once the frames in flight have landed; the
            // periodic check sees to that.
            due_ns = due_ns.min(if self.pause_ns > now_ns { self.pause_ns } else { u64::MAX });
        }
        if self.checkpoint_wanted {
            due_ns = due_ns.min(self.checkpoint_ns);
        }
        let frame_ns = self.with.frames.due_in_ns().unwrap_or(u64::MAX);
        Some(due_ns.saturating_sub(now_ns).min(frame_ns))
    }

    /// Whether lines that are read can be delivered.
    fn may_read(&self) -> bool {
        self.now_ns() >= self.pause_ns && !self.with.ledger.has_failed()
    }

    /// Delivers the lines that were read, and writes the last checkpoint.
    pub fn end(&mut self, wait_max: std::time::Duration) {
        self.with.frames.flush();
        if !self.with.ledger.wait_idle(wait_max) {
            tracing::warn!(
                "lines of files are still being delivered; the next start will check which of them are in the store"
            );
        }
        self.checkpoint();
    }

    fn now_ns(&self) -> u64 {
        self.with.clock.monotonic_ns()
    }

    /// Reads one turn; returns false when the source must stop.
    fn turn(&mut self, inode: Inode, end: End) -> bool {
        let Some(follow) = self.follows.get_mut(&inode) else { return true };
        if !follow.recorded {
            self.queue.push_back(inode);
            return true;
        }
        follow.queued = false;
        let mut cuts = 0;
        let turn = follow.turn(
            &self.config.rules[follow.rule],
            end,
            &mut self.buffer,
            &mut self.with.frames,
            self.with.clock.now_ns(),
            &mut cuts,
        );
        self.with.board.records_cut.fetch_add(cuts, Relaxed);
        self.checkpoint_wanted = true;
        match turn {
            Ok(Turn::Done) => {}
            Ok(Turn::More) => {
                follow.queued = true;
                self.queue.push_back(inode);
            }
            Ok(Turn::Stopped) => return false,
            Err(error) => self.failed(inode, &error),
        }
        true
    }

    /// Rereads the lines that were not kept.
    fn go_back(&mut self) {
        tracing::warn!("lines of files were not kept; they are read again");
        self.with.frames.clear();
        self.pause_ns = self.now_ns() + PAUSE_MS * MS;
        for follow in self.follows.values_mut() {
            follow.position = follow.tracked.durable.load(Relaxed);
            queue_rest(&mut self.queue, follow);
        }
    }
}

const MS: u64 = 1_000_000;

/// Queues a file for reading if there is more of it.
fn queue_rest(queue: &mut VecDeque<Inode>, follow: &mut Follow) {
    if follow.has_more() && !std::mem::replace(&mut follow.queued, true) {
        queue.push_back(follow.inode);
    }
}

/// The names of these inodes in a directory.
fn names_of(directory: &Path, inodes: impl Iterator<Item = u64>) -> HashMap<u64, PathBuf> {
    let wanted: HashSet<u64> = inodes.collect();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| wanted.contains(&entry.ino()));
    named.map(|entry| (entry.ino(), entry.path())).collect()
}
