//! One followed file: how far it is read, and whether it is still the same file.
//!
//! Only numbers are kept in memory per file: an incomplete record is read again later. A file that
//! was read to its end may be closed at any time, and is reopened when it has grown.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use record::Origin;
use record::frame::{Format, Hints, Transport};

mod utf16;

use super::FileRule;
use super::board::{FileState, Tracked};
use super::checkpoint::CheckpointEntry;
use super::identity::{FINGERPRINT_BYTES_MAX, Fingerprint, Inode, born_ns};
use super::ledger::Frames;
use super::recall::read_at;
use super::records::{End, cut};

/// Bytes of one read; more only for a longer record.
const READ_BYTES: usize = 256 << 10;
/// Bytes read from one file before the other files get their turn.
const TURN_BYTES: u64 = 1 << 20;

/// How a reading turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The end of the file was reached.
    Done,
    /// There is more to read.
    More,
    /// The source is stopping.
    Stopped,
}

/// The result of checking a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is unchanged.
    Same,
    /// It is longer.
    Grown,
    /// It is shorter than the part already read, has a different beginning, or was created later:
    /// it was truncated or rewritten.
    Anew,
    /// Its name does not lead to it any more.
    Elsewhere,
}

pub(crate) struct Follow {
    pub inode: Inode,
    pub rule: usize,
    pub origin: Origin,
    /// The same of lines behind `live_from`.
    live_origin: Origin,
    /// Lines behind this offset are appended as they are written. What is before may be of any age.
    pub live_from: u64,
    pub tracked: Arc<Tracked>,
    /// The name under which it was discovered.
    pub path: PathBuf,
    /// Its path without symbolic links; `None` when it has no name any more.
    pub real_path: Option<PathBuf>,
    pub file: Option<OpenFile>,
    /// Bytes before this offset are in frames.
    pub position: u64,
    pub size: u64,
    /// When it was last seen to have grown, in monotonic nanoseconds.
    pub grown_ns: u64,
    /// It has another name now.
    pub renamed: bool,
    /// It has no name on its file system any more.
    pub deleted: bool,
    /// A checkpoint on disk names it.
    pub recorded: bool,
    /// It is in the reading queue.
    pub queued: bool,
    /// After a failed read, no retry before this time, in monotonic nanoseconds.
    pub retry_ns: u64,
    born_ns: i64,
    fingerprint: Fingerprint,
    changed: (i64, i64),
    open_files: Arc<AtomicU64>,
}

/// An open file, included in the count of open files while it exists.
pub(crate) struct OpenFile {
    file: File,
    count: Arc<AtomicU64>,
}

impl OpenFile {
    /// Opens a file for reading.
    pub fn open(path: &Path, count: &Arc<AtomicU64>) -> io::Result<OpenFile> {
        let file = File::open(path)?;
        count.fetch_add(1, Relaxed);
        Ok(OpenFile { file, count: Arc::clone(count) })
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

impl Follow {
    /// A file that was just opened. `start` is its first bytes.
    pub fn new(
        id: u64,
        (rule, settings): (usize, &FileRule),
        path: PathBuf,
        (file, metadata): (OpenFile, &Metadata),
        start: &[u8],
        position: u64,
    ) -> Follow {
        let tracked = Tracked::new(id, &path, position);
        tracked.size.store(metadata.len(), Relaxed);
        Follow {
            inode: Inode::of(metadata),
            rule,
            origin: origin(id, settings, &path, false),
            live_origin: origin(id, settings, &path, true),
            live_from: metadata.len(),
            tracked,
            real_path: Some(fs::canonicalize(&path).unwrap_or_else(|_| path.clone())),
            path,
            open_files: Arc::clone(&file.count),
            file: Some(file),
            position,
            size: metadata.len(),
            grown_ns: 0,
            renamed: false,
            deleted: false,
            recorded: false,
            queued: false,
            retry_ns: 0,
            born_ns: born_ns(metadata),
            fingerprint: Fingerprint::of(start),
            changed: changed(metadata),
        }
    }

    /// The file's entry in the checkpoint, with its durable position.
    pub fn entry(&self, seen_s: i64) -> CheckpointEntry {
        CheckpointEntry {
            id: self.tracked.id,
            path: self.path.to_string_lossy().into_owned(),
            inode: self.inode.inode,
            born_ns: self.born_ns,
            fingerprint: self.fingerprint,
            position: self.tracked.durable.load(Relaxed),
            seen_s,
        }
    }

    /// Whether there are bytes that were not read yet.
    pub fn has_more(&self) -> bool {
        self.size > self.position
    }

    /// Whether all of it is durable.
    pub fn is_done(&self) -> bool {
        self.tracked.durable.load(Relaxed) >= self.size
    }

    /// Opens the file if it is not open.
    pub fn open(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            self.file = Some(self.reopen()?);
        }
        Ok(self.file.as_ref().expect("just opened"))
    }

    fn reopen(&self) -> io::Result<OpenFile> {
        let real_path =
            self.real_path.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let file = OpenFile::open(real_path, &self.open_files)?;
        if Inode::of(&file.metadata()?) != self.inode {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        Ok(file)
    }

    /// Checks the file's length and, if it has changed, its beginning.
    pub fn look(&mut self, now_ns: u64) -> io::Result<Look> {
        let metadata = match (&self.real_path, &self.file) {
            (Some(real_path), _) => match fs::metadata(real_path) {
                Ok(metadata) if Inode::of(&metadata) == self.inode => metadata,
                Ok(_) => return Ok(Look::Elsewhere),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Look::Elsewhere);
                }
                Err(error) => return Err(error),
            },
            (None, Some(file)) => file.metadata()?,
            (None, None) => return Ok(Look::Elsewhere),
        };
        self.deleted = metadata.nlink() == 0;
        let (size, changed) = (metadata.len(), changed(&metadata));
        if (size, changed) == (self.size, self.changed) {
            return Ok(Look::Same);
        }
        // While the file was closed, another file may have taken its name and its inode.
        let is_other = self.file.is_none() && born_ns(&metadata) != self.born_ns;
        if is_other || size < self.position {
            return Ok(Look::Anew);
        }
        let start = start(self.open()?)?;
        if !self.fingerprint.fits(&start) {
            return Ok(Look::Anew);
        }
        self.fingerprint = Fingerprint::of(&start);
        let has_grown = size > self.size;
        if has_grown {
            self.grown_ns = now_ns;
        }
        (self.size, self.changed) = (size, changed);
        self.tracked.size.store(size, Relaxed);
        Ok(if has_grown { Look::Grown } else { Look::Same })
    }

    /// Restarts at the beginning, as another file. Returns the number of bytes of the old file that
    /// were not read.
    pub fn start_over(&mut self, id: u64, settings: &FileRule, now_ns: u64) -> io::Result<u64> {
        let file = self.open()?;
        let (metadata, start) = (file.metadata()?, start(file)?);
        let unread = self.size - self.position;
        self.born_ns = born_ns(&metadata);
        self.fingerprint = Fingerprint::of(&start);
        self.changed = changed(&metadata);
        self.size = metadata.len();
        self.position = 0;
        self.grown_ns = now_ns;
        self.recorded = false;
        self.origin = origin(id, settings, &self.path, false);
        self.live_origin = origin(id, settings, &self.path, true);
        self.live_from = live_from(self.size);
        self.tracked = Tracked::new(id, &self.path, 0);
        self.tracked.size.store(self.size, Relaxed);
        Ok(unread)
    }

    /// Publishes the file's state.
    pub fn publish_state(&self) {
        self.tracked.set_state(match (&self.real_path, self.renamed) {
            (None, _) => FileState::Deleted,
            (Some(_), true) => FileState::Renamed,
            (Some(_), false) => FileState::Following,
        });
    }

    /// Reads one turn. `cuts` counts records that were too long.
    pub fn turn(
        &mut self,
        settings: &FileRule,
        end: End,
        buffer: &mut Vec<u8>,
        frames: &mut Frames,
        now_ns: i64,
        cuts: &mut u64,
    ) -> io::Result<Turn> {
        self.open()?;
        if let Some(order) = self.utf16()? {
            return self.turn_utf16(order, settings, end, buffer, frames, now_ns, cuts);
        }
        let file = self.file.as_ref().expect("just opened");
        let shape = &settings.shape;
        let turn_end = self.position + TURN_BYTES;
        let mut wanted = READ_BYTES;
        loop {
            // The byte before shows whether the newline of the last record is still to come.
            let before = usize::from(self.position > 0);
            buffer.resize(buffer.len().max(before + wanted), 0);
            let buffer = &mut buffer[..before + wanted];
            let read = read_at(file, buffer, self.position - before as u64)?;
            let at_end = read < buffer.len();
            let Some(bytes) = buffer[..read].get(before..) else { return Ok(Turn::Done) };
            let owed = before == 1 && buffer[0] != b'\n' && bytes.first() == Some(&b'\n');
            let bytes = &bytes[usize::from(owed)..];
            let from = self.position + u64::from(owed);
            let mut taken = from;
            let mut stopped = false;
            let done =
                cut(bytes, shape, if at_end { end } else { End::More }, &mut |piece, done| {
                    let behind = from + done as u64;
                    let is_live = taken >= self.live_from;
                    let origin = if is_live { &self.live_origin } else { &self.origin };
                    stopped = stopped || !frames.push(origin, now_ns, piece, &self.tracked, behind);
                    taken = behind;
                });
            *cuts += done.cuts;
            if stopped {
                return Ok(Turn::Stopped);
            }
            if owed && done.consumed == 0 {
                frames.skip(&self.tracked, taken);
            }
            let progress = taken > self.position;
            self.position = taken;
            self.size = self.size.max(taken);
            self.tracked.read_to(taken, now_ns);
            if at_end {
                return Ok(Turn::Done);
            }
            if !progress {
                wanted = (2 * wanted).min(2 * shape.record_bytes_max + 1).max(READ_BYTES);
            } else if self.position >= turn_end {
                return Ok(Turn::More);
            } else {
                wanted = READ_BYTES;
            }
        }
    }
}

/// Where to start in a file of which only new lines are wanted: after the last newline, if one is
/// near.
pub(crate) fn last_line_end(file: &File, size: u64) -> io::Result<u64> {
    let mut end = vec![0; (READ_BYTES as u64).min(size) as usize];
    let from = size - end.len() as u64;
    let read = read_at(file, &mut end, from)?;
    Ok(memchr::memrchr(b'\n', &end[..read]).map_or(size, |at| from + at as u64 + 1))
}

/// From where on the lines of a file are appended as they are written, if the file appeared just
/// now with so many bytes. Much at once was rather copied.
pub(crate) fn live_from(size: u64) -> u64 {
    if size <= READ_BYTES as u64 { 0 } else { size }
}

/// The first bytes of a file, as many as a fingerprint covers.
pub(crate) fn start(file: &File) -> io::Result<Vec<u8>> {
    let mut start = vec![0; FINGERPRINT_BYTES_MAX];
    let read = read_at(file, &mut start, 0)?;
    start.truncate(read);
    Ok(start)
}

fn changed(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

fn origin(id: u64, settings: &FileRule, path: &Path, live: bool) -> Origin {
    let path = path.to_string_lossy();
    let mut extra_fields = settings.fields.clone();
    if let Some(fields) = &settings.path_fields {
        fields.add(&path, &mut extra_fields);
    }
    let hints = Hints {
        log_type: settings.log_type.clone(),
        format: settings.format,
        time_fields: settings.time_fields.clone(),
        msg_fields: settings.msg_fields.clone(),
        level_fields: settings.level_fields.clone(),
        extra_fields,
        file: Some(path.into_owned()),
        file_id: settings.numbered.then_some(id),
        zone: settings.zone.clone(),
        live,
        ..Hints::default()
    };
    Origin { hints: Arc::new(hints), ..Origin::new(Transport::File, Format::Auto, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_the_inode_of_one_that_was_closed_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "same\n").unwrap();
        let file = OpenFile::open(&path, &Arc::default()).unwrap();
        let metadata = file.metadata().unwrap();
        let rule = FileRule::new(Vec::new());
        let mut follow = Follow::new(1, (0, &rule), path.clone(), (file, &metadata), b"same\n", 5);
        assert_eq!(follow.look(0).unwrap(), Look::Same);
        // The file was created at another time than the followed one, and has the same beginning.
        follow.born_ns -= 1;
        follow.file = None;
        fs::write(&path, "same\nmore\n").unwrap();
        assert_eq!(follow.look(0).unwrap(), Look::Anew);
        assert_eq!(follow.start_over(2, &rule, 0).unwrap(), 0);
        assert_eq!((follow.position, follow.size), (0, 10));
        // It is recorded with its own creation time.
        assert_eq!(follow.entry(0).born_ns, born_ns(&metadata));
        follow.file = None;
        assert_eq!(follow.look(0).unwrap(), Look::Same);
    }
}
