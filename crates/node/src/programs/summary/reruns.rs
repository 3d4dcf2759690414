//! Summarising a past interval again: the list of reruns on disk, and the run itself.
//!
//! The list is a JSON file in the data directory. A rerun writes its rows like any rows of the
//! summary, waits until they are durable, and then replaces the file by one that lists the rerun:
//! from that moment its rows count, and the earlier rows do not. A crash before it leaves rows that
//! are ignored; retention deletes them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use anyhow::{Context, Result};
use programs::summary::{Recount, Rerun, Reruns};
use query::{Progress, RunError};
use serde::{Deserialize, Serialize};
use store::{Store, Unit};

use crate::data_dir::Documents;
use crate::storage::stored::Parsers;

const VERSION: u32 = 1;
/// Attempts to read the store without rows being written meanwhile. They are written every few
/// seconds, and an attempt takes milliseconds.
const LOOKS_MAX: usize = 100;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    reruns: Vec<Rerun>,
}

/// The completed reruns, which survive a restart.
pub struct KeptReruns {
    keep: Arc<dyn Documents>,
    file: &'static str,
    reruns: Mutex<Reruns>,
    /// Held by the running rerun.
    running: Mutex<()>,
}

/// Why a rerun failed. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum RerunError {
    /// It was cancelled, took too long, or lines could not be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The server has only just started.
    #[error("the server is still locating the end of the summary; try again in a moment")]
    NotReady,
    /// Another rerun is in progress.
    #[error(
        "another interval is being summarised; wait for it, or cancel it in the queue of queries"
    )]
    Busy,
    /// Rows or the list could not be stored.
    #[error("the new counts could not be stored, the old ones stay: {0}")]
    NotKept(String),
    /// They could not be stored, because the disk is full.
    #[error(
        "the new counts could not be stored, the old ones stay: {0}; free some space on the disk"
    )]
    NoRoom(String),
    /// A program failed on a bucket.
    #[error("{0}")]
    Program(String),
    /// The list is full.
    #[error(
        "{} intervals have been summarised again; summarise a longer interval, which replaces those inside it",
        programs::summary::RERUNS_MAX
    )]
    Full,
}

/// The result of a rerun.
#[derive(Debug)]
pub struct Done {
    /// The rerun.
    pub rerun: Rerun,
    /// Lines that it counted.
    pub lines: u64,
}

impl KeptReruns {
    /// The list in this file; empty if there is none.
    pub fn open(keep: Arc<dyn Documents>, file: &'static str) -> Result<KeptReruns> {
        let place = keep.place(file);
        let reruns = match keep.read(file).with_context(|| format!("reading {place}"))? {
            Some(text) => {
                let written: Written = serde_json::from_slice(&text).with_context(|| {
                    format!(
                        "{place} is damaged; without it the charts show the original counts: move it away to start"
                    )
                })?;
                anyhow::ensure!(
                    written.version == VERSION,
                    "{place} has version {}, and this program reads version {VERSION}: use the release of Loginson that wrote it, or \
                     move it away: without it the charts show the original counts",
                    written.version
                );
                Reruns::new(written.reruns)
            }
            None => Reruns::default(),
        };
        Ok(KeptReruns { keep, file, reruns: Mutex::new(reruns), running: Mutex::default() })
    }

    /// The current list.
    pub fn list(&self) -> Reruns {
        lock(&self.reruns).clone()
    }

    /// Adds a rerun to the list, durably.
    pub fn add(&self, rerun: Rerun) -> Result<(), RerunError> {
        let mut reruns = lock(&self.reruns);
        let list = reruns.with(rerun).ok_or(RerunError::Full)?;
        let written = Written { version: VERSION, reruns: list.list().to_vec() };
        let text = serde_json::to_vec(&written).expect("plain values are JSON");
        self.keep.replace(self.file, &text).map_err(|error| {
            let text = format!("{}: {error}", self.keep.place(self.file));
            match platform::is_disk_full(&error) {
                true => RerunError::NoRoom(text),
                false => RerunError::NotKept(text),
            }
        })?;
        *reruns = list;
        Ok(())
    }

    /// Takes the lock for a running rerun.
    pub fn enter(&self) -> Result<MutexGuard<'_, ()>, RerunError> {
        match self.running.try_lock() {
            Ok(guard) => Ok(guard),
            // A rerun that panicked left nothing that counts.
            Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
            Err(TryLockError::WouldBlock) => Err(RerunError::Busy),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The watermark of a flush, and the sequence number of the last frame that it counts.
type Settled = (Option<u64>, u64);

/// What a rerun works with.
pub struct RerunContext<'a> {
    /// Holds the lines.
    pub store: &'a Store,
    /// Parse lines that are not sealed.
    pub parsers: &'a Parsers,
    /// The reruns so far, whose rows later ones replace.
    pub kept: &'a KeptReruns,
    /// The watermark of the last settled flush of the running summary, and the sequence number of
    /// the last frame that it counts.
    pub settled_through: &'a dyn Fn() -> Settled,
    /// Makes rows durable.
    pub write: &'a dyn Fn(&[u8]) -> Result<(), RerunError>,
    /// An error if the rerun has to stop.
    pub check: &'a dyn Fn() -> Result<(), RunError>,
    /// How far the rerun is.
    pub progress: &'a Progress,
}

/// Counts lines again; `start` makes the count, given the settled flush up to which it counts.
pub fn run(
    with: &RerunContext<'_>,
    range_ns: (i64, i64),
    start: impl Fn(Option<u64>) -> Recount,
) -> Result<Done, RerunError> {
    let _guard = with.kept.enter()?;
    let read_error =
        |error: store::StoreError| RunError::from(query::source::SourceError(error.to_string()));
    let ((through, sequence_max), units) = settled_units(with, range_ns)?;
    let mut recount = start(through);
    let progress = with.progress;
    progress.units_planned.store(units.len() as u64, Relaxed);
    progress.bytes_planned.store(units.iter().map(Unit::bytes_raw).sum(), Relaxed);
    let mut write = |lines: &[u8]| (with.write)(lines);
    for unit in &units {
        (with.check)()?;
        if let Some(batch) = with.parsers.load(unit).map_err(read_error)? {
            recount.observe(&batch, sequence_max, &mut write)?;
        }
        progress.units_done.fetch_add(1, Relaxed);
        progress.bytes_scanned.fetch_add(unit.bytes_raw(), Relaxed);
        progress.lines_scanned.fetch_add(unit.lines(), Relaxed);
        progress.rows.store(recount.lines(), Relaxed);
    }
    recount.write(&mut write)?;
    // The last chance to cancel the rerun.
    (with.check)()?;
    with.kept.add(recount.rerun().clone())?;
    Ok(Done { rerun: recount.rerun().clone(), lines: recount.lines() })
}

/// The units with all lines that settled flushes count, and possibly others; and the last of these
/// flushes.
fn settled_units(
    with: &RerunContext<'_>,
    (start_ns, end_ns): (i64, i64),
) -> Result<(Settled, Vec<Unit>), RerunError> {
    let read_error =
        |error: store::StoreError| RunError::from(query::source::SourceError(error.to_string()));
    for _ in 0..LOOKS_MAX {
        (with.check)()?;
        let through = (with.settled_through)();
        let mut units =
            with.store.snapshot((start_ns, end_ns.saturating_sub(1))).map_err(read_error)?;
        // Lines that were settled meanwhile could be missing.
        if (with.settled_through)() != through {
            continue;
        }
        units.retain(|unit| match unit {
            Unit::Frame(frame) => frame.sequence() <= through.1 && !unit.is_internal(),
            Unit::Block(_) => !unit.is_internal(),
        });
        return Ok((through, units));
    }
    Err(RerunError::Busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;
    use crate::data_dir::RERUNS_FILE;

    fn open(directory: &tempfile::TempDir) -> Result<KeptReruns> {
        KeptReruns::open(Arc::new(DocumentFolder::new(directory.path())), RERUNS_FILE)
    }

    #[test]
    fn one_rerun_at_a_time_and_a_panic_releases_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let kept = open(&directory).unwrap();
        let panics = std::thread::scope(|scope| {
            let runs = || {
                let _guard = kept.enter().unwrap();
                assert!(matches!(kept.enter(), Err(RerunError::Busy)));
                panic!("a test of what happens then");
            };
            scope.spawn(runs).join()
        });
        assert!(panics.is_err());
        drop(kept.enter().unwrap());
        assert!(kept.enter().is_ok());
    }

    #[test]
    fn the_list_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let kept = open(&directory).unwrap();
        assert!(kept.list().list().is_empty());
        let rerun = Rerun {
            id: 7,
            summary_of: "a".to_owned(),
            start_ns: -10,
            end_ns: 10,
            through: Some(1 << 40),
        };
        kept.add(rerun.clone()).unwrap();
        // An incomplete later list, left by a crash, does not matter.
        std::fs::write(directory.path().join(format!("{RERUNS_FILE}.new")), "{").unwrap();
        assert_eq!(open(&directory).unwrap().list().list(), [rerun]);
        std::fs::write(directory.path().join(RERUNS_FILE), "{}").unwrap();
        let Err(error) = open(&directory) else { panic!("it is damaged") };
        assert!(format!("{error:#}").contains("move it away"), "{error:#}");
        std::fs::write(directory.path().join(RERUNS_FILE), r#"{"version":9,"reruns":[]}"#).unwrap();
        assert!(open(&directory).is_err());
    }
}
