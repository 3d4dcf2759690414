//! Damaged files: what is known of the damage, and what becomes of a damaged hot segment.
//!
//! A read that fails is repeated once. If it fails again, the unit counts as damaged until the
//! store is opened again: queries pass it over or end with an error, as their callers want, and its
//! segment is not merged any more. The log tells of the first damaged unit of a segment; the
//! statistics count all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use platform::Disk;
use record::FrameError;
use segment::SegmentError;

use crate::error::StoreError;
use crate::segments::file_names::DAMAGED;
use crate::sync::lock;

/// Lines that cannot be read, because their file is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedLines {
    /// Number of the segment.
    pub segment: u64,
    /// Index of the block of a sealed segment, or of the frame of a hot one. None: nothing of the
    /// segment can be read.
    pub unit: Option<u32>,
    /// Lines in it.
    pub lines: u64,
    /// What is damaged; the text names file and byte.
    pub error: String,
}

/// The damage of one segment that was found since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct KnownDamage {
    /// Whether there is any; so long nobody takes the lock.
    is_any: AtomicBool,
    /// By unit; None: the whole segment.
    found: Mutex<BTreeMap<Option<u32>, DamagedLines>>,
}

impl KnownDamage {
    /// Adds a unit that cannot be read.
    pub(crate) fn note(&self, damaged: DamagedLines) {
        let mut found = lock(&self.found);
        if found.is_empty() {
            let DamagedLines { segment, unit, lines, error } = &damaged;
            let unit = unit.map_or("all its".to_owned(), |unit| format!("block {unit} with"));
            tracing::error!(
                "segment {segment} is damaged: {unit} {lines} lines cannot be read: {error}; `loginson verify` lists \
                 all damage; restore the lines from a backup or another copy"
            );
        }
        found.insert(damaged.unit, damaged);
        self.is_any.store(true, Ordering::Release);
    }

    /// Adds a word filter that cannot be used. The lines of its block can be read.
    pub(crate) fn note_filter(&self, segment: u64, block: u32, error: &SegmentError) {
        if !self.is_any.swap(true, Ordering::AcqRel) {
            tracing::error!(
                "segment {segment} is damaged: the word filter of block {block}; its lines can be read, and it is not \
                 merged any more: {error}"
            );
        }
    }

    /// Whether anything of the file is damaged.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// What is known of a unit: that it, or the whole segment, cannot be read.
    pub(crate) fn of(&self, unit: u32) -> Option<DamagedLines> {
        if !self.is_any() {
            return None;
        }
        let found = lock(&self.found);
        found.get(&None).or_else(|| found.get(&Some(unit))).cloned()
    }

    /// Lines that cannot be read.
    pub(crate) fn lines(&self) -> u64 {
        if !self.is_any() {
            return 0;
        }
        let found = lock(&self.found);
        let whole = found.get(&None).map(|whole| whole.lines);
        whole.unwrap_or_else(|| found.values().map(|damaged| damaged.lines).sum())
    }

    /// All units, at most `count`.
    pub(crate) fn first(&self, count: usize) -> Vec<DamagedLines> {
        match self.is_any() {
            true => lock(&self.found).values().take(count).cloned().collect(),
            false => Vec::new(),
        }
    }
}

/// Whether an error says that bytes differ from what was written, or that this process may not read
/// them; and not that the disk failed, which may pass.
pub(crate) fn is_damage(error: &SegmentError) -> bool {
    match error {
        SegmentError::Damaged { .. } => true,
        SegmentError::Frame { source, .. } => !matches!(source, FrameError::Version(_)),
        SegmentError::Io { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
        SegmentError::Version { .. } => false,
    }
}

/// Gives a damaged file a second name that says so, durably; returns that name. A name that exists
/// stays.
pub(crate) fn set_aside(disk: &dyn Disk, path: &Path) -> Result<PathBuf, StoreError> {
    let aside = path.with_added_extension(DAMAGED);
    match disk.hard_link(path, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io(&aside, "make the link")(error));
        }
        _ => {}
    }
    let dir = path.parent().expect("a segment is in a directory");
    disk.sync_dir(dir).map_err(StoreError::io(dir, "sync"))?;
    Ok(aside)
}
