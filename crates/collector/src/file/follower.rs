//! Follows all files: finds them, looks at them, reads them in turn, and writes checkpoints.
//!
//! A state machine without a thread: [`Follower::step`] does what is due at the time of its clock, so that tests
//! move time and files as they like. What is done when files are renamed, truncated or deleted:
//!
//! - *renamed*: its inode is looked for in its directory; it is read on under the new name until nothing was written for
//!   ten minutes, while the new file of the old name is read beside it;
//! - *deleted*, or moved elsewhere: read to the end through the open descriptor, and closed when nothing was written for
//!   some seconds;
//! - *truncated* (shorter than what was read, or with another beginning): read from its start, as a file of its own.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use platform::{Clock, Disk};

use super::board::Board;
use super::checkpoint::{Checkpoint, Entry, Slot};
use super::follow::{Follow, Look, Turn, last_line_end, start};
use super::glob::Found;
use super::identity::{Inode, born_ns};
use super::ledger::{Frames, Ledger};
use super::recall::{Recall, Window};
use super::records::End;
use super::watch::Change;
use super::{FILES_MAX, FileConfig, FileRule};
use crate::deliver::Deliver;
use crate::source::LogLimit;

/// Every file is looked at this often: for those of whose changes the kernel gives no notice.
const LOOK_MS: u64 = 1_000;
/// New files are looked for this often, beside those that the kernel tells of.
const FIND_MS: u64 = 5_000;
/// Both at most for this part of the time, when there are many files or a slow file system.
const BUSY_PARTS: u64 = 20;
/// A checkpoint is written at most this often, when something was read; and this often when nothing was.
const CHECKPOINT_MS: u64 = 1_000;
const CHECKPOINT_IDLE_MS: u64 = 10_000;
/// Bytes of checkpoints a second: large ones are written less often.
const CHECKPOINT_BYTES_PER_S: u64 = 256 << 10;
/// A file without a name is closed when it was not written to for so long, and its last line taken.
const DELETED_QUIET_MS: u64 = 5_000;
/// A file under another name is left when it was not written to for so long.
const RENAMED_QUIET_MS: u64 = 600_000;
/// A file that is not written to is closed after this time.
const OPEN_IDLE_MS: u64 = 300_000;
/// What cannot be read is tried again after this time.
const RETRY_MS: u64 = 10_000;
/// When frames were not kept, nothing is read for so long.
const PAUSE_MS: u64 = 1_000;
/// What was read of a file that is not there is remembered so long: it may be on a file system that is not mounted.
const REMEMBER_S: i64 = 7 * 86_400;

/// What following needs from outside.
pub(crate) struct With {
    pub clock: Arc<dyn Clock>,
    pub disk: Arc<dyn Disk>,
    pub deliver: Arc<dyn Deliver>,
    pub board: Arc<Board>,
    pub ledger: Arc<Ledger>,
    pub frames: Frames,
}

pub(crate) struct Follower {
    config: FileConfig,
    with: With,
    slot: Slot,
    follows: HashMap<Inode, Follow>,
    /// By the names under which files were found and by where they are.
    by_path: HashMap<PathBuf, Inode>,
    /// What the checkpoint says of files that are not followed, by inode.
    remembered: HashMap<u64, Vec<Entry>>,
    queue: VecDeque<Inode>,
    patterns_known: HashSet<String>,
    id_next: u64,
    directories: BTreeSet<PathBuf>,
    directories_changed: bool,
    buffer: Vec<u8>,
    look_ns: u64,
    find_ns: u64,
    /// Nothing is read before then.
    pause_ns: u64,
    checkpoint_ns: u64,
    checkpoint_idle_ns: u64,
    /// A file waits for being in a checkpoint, or something was read since the last one.
    checkpoint_wanted: bool,
    lost_limit: LogLimit,
    checkpoint_limit: LogLimit,
}

impl Follower {
    /// One that goes on behind a checkpoint.
    pub fn new(config: FileConfig, checkpoint: Checkpoint, slot: Slot, with: With) -> Follower {
        let mut remembered: HashMap<u64, Vec<Entry>> = HashMap::new();
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

    /// Finds the files there are, and goes on behind what is durable of them.
    pub fn begin(&mut self, sequence: u64, recall: &dyn Recall) {
        self.find();
        self.find_renamed();
        self.skip_durable(sequence, recall);
        self.patterns_known = self.patterns().collect();
        for follow in self.follows.values_mut() {
            if follow.has_more() && !std::mem::replace(&mut follow.queued, true) {
                self.queue.push_back(follow.inode);
            }
        }
    }

    /// Takes note of what the kernel tells.
    pub fn changed(&mut self, change: Change) {
        match change {
            Change::Directories => self.find_ns = 0,
            Change::File(path) => match self.by_path.get(&path).copied() {
                Some(inode) => self.look_at(&[inode]),
                None => {
                    if let Some(rule) = self.rule_of(&path) {
                        self.consider(&path, rule);
                    }
                }
            },
        }
    }

    /// Directories in which something may change, when they are others than before.
    pub fn directories_if_changed(&mut self) -> Option<&BTreeSet<PathBuf>> {
        std::mem::take(&mut self.directories_changed).then_some(&self.directories)
    }

    /// Does what is due, and reads a turn of each file that has more. Returns how long nothing will be due, in
    /// nanoseconds; 0 when there is more to read, `None` when the source is to stop.
    pub fn step(&mut self) -> Option<u64> {
        let now_ns = self.now_ns();
        // In this order: the rest of a file that was renamed comes before the new one of its name.
        if now_ns >= self.look_ns {
            self.look_at_all();
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
            // Or, when that is over, once what is on its way has landed: it is looked again with the rest.
            due_ns = due_ns.min(if self.pause_ns > now_ns { self.pause_ns } else { u64::MAX });
        }
        if self.checkpoint_wanted {
            due_ns = due_ns.min(self.checkpoint_ns);
        }
        let frame_ns = self.with.frames.due_in_ns().unwrap_or(u64::MAX);
        Some(due_ns.saturating_sub(now_ns).min(frame_ns))
    }

    /// Whether what is read can be handed on.
    fn may_read(&self) -> bool {
        self.now_ns() >= self.pause_ns && !self.with.ledger.has_failed()
    }

    /// Hands on what was read, and writes the last checkpoint.
    pub fn end(&mut self, wait_max: std::time::Duration) {
        self.with.frames.flush();
        if !self.with.ledger.wait_idle(wait_max) {
            tracing::warn!(
                "lines of files are still on their way; after the next start they are looked for"
            );
        }
        self.checkpoint();
    }

    fn now_ns(&self) -> u64 {
        self.with.clock.monotonic_ns()
    }

    fn patterns(&self) -> impl Iterator<Item = String> {
        let patterns = self.config.rules.iter().flat_map(|rule| &rule.paths);
        patterns.map(|pattern| pattern.text().to_owned()).collect::<Vec<_>>().into_iter()
    }

    fn rule_of(&self, path: &Path) -> Option<usize> {
        self.config.rules.iter().position(|rule| {
            rule.paths.iter().any(|pattern| pattern.matches(path)) && !self.leaves_out(rule, path)
        })
    }

    fn leaves_out(&self, rule: &FileRule, path: &Path) -> bool {
        // Its own segments would make it follow itself.
        path.starts_with(&self.config.data_dir)
            || rule.exclude.iter().any(|exclude| exclude.matches(path))
    }

    /// Looks for files that are new.
    fn find(&mut self) {
        let begun_ns = self.now_ns();
        let mut directories = BTreeSet::new();
        let mut errors = Vec::new();
        let mut seen: HashSet<PathBuf> = HashSet::new();
        for rule in 0..self.config.rules.len() {
            let mut found = Found::default();
            for pattern in &self.config.rules[rule].paths {
                pattern.find(&mut found);
            }
            directories.append(&mut found.directories);
            errors.append(&mut found.errors);
            for path in found.files {
                if seen.contains(&path) || self.leaves_out(&self.config.rules[rule], &path) {
                    continue;
                }
                self.consider(&path, rule);
                seen.insert(path);
            }
        }
        self.with.board.still_unreadable(|path| {
            seen.contains(path) || errors.iter().any(|(directory, _)| directory == path)
        });
        for (path, why) in errors {
            self.unreadable(&path, &why);
        }
        for follow in self.follows.values() {
            let place = follow.place.as_deref().and_then(Path::parent);
            directories.extend(place.map(Path::to_owned));
        }
        if directories != self.directories {
            self.directories = directories;
            self.directories_changed = true;
        }
        let now_ns = self.now_ns();
        self.find_ns = now_ns + (FIND_MS * MS).max(BUSY_PARTS * (now_ns - begun_ns));
    }

    /// Follows a file from now on, unless it is followed already.
    fn consider(&mut self, path: &Path, rule: usize) {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        if !metadata.is_file() {
            return;
        }
        let inode = Inode::of(&metadata);
        if let Some(before) = self.by_path.insert(path.to_owned(), inode)
            && before != inode
            && let Some(follow) = self.follows.get_mut(&before)
        {
            // Behind a symbolic link that leads elsewhere now, or renamed.
            follow.renamed = true;
            follow.tell_state();
        }
        if let Some(follow) = self.follows.get_mut(&inode) {
            follow.place.get_or_insert_with(|| path.to_owned());
            return;
        }
        if self.follows.len() >= FILES_MAX {
            self.by_path.remove(path);
            return self.unreadable(path, "more files are there than can be followed");
        }
        if let Err(error) = self.follow(path, rule, None) {
            self.by_path.remove(path);
            if error.kind() != io::ErrorKind::NotFound {
                self.unreadable(path, &error.to_string());
            }
        }
    }

    /// Follows a file from where it was left, or should begin. With `only`, no other file than that; it may have been
    /// truncated meanwhile.
    fn follow(&mut self, path: &Path, rule: usize, only: Option<&Entry>) -> io::Result<()> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if self.follows.contains_key(&Inode::of(&metadata)) {
            return Ok(());
        }
        let start = start(&file)?;
        let born_ns = born_ns(&metadata);
        let known = |entry: &Entry| {
            entry.born_ns == born_ns
                && entry.fingerprint.fits(&start)
                && entry.position <= metadata.len()
                && only.is_none_or(|only| only == entry)
        };
        let remembered = self.remembered.get(&metadata.ino()).map_or(&[][..], Vec::as_slice);
        // An inode is given again when its file is gone, and what is known of an empty file fits everything: where
        // the time does not tell files apart, it is the one that had the inode last.
        let entry = remembered.iter().filter(|entry| known(entry)).max_by_key(|entry| entry.id);
        let entry = entry.cloned();
        let has_other_start = |only: &Entry| only.born_ns != 0 && only.born_ns == born_ns;
        if entry.is_none() && !only.is_none_or(has_other_start) {
            return Ok(());
        }
        // Only now that it is followed: it goes on there, and what was in it before it was truncated is gone.
        if let Some(remembered) = self.remembered.get_mut(&metadata.ino()) {
            remembered.retain(|old| {
                Some(old) != entry.as_ref() && (old.born_ns == 0 || old.born_ns != born_ns)
            });
            if remembered.is_empty() {
                self.remembered.remove(&metadata.ino());
            }
        }
        let settings = &self.config.rules[rule];
        let is_known = |pattern: &super::Pattern| self.patterns_known.contains(pattern.text());
        let position = match &entry {
            Some(entry) => entry.position,
            None if settings.from_end && !settings.paths.iter().all(is_known) => {
                last_line_end(&file, metadata.len())?
            }
            None => 0,
        };
        let id = entry.as_ref().map_or(self.id_next, |entry| entry.id);
        self.id_next = self.id_next.max(id + 1);
        // Lines keep the name under which the file was found first.
        let name = only.or(entry.as_ref());
        let name = name.map_or_else(|| path.to_owned(), |entry| PathBuf::from(&entry.path));
        let now_ns = self.now_ns();
        let mut follow =
            Follow::new(id, (rule, settings), name, (file, &metadata), &start, position);
        follow.place = Some(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        follow.grown_ns = now_ns;
        follow.recorded = entry.is_some();
        follow.renamed = only.is_some();
        self.checkpoint_wanted |= !follow.recorded;
        follow.tell_state();
        self.enter(follow);
        self.with.board.open.fetch_add(1, Relaxed);
        self.close_some();
        Ok(())
    }

    fn enter(&mut self, mut follow: Follow) {
        self.with.board.add(&follow.tracked);
        if let Some(place) = &follow.place {
            self.by_path.insert(place.clone(), follow.inode);
        }
        if follow.has_more() {
            follow.queued = true;
            self.queue.push_back(follow.inode);
        }
        self.follows.insert(follow.inode, follow);
    }

    /// Follows the rest of files that were renamed while nobody looked.
    fn find_renamed(&mut self) {
        let mut by_directory: HashMap<PathBuf, Vec<Entry>> = HashMap::new();
        for entry in self.remembered.values().flatten() {
            if let Some(directory) = Path::new(&entry.path).parent() {
                by_directory.entry(directory.to_owned()).or_default().push(entry.clone());
            }
        }
        for (directory, mut entries) in by_directory {
            // Of several that had the same inode, the last one has it.
            entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.id));
            let names = names_of(&directory, entries.iter().map(|entry| entry.inode));
            for entry in entries {
                let Some(path) = names.get(&entry.inode) else { continue };
                let Some(rule) = self.rule_of(Path::new(&entry.path)) else { continue };
                if let Err(error) = self.follow(path, rule, Some(&entry)) {
                    self.unreadable(path, &error.to_string());
                }
            }
        }
    }

    /// Moves on behind lines that were durable before a crash, though not in the checkpoint.
    fn skip_durable(&mut self, sequence: u64, recall: &dyn Recall) {
        let by_id: HashMap<u64, Inode> =
            self.follows.values().map(|f| (f.tracked.id, f.inode)).collect();
        let mut lost_track: HashSet<u64> = HashSet::new();
        let (mut window, mut window_of, mut skipped) = (Window::default(), 0, 0u64);
        let follows = &mut self.follows;
        let result = recall.lines_since(sequence, &mut |origin, line| {
            let Some(id) = origin.hints.file_id.filter(|id| !lost_track.contains(id)) else { return };
            let Some(follow) = by_id.get(&id).and_then(|inode| follows.get_mut(inode)) else { return };
            if id != window_of {
                window.clear();
                window_of = id;
            }
            let found = follow.open().and_then(|_| {
                window.behind(follow.file.as_ref().expect("open"), follow.position, line)
            });
            match found {
                Ok(Some(behind)) => {
                    follow.position = behind;
                    follow.tracked.read.store(behind, Relaxed);
                    follow.tracked.durable.store(behind, Relaxed);
                    skipped += 1;
                }
                _ => {
                    tracing::warn!(path = %follow.path.display(), "the file does not hold what was read of it before the crash; some lines may come twice");
                    lost_track.insert(id);
                }
            }
        });
        if let Err(error) = result {
            tracing::error!(
                "lines that were read before the crash cannot be looked up, some may come twice: {error}"
            );
        }
        // The positions are behind those lines now: were they recalled again from here, they would not be found there.
        self.with.ledger.count_up_to(self.with.deliver.next_sequence().1);
        if skipped > 0 {
            tracing::info!("{skipped} lines of files are durable since the last checkpoint");
        }
    }

    fn look_at_all(&mut self) {
        let begun_ns = self.now_ns();
        let all: Vec<Inode> = self.follows.keys().copied().collect();
        self.look_at(&all);
        for inode in all {
            self.take_overdue(inode);
        }
        let now_ns = self.now_ns();
        self.look_ns = now_ns + (LOOK_MS * MS).max(BUSY_PARTS * (now_ns - begun_ns));
    }

    fn look_at(&mut self, inodes: &[Inode]) {
        let now_ns = self.now_ns();
        let mut elsewhere = Vec::new();
        for inode in inodes {
            let Some(follow) = self.follows.get_mut(inode) else { continue };
            if now_ns < follow.retry_ns {
                continue;
            }
            let was_open = follow.file.is_some();
            let look = follow.look(now_ns);
            if !was_open && follow.file.is_some() {
                self.with.board.open.fetch_add(1, Relaxed);
            }
            match look {
                Ok(look @ (Look::Same | Look::Grown)) => {
                    let had_error = follow.tracked.set_error(None);
                    // What is left of an unchanged file waits for more, or for its age.
                    let wanted = follow.has_more() && (look == Look::Grown || had_error);
                    if wanted && !std::mem::replace(&mut follow.queued, true) {
                        self.queue.push_back(*inode);
                    }
                }
                Ok(Look::Anew) => self.begin_anew(*inode),
                Ok(Look::Elsewhere) => elsewhere.push(*inode),
                Err(error) => self.failed(*inode, &error),
            }
        }
        if !elsewhere.is_empty() {
            self.find_elsewhere(&elsewhere);
        }
        self.close_some();
    }

    fn begin_anew(&mut self, inode: Inode) {
        let now_ns = self.now_ns();
        let follow = self.follows.get_mut(&inode).expect("it was looked at");
        self.with.board.remove(&follow.tracked);
        let was_open = follow.file.is_some();
        let begun = follow.begin_anew(self.id_next, &self.config.rules[follow.rule], now_ns);
        self.with.board.add(&follow.tracked);
        if !was_open && follow.file.is_some() {
            self.with.board.open.fetch_add(1, Relaxed);
        }
        match begun {
            Ok(unread) => {
                self.id_next += 1;
                self.checkpoint_wanted = true;
                self.with.board.truncations.fetch_add(1, Relaxed);
                follow.tell_state();
                if follow.has_more() && !std::mem::replace(&mut follow.queued, true) {
                    self.queue.push_back(inode);
                }
                let path = follow.path.clone();
                self.lost(&path, unread, "truncated");
            }
            Err(error) => self.failed(inode, &error),
        }
    }

    fn lost(&mut self, path: &Path, bytes: u64, how: &str) {
        self.with.board.bytes_lost.fetch_add(bytes, Relaxed);
        if bytes > 0
            && let Some(held_back) = self.lost_limit.pass()
        {
            let path = path.display();
            tracing::warn!(%path, bytes, held_back, "{how} before it was read to its end");
        }
    }

    /// Looks for the new names of files, and for what has their old ones now.
    fn find_elsewhere(&mut self, inodes: &[Inode]) {
        let mut by_directory: HashMap<PathBuf, Vec<Inode>> = HashMap::new();
        for inode in inodes {
            let place = self.follows[inode].place.as_deref();
            let directory = place.and_then(Path::parent).unwrap_or(Path::new("/"));
            by_directory.entry(directory.to_owned()).or_default().push(*inode);
        }
        for (directory, inodes) in by_directory {
            let names = names_of(&directory, inodes.iter().map(|inode| inode.inode));
            for inode in inodes {
                self.moved(inode, names.get(&inode.inode).cloned());
            }
        }
        for inode in inodes {
            let Some(follow) = self.follows.get(inode) else { continue };
            let path = follow.path.clone();
            if let Some(rule) = self.rule_of(&path) {
                self.consider(&path, rule);
            }
        }
    }

    fn moved(&mut self, inode: Inode, place: Option<PathBuf>) {
        let now_ns = self.now_ns();
        let follow = self.follows.get_mut(&inode).expect("it was looked at");
        let same = |path: &PathBuf| fs::metadata(path).is_ok_and(|m| Inode::of(&m) == inode);
        let place = place.filter(same);
        if let Some(old) = &follow.place
            && self.by_path.get(old) == Some(&inode)
        {
            self.by_path.remove(old);
        }
        if self.by_path.get(&follow.path) == Some(&inode) {
            self.by_path.remove(&follow.path);
        }
        follow.renamed = true;
        follow.grown_ns = now_ns;
        if let Some(place) = &place {
            self.by_path.insert(place.clone(), inode);
        }
        follow.place = place;
        follow.tell_state();
        if follow.place.is_none() && follow.file.is_none() {
            let (path, unread) = (follow.path.clone(), follow.size - follow.position);
            self.leave(inode);
            self.lost(&path, unread, "deleted");
        } else {
            self.look_at(&[inode]);
        }
    }

    /// Takes what nothing more is waited for, and leaves files that are finished.
    fn take_overdue(&mut self, inode: Inode) {
        let (now_ns, may_read) = (self.now_ns(), self.may_read());
        let Some(follow) = self.follows.get_mut(&inode) else { return };
        if follow.queued || now_ns < follow.retry_ns || !may_read {
            return;
        }
        let settings = &self.config.rules[follow.rule];
        let quiet_ns = now_ns - follow.grown_ns;
        let quiet = |ms: u64| quiet_ns >= ms * MS;
        let moved = follow.renamed || follow.place.is_none();
        if follow.has_more() && follow.recorded {
            let all = quiet(settings.line_age_ms) || (moved && quiet(DELETED_QUIET_MS));
            let lines = settings.shape.join.is_some() && quiet(settings.record_age_ms);
            if all || lines {
                self.turn(inode, if all { End::All } else { End::Lines });
            }
        } else if follow.is_done() {
            let finished = match follow.place {
                None => quiet(DELETED_QUIET_MS),
                Some(_) => follow.renamed && quiet(RENAMED_QUIET_MS),
            };
            if finished {
                self.leave(inode);
            } else if follow.place.is_some() && quiet(OPEN_IDLE_MS) {
                self.close(inode);
            }
        }
    }

    /// A turn of reading; false when the source is to stop.
    fn turn(&mut self, inode: Inode, end: End) -> bool {
        let Some(follow) = self.follows.get_mut(&inode) else { return true };
        if !follow.recorded {
            self.queue.push_back(inode);
            return true;
        }
        follow.queued = false;
        let was_open = follow.file.is_some();
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
        if !was_open && follow.file.is_some() {
            self.with.board.open.fetch_add(1, Relaxed);
        }
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

    fn failed(&mut self, inode: Inode, error: &io::Error) {
        let now_ns = self.now_ns();
        self.close(inode);
        let follow = self.follows.get_mut(&inode).expect("it is followed");
        if follow.place.is_none() {
            // It cannot be opened again.
            let (path, unread) = (follow.path.clone(), follow.size - follow.position);
            self.leave(inode);
            return self.lost(&path, unread, "deleted");
        }
        follow.retry_ns = now_ns + RETRY_MS * MS;
        if follow.tracked.set_error(Some(error.to_string())) {
            tracing::warn!(path = %follow.path.display(), "a file cannot be read, will try again: {error}");
        }
    }

    fn unreadable(&self, path: &Path, why: &str) {
        if self.with.board.unreadable(path, why) {
            let path = path.display();
            tracing::warn!("{path} cannot be followed, will try again: {why}");
        }
    }

    /// Closes files that can be opened again, the quiet ones first, when too many are open.
    fn close_some(&mut self) {
        if self.with.board.open.load(Relaxed) <= self.config.open_files_max as u64 {
            return;
        }
        let closable = self.follows.values().filter(|f| f.file.is_some() && f.place.is_some());
        let mut closable: Vec<_> = closable.map(|f| (f.has_more(), f.grown_ns, f.inode)).collect();
        closable.sort_unstable_by_key(|(has_more, grown_ns, _)| (*has_more, *grown_ns));
        let left = self.config.open_files_max / 2;
        let surplus = closable.len().saturating_sub(left);
        for (_, _, inode) in closable.into_iter().take(surplus) {
            self.close(inode);
        }
    }

    fn close(&mut self, inode: Inode) {
        let follow = self.follows.get_mut(&inode).expect("it is followed");
        // Without a name it could not be opened again.
        if follow.place.is_some() && follow.file.take().is_some() {
            self.with.board.open.fetch_sub(1, Relaxed);
        }
    }

    /// Follows a file no longer. What was read of it is remembered, unless it is gone for good.
    fn leave(&mut self, inode: Inode) {
        let follow = self.follows.remove(&inode).expect("it is followed");
        if follow.file.is_some() {
            self.with.board.open.fetch_sub(1, Relaxed);
        }
        self.with.board.remove(&follow.tracked);
        self.by_path.retain(|_, of| *of != inode);
        self.checkpoint_wanted = true;
        if follow.recorded && !follow.deleted {
            let entry = follow.entry(self.seen_s());
            self.remembered.entry(inode.inode).or_default().push(entry);
        }
    }

    /// Reads again what was not kept.
    fn go_back(&mut self) {
        tracing::warn!("lines of files were not kept; they are read again");
        self.with.frames.clear();
        self.pause_ns = self.now_ns() + PAUSE_MS * MS;
        for follow in self.follows.values_mut() {
            follow.position = follow.tracked.durable.load(Relaxed);
            if follow.has_more() && !std::mem::replace(&mut follow.queued, true) {
                self.queue.push_back(follow.inode);
            }
        }
    }

    fn seen_s(&self) -> i64 {
        self.with.clock.now_ns() / 1_000_000_000
    }

    fn checkpoint_if_due(&mut self) {
        let now_ns = self.now_ns();
        let due = self.checkpoint_wanted && now_ns >= self.checkpoint_ns;
        if due || now_ns >= self.checkpoint_idle_ns {
            self.checkpoint();
        }
    }

    /// Writes how far everything is durable. Files that were waiting for it may be read then.
    fn checkpoint(&mut self) {
        let (now_ns, seen_s) = (self.now_ns(), self.seen_s());
        self.remembered.retain(|_, entries| {
            entries.retain(|entry| seen_s - entry.seen_s < REMEMBER_S);
            !entries.is_empty()
        });
        let follows = &self.follows;
        let deliver = &self.with.deliver;
        let mut checkpoint = self.with.ledger.look(|sequence| {
            // While nothing is on its way, everything up to now is counted, and need not be looked at again.
            let sequence = sequence.unwrap_or_else(|| deliver.next_sequence().1);
            let mut checkpoint = Checkpoint::new(sequence);
            checkpoint.files.extend(follows.values().map(|follow| follow.entry(seen_s)));
            checkpoint
        });
        checkpoint.files.extend(self.remembered.values().flatten().cloned());
        checkpoint.files.sort_unstable_by_key(|entry| entry.id);
        checkpoint.id_next = self.id_next;
        checkpoint.patterns = self.patterns().collect();
        self.checkpoint_idle_ns = now_ns + CHECKPOINT_IDLE_MS * MS;
        match self.slot.write(&*self.with.disk, &checkpoint) {
            Ok(bytes) => {
                let pause_ns = bytes * 1000 / CHECKPOINT_BYTES_PER_S * MS;
                self.checkpoint_ns = now_ns + pause_ns.max(CHECKPOINT_MS * MS);
                self.checkpoint_wanted = false;
                self.follows.values_mut().for_each(|follow| follow.recorded = true);
            }
            Err(error) => {
                self.checkpoint_ns = now_ns + CHECKPOINT_MS * MS;
                self.with.board.checkpoints_failed.fetch_add(1, Relaxed);
                if let Some(held_back) = self.checkpoint_limit.pass() {
                    tracing::error!(
                        held_back,
                        "how far files are read cannot be written down; new files wait: {error}"
                    );
                }
            }
        }
    }
}

const MS: u64 = 1_000_000;

/// The names that these inodes have in a directory.
fn names_of(directory: &Path, inodes: impl Iterator<Item = u64>) -> HashMap<u64, PathBuf> {
    let wanted: HashSet<u64> = inodes.collect();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| wanted.contains(&entry.ino()));
    named.map(|entry| (entry.ino(), entry.path())).collect()
}
