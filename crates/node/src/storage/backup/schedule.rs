//! Backups that a server sends by itself: every so often, or when it is asked to.
//!
//! One is made at a time, by the thread `backups`. One that failed is tried again after
//! [`RETRY_AFTER`]; what was sent until then is not sent again. A kill leaves what the next backup
//! goes on from. When the last good backup was made is kept in the data directory, so that its age
//! is known after a start without asking the destination.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use platform::Clock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Store;
use text::duration::ns;
use text::size::show_bytes;
use text::time::{format_time, parse_timestamp};

use super::destination::{Address, Destination, Keep, Progress, Sent, Snapshot, prune, send};
use super::{name_of_time, of_store_in};
use crate::data_dir::{BACKUPS_FOLDER, DocumentFolder, Documents};
use crate::process::log::one_line;

/// Time after a failure until the backup is tried again, unless `every` is shorter.
const RETRY_AFTER: Duration = Duration::from_secs(300);
/// The longest wait: a clock that is set must not delay a backup by more.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// What is known of the last good backup.
const LAST_FILE: &str = ".last.json";

/// Where backups go, and when. `[backup]`
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The destination.
    pub to: Address,
    /// The time between two backups; none: only when asked.
    pub every: Option<Duration>,
    /// Which are kept there; none: all.
    pub keep: Option<Keep>,
}

/// The last good backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// The destination.
    pub to: String,
    /// Its name.
    pub name: String,
    /// The moment of the store that it holds: RFC 3339.
    pub created: String,
    /// Lines in it.
    pub lines: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes that were sent for it.
    pub bytes_sent: u64,
}

impl Last {
    /// What is kept in a data directory; none if no backup was sent to `to`.
    pub fn read(data_dir: &Path, to: &Address) -> Option<Last> {
        let kept = DocumentFolder::new(&data_dir.join(BACKUPS_FOLDER)).read(LAST_FILE);
        let last: Last = serde_json::from_slice(&kept.ok()??).ok()?;
        (last.to == to.to_string()).then_some(last)
    }

    fn created_ns(&self) -> i64 {
        parse_timestamp(self.created.as_bytes()).unwrap_or(0)
    }
}

#[derive(Default)]
struct State {
    last: Option<Last>,
    /// When the last attempt ended that failed, and why; none after a good one.
    failure: Option<(i64, String)>,
    running: Option<Arc<Progress>>,
    /// Names of backups that were asked for and not begun.
    asked: Option<String>,
    stopped: bool,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Backups that were sent since the start.
    pub made: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Bytes that were sent, those of failed attempts included.
    pub bytes_sent: u64,
    /// When the last good backup was made, nanoseconds since 1970 UTC.
    pub last_ns: Option<i64>,
}

/// Makes backups and sends them.
pub trait SendBackup: Send + Sync {
    /// Who sends, for the lock of the place.
    fn by(&self) -> String;

    /// Makes a backup of the name and sends it. `backups` is a directory on the disk of the store.
    ///
    /// Errors: something cannot be read, or the place does not take it.
    fn send(
        &self,
        destination: &Destination,
        name: &str,
        now_ns: i64,
        backups: &Path,
        progress: &Progress,
    ) -> Result<Sent>;
}

/// Backups of a data directory in use.
pub struct StoreBackups {
    /// The store.
    pub store: Arc<Store>,
    /// Its directory.
    pub data_dir: PathBuf,
    /// Bytes that copies leave free.
    pub free_bytes_min: u64,
}

impl SendBackup for StoreBackups {
    fn by(&self) -> String {
        format!("the server of store {}", self.store.node())
    }

    fn send(
        &self,
        destination: &Destination,
        name: &str,
        now_ns: i64,
        backups: &Path,
        progress: &Progress,
    ) -> Result<Sent> {
        let snapshot = Snapshot::take(backups, name, |folder| {
            let (store, dir) = (&self.store, &self.data_dir);
            of_store_in(folder, store, dir, name, now_ns, self.free_bytes_min)
        })?;
        send(destination, &snapshot, &self.by(), backups, progress)
    }
}

/// The backups that a server sends.
pub struct Backups {
    options: BackupOptions,
    sender: Arc<dyn SendBackup>,
    data_dir: PathBuf,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
    made: AtomicU64,
    failed: AtomicU64,
    bytes_sent: AtomicU64,
}

impl Backups {
    /// Backups that `sender` makes; none is made before [`run`](Self::run).
    pub fn new(
        options: BackupOptions,
        sender: Arc<dyn SendBackup>,
        data_dir: &Path,
        clock: Arc<dyn Clock>,
    ) -> Backups {
        let last = Last::read(data_dir, &options.to);
        Backups {
            options,
            sender,
            data_dir: data_dir.to_owned(),
            clock,
            state: Mutex::new(State { last, ..State::default() }),
            changed: Condvar::new(),
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        }
    }

    /// Makes backups as they are due, until [`stop`](Self::stop).
    pub fn run(&self) {
        let mut state = self.lock();
        while !state.stopped {
            let now_ns = self.clock.now_ns();
            let due_ns = self.due_ns(&state, now_ns);
            let asked = state.asked.take();
            if asked.is_none() && due_ns.is_none_or(|due_ns| due_ns > now_ns) {
                let left = due_ns.map_or(WAIT_MAX, |due_ns| {
                    Duration::from_nanos(due_ns.saturating_sub(now_ns).unsigned_abs())
                });
                let waited = self.changed.wait_timeout(state, left.min(WAIT_MAX));
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let progress = Arc::<Progress>::default();
            state.running = Some(Arc::clone(&progress));
            drop(state);
            let made = self.make(asked, now_ns, &progress);
            self.bytes_sent.fetch_add(progress.bytes_sent.load(Relaxed), Relaxed);
            state = self.lock();
            state.running = None;
            match made {
                Ok(last) => {
                    self.made.fetch_add(1, Relaxed);
                    state.failure = None;
                    state.last = Some(last);
                }
                // The next start makes it.
                Err(_) if state.stopped => {}
                Err(error) => {
                    let why = one_line(&error);
                    tracing::error!("no backup was made to {}: {why}", self.options.to);
                    self.failed.fetch_add(1, Relaxed);
                    state.failure = Some((self.clock.now_ns(), why));
                }
            }
            self.changed.notify_all();
        }
    }

    /// When the next one is due; none if only when asked.
    fn due_ns(&self, state: &State, now_ns: i64) -> Option<i64> {
        let last_ns = state.last.as_ref().map(Last::created_ns);
        let failed_ns = state.failure.as_ref().map(|(failed_ns, _)| *failed_ns);
        self.options.every.map(|every| due_ns(every, last_ns, failed_ns, now_ns))
    }

    fn make(&self, name: Option<String>, now_ns: i64, progress: &Progress) -> Result<Last> {
        let destination = Destination::open(&self.options.to)?;
        let before = Last::read(&self.data_dir, &self.options.to);
        if let Some(before) = &before {
            ensure!(
                destination.holds_backups()?,
                "{destination} holds nothing, though a backup was sent there at {}: mount the disk again, or, if it was emptied \
                 on purpose, delete {}",
                before.created,
                self.data_dir.join(BACKUPS_FOLDER).join(LAST_FILE).display()
            );
        }
        let name = name.unwrap_or_else(|| name_of_time(now_ns));
        let backups = self.data_dir.join(BACKUPS_FOLDER);
        let by = self.sender.by();
        let sent = self.sender.send(&destination, &name, now_ns, &backups, progress)?;
        let Sent { name, created, lines, bytes, bytes_sent, .. } = sent;
        let last = Last { to: destination.to_string(), name, created, lines, bytes, bytes_sent };
        let text = serde_json::to_vec(&last).expect("plain values");
        DocumentFolder::new(&backups).replace(LAST_FILE, &text)?;
        tracing::info!(
            "backup '{}' of {lines} lines sent to {destination}: {}, of which {} were not there",
            last.name,
            show_bytes(bytes),
            show_bytes(bytes_sent)
        );
        if let Some(keep) = &self.options.keep {
            // The backup is good all the same.
            match prune(&destination, &by, Some((keep, now_ns)), &[], false) {
                Ok(pruned) if pruned.deleted.is_empty() => {}
                Ok(pruned) => {
                    tracing::info!(
                        "backups deleted from {destination}: {}",
                        pruned.deleted.join(", ")
                    );
                }
                Err(error) => {
                    tracing::warn!(
                        "old backups are not deleted from {destination}: {}",
                        one_line(&error)
                    );
                }
            }
        }
        Ok(last)
    }

    /// Asks for a backup now; false if one is being made.
    pub fn ask(&self, name: String) -> bool {
        let mut state = self.lock();
        let is_free = state.running.is_none() && state.asked.is_none() && !state.stopped;
        if is_free {
            state.asked = Some(name);
            self.changed.notify_all();
        }
        is_free
    }

    /// Whether the last good backup has this name.
    pub fn has_sent(&self, name: &str) -> bool {
        self.lock().last.as_ref().is_some_and(|last| last.name == name)
    }

    /// Ends the backup that is being made, and [`run`](Self::run). Does not wait: a call to the
    /// destination may take a minute, and a backup may be broken off anywhere.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        if let Some(progress) = &state.running {
            progress.stop();
        }
        self.changed.notify_all();
    }

    /// The numbers of metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            made: self.made.load(Relaxed),
            failed: self.failed.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            last_ns: self.lock().last.as_ref().map(Last::created_ns),
        }
    }

    /// The destination and its state, for status and API.
    pub fn shown(&self) -> Value {
        let state = self.lock();
        let running = state.running.as_ref().map(|progress| {
            json!({
                "bytes_total": progress.bytes_total.load(Relaxed),
                "bytes_done": progress.bytes_done.load(Relaxed),
                "bytes_sent": progress.bytes_sent.load(Relaxed),
            })
        });
        let failure = state.failure.as_ref();
        json!({
            "to": self.options.to.to_string(),
            "every_s": self.options.every.map(|every| every.as_secs()),
            "keep": self.options.keep.as_ref().map(Keep::to_string),
            "last": state.last,
            "running": running,
            "waiting": state.asked,
            "failed": failure.map(|(at_ns, why)| json!({ "at": format_time(*at_ns), "why": why })),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a backup is due: `every` after the last good one, and a while after a failure. A time ahead
/// of `now_ns` was noted before the clock was set back, and delays nothing.
fn due_ns(every: Duration, last_ns: Option<i64>, failed_ns: Option<i64>, now_ns: i64) -> i64 {
    let after = |at_ns: Option<i64>, wait: Duration| {
        let at_ns = at_ns.filter(|at_ns| at_ns.saturating_sub(now_ns) <= ns(WAIT_MAX));
        at_ns.map_or(0, |at_ns| at_ns.saturating_add(ns(wait)))
    };
    after(last_ns, every).max(after(failed_ns, RETRY_AFTER.min(every)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_does_not_delay_a_backup() {
        const MINUTE_NS: i64 = 60_000_000_000;
        const NOW_NS: i64 = 1_000_000 * MINUTE_NS;
        let hour = Duration::from_secs(3_600);
        let at = |minutes: i64| Some(NOW_NS + minutes * MINUTE_NS);
        for (last_ns, failed_ns, expected_ns) in [
            (None, None, Some(0)),
            (at(-20), None, at(40)),
            (at(-120), at(-2), at(3)),
            // The clock went back a little.
            (at(1), None, at(61)),
            // By two minutes, and by years.
            (at(2), None, Some(0)),
            (Some(i64::MAX), None, Some(0)),
            (at(-20), Some(i64::MAX), at(40)),
        ] {
            let due_ns = Some(due_ns(hour, last_ns, failed_ns, NOW_NS));
            assert_eq!(due_ns, expected_ns, "{last_ns:?}, {failed_ns:?}");
        }
    }
}
