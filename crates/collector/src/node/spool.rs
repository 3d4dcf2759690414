//! Frames that wait on the disk of a collector: files in the format of hot segments
//! (`docs/format/hot-segment.md`).
//!
//! | name | holds |
//! |---|---|
//! | `<id>.hot` | frames that were sent to no store; their sequence is their index in the file |
//! | `<id>-<store>-<first>.hot` | frames *bound* to a store, which may have them already: their number there is `first` plus their sequence |
//! | `<id>-<store>-<first>-joined.hot` | the same for a partition of a log, which gets several frames as one |
//! | `<id>.part` | a file that was not finished; removed |
//! | `….hot.damaged` | a file in which frames cannot be read, as it was found; never read or removed |
//!
//! A file is bound by renaming it, durably, before its first frame is sent. From then on its frames
//! go to no other store, because nobody can know which of them the first one has. With copies
//! ([`super::copies`]), frames have numbers before they are spooled: their files are bound from the
//! beginning, to store [`STRIPE`], which is the only store of the directory.
//!
//! Invariants: frames for which [`Spool::append`] and [`Spool::bind`] returned success survive any
//! crash; frames for which they returned an error are not in the spool once
//! [`Spool::ensure_consistent`] has succeeded; the files together stay within the limit. Left out:
//! frames in memory, and what happens to frames when there is no room.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk, DiskFile};
use record::{Frame, FrameBuilder};
use segment::{
    Contents, FrameEntry, HEADER_BYTES, HotWriter, Origin, SegmentError, SegmentHeader,
    index_bytes, read_frame, read_segment, write_index,
};

/// A file is closed at this size, which is therefore the unit that is bound to a store.
const FILE_BYTES: u64 = 64 << 20;
/// The same where frames go to a log: smaller, so that its partitions share what waits.
pub const LOG_FILE_BYTES: u64 = 8 << 20;
/// The most that frames take that are joined into one. Changing this number doubles the lines of
/// files that are half appended while the collector is updated.
pub const JOINED_BYTES_MAX: u64 = 1 << 20;
/// What is added to the name of a file in which frames cannot be read.
const DAMAGED: &str = "damaged";
/// What the name of a file ends with whose frames are joined.
const JOINED: &str = "-joined";

/// Instead of a store's id: the store that has the place which the directory belongs to.
pub const STRIPE: u32 = 0;

/// A file of frames that are bound to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Identifies the file in the spool.
    pub id: u64,
    /// Node id of the store.
    pub store: u32,
    /// Number of the frame whose sequence is 0.
    pub first: u64,
    /// Whether small frames that follow each other are sent as one, with the number of the last.
    /// They always were: which frames are joined follows from the file alone.
    pub joined: bool,
}

/// Size of a closed file.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: u64,
    lines: u64,
    /// How many numbers it needs.
    frames: u64,
}

impl Size {
    fn of(bytes: u64, entries: &[FrameEntry]) -> Size {
        Size {
            bytes,
            lines: entries.iter().map(|entry| u64::from(entry.lines)).sum(),
            frames: entries.iter().map(|entry| entry.sequence + 1).max().unwrap_or(0),
        }
    }
}

/// The file that is being written.
struct Active {
    id: u64,
    /// The number of the frame whose sequence is 0, if its frames have numbers.
    first: Option<u64>,
    file: HotWriter,
    /// Index entries of the durable frames.
    entries: Vec<FrameEntry>,
}

/// The frames on disk.
pub struct Spool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    node: u32,
    bytes_max: u64,
    file_bytes: u64,
    active: Option<Active>,
    /// Closed files that are not bound.
    free: BTreeMap<u64, Size>,
    bound: BTreeMap<u64, (Bound, Size)>,
    id_next: u64,
    /// A file was renamed, and the rename may not be durable yet.
    renames_pending: bool,
    /// A failed write could not be rolled back, or a thread panicked here: the files must be
    /// checked before any other operation.
    in_doubt: bool,
}

/// Reads the frames of a bound file, one after another.
pub struct BoundReader {
    /// Which file.
    pub bound: Bound,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    entries: VecDeque<FrameEntry>,
    /// What was read already, if frames are joined.
    ready: VecDeque<ReadFrame>,
}

/// A frame with its number in its header, or the error and the lines of a damaged one.
type ReadFrame = Result<Frame, (SegmentError, u64)>;

impl Spool {
    /// Opens an existing, locked directory, and repairs it after a crash. The second value lists
    /// what could not be read.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        node: u32,
        bytes_max: u64,
    ) -> Result<(Spool, Vec<String>), SegmentError> {
        let mut spool = Spool {
            disk,
            dir: dir.to_owned(),
            node,
            bytes_max,
            file_bytes: FILE_BYTES,
            active: None,
            free: BTreeMap::new(),
            bound: BTreeMap::new(),
            id_next: 1,
            renames_pending: false,
            in_doubt: false,
        };
        let mut warnings = Vec::new();
        let names = spool.disk.list(dir).map_err(SegmentError::io(dir, "list"))?;
        let last = last_written(&names);
        for name in names {
            let Some(kind) = parse_name(&name) else { continue };
            spool.id_next = spool.id_next.max(kind.id() + 1);
            spool.adopt(&name, kind, last, &mut warnings)?;
        }
        // Files and renames that are visible may not be durable, if a sync failed before this
        // start.
        spool.sync_dir()?;
        Ok((spool, warnings))
    }

    /// Closes files at another size from now on.
    pub fn set_file_bytes(&mut self, file_bytes: u64) {
        self.file_bytes = file_bytes;
    }

    /// Takes a file that is there. The last write of the file `last` may have been interrupted.
    fn adopt(
        &mut self,
        name: &str,
        kind: Name,
        last: Option<u64>,
        warnings: &mut Vec<String>,
    ) -> Result<(), SegmentError> {
        let path = self.dir.join(name);
        let id = kind.id();
        if matches!(kind, Name::Part(_)) {
            return self.remove_file(&path);
        }
        let contents = read_segment(&*self.disk, &path, id, None)?;
        let is_damaged = is_damaged(&contents, last == Some(id));
        if is_damaged {
            let aside = self.set_aside(&path)?;
            warnings.push(describe(&path, &contents, &aside));
        } else if let Origin::Scan(scan) = &contents.origin {
            warnings.extend(scan.damages.iter().map(ToString::to_string));
        }
        if contents.frames.is_empty() {
            return self.remove_file(&path);
        }
        let mut bytes = contents.file_bytes;
        // A damaged file is left as it is: its other name is for the same bytes.
        if matches!(contents.origin, Origin::Scan(_)) && !is_damaged {
            let end = contents.data_end;
            // Files are small, so the whole file is rewritten.
            let file = HotWriter::resume(&*self.disk, &path, id, end, end)?;
            bytes = close(file, &contents.frames);
        }
        let size = Size::of(bytes, &contents.frames);
        match kind {
            Name::Bound(bound) => drop(self.bound.insert(id, (bound, size))),
            _ => drop(self.free.insert(id, size)),
        }
        Ok(())
    }

    /// Makes frames durable that were sent to no store. After an error none of them is in the
    /// spool, once [`ensure_consistent`](Self::ensure_consistent) has succeeded.
    pub fn append(&mut self, frames: &mut [&mut Frame]) -> Result<(), SegmentError> {
        self.ensure_consistent()?;
        let active = self.active_for(None, bytes(frames.iter().map(|frame| &**frame)))?;
        for (sequence, frame) in (active.entries.len() as u64..).zip(&mut *frames) {
            frame.set_sequence(sequence);
        }
        self.commit(frames.iter().map(|frame| &**frame))
    }

    /// The same for frames that have numbers of the stripe, in ascending order. Their file is bound
    /// to [`STRIPE`].
    pub fn append_numbered(
        &mut self,
        frames: &mut [(u64, &mut Frame)],
    ) -> Result<(), SegmentError> {
        self.ensure_consistent()?;
        let Some(&(first, _)) = frames.first() else { return Ok(()) };
        let active =
            self.active_for(Some(first), bytes(frames.iter().map(|(_, frame)| &**frame)))?;
        let base = active.first.expect("the file is for numbers");
        for (number, frame) in &mut *frames {
            frame.set_sequence(*number - base);
        }
        self.commit(frames.iter().map(|(_, frame)| &**frame))
    }

    /// The file for more frames, of which the first has the number `first`, if they have numbers.
    fn active_for(&mut self, first: Option<u64>, bytes: u64) -> Result<&mut Active, SegmentError> {
        let file_bytes = self.file_bytes;
        let fits = |active: &Active| {
            let follows = match (active.first, first, active.entries.last()) {
                (Some(base), Some(first), Some(last)) => base + last.sequence < first,
                (Some(_), Some(_), None) => false,
                (before, now, _) => before.is_none() && now.is_none(),
            };
            follows && active.file.end() + bytes <= file_bytes
        };
        if self.active.as_ref().is_some_and(|active| !fits(active)) {
            self.roll()?;
        }
        Ok(match &mut self.active {
            Some(active) => active,
            none => none.insert({
                let id = self.id_next;
                self.id_next += 1;
                let path = self.dir.join(match first {
                    None => format!("{id}.hot"),
                    Some(first) => file_name(&Bound { id, store: STRIPE, first, joined: false }),
                });
                let file = HotWriter::create(&*self.disk, &path, &header(self.node, id));
                // The caller retries, and the next file has another name.
                let file = file.inspect_err(|_| drop(self.disk.remove(&path)))?;
                Active { id, first, file, entries: Vec::new() }
            }),
        })
    }

    /// Appends frames to the active file, and makes them durable.
    fn commit<'a>(&mut self, frames: impl Iterator<Item = &'a Frame>) -> Result<(), SegmentError> {
        let active = self.active.as_mut().expect("the file is open");
        let Err(error) = write(active, frames) else { return Ok(()) };
        // None of these frames may be found later: the caller sends them elsewhere.
        if active.entries.is_empty() || active.file.rollback().is_err() {
            self.in_doubt = true;
            if let Err(later) = self.ensure_consistent() {
                tracing::warn!("{later}; will be retried");
            }
        }
        Err(error)
    }

    /// Records that a thread panicked during an operation.
    pub fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// After a panic, or after a failed write that could not be rolled back: checks what the files
    /// hold, and removes frames whose storing was never confirmed. Otherwise does nothing. Every
    /// operation that changes or reads files calls this first.
    pub fn ensure_consistent(&mut self) -> Result<(), SegmentError> {
        if !self.in_doubt {
            return Ok(());
        }
        if let Some(Active { id, first, file, entries }) = &self.active {
            let (id, first, path) = (*id, *first, file.path().to_owned());
            match entries.last() {
                None => {
                    self.remove_file(&path)?;
                    self.sync_dir()?;
                }
                Some(last) => {
                    let end = last.offset + u64::from(last.frame_bytes);
                    let bytes = write_index(&*self.disk, &path, id, end, entries)?;
                    let size = Size::of(bytes, entries);
                    self.add_closed(id, first, size);
                }
            }
            self.active = None;
        }
        let names = self.disk.list(&self.dir).map_err(SegmentError::io(&self.dir, "list"))?;
        let (mut there, mut warnings) = (BTreeSet::new(), Vec::new());
        let last = last_written(&names);
        for name in names {
            let Some(kind) = parse_name(&name) else { continue };
            let id = kind.id();
            match kind {
                Name::Free(id) if self.free.contains_key(&id) => {}
                Name::Bound(_) if self.bound.contains_key(&id) => {}
                Name::Bound(bound) => match self.free.remove(&id) {
                    Some(size) => {
                        self.bound.insert(id, (bound, size));
                        self.renames_pending = true;
                    }
                    // The caller of `bind` got no confirmation, and still has the frames.
                    None => self.remove_file(&self.dir.join(&name))?,
                },
                kind => self.adopt(&name, kind, last, &mut warnings)?,
            }
            there.insert(id);
        }
        self.sync_dir()?;
        // The files were removed, but the ledger was not updated.
        self.free.retain(|id, _| there.contains(id));
        self.bound.retain(|id, _| there.contains(id));
        for warning in warnings {
            tracing::warn!("{warning}; its lines are lost");
        }
        self.in_doubt = false;
        Ok(())
    }

    /// Durably stores frames that may have been sent to a store, with their numbers there, in
    /// order.
    pub fn bind(
        &mut self,
        store: u32,
        frames: &mut [(u64, &mut Frame)],
    ) -> Result<(), SegmentError> {
        self.ensure_consistent()?;
        let Some((first, _)) = frames.first() else { return Ok(()) };
        let bound = Bound { id: self.take_id(), store, first: *first, joined: false };
        let part = self.dir.join(format!("{}.part", bound.id));
        let size = match self.write_bound(&bound, &part, frames) {
            Ok(size) => size,
            Err(error) => {
                // The file may have either name; the frames stay with the caller.
                let path = self.path(&bound);
                let removed = [part, path].map(|path| self.remove_file(&path).is_ok());
                self.in_doubt = removed.contains(&false);
                return Err(error);
            }
        };
        self.bound.insert(bound.id, (bound, size));
        Ok(())
    }

    fn write_bound(
        &self,
        bound: &Bound,
        part: &Path,
        frames: &mut [(u64, &mut Frame)],
    ) -> Result<Size, SegmentError> {
        let file = HotWriter::create(&*self.disk, part, &header(self.node, bound.id))?;
        let mut active = Active { id: bound.id, first: None, file, entries: Vec::new() };
        for (number, frame) in &mut *frames {
            frame.set_sequence(*number - bound.first);
        }
        write(&mut active, frames.iter().map(|(_, frame)| &**frame))?;
        let bytes = active.file.roll(&active.entries)?;
        self.rename(part, &self.path(bound))?;
        self.sync_dir()?;
        Ok(Size::of(bytes, &active.entries))
    }

    /// How many numbers the oldest unbound file needs; `None` when there is no such file.
    pub fn free_frames(&mut self) -> Result<Option<u64>, SegmentError> {
        self.ensure_consistent()?;
        let closed = self.free.values().next().map(|size| size.frames);
        let active = self.active.as_ref().filter(|active| active.first.is_none());
        Ok(closed.or_else(|| active.map(|active| active.entries.len() as u64)))
    }

    /// Binds the oldest unbound file to a store; its frames get numbers from `first` on. After an
    /// error it may be bound all the same; [`Spool::read`] then makes sure of it.
    pub fn take(&mut self, store: u32, first: u64) -> Result<Option<Bound>, SegmentError> {
        self.take_oldest(store, first, false)
    }

    /// The same for a partition of a log. Its messages wait for each other, so that a backlog of
    /// many small frames would take minutes: the frames are [joined](Bound::joined).
    pub fn take_joined(&mut self, store: u32, first: u64) -> Result<Option<Bound>, SegmentError> {
        self.take_oldest(store, first, true)
    }

    fn take_oldest(
        &mut self,
        store: u32,
        first: u64,
        joined: bool,
    ) -> Result<Option<Bound>, SegmentError> {
        self.ensure_consistent()?;
        if self.free.is_empty() && self.active.as_ref().is_some_and(|active| active.first.is_none())
        {
            self.roll()?;
        }
        let Some((&id, _)) = self.free.first_key_value() else { return Ok(None) };
        let bound = Bound { id, store, first, joined };
        self.rename(&self.dir.join(format!("{id}.hot")), &self.path(&bound))?;
        let size = self.free.remove(&id).expect("it is there");
        self.bound.insert(id, (bound.clone(), size));
        self.renames_pending = true;
        self.settle_renames()?;
        Ok(Some(bound))
    }

    /// Files bound to a store, lowest numbers first.
    pub fn bound_to(&mut self, store: u32) -> Result<Vec<Bound>, SegmentError> {
        self.ensure_consistent()?;
        let mine = self.bound.values().map(|(bound, _)| bound).filter(|b| b.store == store);
        let mut files: Vec<Bound> = mine.cloned().collect();
        files.sort_by_key(|bound| bound.first);
        Ok(files)
    }

    /// The file bound to a store that follows the file `after`, in the order of their ids. The
    /// active file is closed if it is that one.
    pub fn bound_after(&mut self, store: u32, after: u64) -> Result<Option<Bound>, SegmentError> {
        self.ensure_consistent()?;
        let next = |spool: &Spool| {
            let mut files = spool.bound.range(after + 1..).map(|(_, (bound, _))| bound);
            files.find(|bound| bound.store == store).cloned()
        };
        if let Some(bound) = next(self) {
            return Ok(Some(bound));
        }
        if store == STRIPE && self.active.as_ref().is_some_and(|active| active.first.is_some()) {
            self.roll()?;
        }
        Ok(next(self))
    }

    /// Stores that files are bound to, with the bytes of these files.
    pub fn bytes_by_store(&self) -> BTreeMap<u32, u64> {
        let mut stores = BTreeMap::new();
        for (bound, size) in self.bound.values() {
            *stores.entry(bound.store).or_default() += size.bytes;
        }
        stores
    }

    /// Releases the frames bound to a store that will not return, so that any store may take them.
    /// Frames that the lost store has might be stored twice.
    pub fn unbind(&mut self, store: u32) -> Result<(), SegmentError> {
        for bound in self.bound_to(store)? {
            self.rename(&self.path(&bound), &self.dir.join(format!("{}.hot", bound.id)))?;
            let (_, size) = self.bound.remove(&bound.id).expect("it is bound");
            self.free.insert(bound.id, size);
        }
        self.sync_dir()
    }

    /// The frames of a bound file, after making sure that the binding is durable.
    pub fn read(&mut self, bound: &Bound) -> Result<BoundReader, SegmentError> {
        self.ensure_consistent()?;
        self.settle_renames()?;
        let path = self.path(bound);
        let entries = read_segment(&*self.disk, &path, bound.id, None)?.frames.into();
        let file = self.disk.open(&path, Access::Read).map_err(SegmentError::io(&path, "open"))?;
        let ready = VecDeque::new();
        Ok(BoundReader { bound: bound.clone(), path, file, entries, ready })
    }

    /// Removes a bound file: all its frames are acknowledged. A crash may restore the file; its
    /// store knows its numbers.
    pub fn remove(&mut self, id: u64) -> Result<(), SegmentError> {
        self.ensure_consistent()?;
        let Some((bound, _)) = self.bound.get(&id) else { return Ok(()) };
        self.remove_file(&self.path(bound))?;
        self.bound.remove(&id);
        Ok(())
    }

    /// Gives a file a second name, under which it stays when its frames are delivered: some of them
    /// cannot be read. Returns that name.
    pub fn keep_damaged(&mut self, id: u64) -> Result<Option<PathBuf>, SegmentError> {
        self.ensure_consistent()?;
        let path = self.bound.get(&id).map(|(bound, _)| self.path(bound));
        path.map(|path| self.set_aside(&path)).transpose()
    }

    fn set_aside(&self, path: &Path) -> Result<PathBuf, SegmentError> {
        let aside = path.with_added_extension(DAMAGED);
        match self.disk.hard_link(path, &aside) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(SegmentError::io(&aside, "make the link")(error));
            }
            _ => {}
        }
        self.sync_dir()?;
        Ok(aside)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let active = self.active.as_ref().map_or(0, |active| active.file.allocated_bytes());
        active + self.sizes().map(|size| size.bytes).sum::<u64>()
    }

    /// Lines in all files.
    pub fn lines(&self) -> u64 {
        let active = self.active.iter().flat_map(|active| &active.entries);
        active.map(|e| u64::from(e.lines)).sum::<u64>()
            + self.sizes().map(|size| size.lines).sum::<u64>()
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.active.as_ref().is_none_or(|active| active.entries.is_empty())
            && self.sizes().all(|size| size.lines == 0)
    }

    fn sizes(&self) -> impl Iterator<Item = Size> + '_ {
        self.free.values().copied().chain(self.bound.values().map(|(_, size)| *size))
    }

    /// Whether `frames` frames of `bytes` bytes are within the limit.
    pub fn has_room(&self, frames: usize, bytes: u64) -> bool {
        let before = self.active.as_ref().map_or(0, |active| active.entries.len());
        let more = bytes + HEADER_BYTES as u64 + index_bytes(before + frames);
        self.bytes() + more <= self.bytes_max
    }

    /// Closes the file that is being written.
    pub fn roll(&mut self) -> Result<(), SegmentError> {
        self.ensure_consistent()?;
        let Some(active) = self.active.take() else { return Ok(()) };
        let Active { id, first, file, entries } = active;
        let path = file.path().to_owned();
        if entries.is_empty() {
            drop(file);
            return self.remove_file(&path);
        }
        // Its frames are durable, so it is known even if closing it panics.
        self.add_closed(id, first, Size::of(file.allocated_bytes(), &entries));
        let bytes = close(file, &entries);
        self.add_closed(id, first, Size::of(bytes, &entries));
        Ok(())
    }

    /// Records a file that was closed.
    fn add_closed(&mut self, id: u64, first: Option<u64>, size: Size) {
        match first {
            None => drop(self.free.insert(id, size)),
            Some(first) => {
                let bound = Bound { id, store: STRIPE, first, joined: false };
                self.bound.insert(id, (bound, size));
            }
        }
    }

    fn take_id(&mut self) -> u64 {
        self.id_next += 1;
        self.id_next - 1
    }

    fn path(&self, bound: &Bound) -> PathBuf {
        self.dir.join(file_name(bound))
    }

    /// Renames a file; the rename is not durable yet.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), SegmentError> {
        self.disk.rename(from, to).map_err(SegmentError::io(from, "rename"))
    }

    fn settle_renames(&mut self) -> Result<(), SegmentError> {
        if self.renames_pending {
            self.sync_dir()?;
            self.renames_pending = false;
        }
        Ok(())
    }

    fn sync_dir(&self) -> Result<(), SegmentError> {
        self.disk.sync_dir(&self.dir).map_err(SegmentError::io(&self.dir, "sync"))
    }

    fn remove_file(&self, path: &Path) -> Result<(), SegmentError> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(SegmentError::io(path, "delete")(error))
            }
            _ => Ok(()),
        }
    }
}

fn header(node: u32, segment: u64) -> SegmentHeader {
    SegmentHeader { node, segment, created_ns: 0, sequence_next: 0, held: Vec::new() }
}

fn file_name(bound: &Bound) -> String {
    let joined = if bound.joined { JOINED } else { "" };
    format!("{}-{:08x}-{}{joined}.hot", bound.id, bound.store, bound.first)
}

fn bytes<'a>(frames: impl Iterator<Item = &'a Frame>) -> u64 {
    frames.map(|frame| frame.bytes().len() as u64).sum()
}

/// Appends frames and makes them durable; entries are added only then.
fn write<'a>(
    active: &mut Active,
    frames: impl Iterator<Item = &'a Frame>,
) -> Result<(), SegmentError> {
    let mut entries = Vec::new();
    for frame in frames {
        let offset = active.file.append(frame.bytes())?;
        entries.push(FrameEntry::new(offset, frame.header()));
    }
    active.file.commit()?;
    active.entries.extend(entries);
    Ok(())
}

/// Ends a file with its index; returns its length. A file without an index is read by a scan.
fn close(file: HotWriter, entries: &[FrameEntry]) -> u64 {
    let data_end = file.durable_end();
    file.roll(entries).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        data_end
    })
}

/// Keeps a file some of whose frames cannot be read, for whoever looks into it later.
pub(super) fn keep_damaged(spool: &mut Spool, id: u64) {
    match spool.keep_damaged(id) {
        Ok(Some(aside)) => tracing::warn!("the file is kept as {}", aside.display()),
        Ok(None) => {}
        Err(error) => tracing::warn!("the damaged file cannot be kept: {error}"),
    }
}

impl BoundReader {
    /// Skips the frames whose numbers are at most `through`.
    pub fn skip_through(&mut self, through: u64) {
        self.entries.retain(|entry| self.bound.first + entry.sequence > through);
    }

    /// Whether all its frames were read.
    pub fn is_read(&self) -> bool {
        self.entries.is_empty() && self.ready.is_empty()
    }

    /// The next frame, with its number in its header. A damaged frame is an error with its number
    /// of lines; the next call returns the frame behind it.
    pub fn next_frame(&mut self) -> Option<ReadFrame> {
        if self.bound.joined && self.ready.is_empty() {
            self.read_joined();
        }
        self.ready.pop_front().or_else(|| self.read_next())
    }

    /// Reads the frames that are joined next. Which they are follows from the index of the file,
    /// whether or not they can be read.
    fn read_joined(&mut self) {
        let mut frames: Vec<Frame> = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = self.entries.front() {
            bytes += u64::from(entry.frame_bytes);
            if bytes > JOINED_BYTES_MAX && bytes > u64::from(entry.frame_bytes) {
                break;
            }
            match self.read_next() {
                // Lines of our own are told apart by their frames.
                Some(Ok(frame)) if frame.header().flags != 0 => {
                    self.ready.extend(join(&mut frames).map(Ok));
                    self.ready.push_back(Ok(frame));
                }
                Some(Ok(frame)) => frames.push(frame),
                Some(Err(damaged)) => self.ready.push_back(Err(damaged)),
                None => break,
            }
        }
        self.ready.extend(join(&mut frames).map(Ok));
    }

    fn read_next(&mut self) -> Option<ReadFrame> {
        let entry = self.entries.pop_front()?;
        let number = self.bound.first + entry.sequence;
        let read = read_frame(&*self.file, &self.path, &entry);
        Some(match read {
            Ok(mut frame) => {
                frame.set_sequence(number);
                Ok(frame)
            }
            Err(error) => Err((error, u64::from(entry.lines))),
        })
    }
}

/// One frame of the lines of several, with the number of the last; takes them.
pub fn join(frames: &mut Vec<Frame>) -> Option<Frame> {
    if frames.len() < 2 {
        return frames.pop();
    }
    let (node, number) = frames.last()?.header().name();
    let mut builder = FrameBuilder::new();
    for line in frames.iter().flat_map(Frame::lines) {
        let (origin, received_ns) = (line.origin, line.received_ns);
        builder.push_line_in_doubt(origin, received_ns, line.bytes, line.cut, line.doubt);
    }
    frames.clear();
    builder.finish(node, number)
}

/// The parsed name of a spool file.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Free(u64),
    Bound(Bound),
    Part(u64),
}

impl Name {
    fn id(&self) -> u64 {
        match self {
            Name::Free(id) | Name::Part(id) => *id,
            Name::Bound(bound) => bound.id,
        }
    }
}

/// The file that was written last among those that are written bit by bit: others get their names
/// when they are complete.
fn last_written(names: &[String]) -> Option<u64> {
    let written = names.iter().filter_map(|name| match parse_name(name)? {
        Name::Free(id) => Some(id),
        Name::Bound(bound) => (bound.store == STRIPE).then_some(bound.id),
        Name::Part(_) => None,
    });
    written.max()
}

/// Whether frames of a file that were durable cannot be read. The last write of the file that was
/// written last may have been interrupted, and then was confirmed to nobody.
fn is_damaged(contents: &Contents, is_last: bool) -> bool {
    let Origin::Scan(scan) = &contents.origin else { return false };
    let has_gap = scan.damaged_at.is_some_and(|at| at < contents.data_end);
    let has_lost_end = scan.tail_bytes > 0 && !scan.tail_is_index;
    let had_header = contents.file_bytes > HEADER_BYTES as u64;
    let is_empty = contents.frames.is_empty();
    has_gap
        || (contents.header.is_err() && (had_header || !is_last))
        || (!is_last && (has_lost_end || is_empty))
}

fn describe(path: &Path, contents: &Contents, aside: &Path) -> String {
    let first = match (&contents.header, &contents.origin) {
        (Err(error), _) => error.to_string(),
        (_, Origin::Scan(scan)) if !scan.damages.is_empty() => scan.damages[0].to_string(),
        _ => format!("{} at byte {}: its frames end here", path.display(), contents.data_end),
    };
    let frames = contents.frames.len();
    let aside = aside.display();
    format!("{first}; {frames} frames of it can be read and are delivered, it is kept as {aside}")
}

fn parse_name(name: &str) -> Option<Name> {
    if let Some(id) = name.strip_suffix(".part") {
        return Some(Name::Part(id.parse().ok()?));
    }
    let name = name.strip_suffix(".hot")?;
    let Some((id, rest)) = name.split_once('-') else {
        return Some(Name::Free(name.parse().ok()?));
    };
    let (store, first) = rest.split_once('-')?;
    let store = u32::from_str_radix(store, 16).ok()?;
    let (first, joined) = first.strip_suffix(JOINED).map_or((first, false), |first| (first, true));
    Some(Name::Bound(Bound { id: id.parse().ok()?, store, first: first.parse().ok()?, joined }))
}
