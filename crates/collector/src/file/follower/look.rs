//! Detects what happened to files (grown, renamed, deleted, truncated), and decides which stay
//! open.
//!
//! - *renamed*: the inode is searched in its directory. The file is read under its new name until
//!   nothing was written for ten minutes, while the new file of the old name is read too.
//! - *deleted*, or moved elsewhere: read to the end through the open descriptor, and closed when
//!   nothing was written for some seconds.
//! - *truncated* (shorter than the part already read, or with another beginning): read from its
//!   start, as a file of its own.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use super::super::follow::Look;
use super::super::identity::Inode;
use super::super::records::End;
use super::{BUSY_PARTS, Follower, MS, names_of, queue_rest};

/// Every file is checked this often, in case the kernel does not notify of its changes.
const LOOK_MS: u64 = 1_000;
/// A file without a name is closed, and its last line taken, when it was not written to for this
/// long.
const DELETED_QUIET_MS: u64 = 5_000;
/// A renamed file is dropped when it was not written to for this long.
const RENAMED_QUIET_MS: u64 = 600_000;
/// A file that was not written to for this long is closed.
const OPEN_IDLE_MS: u64 = 300_000;
/// An unreadable file is retried after this time.
const RETRY_MS: u64 = 10_000;

impl Follower {
    pub(super) fn check_all_files(&mut self) {
        let begun_ns = self.now_ns();
        let all: Vec<Inode> = self.follows.keys().copied().collect();
        self.check_files(&all);
        for inode in all {
            self.take_overdue(inode);
        }
        let now_ns = self.now_ns();
        self.look_ns = now_ns + (LOOK_MS * MS).max(BUSY_PARTS * (now_ns - begun_ns));
    }

    pub(super) fn check_files(&mut self, inodes: &[Inode]) {
        let now_ns = self.now_ns();
        let mut elsewhere = Vec::new();
        for inode in inodes {
            let Some(follow) = self.follows.get_mut(inode) else { continue };
            if now_ns < follow.retry_ns {
                continue;
            }
            match follow.look(now_ns) {
                Ok(look @ (Look::Same | Look::Grown)) => {
                    let had_error = follow.tracked.set_error(None);
                    // The rest of an unchanged file waits for more, or for its age limit.
                    let wanted = look == Look::Grown || had_error;
                    if wanted {
                        queue_rest(&mut self.queue, follow);
                    }
                }
                Ok(Look::Anew) => self.start_over(*inode),
                Ok(Look::Elsewhere) => elsewhere.push(*inode),
                Err(error) => self.failed(*inode, &error),
            }
        }
        if !elsewhere.is_empty() {
            self.find_elsewhere(&elsewhere);
        }
        self.close_some();
    }

    fn start_over(&mut self, inode: Inode) {
        let now_ns = self.now_ns();
        let follow = self.follows.get_mut(&inode).expect("it was looked at");
        self.with.board.remove(&follow.tracked);
        let begun = follow.start_over(self.id_next, &self.config.rules[follow.rule], now_ns);
        self.with.board.add(&follow.tracked);
        match begun {
            Ok(unread) => {
                self.id_next += 1;
                self.checkpoint_wanted = true;
                self.with.board.truncations.fetch_add(1, Relaxed);
                follow.publish_state();
                queue_rest(&mut self.queue, follow);
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
            tracing::warn!(%path, bytes, held_back, "a file was {how} before it was read to its end");
        }
    }

    /// Finds the new names of files, and the files that have their old names now.
    fn find_elsewhere(&mut self, inodes: &[Inode]) {
        let mut by_directory: HashMap<PathBuf, Vec<Inode>> = HashMap::new();
        for inode in inodes {
            let real_path = self.follows[inode].real_path.as_deref();
            let directory = real_path.and_then(Path::parent).unwrap_or(Path::new("/"));
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

    fn moved(&mut self, inode: Inode, real_path: Option<PathBuf>) {
        let now_ns = self.now_ns();
        let follow = self.follows.get_mut(&inode).expect("it was looked at");
        let same = |path: &PathBuf| fs::metadata(path).is_ok_and(|m| Inode::of(&m) == inode);
        let real_path = real_path.filter(same);
        if let Some(old) = &follow.real_path
            && self.by_path.get(old) == Some(&inode)
        {
            self.by_path.remove(old);
        }
        if self.by_path.get(&follow.path) == Some(&inode) {
            self.by_path.remove(&follow.path);
        }
        follow.renamed = true;
        follow.grown_ns = now_ns;
        if let Some(real_path) = &real_path {
            self.by_path.insert(real_path.clone(), inode);
        }
        follow.real_path = real_path;
        follow.publish_state();
        if follow.real_path.is_none() && follow.file.is_none() {
            let (path, unread) = (follow.path.clone(), follow.size - follow.position);
            self.leave(inode);
            self.lost(&path, unread, "deleted");
        } else {
            self.check_files(&[inode]);
        }
    }

    /// Takes records whose waiting time is over, and drops files that are finished.
    fn take_overdue(&mut self, inode: Inode) {
        let (now_ns, may_read) = (self.now_ns(), self.may_read());
        let Some(follow) = self.follows.get_mut(&inode) else { return };
        if follow.queued || now_ns < follow.retry_ns || !may_read {
            return;
        }
        let settings = &self.config.rules[follow.rule];
        let quiet_ns = now_ns - follow.grown_ns;
        let quiet = |ms: u64| quiet_ns >= ms * MS;
        let moved = follow.renamed || follow.real_path.is_none();
        if follow.has_more() && follow.recorded {
            let all = quiet(settings.line_age_ms) || (moved && quiet(DELETED_QUIET_MS));
            let lines = settings.shape.joins() && quiet(settings.shape.record_age_ms);
            if all || lines {
                self.turn(inode, if all { End::All } else { End::Lines });
            }
        } else if follow.is_done() {
            let finished = match follow.real_path {
                None => quiet(DELETED_QUIET_MS),
                Some(_) => follow.renamed && quiet(RENAMED_QUIET_MS),
            };
            if finished {
                self.leave(inode);
            } else if follow.real_path.is_some() && quiet(OPEN_IDLE_MS) {
                self.close(inode);
            }
        }
    }

    /// Closes files that can be reopened, quiet ones first, when too many are open.
    pub(super) fn close_some(&mut self) {
        if self.with.board.open.load(Relaxed) <= self.config.open_files_max as u64 {
            return;
        }
        let closable = self.follows.values().filter(|f| f.file.is_some() && f.real_path.is_some());
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
        // A file without a name could not be reopened.
        if follow.real_path.is_some() {
            follow.file = None;
        }
    }

    /// Stops following a file. Its position is remembered, unless it is gone for good.
    fn leave(&mut self, inode: Inode) {
        let follow = self.follows.remove(&inode).expect("it is followed");
        self.with.board.remove(&follow.tracked);
        self.by_path.retain(|_, of| *of != inode);
        self.checkpoint_wanted = true;
        if follow.recorded && !follow.deleted {
            let entry = follow.entry(self.seen_s());
            self.remembered.entry(inode.inode).or_default().push(entry);
        }
    }

    pub(super) fn failed(&mut self, inode: Inode, error: &io::Error) {
        let now_ns = self.now_ns();
        self.close(inode);
        let follow = self.follows.get_mut(&inode).expect("it is followed");
        if follow.real_path.is_none() {
            // It cannot be reopened.
            let (path, unread) = (follow.path.clone(), follow.size - follow.position);
            self.leave(inode);
            return self.lost(&path, unread, "deleted");
        }
        follow.retry_ns = now_ns + RETRY_MS * MS;
        if follow.tracked.set_error(Some(error.to_string())) {
            tracing::warn!(path = %follow.path.display(), "a file cannot be read, will try again: {error}");
        }
    }
}
