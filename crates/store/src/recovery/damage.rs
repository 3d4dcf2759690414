//! Opening a store: tells damage of a hot segment from a write that a crash interrupted, and sets
//! aside what cannot be read.
//!
//! Only the last write of the active segment is ever interrupted: frames are acknowledged after a
//! sync, and a later frame is written after that. So unreadable bytes are damage when
//!
//! - the catalog, which learns the length of a segment when it is closed and when the process ends,
//!   knows that acknowledged frames were there;
//! - a later segment was begun;
//! - they, with the frames behind them, are more than one commit writes;
//! - or they are the header of the file, which is durable before the first frame.
//!
//! A damaged file gets a second name, `N.hot.damaged`. It is never written or sealed again, and no
//! retention removes that name. Its valid frames, before and behind the damage, are read from it.
//!
//! Whether other unreadable bytes at the end of the active segment were acknowledged cannot be
//! told: they are in the last commit of a process that crashed, which may have been answered. A
//! power cut leaves any part of a commit, so valid frames may stand behind them, and are kept. The
//! bytes are cut off, or sealed over, and a copy of them is kept before, `N.hot.torn`.

use std::path::{Path, PathBuf};

use platform::{Access, Disk};
use segment::{Contents, Origin, Scan};

use crate::catalog::{RowState, SegmentRow};
use crate::config::COMMIT_BYTES_MAX;
use crate::error::StoreError;
use crate::recovery::report::thousands;
use crate::segments::file_names::TORN;

/// Copies of torn ends that are kept. Beyond it the oldest is deleted, with a line in the log: a
/// process that crashes for ever must not fill the disk.
///
/// limits.md, The disk and sealing: copies of writes that crashes interrupted, `N.hot.torn` | 16 |
/// the oldest is deleted, with a warning
pub(crate) const TORN_FILES_MAX: usize = 16;

/// Bytes copied at once.
const COPY_BYTES: usize = 4 << 20;

/// What a hot segment's file shows besides its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is missing.
    Whole,
    /// The bytes from `from` on, `bytes` of them, are a write that a crash interrupted.
    Torn { from: u64, bytes: u64 },
    /// Acknowledged lines may be missing.
    Damaged,
}

/// Judges the file of a hot segment. `row`: what the catalog knows of it. `is_last`: no later hot
/// segment exists. `is_repeated`: its last frames stand in a later segment, because a write failed.
pub(super) fn judge(
    contents: &Contents,
    row: Option<&SegmentRow>,
    is_last: bool,
    is_repeated: bool,
) -> Verdict {
    let state = row.map(|row| row.state);
    let Origin::Scan(scan) = &contents.origin else {
        // The index tells where frames are, not whether they can be read.
        let is_known = state == Some(RowState::Damaged);
        return if is_known { Verdict::Damaged } else { Verdict::Whole };
    };
    // A file that its creation did not finish has no row and no space for frames.
    let had_header = row.is_some() || contents.file_bytes > contents.header_bytes;
    let is_short = row.is_some_and(|row| contents.data_end < row.data_end);
    if (contents.header.is_err() && had_header) || is_short {
        return Verdict::Damaged;
    }
    // Of these the catalog knows the length: what is behind it is an index, or was given up.
    let is_length_known = matches!(state, Some(RowState::Rolled | RowState::Kept));
    let gap = scan.damaged_at.filter(|&at| at < contents.data_end);
    if gap.is_none() && (scan.tail_bytes == 0 || is_length_known || is_repeated) {
        return Verdict::Whole;
    }
    let from = gap.unwrap_or(contents.data_end);
    let bytes = contents.data_end + scan.tail_bytes - from;
    let is_acknowledged = is_length_known || row.is_some_and(|row| from < row.data_end);
    match is_last && !is_acknowledged && bytes <= COMMIT_BYTES_MAX {
        true => Verdict::Torn { from, bytes },
        false => Verdict::Damaged,
    }
}

/// One sentence about a damaged file, for the operator. `missing`: lines that are known to be
/// missing, of `known`.
pub(super) fn describe(
    path: &Path,
    segment: u64,
    contents: &Contents,
    (missing, known): (u64, u64),
    aside: &Result<PathBuf, StoreError>,
) -> String {
    let first = match (&contents.header, &contents.origin) {
        (Err(error), _) => error.to_string(),
        (_, Origin::Scan(Scan { damages, .. })) if !damages.is_empty() => damages[0].to_string(),
        (_, Origin::Scan(_)) => {
            let (path, at) = (path.display(), contents.data_end);
            format!("{path} at byte {at}: its frames end here")
        }
        (_, Origin::Index) => format!("{}: frames in it cannot be read", path.display()),
    };
    let lines = match (missing, known) {
        (0, _) => "how many lines are missing is not known".to_owned(),
        (missing, 0) => format!("at least {} lines are missing", thousands(missing)),
        (missing, known) => {
            let (missing, known) = (thousands(missing), thousands(known));
            format!("of {known} lines that the catalog knew, {missing} are missing")
        }
    };
    let kept = match aside {
        Ok(aside) => format!("the file is kept as it is, also as {}", aside.display()),
        Err(error) => format!("the file is kept as it is, without a second name ({error})"),
    };
    format!(
        "segment {segment} is damaged: {first}; {lines}; what can be read of it is read, {kept}; restore the lines from \
         a backup or another copy"
    )
}

/// Copies the end of a file, from byte `from` on, to a file of its own, durably; returns its name.
pub(super) fn copy_torn(
    disk: &dyn Disk,
    path: &Path,
    from: u64,
    bytes: u64,
) -> Result<PathBuf, StoreError> {
    let dir = path.parent().expect("a segment is in a directory");
    let names = disk.list(dir).map_err(StoreError::io(dir, "list"))?;
    let mut torn: Vec<(u64, u64, &String)> =
        names.iter().filter_map(|name| torn_name(name).map(|(id, n)| (id, n, name))).collect();
    torn.sort_unstable();
    let surplus = (torn.len() + 1).saturating_sub(TORN_FILES_MAX);
    for (.., name) in torn.drain(..surplus) {
        let oldest = dir.join(name);
        tracing::warn!("{}: deleted, as there are {TORN_FILES_MAX} such files", oldest.display());
        disk.remove(&oldest).map_err(StoreError::io(&oldest, "delete"))?;
    }
    let number = torn.iter().map(|(_, number, _)| number + 1).max().unwrap_or(1);
    let to = path.with_added_extension(format!("{TORN}{number}"));
    let source = disk.open(path, Access::Read).map_err(StoreError::io(path, "open"))?;
    let file = disk.open(&to, Access::Create).map_err(StoreError::io(&to, "create"))?;
    let mut buffer = vec![0; COPY_BYTES.min(bytes as usize)];
    let mut done = 0;
    while done < bytes {
        let part = buffer.len().min((bytes - done) as usize);
        let read = source.read_at(&mut buffer[..part], from + done);
        let read = read.map_err(StoreError::io(path, "read"))?;
        if read == 0 {
            break;
        }
        file.write_at(&buffer[..read], done).map_err(StoreError::io(&to, "write"))?;
        done += read as u64;
    }
    file.sync_data().map_err(StoreError::io(&to, "sync"))?;
    disk.sync_dir(dir).map_err(StoreError::io(dir, "sync"))?;
    Ok(to)
}

/// Segment and number of a copy of a torn end.
fn torn_name(name: &str) -> Option<(u64, u64)> {
    let (segment, number) = name.split_once(".hot.")?;
    Some((segment.parse().ok()?, number.strip_prefix(TORN)?.parse().ok()?))
}
